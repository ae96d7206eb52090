import CHiredis
import Glibc
import ServerURL

/// One connection to Redis. After a failure it is of no more use: replies could be taken for those of other commands.
package final class RedisConnection {
    private let context: UnsafeMutablePointer<redisContext>
    /// `errno` at the failure, if there was one.
    private var failureNumber: Int32 = 0

    /// `timeout` in milliseconds bounds the name's lookup, connecting and each wait for a reply.
    init(_ address: RedisAddress, timeout: Int) throws(StoreError) {
        let limit = timeval(tv_sec: timeout / 1000, tv_usec: timeout % 1000 * 1000)
        var failure = "the name is not found"
        var connected: UnsafeMutablePointer<redisContext>?
        for host in NameLookup.addresses(of: address.host, within: timeout) where connected == nil {
            guard let context = redisConnectWithTimeout(host, Int32(address.port), limit) else { continue }
            if context.pointee.err == 0 {
                connected = context
            } else {
                failure = Self.reason(context)
                redisFree(context)
            }
        }
        guard let context = connected else { throw StoreError("\(address): \(failure)") }
        self.context = context
        redisSetTimeout(context, limit)
        try logIn(address)
    }

    /// Over a socket that is connected already, which then belongs to this connection.
    package init(descriptor: Int32) throws(StoreError) {
        guard let context = redisConnectFd(descriptor) else { throw StoreError("no memory") }
        self.context = context
    }

    deinit { redisFree(context) }

    private func logIn(_ address: RedisAddress) throws(StoreError) {
        var pipeline = RedisPipeline()
        if let password = address.password {
            let words = [address.username, password].compactMap(\.self)
            pipeline.command("AUTH", words.count) { for word in words { $0.add(word) } }
        }
        if address.database != 0 { pipeline.command("SELECT", 1) { $0.add(Int64(address.database)) } }
        for reply in try run(pipeline) {
            if let message = reply.error { throw StoreError("\(address): \(message)") }
        }
    }

    /// Sends all commands and then reads all replies: one round trip.
    func run(_ pipeline: RedisPipeline) throws(StoreError) -> [RedisReply] {
        pipeline.bytes.withUnsafeBytes { bytes in
            _ = redisAppendFormattedCommand(
                context, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
        }
        var replies: [RedisReply] = []
        replies.reserveCapacity(pipeline.commands.count)
        for _ in pipeline.commands {
            var raw: UnsafeMutableRawPointer?
            guard redisGetReply(context, &raw) == REDIS_OK, let raw else {
                failureNumber = errno
                throw StoreError(Self.reason(context))
            }
            replies.append(RedisReply(owning: raw.assumingMemoryBound(to: redisReply.self)))
        }
        return replies
    }

    /// The other side is gone, as after a restart; no time limit has passed.
    var isClosedByPeer: Bool {
        switch context.pointee.err {
        case REDIS_ERR_EOF: true
        case REDIS_ERR_IO: [ECONNRESET, EPIPE].contains(failureNumber)
        default: false
        }
    }

    private static func reason(_ context: UnsafeMutablePointer<redisContext>) -> String {
        // A time limit that passed shows as EAGAIN, which would tell nobody anything.
        if context.pointee.err == REDIS_ERR_IO, errno == EAGAIN { return "no answer in time" }
        return withUnsafeBytes(of: context.pointee.errstr) { buffer in
            String(decoding: buffer.prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}
