import CHiredis
import CallCore
import CallStore
import SignalingProtocol

/// Redis's reply to one command, read in place without copies.
struct RedisReply {
    /// Frees a reply of hiredis when the last reference to the reply goes.
    fileprivate final class Owner {
        let raw: UnsafeMutablePointer<redisReply>
        init(_ raw: UnsafeMutablePointer<redisReply>) { self.raw = raw }
        deinit { freeReplyObject(raw) }
    }

    private let owner: Owner
    private let raw: UnsafeMutablePointer<redisReply>

    /// Takes over a reply from hiredis.
    init(owning raw: UnsafeMutablePointer<redisReply>) {
        owner = Owner(raw)
        self.raw = raw
    }

    private init(_ raw: UnsafeMutablePointer<redisReply>, of owner: Owner) {
        self.owner = owner
        self.raw = raw
    }

    private func bytes(of raw: UnsafeMutablePointer<redisReply>) -> RedisBytes {
        RedisBytes(
            UnsafeBufferPointer(
                start: UnsafeRawPointer(raw.pointee.str)?.assumingMemoryBound(to: UInt8.self),
                count: Int(raw.pointee.len)), of: owner)
    }

    var integer: Int64? { raw.pointee.type == REDIS_REPLY_INTEGER ? raw.pointee.integer : nil }

    var bytes: RedisBytes? { raw.pointee.type == REDIS_REPLY_STRING ? bytes(of: raw) : nil }

    var array: [RedisReply]? {
        guard raw.pointee.type == REDIS_REPLY_ARRAY else { return nil }
        var replies: [RedisReply] = []
        replies.reserveCapacity(raw.pointee.elements)
        for index in 0..<raw.pointee.elements {
            if let element = raw.pointee.element[index] { replies.append(RedisReply(element, of: owner)) }
        }
        return replies
    }

    /// The bound on the text of an error, in bytes, since the text goes into logs.
    private static let errorBytes = 512

    /// The text of an error reply, or nil for other replies.
    var error: String? {
        guard raw.pointee.type == REDIS_REPLY_ERROR else { return nil }
        return String(decoding: bytes(of: raw).prefix(Self.errorBytes), as: UTF8.self)
    }

    /// Whether `SET` has written.
    var isOK: Bool { raw.pointee.type == REDIS_REPLY_STATUS && bytes(of: raw).elementsEqual("OK".utf8) }

    private var isNothing: Bool { raw.pointee.type == REDIS_REPLY_NIL }

    var isMissingScript: Bool { error?.hasPrefix("NOSCRIPT") ?? false }
}

/// Reading replies of the expected kind. A reply of another kind throws: an empty result instead would make stored data
/// look absent.
extension RedisReply {
    /// Whether the server takes no writes now: the server was demoted, is full, cannot write its log or is still
    /// loading. Scripts add text of their own around the code.
    var refusesWrites: Bool {
        guard let error else { return false }
        return ["READONLY", "OOM ", "MISCONF", "LOADING", "MASTERDOWN", "NOREPLICAS"].contains { error.contains($0) }
    }

    /// The error in plain words when a server has refused the time of another clock (`RedisScript`); nil for other
    /// replies.
    var clockError: String? {
        guard let error, let mark = error.firstRange(of: "CLOCKDIFFERS ") else { return nil }
        return "the clock of a server differs by \(error[mark.upperBound...].prefix { $0 != " " }) ms from the store's "
            + "clock: synchronize the clocks of all servers"
    }

    func number() throws(StoreError) -> Int64 {
        guard let integer else { throw unexpected }
        return integer
    }

    /// Returns whether `SET` has written; `SET NX` does not write where the key exists.
    func wasSet() throws(StoreError) -> Bool {
        guard isOK || isNothing else { throw unexpected }
        return isOK
    }

    /// Returns the value, or nil when the key does not exist.
    func value() throws(StoreError) -> RedisBytes? {
        if isNothing { return nil }
        guard let bytes else { throw unexpected }
        return bytes
    }

    /// Returns the time in a reply to `TIME`, in milliseconds.
    func redisTime() throws(StoreError) -> Milliseconds {
        guard let parts = array, parts.count == 2, let seconds = parts[0].bytes.flatMap(StoredNumber.time),
            let microseconds = parts[1].bytes?.text.flatMap(Int64.init), (0..<1_000_000).contains(microseconds),
            seconds <= StoredNumber.times.upperBound / 1000
        else { throw StoreError(.failed, "no time: \(unexpected)") }
        return seconds * 1000 + microseconds / 1000
    }

