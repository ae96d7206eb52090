import MQTTClient

/// Bytes from a broker, however they are cut: no packet is taken before it is whole, and no packet is taken twice.
func checkPackets(_ input: [UInt8]) throws(Finding) {
    let maxBytes = 100_000
    func first(_ bytes: ArraySlice<UInt8>) -> (packet: InboundPacket, size: Int)? {
        bytes.withUnsafeBufferPointer {
            try? InboundPacket.first(of: $0, userProperties: ["a", "b"], maxBytes: maxBytes)
        }
    }
    var rest = input[...]
    while let (packet, size) = first(rest) {
        try hold((2...rest.count).contains(size), "a packet of \(size) in \(rest.count) bytes")
        for count in [0, 1, size / 2, size - 1] {
            try hold(first(rest.prefix(count)) == nil, "\(packet) is taken of \(count) in \(size) bytes")
        }
        if case .message(let message, let identifier) = packet {
            try hold((identifier == 0) || message.qos == .atLeastOnce, "an identifier at QoS 0")
            try checkAgain(message)
        }
        rest = rest.dropFirst(size)
    }
}

private func checkAgain(_ message: MQTTMessage) throws(Finding) {
    var copy = message
    copy.userProperties = ["a": "1", "b": ""]
    var bytes: [UInt8] = []
    // A text that was repaired may have become too long.
    guard copy.topic.utf8.count <= 65_535,
        bytes.appendPublish(copy, qos: copy.qos, identifier: 1, maxBytes: .max)
    else { return }
    let found = bytes.withUnsafeBufferPointer {
        try? InboundPacket.first(of: $0, userProperties: ["a", "b"], maxBytes: .max)
    }
    guard case .message(let again, _)? = found?.packet else { throw Finding("\(message) is not read again") }
    try hold(again == copy && found?.size == bytes.count, "\(message) is read as \(again)")
}
