/// Whether this answer to CONNECT means that the broker does not accept the client's identity.
func isAboutCredentials(_ code: UInt8) -> Bool {
    // Bad user name or password, not authorized, bad authentication method.
    [0x86, 0x87, 0x8C].contains(code)
}

/// Whether a broker with this answer to CONNECT may accept the same client a moment later.
func isTemporary(_ code: UInt8) -> Bool {
    // Unavailable, busy, shutting down, quota exceeded, connection rate exceeded.
    [0x88, 0x89, 0x8B, 0x97, 0x9F].contains(code)
}

/// Returns the name of a reason code (MQTT 5, section 2.4).
func reasonName(_ code: UInt8) -> String {
    switch code {
    case 0x00: "Normal disconnection"
    case 0x80: "Unspecified error"
    case 0x81: "Malformed packet"
    case 0x82: "Protocol error"
    case 0x83: "Implementation specific error"
    case 0x84: "Unsupported protocol version"
    case 0x85: "Client identifier not valid"
    case 0x86: "Bad user name or password"
    case 0x87: "Not authorized"
    case 0x88: "Server unavailable"
    case 0x89: "Server busy"
    case 0x8A: "Banned"
    case 0x8B: "Server shutting down"
    case 0x8C: "Bad authentication method"
    case 0x8D: "Keep alive timeout"
    case 0x8E: "Session taken over"
    case 0x8F: "Topic filter invalid"
    case 0x90: "Topic name invalid"
    case 0x93: "Receive maximum exceeded"
    case 0x94: "Topic alias invalid"
    case 0x95: "Packet too large"
    case 0x96: "Message rate too high"
    case 0x97: "Quota exceeded"
    case 0x98: "Administrative action"
    case 0x99: "Payload format invalid"
    case 0x9A: "Retain not supported"
    case 0x9B: "QoS not supported"
    case 0x9C: "Use another server"
    case 0x9D: "Server moved"
    case 0x9E: "Shared subscriptions not supported"
    case 0x9F: "Connection rate exceeded"
    case 0xA0: "Maximum connect time"
    case 0xA1: "Subscription identifiers not supported"
    case 0xA2: "Wildcard subscriptions not supported"
    default: "reason \(code)"
    }
}
