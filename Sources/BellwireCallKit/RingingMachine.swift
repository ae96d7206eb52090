import Foundation

/// The calls that CallKit shows. Pushes, news of the connection and the user's actions come in as events, and the
/// machine answers with actions. The machine has no clock and calls no system.
///
/// iOS ends an app that gets a VoIP push and reports no call, so each push is reported before anything else. A user who
/// was cancelled and is invited again has a call that rings twice: what belongs to the first ringing must not touch the
/// second, so that each ringing has a number.
///
/// A call that the user makes is known by the `callUUID` of its `CXStartCallAction`. After a glare merge the call goes
/// on under that id, and news of the other user's call belong to it.
struct RingingMachine {
    /// The reason for a call's end, in CallKit's terms.
    enum EndReason: Equatable, Sendable {
        case failed, remoteEnded, unanswered, answeredElsewhere, declinedElsewhere

        /// Takes the reason of a ring check.
        init(check reason: String?) {
            switch reason {
            case "answeredElsewhere": self = .answeredElsewhere
            case "rejected": self = .declinedElsewhere
            case "timeout": self = .unanswered
            default: self = .remoteEnded
            }
        }
    }

    enum Event: Equatable, Sendable {
        /// A VoIP push came; the content is nil when the push names no call.
        case pushed(PushContent?, UUID)
        /// A call rings, as the connection says.
        case rings(PushContent, UUID)
        /// CallKit has shown the call, or refused to show it, as with Do Not Disturb.
        case reported(UUID, ring: Int, isShown: Bool)
        /// CallKit has a push without a call.
        case reportedNothing(UUID)
        /// The ring check is over, with its answer; the answer is nil when none came.
        case checked(UUID, ring: Int, RingCheckAnswer?)
        /// The time of the invitation has passed.
        case expired(UUID, ring: Int)
        /// The call is over for this device, at this revision.
        case ended(UUID, revision: Int, EndReason)
        /// This device has accepted the call, and not by CallKit: the app has, or a glare merge.
        case accepted(UUID, revision: Int)
        /// An invitee has answered.
        case active(UUID, revision: Int)
        /// The app makes a call.
        case call(PushContent, UUID)
        /// CallKit does not perform the action that was requested for the call.
        case refused(UUID, ring: Int)
        /// CallKit starts the call that the user makes.
        case start(UUID)
        /// The service has taken the invitation. `as` is the call's id at the service. After a glare merge this id may
        /// differ from the id under which CallKit shows the call, which is the first value.
        case called(UUID, ring: Int, as: UUID, PushContent)
        /// There is no call: the service or this device has refused.
        case callFailed(UUID, ring: Int)
        /// The user answers in CallKit, or CallKit performs the answer that was requested.
        case answer(UUID)
        /// The service has accepted the answer, or not.
        case answered(UUID, ring: Int, isAccepted: Bool)
        /// The user declines or hangs up in CallKit.
        case hangUp(UUID)
        /// CallKit has forgotten all calls.
        case reset
    }

    enum Action: Equatable, Sendable {
        /// Reports a call to CallKit; `reported` follows.
        case report(UUID, ring: Int, PushContent)
        /// Reports a push that shows no other call than before: iOS expects a report of each push.
        case reportAgain(UUID, PushContent)
        /// Reports a push without a call; `reportedNothing` follows.
        case reportNothing(UUID)
        /// Tells CallKit that the call is over.
        case end(UUID, EndReason)
        case connect
        /// Asks whether the call still rings; `checked` follows.
        case check(UUID, ring: Int, URL)
        /// `expired` follows after so many milliseconds.
        case wait(UUID, ring: Int, milliseconds: Int)
        /// Accepts the call; `answered` follows.
        case accept(UUID, ring: Int, PushContent)
        /// Requests that CallKit answers a call which this device has accepted; `answer` or `refused` follows.
        case requestAnswer(UUID, ring: Int)
        /// Ends CallKit's action.
        case fulfillAnswer(UUID)
        case failAnswer(UUID)
        /// Requests that CallKit starts a call; `start` or `refused` follows.
        case requestStart(UUID, ring: Int, PushContent)
        /// Ends CallKit's action.
        case fulfillStart(UUID)
        case failStart(UUID)
        /// Invites the users; `called` or `callFailed` follows.
        case call(UUID, ring: Int)
        /// Tells the app that its call is not made.
        case abandonCall(UUID)
        /// Tells CallKit that the service has taken the invitation.
        case startedConnecting(UUID)
        /// Tells CallKit that an invitee has answered.
        case connected(UUID)
        /// Rejects a call that rings.
        case decline(PushContent)
        /// Leaves or ends a call that was answered or made here.
        case hangUp(PushContent)
    }

