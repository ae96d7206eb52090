import CHiredis
import Glibc
import ServerURL

/// One connection to Redis. After a failure it is of no more use: replies could be taken for those of other commands.
package final class RedisConnection {
    private let context: UnsafeMutablePointer<redisContext>
    /// `errno` at the failure, if there was one.
    private var failureNumber: Int32 = 0
    /// What was sent and not answered yet, in order.
    private var open: [Exchange] = []

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

    /// Commands that were sent, and the replies to them once they have been read.
    final class Exchange {
        fileprivate let count: Int
        fileprivate(set) var replies: [RedisReply]?

        fileprivate init(_ count: Int) { self.count = count }
    }

    /// Sends all commands and then reads all replies: one round trip.
    func run(_ pipeline: RedisPipeline) throws(StoreError) -> [RedisReply] { try finish(send(pipeline)) }

    /// Sends all commands. Replies come in the order in which commands were sent, so that those of an earlier exchange
    /// are read with those of a later one.
    func send(_ pipeline: RedisPipeline) throws(StoreError) -> Exchange {
        pipeline.bytes.withUnsafeBytes { bytes in
            _ = redisAppendFormattedCommand(
                context, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
        }
        var isWritten: Int32 = 0
        while isWritten == 0 {
            guard redisBufferWrite(context, &isWritten) == REDIS_OK else { throw failure() }
        }
        let exchange = Exchange(pipeline.commands.count)
        open.append(exchange)
        return exchange
    }

    /// Waits for the replies to what was sent.
    func finish(_ exchange: Exchange) throws(StoreError) -> [RedisReply] {
        while exchange.replies == nil, !open.isEmpty {
            open[0].replies = try replies(open[0].count)
            open.removeFirst()
        }
        guard let replies = exchange.replies else { throw StoreError("the replies are lost") }
        return replies
    }

    private func replies(_ count: Int) throws(StoreError) -> [RedisReply] {
        var replies: [RedisReply] = []
        replies.reserveCapacity(count)
        for _ in 0..<count {
            var raw: UnsafeMutableRawPointer?
            guard redisGetReply(context, &raw) == REDIS_OK, let raw else { throw failure() }
            replies.append(RedisReply(owning: raw.assumingMemoryBound(to: redisReply.self)))
        }
        return replies
    }

    private func failure() -> StoreError {
        failureNumber = errno
        return StoreError(Self.reason(context))
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
