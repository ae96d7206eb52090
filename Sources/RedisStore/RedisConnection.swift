import CHiredis
import CallCore
import CallStore
import Glibc
import Support

/// One connection to Redis. After a failure it is of no more use: replies could be taken for those of other commands.
///
/// Once it is made it never waits: replies come with `receive`. Only `run` waits, for who has nothing else to do.
package final class RedisConnection {
    private let context: UnsafeMutablePointer<redisContext>
    /// Milliseconds within which a reply must come.
    private let timeout: Milliseconds
    /// `errno` at the failure, if there was one.
    private var failureNumber: Int32 = 0
    /// What was sent and not answered yet, in order.
    private var open: [Exchange] = []
    /// How many replies have come.
    private var answered = 0
    /// Why it is of no more use.
    private(set) var failure: StoreError?
    /// Something could not be sent yet.
    private var hasUnsent = false

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
        guard let context = connected else { throw StoreError(.unreachable, "\(address): \(failure)") }
        self.context = context
        self.timeout = Milliseconds(timeout)
        Self.stopWaiting(context)
        try logIn(address)
    }

    /// Over a socket that is connected already, which then belongs to this connection.
    package init(descriptor: Int32, timeout: Int = 400) throws(StoreError) {
        guard let context = redisConnectFd(descriptor) else { throw StoreError(.unreachable, "no memory") }
        self.context = context
        self.timeout = Milliseconds(timeout)
        Self.stopWaiting(context)
    }

    private static func stopWaiting(_ context: UnsafeMutablePointer<redisContext>) {
        context.pointee.flags &= ~REDIS_BLOCK
        let descriptor = context.pointee.fd
        _ = fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK)
    }

    deinit {
        fail(StoreError(.unreachable, "the connection was given up"))
        redisFree(context)
    }

    private func logIn(_ address: RedisAddress) throws(StoreError) {
        var pipeline = RedisPipeline()
        if let password = address.password {
            let words = [address.username, password].compactMap(\.self)
            pipeline.command("AUTH", words.count) { for word in words { $0.add(word) } }
        }
        if address.database != 0 { pipeline.command("SELECT", 1) { $0.add(Int64(address.database)) } }
        for reply in try run(pipeline) {
            if let message = reply.error { throw StoreError(.failed, "\(address): \(message)") }
        }
    }

    /// Commands that were sent, and the replies to them once they have been read.
    final class Exchange {
        fileprivate let count: Int
        fileprivate let deadline: Milliseconds
        fileprivate var replies: [RedisReply] = []
        fileprivate(set) var result: Result<[RedisReply], StoreError>?
        /// Who waits for it.
        fileprivate var waiting: UnsafeContinuation<Void, Never>?
        /// What is done when it is answered, whether anybody waits or not.
        fileprivate let answered: (([RedisReply]) -> Void)?

        fileprivate init(_ count: Int, deadline: Milliseconds, _ answered: (([RedisReply]) -> Void)?) {
            self.count = count
            self.deadline = deadline
            self.answered = answered
        }

        fileprivate func finish(_ result: Result<[RedisReply], StoreError>) {
            self.result = result
            if case .success(let replies) = result { answered?(replies) }
            waiting.take()?.resume()
        }
    }

    var socket: StoreSocket {
        StoreSocket(descriptor: context.pointee.fd, waitsToSend: hasUnsent, deadline: open.first?.deadline)
    }

    /// Sends all commands. Replies come in the order in which commands were sent.
    func send(
        _ pipeline: RedisPipeline, _ answered: (([RedisReply]) -> Void)? = nil
    ) throws(StoreError) -> Exchange {
        if let failure { throw failure }
        pipeline.withUnsafeBytes { bytes in
            _ = redisAppendFormattedCommand(
                context, UnsafeRawPointer(bytes.baseAddress)?.assumingMemoryBound(to: CChar.self), bytes.count)
        }
        let exchange = Exchange(pipeline.commands.count, deadline: now + timeout, answered)
        if exchange.count == 0 { exchange.finish(.success([])) } else { open.append(exchange) }
        try write()
        return exchange
    }

    /// The replies to what was sent, once they are there.
    func replies(to exchange: Exchange) async throws(StoreError) -> [RedisReply] {
        if exchange.result == nil { await withUnsafeContinuation { exchange.waiting = $0 } }
        guard let result = exchange.result else { throw StoreError(.unreachable, "the replies are lost") }
        return try result.get()
    }

    /// Sends all commands and waits for all replies.
    func run(_ pipeline: RedisPipeline) throws(StoreError) -> [RedisReply] {
        let exchange = try send(pipeline)
        while exchange.result == nil {
            var descriptor = pollfd(fd: context.pointee.fd, events: Int16(POLLIN), revents: 0)
            if hasUnsent { descriptor.events |= Int16(POLLOUT) }
            _ = poll(&descriptor, 1, Int32(clamping: max(0, exchange.deadline - now) + 1))
            receive()
        }
        return try exchange.result!.get()
    }

    /// Reads what has arrived, and sends what could not be sent before. What was not answered in time ends the connection.
    func receive() {
        guard failure == nil else { return }
        do throws(StoreError) {
            if hasUnsent { try write() }
            let answered = answered
            try read()
            // Time is looked at when there is some.
            if answered == self.answered, let first = open.first, first.deadline <= now {
                throw StoreError(.unreachable, "no answer in time")
            }
        } catch {
            fail(error)
        }
    }

    /// It is of no more use: nobody waits any longer.
    func fail(_ error: StoreError) {
        if failure == nil { failure = error }
        let lost = open
        open = []
        for exchange in lost { exchange.finish(.failure(error)) }
    }

    private func write() throws(StoreError) {
        var isWritten: Int32 = 0
        // What the socket does not take now is sent when it can be.
        for _ in 0..<2 where isWritten == 0 {
            guard redisBufferWrite(context, &isWritten) == REDIS_OK else {
                let error = brokenBy()
                fail(error)
                throw error
            }
        }
        hasUnsent = isWritten == 0
    }

    private func read() throws(StoreError) {
        // More may have been read than was asked for then. Where nothing is awaited, only the end can have come.
        let isAwaited = !open.isEmpty
        try take()
        guard !isAwaited || !open.isEmpty else { return }
        let isRead = redisBufferRead(context) == REDIS_OK
        // What came before the end counts.
        let failure = isRead ? nil : brokenBy()
        try take()
        if let failure { throw failure }
    }

    /// Hands replies that have been read to who asked first.
    private func take() throws(StoreError) {
        while let exchange = open.first {
            let replies = try takeReplies(exchange.count - exchange.replies.count)
            answered += replies.count
            if exchange.replies.isEmpty { exchange.replies = replies } else { exchange.replies += replies }
            guard exchange.replies.count == exchange.count else { break }
            open.removeFirst()
            exchange.finish(.success(exchange.replies))
        }
    }

    /// As many replies as have been read, `count` at most.
    private func takeReplies(_ count: Int) throws(StoreError) -> [RedisReply] {
        var replies: [RedisReply] = []
        replies.reserveCapacity(count)
        let reader = context.pointee.reader
        while replies.count < count {
            var raw: UnsafeMutableRawPointer?
            guard redisReaderGetReply(reader, &raw) == REDIS_OK else {
                throw StoreError(.unreachable, Self.reason(of: reader!))
            }
            guard let raw else { break }
            replies.append(RedisReply(owning: raw.assumingMemoryBound(to: redisReply.self)))
        }
        return replies
    }

    private func brokenBy() -> StoreError {
        failureNumber = errno
        return StoreError(.unreachable, Self.reason(context))
    }

    /// The other side is gone, as after a restart; no time limit has passed.
    var isClosedByPeer: Bool {
        switch context.pointee.err {
        case REDIS_ERR_EOF: true
        case REDIS_ERR_IO: [ECONNRESET, EPIPE].contains(failureNumber)
        default: false
        }
    }

    private var now: Milliseconds { SystemClock.boot.milliseconds }

    private static func reason(_ context: UnsafeMutablePointer<redisContext>) -> String {
        // A time limit that passed shows as EAGAIN, which would tell nobody anything.
        if context.pointee.err == REDIS_ERR_IO, errno == EAGAIN { return "no answer in time" }
        return withUnsafeBytes(of: context.pointee.errstr) { buffer in
            String(decoding: buffer.prefix { $0 != 0 }, as: UTF8.self)
        }
    }

    private static func reason(of reader: UnsafeMutablePointer<redisReader>) -> String {
        withUnsafeBytes(of: reader.pointee.errstr) { buffer in
            String(decoding: buffer.prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}
