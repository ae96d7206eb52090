/// The bounds of the wire protocol (docs/protocol.md, sections 1 and 2). Those that an operator may change are
/// defaults of settings; the others are fixed.
public enum Limits {
    /// A request may be this large, in bytes.
    public static let requestBytes = 64 * 1024
    /// What the service sends may be this large, in bytes.
    public static let downBytes = 256 * 1024
    /// Beyond this, in bytes, a message is refused without being parsed.
    public static let parsedBytes = 1024 * 1024
    public static let inviteesPerRequest = 9
    public static let extendedDataBytes = 2048
    public static let mediaBytes = 32
    public static let reasonBytes = 256
    public static let pushFieldBytes = 2048
    public static let sessionBytes = 64
    /// Seconds.
    public static let invitationTimeout: ClosedRange<Int> = 1...600
    /// Seconds.
    public static let notReceivedAfter: ClosedRange<Int> = 1...30
}
