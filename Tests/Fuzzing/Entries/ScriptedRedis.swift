import CallStore
import Glibc
import RedisStore

/// A Redis that answers what it was told to, whatever it is asked, and is gone for good after that.
package enum ScriptedRedis {
    /// Puts `question` to a store. `greeting` is what the store's new connection is answered with.
    package static func answering<Answer, Failure: Error>(
        _ replies: [UInt8], greeting: [UInt8] = greeting, waitReplicas: Int = 0,
        _ question: (BlockingStore) throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        var ends: [Int32] = [-1, -1]
        precondition(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0, "no socket pair: \(errno)")
        // The far end takes what the store writes and reads none of it: it is little. What does not fit into the
        // socket's buffer is lost, as if the connection broke.
        defer { close(ends[1]) }
        _ = (greeting + replies).withUnsafeBytes { send(ends[1], $0.baseAddress, $0.count, Int32(MSG_DONTWAIT)) }
        shutdown(ends[1], Int32(SHUT_WR))
        var nearEnd: Int32? = ends[0]
        let store = RedisCallStore(waitReplicas: waitReplicas) { () throws(StoreError) -> RedisConnection in
            guard let descriptor = nearEnd.take() else { throw StoreError(.unreachable, "away") }
            return try RedisConnection(descriptor: descriptor)
        }
        return try question(BlockingStore(store))
    }

    /// That nothing is there yet, the scripts' names, the time, how the server keeps what it has, and its memory.
    package static let greeting = Array(
        ("$-1\r\n" + String(repeating: "$2\r\nab\r\n", count: RedisScript.allCases.count)
            + "*2\r\n$10\r\n1790000000\r\n$1\r\n0\r\n$-1\r\n:1\r\n*2\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n"
            + "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n"
            + "*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n"
            + "$44\r\n# Memory\r\nused_memory:1000\r\nmaxmemory:2000\r\n\r\n").utf8)
}
