import CallStore
import Glibc
import RedisStore

/// A Redis that answers as it was told to, whatever the question is, and is gone for good after that.
package enum ScriptedRedis {
    /// Puts `question` to a store. `greeting` has the answers to the store's new connection.
    package static func answering<Answer, Failure: Error>(
        _ replies: [UInt8], greeting: [UInt8] = greeting, waitReplicas: Int = 0,
        _ question: (BlockingStore) throws(Failure) -> Answer
    ) throws(Failure) -> Answer {
        var ends: [Int32] = [-1, -1]
        precondition(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0, "no socket pair: \(errno)")
        // The far end takes the few bytes that the store writes and reads none of them. Bytes that do not fit into the
        // socket's buffer are lost, as if the connection broke.
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

    /// The answers to a new connection: no entry yet, the scripts' names, the time, the settings of persistence,
    /// the memory, and the version.
    package static let greeting = Array(
        ("$-1\r\n" + String(repeating: "$2\r\nab\r\n", count: RedisScript.allCases.count)
            + "*2\r\n$10\r\n1790000000\r\n$1\r\n0\r\n$-1\r\n:1\r\n*2\r\n$10\r\nappendonly\r\n$3\r\nyes\r\n"
            + "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n"
            + "*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n"
            + "$44\r\n# Memory\r\nused_memory:1000\r\nmaxmemory:2000\r\n\r\n"
            + "$32\r\n# Server\r\nredis_version:7.0.15\r\n\r\n").utf8)
}