    func values() throws(StoreError) -> [RedisBytes] {
        guard raw.pointee.type == REDIS_REPLY_ARRAY else { throw unexpected }
        var values: [RedisBytes] = []
        values.reserveCapacity(Int(raw.pointee.elements))
        for index in 0..<Int(raw.pointee.elements) {
            guard let element = raw.pointee.element[index], element.pointee.type == REDIS_REPLY_STRING else {
                throw unexpected
            }
            values.append(bytes(of: element))
        }
        return values
    }

    /// Returns the fields of a hash, or members with their scores.
    func pairs() throws(StoreError) -> Pairs {
        guard raw.pointee.type == REDIS_REPLY_ARRAY, raw.pointee.elements % 2 == 0 else { throw unexpected }
        for index in 0..<Int(raw.pointee.elements) {
            guard raw.pointee.element[index]?.pointee.type == REDIS_REPLY_STRING else { throw unexpected }
        }
        return Pairs(reply: self)
    }

    /// A list of texts, read in pairs.
    struct Pairs: RandomAccessCollection {
        fileprivate let reply: RedisReply

        var startIndex: Int { 0 }
        var endIndex: Int { Int(reply.raw.pointee.elements) / 2 }

        subscript(place: Int) -> (name: RedisBytes, value: RedisBytes) {
            let elements = reply.raw.pointee.element!
            return (reply.bytes(of: elements[2 * place]!), reply.bytes(of: elements[2 * place + 1]!))
        }
    }

    var unexpected: StoreError {
        guard let error else { return StoreError(.failed, "unexpected answer: \(String(description.prefix(200)))") }
        return StoreError(.failed, String(Self.withoutScript(error).prefix(200)))
    }

    /// Returns an error without the place in the script that met it, which Redis adds.
    static func withoutScript(_ error: String) -> String {
        guard let place = error.firstRange(of: " script: ") else { return error }
        return String(error[..<place.lowerBound])
    }

    private var description: String {
        switch raw.pointee.type {
        case REDIS_REPLY_INTEGER: "\(raw.pointee.integer)"
        case REDIS_REPLY_NIL: "nothing"
        case REDIS_REPLY_ARRAY: "a list of \(raw.pointee.elements)"
        case REDIS_REPLY_STRING, REDIS_REPLY_STATUS, REDIS_REPLY_ERROR:
            "\"\(String(decoding: bytes(of: raw).prefix(Self.errorBytes), as: UTF8.self))\""
        default: "of kind \(raw.pointee.type)"
        }
    }
}

/// Some bytes of a reply. They keep the reply alive.
struct RedisBytes: RandomAccessCollection {
    private let owner: RedisReply.Owner
    private let buffer: UnsafeBufferPointer<UInt8>

    fileprivate init(_ buffer: UnsafeBufferPointer<UInt8>, of owner: RedisReply.Owner) {
        self.owner = owner
        self.buffer = buffer
    }

    var startIndex: Int { 0 }
    var endIndex: Int { buffer.count }
    subscript(place: Int) -> UInt8 { withExtendedLifetime(owner) { buffer[place] } }

    /// The bytes as text, or nil when they are not UTF-8; all data that Bellwire writes is.
    var text: String? { read { String(validUTF8: $0) } }

    func read<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        withExtendedLifetime(owner) { body(buffer) }
    }

    /// All bytes but the first.
    var rest: RedisBytes { RedisBytes(UnsafeBufferPointer(rebasing: buffer.dropFirst()), of: owner) }

    /// Removes and returns the bytes before the next `separator`, and removes the separator. Returns nil without a
    /// separator.
    mutating func part(before separator: UInt8) -> RedisBytes? {
        guard let place = read({ $0.firstIndex(of: separator) }) else { return nil }
        defer { self = RedisBytes(UnsafeBufferPointer(rebasing: buffer[(place + 1)...]), of: owner) }
        return RedisBytes(UnsafeBufferPointer(rebasing: buffer[..<place]), of: owner)
    }
}

extension StoredNumber {
    static func time(_ digits: RedisBytes) -> Milliseconds? { digits.read { time($0) } }

    static func time(ofScore digits: RedisBytes) -> Milliseconds { digits.read { time(ofScore: $0) } }
}
