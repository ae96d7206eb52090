import CallCore
import SignalingProtocol

/// A call that the worker has taken from the queue of pushes.
final class HeldCall {
    /// Pushes that are under way or wait for something, at once; others come after them.
    static let mostAttempts = 256

    let callID: CallID
    /// Who has taken it: as whom all is written that is made of what was read then, whoever the worker is by now.
    let holder: WorkerID
    /// Whose devices may be pushed, as far as the call is known.
    var users: [UserID] = []
    var attempts: [PushID: PushAttempt]
    /// To be written with the next look, and known already.
    private(set) var notes: [PushRegistration.Key: PushState] = [:]
    /// Registrations that are to end with the next look.
    var gone: [PushRegistration] = []
    /// How far the pushes are, as was last read or is to be written.
    private var states: [PushRegistration.Key: PushState] = [:]
    /// When it is to be looked at by itself, by the store's clock.
    var due: Milliseconds?
    var isLooking = false
    var isSettling = false
    /// Something has happened since the present look began.
    var isHinted = false
    /// More was due than can be tried at once.
    var hasMore = false
    /// By the boot clock.
    var nextLook: Int64
    /// Until when the sender may still hand over what it was given because of this call, by the boot clock.
    var leavesUntil: Int64 = 0

    init(_ callID: CallID, by holder: WorkerID, attempts: [PushID: PushAttempt], nextLook: Int64) {
        self.callID = callID
        self.holder = holder
        self.attempts = attempts
        self.nextLook = nextLook
    }

    /// What stands as `trying`, and has reached no provider.
    var unsent: Set<PushID> { Set(attempts.filter { $0.value.isUnsent }.keys) }

    /// The registrations to which something is under way.
    var underWay: Set<PushRegistration.Key> { Set(attempts.filter { $0.value.isUnderWay }.map(\.key.key)) }

    /// What has not left stands as if it had never been tried: somebody else may take the call.
    func takeBack() {
        for id in unsent {
            note(id, nil)
            attempts[id]?.isNoted = false
        }
    }

    /// Keeps how far a push is. Of an earlier invitation it is of no matter any more.
    func note(_ id: PushID, _ phase: PushState.Phase?) {
        var state = PushState(id.key, invitation: id.invitation)
        if let known = states[id.key], known.invitation >= id.invitation {
            guard known.invitation == id.invitation else { return }
            state = known
        }
        state[id.kind] = phase
        note(state)
    }

    /// The same of a push that has not left: its target may be another one than that of the ring before.
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

    /// What was written need not be written again, unless it has changed since.
    func wrote(_ written: [PushState]) {
        for state in written where notes[state.key] == state { notes[state.key] = nil }
    }

    /// What is to be written counts as if it had been read.
    func complete(_ reading: inout PushReading) {
        for state in notes.values { reading.learn(state) }
        states = Dictionary(reading.pushes.map { ($0.key, $0) }) { $1 }
    }
}

/// One push, from when it was found due until it is sent or given up.
struct PushAttempt {
    /// By the store's clock.
    let expiresAt: Milliseconds
    /// Which target it is for (`PushRegistration.mark`).
    let target: String
    /// It counts with its device: further attempts do not.
    var isReserved = false
    /// It stands as `trying`, or is about to.
    var isNoted = false
    /// The sender has it.
    var isUnderWay = false
    /// The provider may have it, though it has not said so.
    var mayHaveArrived = false
    var failures = 0
    /// How often the sender gave it back because it was about to leave too late.
    var givenBack = 0
    /// By the boot clock.
    var notBefore: Int64 = 0
    var hasNewToken = false
    /// What it has taken of `PushSlots`.
    var slot: PushProvider?

    init(_ push: DuePush) {
        expiresAt = push.expiresAt
        target = push.registration.mark
    }

    var isUnsent: Bool { isNoted && !mayHaveArrived && !isUnderWay }

    /// Milliseconds after so many failures.
    static func delay(afterFailures failures: Int) -> Int64 {
        let delays: [Int64] = [200, 500, 1_000, 2_000, 4_000, 8_000]
        return failures <= delays.count ? delays[max(0, failures - 1)] : 10_000
    }
}
