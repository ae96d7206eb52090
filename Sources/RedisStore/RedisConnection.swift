import Basics
import CHiredis
import CallCore
import CallStore
import Glibc
import Support
import TLSClient

/// A connection to Redis. A failed connection cannot be used again: replies could be taken for the replies to other
/// commands.
///
/// A connected `RedisConnection` does not block: `receive` reads the replies. Only `run` waits, for callers that have
/// no other work.
package final class RedisConnection: RedisLink {
    private let context: UnsafeMutablePointer<redisContext>
    /// The time within which a reply must come, in milliseconds.
    private let timeout: Milliseconds
    /// `errno` at the failure, or 0.
    private var failureNumber: Int32 = 0
    /// The exchanges without all their replies, in sending order.
    private var open: [RedisExchange] = []
    /// The number of replies that have come.
    private var answered = 0
    /// The reason why the connection cannot be used any more.
    private(set) var failure: StoreError?
    /// Whether some bytes could not be sent yet.
    private var hasUnsent = false
    /// Nil without TLS.
    private var tls: RedisTLS?
    /// The server's name in errors.
    let name: String

    /// Connects. `timeout`, in milliseconds, bounds the name lookup, the connecting, and each wait for a reply.
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
        name = ServerURL.authority(host: address.host, port: address.port)
        Self.stopWaiting(context)
        if address.isSecure {
            do throws(TLSError) {
                tls = try RedisTLS(address, descriptor: context.pointee.fd)
            } catch {
                throw StoreError(.unreachable, "\(address): \(error)")
            }
        }
        do throws(StoreError) {
            try logIn(address)
        } catch {
            guard tls != nil, self.failure != nil else { throw error }
            throw StoreError(error.code, "\(address): TLS: \(error)")
        }
    }

    /// Takes over a socket that is connected already.
    package init(descriptor: Int32, timeout: Int = 400) throws(StoreError) {
        guard let context = redisConnectFd(descriptor) else { throw StoreError(.unreachable, "no memory") }
        self.context = context
        self.timeout = Milliseconds(timeout)
        name = "socket \(descriptor)"
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
        // The reply shows that the handshake is done.
        if address.isSecure, address.password == nil { pipeline.command("PING") }
        if address.database != 0 { pipeline.command("SELECT", 1) { $0.add(Int64(address.database)) } }
        for reply in try run(pipeline) {
            if let message = reply.error { throw StoreError(.failed, "\(address): \(message)") }
        }
    }

    var servers: [RedisConnection] { [self] }

    func hasClock(for key: RedisKey) -> Bool { true }

    var socket: StoreSocket {
        StoreSocket(descriptor: context.pointee.fd, waitsToSend: hasUnsent, deadline: open.first?.deadline)
    }

    /// Sends all commands. Replies come in the order of the commands.
    func send(
        _ pipeline: RedisPipeline, _ answered: (([RedisReply]) -> Void)? = nil
    ) throws(StoreError) -> RedisExchange {
        if let failure { throw failure }
        pipeline.withUnsafeBytes { bytes in
            if let tls { return tls.append(bytes) }
            _ = redisAppendFormattedCommand(
                context, UnsafeRawPointer(bytes.baseAddress)?.assumingMemoryBound(to: CChar.self), bytes.count)
        }
        let exchange = RedisExchange(pipeline.commands.count, deadline: now + timeout, answered)
        if exchange.count == 0 { exchange.finish(.success([])) } else { open.append(exchange) }
        try write()
        return exchange
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

    /// Reads replies, and sends bytes that could not be sent before. A reply that does not come in time ends the
    /// connection.
    func receive() {
        guard failure == nil else { return }
        do throws(StoreError) {
            if hasUnsent { try write() }
            let answered = answered
            try read()
            // The time is checked only when no reply has come.
            if answered == self.answered, let first = open.first, first.deadline <= now {
                throw StoreError(.unreachable, "no answer in time")
            }
        } catch {
            fail(error)
        }
    }

    /// Returns the messages of subscriptions that have come, at most `most`. Only for a connection without open
    /// commands.
    func messages(_ most: Int) throws(StoreError) -> [RedisReply] {
        receive()
        let messages = try takeReplies(most)
        if messages.isEmpty, let failure { throw failure }
        return messages
    }

    /// Ends the connection: no task waits for replies any longer.
    func fail(_ error: StoreError) {
        if failure == nil { failure = error }
        let lost = open
        open = []
        for exchange in lost { exchange.finish(.failure(error)) }
    }

    private func write() throws(StoreError) {
        if let tls {
            do throws(TLSError) {
                hasUnsent = try !tls.write()
            } catch {
                let error = StoreError(.unreachable, error.description)
                fail(error)
                throw error
            }
            return
        }
        var isWritten: Int32 = 0
        // Bytes that the socket does not take now are sent later.
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
        // An earlier read may have read more replies than were awaited then: `take` uses these replies first. While no
        // reply is awaited, only the end of the connection can arrive.
        let isAwaited = !open.isEmpty
        try take()
        guard !isAwaited || !open.isEmpty else { return }
        // Replies that came before the end count.
        let failure = readBytes()
        try take()
        if let failure { throw failure }
    }

    /// Reads the bytes that have arrived. Returns the reason why no more bytes can come.
    private func readBytes() -> StoreError? {
        guard let tls else { return redisBufferRead(context) == REDIS_OK ? nil : brokenBy() }
        do throws(TLSError) {
            try tls.read { [context] bytes in
                redisReaderFeed(
                    context.pointee.reader, UnsafeRawPointer(bytes.baseAddress)?.assumingMemoryBound(to: CChar.self),
                    bytes.count)
            }
            // The handshake may have waited for these bytes, and the commands for the handshake.
            hasUnsent = try !tls.write()
            return nil
        } catch {
            return StoreError(.unreachable, error.description)
        }
    }

    /// Gives the replies that were read to the exchanges, in sending order.
    private func take() throws(StoreError) {
        while let exchange = open.first {
            let replies = try takeReplies(exchange.missing)
            answered += replies.count
            exchange.take(replies)
            guard exchange.missing == 0 else { break }
            open.removeFirst()
            exchange.finish(.success(exchange.replies))
        }
    }

    /// Returns the replies that were read, at most `count`.
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

    /// Whether the server has closed the connection, as after a restart; false when a time limit has passed.
    var isClosedByPeer: Bool {
        if let tls { return tls.isClosedByPeer }
        return switch context.pointee.err {
        case REDIS_ERR_EOF: true
        case REDIS_ERR_IO: [ECONNRESET, EPIPE].contains(failureNumber)
        default: false
        }
    }

    private var now: Milliseconds { SystemClock.boot.milliseconds }

    private static func reason(_ context: UnsafeMutablePointer<redisContext>) -> String {
        // A passed time limit appears as EAGAIN, and that text would not help an operator.
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
