import CallCore
import SignalingProtocol

/// A call that the worker has taken from the push queue.
final class LeasedCall {
    /// The bound of the call's attempts that are under way or waiting at the same time; further pushes follow later.
    static let mostAttempts = 256

    let callID: CallID
    /// The worker that took the call. All writes that follow from reading this call carry this name, even if the worker
    /// has a new name by now.
    let holder: WorkerID
    /// The users whose devices may be pushed, as last read.
    var users: [UserID] = []
    var attempts: [PushID: PushAttempt]
    /// The push states to be written with the next look; decisions already count them.
    private(set) var notes: [PushRegistration.Key: PushState] = [:]
    /// The registrations to be ended with the next look.
    var gone: [PushRegistration] = []
    /// The state of each push, as last read or about to be written.
    private var states: [PushRegistration.Key: PushState] = [:]
    /// The time of the next look that no event causes, by the store's clock.
    var due: Milliseconds?
    var isLooking = false
    var isSettling = false
    /// Whether the call was hinted at since the present look began.
    var isHinted = false
    /// Whether more pushes were due than may be tried at the same time.
    var hasMore = false
    /// The time of the next look, by the boot clock.
    var nextLook: Int64
    /// The time until which the sender may still hand over pushes of this call, by the boot clock.
    var leavesUntil: Int64 = 0

    init(_ callID: CallID, by holder: WorkerID, attempts: [PushID: PushAttempt], nextLook: Int64) {
        self.callID = callID
        self.holder = holder
        self.attempts = attempts
        self.nextLook = nextLook
    }

    /// The pushes that are noted as `trying`, and have reached no provider.
    var unsent: Set<PushID> { Set(attempts.filter { $0.value.isUnsent }.keys) }

    /// The registrations with a push under way.
    var underWay: Set<PushRegistration.Key> { Set(attempts.filter { $0.value.isUnderWay }.map(\.key.key)) }

    /// Resets the pushes that have not left to the state before their first attempt, because another worker may take
    /// the call.
    func takeBack() {
        for id in unsent {
            note(id, nil)
            attempts[id]?.isNoted = false
        }
    }

    /// Keeps the phase of a push. A phase of an earlier invitation is ignored.
    func note(_ id: PushID, _ phase: PushState.Phase?) {
        var state = PushState(id.key, invitation: id.invitation)
        if let known = states[id.key], known.invitation >= id.invitation {
            guard known.invitation == id.invitation else { return }
            state = known
        }
        state[id.kind] = phase
        note(state)
    }

    /// Keeps the phase of a push that has not left; its token or subscription may differ from that of the preceding
    /// ring.
    func note(_ push: DuePush, _ phase: PushState.Phase?) {
        let known = states[push.id.key]
        let isOfThisTarget = known?.invitation == push.state.invitation && known?.target == push.state.target
        var state = isOfThisTarget ? known ?? push.state : push.state
        state[push.kind] = phase
        note(state)
    }

    func note(_ state: PushState) {
        states[state.key] = state
        notes[state.key] = state
    }

    /// Forgets the states that were written, unless they have changed since.
    func wrote(_ written: [PushState]) {
        for state in written where notes[state.key] == state { notes[state.key] = nil }
    }

    /// Adds the states that are to be written to the reading, as if they had been read.
    func complete(_ reading: inout PushReading) {
        for state in notes.values { reading.learn(state) }
        states = Dictionary(reading.pushes.map { ($0.key, $0) }) { $1 }
    }
}

/// A push that was found due, until the push is sent or given up.
struct PushAttempt {
    /// The end of the push, by the store's clock.
    let expiresAt: Milliseconds
    /// The token or subscription of the push (`PushRegistration.mark`).
    let target: String
    /// Whether the push already counts against its device's limits; further attempts do not count.
    var isReserved = false
    /// Whether the push is noted as `trying`, or about to be.
    var isNoted = false
    /// Whether the sender has the push.
    var isUnderWay = false
    /// Whether the provider may have received the push without saying so.
    var mayHaveArrived = false
    var failures = 0
    /// How often the sender gave the push back, because the push would have left too late.
    var givenBack = 0
    /// The earliest time of the next attempt, by the boot clock.
    var notBefore: Int64 = 0
    var hasNewToken = false
    /// The slot that the attempt occupies in `PushSlots`.
    var slot: PushProvider?

    init(_ push: DuePush) {
        expiresAt = push.expiresAt
        target = push.registration.mark
    }

    var isUnsent: Bool { isNoted && !mayHaveArrived && !isUnderWay }

    /// Returns the delay after so many failures, in milliseconds.
    static func delay(afterFailures failures: Int) -> Int64 {
        let delays: [Int64] = [200, 500, 1_000, 2_000, 4_000, 8_000]
        return failures <= delays.count ? delays[max(0, failures - 1)] : 10_000
    }
}