    private struct Shown {
        var content: PushContent
        let ring: Int
        var state = State.rings
        /// Whether CallKit has shown this ringing.
        var isReported = false
    }

    private enum State {
        case rings
        /// The user has answered, and the service has not.
        case answering
        /// This device has accepted without CallKit, which is not asked yet to answer.
        case accepted
        /// CallKit was asked to answer.
        case answerRequested
        case answered
        /// The app makes the call, and CallKit was asked to start.
        case startRequested
        /// CallKit has started the call, and the service has not answered.
        case starting
        /// No invitee has answered.
        case calling
    }

    private var shown: [UUID: Shown] = [:]
    /// The calls that a glare merge has joined with calls of this user, with the ids of the latter in CallKit.
    private var merged: [UUID: UUID] = [:]
    private var rings = 0
    /// The ringing time of a call whose push and ring check name no time, in milliseconds.
    static let longestRinging = 60_000

    /// The calls that CallKit shows or is asked to start.
    var calls: Set<UUID> { Set(shown.keys) }

    /// Returns the id under which CallKit shows a call.
    func shownID(_ id: UUID) -> UUID { merged[id] ?? id }

    mutating func handle(_ event: Event) -> [Action] {
        switch event {
        case .pushed(let content?, let id): return pushed(content, shownID(id))
        case .pushed(nil, let id): return [.reportNothing(id)]
        case .reportedNothing(let id): return [.end(id, .failed)]
        case .rings(let content, let id): return rings(content, shownID(id))
        case .reported(let id, let ring, let isShown): return reported(id, ring, isShown)
        case .checked(let id, let ring, let state): return checked(id, ring, state)
        case .expired(let id, let ring): return endRinging(id, ring, .unanswered)
        case .ended(let id, let revision, let reason): return ended(shownID(id), revision, reason)
        case .accepted(let id, let revision): return accepted(shownID(id), revision)
        case .active(let id, let revision): return active(shownID(id), revision)
        case .call(let content, let id): return call(content, id)
        case .refused(let id, let ring): return refused(id, ring)
        case .start(let id): return start(id)
        case .called(let id, let ring, let other, let content): return called(id, ring, other, content)
        case .callFailed(let id, let ring): return callFailed(id, ring)
        case .answer(let id): return answer(id)
        case .answered(let id, let ring, let isAccepted): return answered(id, ring, isAccepted)
        case .hangUp(let id): return hangUp(id)
        case .reset: return reset()
        }
    }

    /// Leaves the calls that run, and forgets all calls, after a reset of CallKit. The open `CXAction`s need no
    /// response then.
    private mutating func reset() -> [Action] {
        defer { (shown, merged) = ([:], [:]) }
        return shown.sorted { $0.value.ring < $1.value.ring }.compactMap { id, known -> Action? in
            switch known.state {
            case .rings: nil
            case .startRequested: .abandonCall(id)
            case .answering, .accepted, .answerRequested, .answered, .starting, .calling: .hangUp(known.content)
            }
        }
    }

    private mutating func begin(_ content: PushContent, _ id: UUID) -> [Action] {
        rings += 1
        shown[id] = Shown(content: content, ring: rings)
        return [.report(id, ring: rings, content)]
    }

