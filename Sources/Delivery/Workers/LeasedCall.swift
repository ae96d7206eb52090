import CallCore
import SignalingProtocol

/// A call that the worker has taken from the push queue. A look is the worker's reading of the call's facts and its
/// decision on the call's pushes (`Pusher.look(at:)`).
final class LeasedCall {
    /// The bound of the call's pushes that are under way or waiting at the same time; further pushes follow later.
    static let mostPending = 256

    let callID: CallID
    /// The worker that took the call. All writes that follow from reading this call carry this name, even if the worker
    /// has a new name by now.
    let holder: WorkerID
    /// The users whose devices may be pushed, as last read.
    var users: [UserID] = []
    var pending: [PushID: PendingPush]
    /// The push states to be written with the next look; decisions already count them.
    private(set) var notes: [PushRegistration.Key: PushState] = [:]
    /// The registrations to be ended with the next look.
    var gone: [PushRegistration] = []
    /// The state of each push, as last read or about to be written.
    private var states: [PushRegistration.Key: PushState] = [:]
    /// The time at which the call needs a look even if no event comes, by the store's clock.
    var due: Milliseconds?
    var isLooking = false
    var isSettling = false
    /// Whether the worker got a hint of the call since the present look began.
    var isHinted = false
    /// Whether more pushes were due than may be tried at the same time.
    var hasMore = false
    /// The time of the next look, by the boot clock.
    var nextLook: Int64
    /// The time until which the sender may still hand over pushes of this call, by the boot clock.
    var leavesUntil: Int64 = 0

    init(_ callID: CallID, by holder: WorkerID, pending: [PushID: PendingPush], nextLook: Int64) {
        self.callID = callID
        self.holder = holder
        self.pending = pending
        self.nextLook = nextLook
    }

    /// The pushes that are noted as `trying`, and have reached no provider.
    var unsent: Set<PushID> { Set(pending.filter { $0.value.isUnsent }.keys) }

    /// The registrations with a push under way.
    var underWay: Set<PushRegistration.Key> { Set(pending.filter { $0.value.isUnderWay }.map(\.key.key)) }

    /// Resets the pushes that have not left to the state before their first attempt, because another worker may take
    /// the call.
    func takeBack() {
        for id in unsent {
            note(id, nil)
            pending[id]?.step = .reserved
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
