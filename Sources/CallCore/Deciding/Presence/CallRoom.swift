import SignalingProtocol

/// The room for calls in a message: calls that would exceed the limit of bytes are left out (section 1). Each call is
/// encoded once. The first call always counts as fitting; a first call that is too large is left out when the message
/// is sent.
package struct CallRoom {
    /// The number of bytes for the rest of the message.
    private static let envelope = 2_048
    private var left = Limits.downBytes - envelope
    private var isEmpty = true
    package private(set) var isFull = false

    package init() {}

    /// Whether the call still fits. After a call that does not fit, the room is full.
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
