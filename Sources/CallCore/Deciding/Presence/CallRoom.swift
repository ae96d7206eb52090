import SignalingProtocol

/// The room for calls in one message: fewer calls rather than more bytes than allowed (section 1). Each call is encoded
/// once, and the first one always fits: what is too large about it is left out when it is sent.
package struct CallRoom {
    /// For all that stands around the calls.
    private static let envelope = 2_048
    private var left = Limits.downBytes - envelope
    private var isEmpty = true
    package private(set) var isFull = false

    package init() {}

    /// Whether the call still fits; once one does not, the room is full.
    package mutating func takes(_ call: CallSnapshot) -> Bool {
        guard !isFull else { return false }
        left -= JSONWriter.object(capacity: 1024) { call.write(to: &$0) }.count + 1
        guard left >= 0 || isEmpty else {
            isFull = true
            return false
        }
        if left < 0 { isFull = true }
        isEmpty = false
        return true
    }
}
