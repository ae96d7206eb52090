import CHiredis
import Glibc
import ServerURL

/// What Redis answered.
enum RedisReply: Equatable {
    case null
    case integer(Int64)
    case bytes([UInt8])
    case array([RedisReply])
    case status(String)
    case error(String)
    /// Of a kind that no command of ours is answered with.
    case other(kind: Int32)

    var integer: Int64? {
        if case .integer(let value) = self { value } else { nil }
    }

    var bytes: [UInt8]? {
        if case .bytes(let value) = self { value } else { nil }
    }

    /// Nil also for what is no UTF-8: everything of ours is.
    var text: String? { bytes.flatMap { String(validating: $0, as: UTF8.self) } }

    var array: [RedisReply]? {
        if case .array(let value) = self { value } else { nil }
    }
}

/// Replies of the kind that a command has. Any other kind is no answer: to take it for an empty one would make what is
/// stored look as if it were not.
extension RedisReply {
    func number() throws(StoreError) -> Int64 {
        guard case .integer(let value) = self else { throw unexpected }
        return value
    }

    /// Nil when there is nothing under the key.
    func value() throws(StoreError) -> [UInt8]? {
        switch self {
        case .bytes(let value): return value
        case .null: return nil
        default: throw unexpected
        }
    }

    func values() throws(StoreError) -> [[UInt8]] {
        guard case .array(let elements) = self else { throw unexpected }
        var values: [[UInt8]] = []
        for element in elements {
            guard case .bytes(let value) = element else { throw unexpected }
            values.append(value)
        }
        return values
    }

    /// The fields of a hash, or members with their scores.
    func pairs() throws(StoreError) -> [(name: [UInt8], value: [UInt8])] {
        let values = try values()
        guard values.count % 2 == 0 else { throw unexpected }
        return stride(from: 0, to: values.count, by: 2).map { (values[$0], values[$0 + 1]) }
    }

    var unexpected: StoreError { StoreError("unexpected answer: \(String(describing: self).prefix(200))") }
}

/// One command: its words as bytes.
struct RedisCommand {
    private(set) var words: [[UInt8]]

    init(_ words: String...) { self.words = words.map { Array($0.utf8) } }
    init(_ name: String, _ key: [UInt8]) { words = [Array(name.utf8), key] }

    mutating func append(_ word: String) { words.append(Array(word.utf8)) }
    mutating func append(_ word: [UInt8]) { words.append(word) }
    mutating func append(_ word: Int64) { append(String(word)) }
}

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
        var commands: [RedisCommand] = []
        if let password = address.password {
            commands.append(
                address.username.map { RedisCommand("AUTH", $0, password) } ?? RedisCommand("AUTH", password))
        }
        if address.database != 0 { commands.append(RedisCommand("SELECT", String(address.database))) }
        for reply in try pipeline(commands) {
            if case .error(let message) = reply { throw StoreError("\(address): \(message)") }
        }
    }

    /// Sends all commands and then reads all replies: one round trip.
    func pipeline(_ commands: [RedisCommand]) throws(StoreError) -> [RedisReply] {
        for command in commands { append(command) }
        var replies: [RedisReply] = []
        replies.reserveCapacity(commands.count)
        for _ in commands {
            var raw: UnsafeMutableRawPointer?
            guard redisGetReply(context, &raw) == REDIS_OK, let raw else {
                failureNumber = errno
                throw StoreError(Self.reason(context))
            }
            defer { freeReplyObject(raw) }
            replies.append(Self.reply(raw.assumingMemoryBound(to: redisReply.self).pointee))
        }
        return replies
    }

    private func append(_ command: RedisCommand) {
        // One buffer for all words: hiredis copies it before the call returns.
        let flat = command.words.flatMap { $0 }
        let lengths = command.words.map(\.count)
        flat.withUnsafeBufferPointer { buffer in
            // An empty buffer has no address, and hiredis wants one even for words of no length.
            let base = buffer.baseAddress.map { UnsafeRawPointer($0).assumingMemoryBound(to: CChar.self) }
            var words: [UnsafePointer<CChar>?] = []
            var offset = 0
            for length in lengths {
                words.append(base.map { $0 + offset })
                offset += length
            }
            redisAppendCommandArgv(context, Int32(words.count), &words, lengths)
        }
    }

    /// Of an error's text; it goes into logs.
    private static let errorBytes = 512

    private static func reply(_ raw: redisReply) -> RedisReply {
        switch raw.type {
        case REDIS_REPLY_INTEGER: .integer(raw.integer)
        case REDIS_REPLY_STRING: .bytes(bytes(raw))
        case REDIS_REPLY_STATUS: .status(String(decoding: bytes(raw), as: UTF8.self))
        case REDIS_REPLY_ERROR: .error(String(decoding: bytes(raw).prefix(errorBytes), as: UTF8.self))
        case REDIS_REPLY_ARRAY:
            .array((0..<raw.elements).map { index in raw.element[index].map { reply($0.pointee) } ?? .null })
        case REDIS_REPLY_NIL: .null
        default: .other(kind: raw.type)
        }
    }

    private static func bytes(_ raw: redisReply) -> [UInt8] {
        Array(UnsafeRawBufferPointer(start: raw.str, count: raw.len))
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