    @discardableResult
    private mutating func remove(_ id: UUID) -> Shown? {
        merged = merged.filter { $0.value != id }
        return shown.removeValue(forKey: id)
    }

    /// An invitation of a higher revision than the one that rings is a ringing of its own.
    private mutating func rings(_ content: PushContent, _ id: UUID) -> [Action] {
        if let known = shown[id], known.state != .rings || content.revision <= known.content.revision { return [] }
        return begin(content, id)
    }

    private mutating func pushed(_ content: PushContent, _ id: UUID) -> [Action] {
        guard let known = shown[id] else { return begin(content, id) }
        // The same invitation again, or one that was answered meanwhile.
        let isTwice = content.check != nil && content.check == known.content.check
        guard known.state == .rings, !isTwice, content.revision >= known.content.revision else {
            return [.reportAgain(id, content)]
        }
        return begin(content, id)
    }

    private mutating func reported(_ id: UUID, _ ring: Int, _ isShown: Bool) -> [Action] {
        guard let known = shown[id], known.ring == ring else { return [] }
        guard isShown else {
            // An answer in CallKit shows that CallKit has the call.
            if known.state != .answering, known.state != .answered { remove(id) }
            return []
        }
        shown[id]?.isReported = true
        guard known.state == .rings else { return requestAnswers() }
        guard let check = known.content.check else { return [.connect, waiting(id, known, nil)] }
        return [.connect, .check(id, ring: ring, check)]
    }

    private mutating func checked(_ id: UUID, _ ring: Int, _ state: RingCheckAnswer?) -> [Action] {
        guard let known = shown[id], known.ring == ring, known.state == .rings else { return [] }
        if let state, !state.ringing { return endRinging(id, ring, EndReason(check: state.reason)) }
        // Without an answer the phone rings on.
        return [waiting(id, known, state?.expiresIn)]
    }

    private func waiting(_ id: UUID, _ known: Shown, _ expiresIn: Int?) -> Action {
        let time = expiresIn ?? known.content.expiresIn ?? Self.longestRinging
        return .wait(id, ring: known.ring, milliseconds: max(0, time))
    }

    private mutating func endRinging(_ id: UUID, _ ring: Int, _ reason: EndReason) -> [Action] {
        guard let known = shown[id], known.ring == ring, known.state == .rings else { return [] }
        remove(id)
        return [.end(id, reason)]
    }

    /// Handles the end of a call. An end with a lower revision than the present invitation belongs to an earlier
    /// invitation, and is ignored.
    private mutating func ended(_ id: UUID, _ revision: Int, _ reason: EndReason) -> [Action] {
        guard let known = shown[id], revision >= known.content.revision else { return [] }
        remove(id)
        switch known.state {
        case .answering: return [.failAnswer(id), .end(id, reason)]
        // CallKit ends a call whose start fails.
        case .startRequested: return [.abandonCall(id)]
        case .rings, .accepted, .answerRequested, .answered, .starting, .calling:
            return [.end(id, reason)] + requestAnswers()
        }
    }

    // MARK: Answers

    private mutating func answer(_ id: UUID) -> [Action] {
        guard let known = shown[id] else { return [.failAnswer(id)] }
        switch known.state {
        case .rings:
            shown[id]?.state = .answering
            return [.connect, .accept(id, ring: known.ring, known.content)]
        case .accepted, .answerRequested, .answered:
            // The call runs, and a failed action would end it in CallKit.
            shown[id]?.state = .answered
            return [.fulfillAnswer(id)]
        case .answering, .startRequested, .starting, .calling: return [.failAnswer(id)]
        }
    }

    private mutating func answered(_ id: UUID, _ ring: Int, _ isAccepted: Bool) -> [Action] {
        guard let known = shown[id], known.ring == ring, known.state == .answering else { return [] }
        if isAccepted {
            shown[id]?.state = .answered
            return [.fulfillAnswer(id)]
        }
        // After a refusal CallKit must not show the call as answered.
        remove(id)
        return [.failAnswer(id), .end(id, .failed)]
    }

