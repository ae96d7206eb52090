/// A 64-bit digest of a request's content. The service keeps the digest with the request's id, so that another request
/// under the same id is not mistaken for a resend (docs/protocol.md, section 2).
///
/// The digest is FNV-1a. FNV-1a is not cryptographic and need not be: the service compares a digest only with digests
/// of the same sender, under an id that this sender chose. A sender that constructs two requests with the same digest
/// loses the second request; no other user is affected.
extension Request.Body {
    /// Requests with equal fields have equal digests: the order of fields, white space, escapes and unknown fields do
    /// not matter. Nil for requests that the service does not remember. The digest excludes `callID` and `messageID`,
    /// because the request's id already stands for these two ids. The digest also excludes a message's place in its
    /// stream, because a restarted sender counts the places anew.
    package var digest: Int64? {
        switch self {
        case .invite, .cancel, .accept, .reject, .add, .join, .quit, .end:
            Int64(bitPattern: stableHash(JSONWriter.object { writeFields(to: &$0) }))
        case .message(let message): message.digest
        case .get, .signal, .report, .trace, .media, .query, .userUpdate, .userQuery, .userBlock, .userBlockList,
            .userSignOut, .userDelete, .pushRegister, .pushUnregister, .ringCheck:
            nil
        }
    }
}

extension Request.Message {
    package var digest: Int64 {
        let content = (try? JSONParser.parse(data.bytes)) ?? .null
        return Int64(bitPattern: mixed(content.digest, UInt64(bitPattern: Int64(ttl ?? 0))))
    }
}

extension JSONValue {
    /// The digest of an object depends on its fields but not on their order.
    fileprivate var digest: UInt64 {
        switch self {
        case .null: 1
        case .bool(let value): value ? 3 : 2
        case .int(let value): mixed(4, UInt64(bitPattern: value))
        case .double(let value): integer.map { mixed(4, UInt64(bitPattern: $0)) } ?? mixed(5, value.bitPattern)
        case .string(let value): mixed(6, stableHash(value.utf8))
        case .array(let values): values.reduce(7) { mixed($0, $1.digest) }
        case .object(let object):
            mixed(8, object.fields.reduce(0) { $0 &+ mixed(stableHash($1.key.utf8), $1.value.digest) })
        }
    }
}

/// Every bit of the result depends on every bit of both arguments and on their order. The function is a step of FNV-1a
/// with eight bytes, followed by the end of SplitMix64.
private func mixed(_ first: UInt64, _ second: UInt64) -> UInt64 {
    var value = ((first &* 0x100_0000_01b3) ^ second) &+ 0x9e37_79b9_7f4a_7c15
    value = (value ^ (value >> 30)) &* 0xbf58_476d_1ce4_e5b9
    value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
    return value ^ (value >> 31)
}
