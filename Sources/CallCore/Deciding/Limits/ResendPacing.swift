import SignalingProtocol

/// Decides which events and messages may be resent to a device that acknowledges late or not at all (docs/protocol.md,
/// section 5, Slow devices).
///
/// A device on a slow line acknowledges late: messages that the device has not read yet wait at the broker. If all
/// unacknowledged messages were resent by the resend schedule, the resends would fill the line, and the next call would
/// wait behind them. Two rules bound resends:
///
/// - A device that has acknowledged no message for a second after a resend is silent. A silent device gets resends of a
///   single event or message: the oldest ringing invitation, otherwise the oldest of the others. The next ack, or a new
///   session, releases the others.
/// - The bytes of resends to a device are limited, and so are the queued messages that a device gets when it comes
///   online. An acknowledged message gives its bytes back. The single event of a silent device is sent by its schedule,
///   regardless of the limit.
///
/// In addition, the first resend of an event is left out while other users have lately sent much to the user's devices
/// (`RateLimits.calleeBytes`), because the first copy may still be on its way.
///
/// Each coordinator paces only its own sends. The memory is bounded, and a device that is not remembered is not paced.
package struct ResendPacing {
    /// The recipient of resends: a device, or, without `device`, all devices of a user.
    package struct Target: Hashable, Sendable {
        package let user: UserID
        package let device: DeviceID?

        package init(_ user: UserID, _ device: DeviceID?) {
            self.user = user
            self.device = device
        }
    }

    /// An event or message that may be resent.
    package struct Candidate: Hashable, Sendable {
        /// The id of the call or message.
        package let id: RecordID
        /// Whether the candidate is a ringing invitation.
        let isRinging: Bool
        /// The creation time of the call or message, in milliseconds.
        let createdAt: Milliseconds
        /// The approximate size in bytes.
        let bytes: Int
        /// Whether this is the first resend. The first copy may still be on its way.
        package let isFirst: Bool

        package init(
            _ id: RecordID, isRinging: Bool, createdAt: Milliseconds, bytes: Int, isFirst: Bool = false
        ) {
            self.isFirst = isFirst
            self.id = id
            self.isRinging = isRinging
            self.createdAt = createdAt
            self.bytes = bytes
        }

        /// Whether this candidate is resent before `other` to a silent device.
        func precedes(_ other: Candidate) -> Bool {
            if isRinging != other.isRinging { return isRinging }
            return (createdAt, id) < (other.createdAt, other.id)
        }
    }

    private struct DeviceState {
        /// The event or message that is resent while the device is silent.
        var leader: Candidate
        /// The time of the first resend since the last ack; nil after an ack.
        var unansweredSince: Milliseconds?
        /// The time of the last resend of `leader`.
        var leaderSentAt: Milliseconds
        var bucket: TokenBucket
        /// The messages that were sent to the device and are not acknowledged, with their bytes.
        var messages: [RecordID: Int] = [:]
        /// The candidates that were held back since the last ack.
        var heldBack: [Candidate] = []
    }

    /// The time, in milliseconds, from a resend without any ack until the device counts as silent.
    package static let patience = ResendSchedule.firstDelay
    /// The time, in milliseconds, that a leader without a further resend is awaited. After this time the device no
    /// longer counts as silent, because the leader was acknowledged at another coordinator or is over. This time is
    /// longer than the longest step of the resend schedule.
    package static let leaderLife: Milliseconds = 10_000
    /// The number of held-back calls and messages that are remembered for a device. Others come with their own
    /// schedule.
    package static let mostHeldBack = 32
    /// The number of a device's messages that give their bytes back when the device acknowledges them.
    private static let mostMessages = 64
    /// The bound on devices that are paced at the same time.
    package static let capacity = 10_000
    /// The bytes per second of resends to a device that acknowledges. `burst` is the number of bytes at once.
    package static let rate = 4_000
    package static let burst = 32_000
    private static let microsecondsPerByte = Int64(1_000_000 / rate)
    private static let size = TokenBucket.Size(room: Int64(burst) * microsecondsPerByte, debt: 60_000_000)

    /// The interval, in milliseconds, of searches for room.
    private static let searchInterval: Milliseconds = 1_000

    private var states: [Target: DeviceState] = [:]
    private var nextSearch: Milliseconds = 0

    package init() {}

    package var isEmpty: Bool { states.isEmpty }

    /// Whether `candidate` may be resent to `target` now.
    package func allows(_ candidate: Candidate, to target: Target, now: Milliseconds) -> Bool {
        guard let state = states[target] else { return true }
        if isSilent(state, now) { return state.leader.id == candidate.id || candidate.precedes(state.leader) }
        // Several candidates may be due at the same moment. Each message counts only when the message is sent, so the
        // last message may overdraw the limit.
        return state.bucket.wait(for: 0, Self.size, now: now * 1_000) < 0
    }

    /// Notes a resend of `candidate`.
    package mutating func sentAgain(_ candidate: Candidate, to target: Target, now: Milliseconds) {
        if states[target] == nil {
            makeRoom(now)
            guard states.count < Self.capacity else { return }
        }
        var state = states[target] ?? DeviceState(leader: candidate, leaderSentAt: now, bucket: TokenBucket())
        state.bucket.take(Int64(candidate.bytes) * Self.microsecondsPerByte, Self.size, now: now * 1_000)
        if state.unansweredSince == nil || !isLeaderAwaited(state, now) {
            state.unansweredSince = now
            state.leader = candidate
        } else if candidate.precedes(state.leader) {
            state.leader = candidate
        }
        if state.leader.id == candidate.id { state.leaderSentAt = now }
        if candidate.id.callID == nil, state.messages.count < Self.mostMessages {
            state.messages[candidate.id] = candidate.bytes
        }
        state.heldBack.removeAll { $0.id == candidate.id }
        states[target] = state
    }

    /// Notes that a resend took `bytes` more bytes than expected.
    package mutating func charge(_ bytes: Int, to target: Target, now: Milliseconds) {
        guard bytes > 0 else { return }
        states[target]?.bucket.take(Int64(bytes) * Self.microsecondsPerByte, Self.size, now: now * 1_000)
    }

    /// Notes that `candidate` was due and is held back.
    package mutating func heldBack(_ candidate: Candidate, from target: Target) {
        guard var state = states[target], state.heldBack.count < Self.mostHeldBack else { return }
        guard !state.heldBack.contains(where: { $0.id == candidate.id }) else { return }
        state.heldBack.append(candidate)
        states[target] = state
    }

    /// Handles an ack of the device for an event of a call or for a message. Returns the held-back candidates with
    /// their targets, in the order of precedence.
    package mutating func acknowledged(_ id: RecordID, by device: DeviceAddress) -> [(id: RecordID, target: Target)] {
        guard !states.isEmpty else { return [] }
        var released: [(candidate: Candidate, target: Target)] = []
        for target in [Target(device.userID, device.deviceID), Target(device.userID, nil)] {
            guard var state = states[target] else { continue }
            if let bytes = state.messages.removeValue(forKey: id) {
                state.bucket.giveBack(Int64(bytes) * Self.microsecondsPerByte)
            }
            released += state.heldBack.map { ($0, target) }
            state.heldBack = []
            state.unansweredSince = nil
            states[target] = state
        }
        return released.sorted { $0.candidate.precedes($1.candidate) }.map { ($0.candidate.id, $0.target) }
    }

    /// Handles a new session of the device, in which the device gets all its deliveries once.
    package mutating func began(_ device: DeviceAddress) {
        states[Target(device.userID, device.deviceID)] = nil
        states[Target(device.userID, nil)] = nil
    }

    private func isSilent(_ state: DeviceState, _ now: Milliseconds) -> Bool {
        guard let since = state.unansweredSince, isLeaderAwaited(state, now) else { return false }
        return now - since >= Self.patience
    }

    /// Whether an ack of the leader is still awaited; false after the clock went back.
    private func isLeaderAwaited(_ state: DeviceState, _ now: Milliseconds) -> Bool {
        (0..<Self.leaderLife).contains(now - state.leaderSentAt)
    }

    /// Forgets devices without an awaited ack when the memory is full.
    private mutating func makeRoom(_ now: Milliseconds) {
        guard states.count >= Self.capacity, now >= nextSearch || nextSearch - now > Self.searchInterval else { return }
        nextSearch = now + Self.searchInterval
        states = states.filter { isLeaderAwaited($0.value, now) || !$0.value.bucket.isFull(now: now * 1_000) }
    }
}