    /// An acceptance from before the invitation that rings now belongs to an earlier invitation.
    private mutating func accepted(_ id: UUID, _ revision: Int) -> [Action] {
        guard let known = shown[id], known.state == .rings, revision >= known.content.revision else { return [] }
        shown[id]?.state = .accepted
        return requestAnswers()
    }

    /// Requests the answers of calls that CallKit shows as ringing and that this device has accepted. While the service
    /// has not answered an invitation of this user, such a call may be the same as the call that the user makes.
    private mutating func requestAnswers() -> [Action] {
        guard !shown.values.contains(where: { $0.state == .starting }) else { return [] }
        let open = shown.filter { $0.value.state == .accepted && $0.value.isReported }
        for id in open.keys { shown[id]?.state = .answerRequested }
        return open.sorted { $0.value.ring < $1.value.ring }.map { .requestAnswer($0, ring: $1.ring) }
    }

    private mutating func refused(_ id: UUID, _ ring: Int) -> [Action] {
        guard let known = shown[id], known.ring == ring else { return [] }
        switch known.state {
        case .startRequested:
            remove(id)
            return [.abandonCall(id)]
        case .answerRequested:
            // The call goes on without CallKit, which must not ring over it.
            remove(id)
            return [.end(id, .answeredElsewhere)]
        case .rings, .answering, .accepted, .answered, .starting, .calling: return []
        }
    }

    private mutating func hangUp(_ id: UUID) -> [Action] {
        guard let known = remove(id) else { return [] }
        switch known.state {
        case .rings: return [.connect, .decline(known.content)]
        case .answering: return [.failAnswer(id), .hangUp(known.content)]
        case .startRequested: return [.abandonCall(id)]
        case .accepted, .answerRequested, .answered, .starting, .calling:
            return [.hangUp(known.content)] + requestAnswers()
        }
    }

    // MARK: Calls that the user makes

    private mutating func call(_ content: PushContent, _ id: UUID) -> [Action] {
        guard shown[id] == nil else { return [.abandonCall(id)] }
        rings += 1
        shown[id] = Shown(content: content, ring: rings, state: .startRequested)
        return [.requestStart(id, ring: rings, content)]
    }

    private mutating func start(_ id: UUID) -> [Action] {
        guard let known = shown[id], known.state == .startRequested else { return [.failStart(id)] }
        shown[id]?.state = .starting
        return [.fulfillStart(id), .connect, .call(id, ring: known.ring)]
    }

    private mutating func called(_ id: UUID, _ ring: Int, _ other: UUID, _ content: PushContent) -> [Action] {
        // Otherwise the user has hung up meanwhile.
        guard let known = shown[id], known.ring == ring else { return [] }
        var actions: [Action] = []
        if other != id {
            // CallKit shows the user's own call, and no longer the invitation with which it was merged.
            if let invitation = remove(other) {
                if invitation.state == .answering { actions.append(.failAnswer(other)) }
                actions.append(.end(other, .answeredElsewhere))
            }
            merged[other] = id
        }
        shown[id]?.content = content
        if known.state == .starting {
            shown[id]?.state = .calling
            actions.append(.startedConnecting(id))
        }
        return actions + requestAnswers()
    }

    private mutating func callFailed(_ id: UUID, _ ring: Int) -> [Action] {
        guard let known = shown[id], known.ring == ring, known.state == .starting else { return [] }
        remove(id)
        return [.end(id, .failed)] + requestAnswers()
    }

    /// The news that an invitee has answered may come before the response to the invitation.
    private mutating func active(_ id: UUID, _ revision: Int) -> [Action] {
        guard let known = shown[id], revision >= known.content.revision else { return [] }
        switch known.state {
        case .calling:
            shown[id]?.state = .answered
            return [.connected(id)]
        case .starting:
            shown[id]?.state = .answered
            return [.startedConnecting(id), .connected(id)] + requestAnswers()
        case .rings, .answering, .accepted, .answerRequested, .answered, .startRequested: return []
        }
    }
}
