import SignalingProtocol

/// A key as parts in their order, which are joined when the key is sent.
struct RedisKey {
    /// The common prefix of the keys of this kind.
    let prefix: [UInt8]
    var name = ""
    var end: StaticString = ""
    let kind: String
    var detail = ""

    /// The length of the key in bytes.
    var count: Int {
        prefix.count + name.utf8.count + end.utf8CodeUnitCount + kind.utf8.count + detail.utf8.count
    }

    private var joined: ByteBuffer {
        var bytes = ByteBuffer(capacity: count)
        bytes.append(prefix)
        bytes.append(name)
        bytes.append(end)
        bytes.append(kind)
        bytes.append(detail)
        return bytes
    }

    var bytes: [UInt8] { joined.bytes }

    /// The hash slot of the key in a cluster.
    var slot: RedisSlot { joined.withUnsafeBytes { RedisSlot(ofKey: $0) } }
}
