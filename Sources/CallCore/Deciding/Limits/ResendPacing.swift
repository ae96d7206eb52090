import SignalingProtocol

/// Decides which events and messages may be sent again to a device that acknowledges late or not at all (docs/protocol.md,
/// section 5, Slow devices).
///
/// A device on a slow line acknowledges late: what it has not read yet waits at the broker. If everything unacknowledged were sent
/// again by its schedule, resends would fill the line, and the next call would wait behind them. Two rules bound resends:
///
/// * A device that has acknowledged nothing for a second after a resend is silent. To a silent device only one event or message is
///   sent again: the oldest invitation that rings, else the oldest of the rest. Its next acknowledgment, or a new session, releases the rest.
/// * Resends to one device are limited in bytes, and so are the waiting messages that a device is sent when it comes online. A message
///   that is acknowledged gives its bytes back. The one event of a silent device is sent whatever the limit says, by its schedule.
///
/// Besides, the first resend of an event is left out while the user's devices were sent much by others lately (`RateLimits.calleeBytes`): the
/// first copy may still be on its way.
///
/// Each coordinator paces what it sends itself. The memory is bounded; a device that is not remembered is not paced.
package struct ResendPacing {
    /// Where something is sent again: to one device or, without `device`, to all devices of a user.
    package struct Target: Hashable, Sendable {
        package let user: UserID
        package let device: DeviceID?

        package init(_ user: UserID, _ device: DeviceID?) {
            self.user = user
            self.device = device
        }
    }

    /// Something that may be sent again.
    package struct Candidate: Hashable, Sendable {
        /// The call or message.
        package let id: RecordID
        /// Whether it is an invitation that rings.
        let isRinging: Bool
        /// When the call or message was made, in milliseconds.
        let createdAt: Milliseconds
        /// About how many bytes it takes.
        let bytes: Int
        /// Whether it would be sent for the second time. The first copy may well be on its way still.
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

        /// Whether this candidate is sent again before `other` to a silent device.
        func precedes(_ other: Candidate) -> Bool {
            if isRinging != other.isRinging { return isRinging }
            return (createdAt, id) < (other.createdAt, other.id)
        }
    }

    private struct State {
        /// What is sent again while the device is silent.
        var leader: Candidate
        /// When something was sent again for the first time since the last acknowledgment; nil after an acknowledgment.
        var unansweredSince: Milliseconds?
        /// When `leader` was sent again last.
        var leaderSentAt: Milliseconds
        var bucket: TokenBucket
        /// Messages that were sent to the device and are not acknowledged, with their bytes.
        var messages: [RecordID: Int] = [:]
        /// What was held back since the last acknowledgment.
        var heldBack: [Candidate] = []
    }

    /// After so long without an acknowledgment of anything, a device to which something was sent again is silent, in milliseconds.
    package static let patience = ResendSchedule.firstDelay
    /// A leader that was not sent again for so long is not awaited any more, in milliseconds: it was acknowledged at another
    /// coordinator, or is over. Longer than the longest step of the resend schedule.
    package static let leaderLife: Milliseconds = 10_000
    /// Of one device so many calls and messages that were held back are remembered; the rest comes with its own schedule.
    package static let mostHeldBack = 32
    /// Of one device so many messages give their bytes back when they are acknowledged.
    private static let mostMessages = 64
    /// So many devices are paced at once.
    package static let capacity = 10_000
    /// Bytes per second, and at once, that are sent again to one device that acknowledges.
    package static let rate = 4_000
    package static let burst = 32_000
    private static let microsecondsPerByte = Int64(1_000_000 / rate)
    private static let size = TokenBucket.Size(room: Int64(burst) * microsecondsPerByte, debt: 60_000_000)

    /// How often room is looked for where there is none, in milliseconds.
    private static let searchInterval: Milliseconds = 1_000

    private var states: [Target: State] = [:]
    private var nextSearch: Milliseconds = 0

    package init() {}

    package var isEmpty: Bool { states.isEmpty }

    /// Whether `candidate` may be sent again to `target` now.
    package func allows(_ candidate: Candidate, to target: Target, now: Milliseconds) -> Bool {
        guard let state = states[target] else { return true }
        if isSilent(state, now) { return state.leader.id == candidate.id || candidate.precedes(state.leader) }
        // Some are due at the same moment. Each counts once it is taken, so that the last may overdraw the limit.
        return state.bucket.wait(for: 0, Self.size, now: now * 1_000) < 0
    }

    /// Notes that `candidate` is sent again.
    package mutating func sentAgain(_ candidate: Candidate, to target: Target, now: Milliseconds) {
        if states[target] == nil {
            makeRoom(now)
            guard states.count < Self.capacity else { return }
        }
        var state = states[target] ?? State(leader: candidate, leaderSentAt: now, bucket: TokenBucket())
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

    /// Notes that something that was sent again took so many bytes more than was expected of it.
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

    /// The device has acknowledged an event of a call, or a message. Returns what was held back from it, and to where it goes: first
    /// what precedes.
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

    /// The device has begun a session, in which it is sent everything once.
    package mutating func began(_ device: DeviceAddress) {
        states[Target(device.userID, device.deviceID)] = nil
        states[Target(device.userID, nil)] = nil
    }

    private func isSilent(_ state: State, _ now: Milliseconds) -> Bool {
        guard let since = state.unansweredSince, isLeaderAwaited(state, now) else { return false }
        return now - since >= Self.patience
    }

    /// Not when the clock was set back.
    private func isLeaderAwaited(_ state: State, _ now: Milliseconds) -> Bool {
        (0..<Self.leaderLife).contains(now - state.leaderSentAt)
    }

    /// Forgets devices of which nothing is awaited, when there are as many as may be.
    private mutating func makeRoom(_ now: Milliseconds) {
        guard states.count >= Self.capacity, now >= nextSearch || nextSearch - now > Self.searchInterval else { return }
        nextSearch = now + Self.searchInterval
        states = states.filter { isLeaderAwaited($0.value, now) || !$0.value.bucket.isFull(now: now * 1_000) }
    }
}
