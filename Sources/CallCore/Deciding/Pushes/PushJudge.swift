import SignalingProtocol

/// Decides the pushes of a call, with their devices and times (docs/protocol.md, section 7), from the call and the
/// facts about its members' devices. A first attempt, a further attempt, a take-over and a new registration all use the
/// same function.
package struct PushJudge: Sendable {
    /// The served platforms, and the time that an online device has for its ack.
    package let policy: PushPolicy
    /// The time, in milliseconds, that a silent device counts as online.
    package let lease: Milliseconds

    package init(policy: PushPolicy, lease: Milliseconds) {
        self.policy = policy
        self.lease = lease
    }

    /// Returns the judgement about a call. Only calls in the push queue are judged (`Commit.pushes`, which
    /// `Writing.swift` sets). A ring needs a member who was to ring (`invitedRevision` above 0), and a registration
    /// of a device of the member. Then there are six reasons for which no ring is due:
    /// * The member's invitation is withheld, or the member no longer rings (`Ringing`).
    /// * The settings do not serve the registration's app or platform (`isServed`).
    /// * The device has a served registration for VoIP, and the registration in question is not for VoIP
    ///   (`Subject.ringing`).
    /// * The device has acknowledged or checked the invitation (`Subject.hasInvitation`).
    /// * The device is online, and the invitation is younger than `PushPolicy.after` (1 s by default).
    /// * A ring for this invitation was sent, given up or refused by a limit (`add`).
    ///
    /// `unsent` holds the pushes that stand as `trying` and are known to have reached no provider.
    package func judge(
        _ reading: PushReading, now: Milliseconds, unsent: Set<PushID> = []
    ) -> PushJudgement {
        var judgement = PushJudgement()
        let known = Known(reading, unsent: unsent)
        for member in reading.call.members where member.invitedRevision > 0 && !member.isWithheld {
            let registrations = (reading.registrations[member.userID] ?? []).filter(isServed)
            for (device, own) in Dictionary(grouping: registrations, by: \.device).sorted(by: { $0.key < $1.key }) {
                let subject = Subject(
                    known, member, device, own, isOnline: isOnline(device, reading.presence, now))
                judge(subject, now, &judgement)
                giveUpRings(subject, wasSeen: wasSeen(subject, reading.presence), unsent, now, &judgement)
            }
        }
        takeBack(known, unsent, now, &judgement)
        return judgement
    }

    private func isServed(_ registration: PushRegistration) -> Bool {
        policy.apps[registration.key.app]?.contains(registration.key.platform) ?? false
    }

    private func isOnline(_ device: DeviceAddress, _ presence: Presence, _ now: Milliseconds) -> Bool {
        (presence[device.userID] ?? []).contains { $0.device == device && $0.isReachable(at: now, lease: lease) }
    }

    /// Whether the device has given a sign of life since the invitation: the device may have been online for a part of
    /// the ringing.
    private func wasSeen(_ subject: Subject, _ presence: Presence) -> Bool {
        let invitedAt = subject.call.invitedAt(subject.member) ?? 0
        return (presence[subject.member.userID] ?? []).contains {
            $0.device == subject.device && ($0.isOnline || $0.seen >= invitedAt)
        }
    }

    private func judge(_ subject: Subject, _ now: Milliseconds, _ judgement: inout PushJudgement) {
        switch Ringing(of: subject.member, in: subject.call, now) {
        case .on(let expiresAt): ring(subject, expiresAt, now, &judgement)
        case .answered(let device) where device == subject.device.deviceID: noStop(subject, &judgement)
        case .answered, .stopped: stop(subject, now, &judgement)
        case .missed(let since): missed(subject, since, now, &judgement)
        case .expired: break
        }
    }

    private func ring(
        _ subject: Subject, _ expiresAt: Milliseconds, _ now: Milliseconds, _ judgement: inout PushJudgement
    ) {
        guard !subject.hasInvitation else { return }
        let invitedAt = subject.call.invitedAt(subject.member) ?? now
        let due = subject.isOnline ? invitedAt + policy.after : now
        for registration in subject.ringing {
            add(.ring, registration, subject, from: due, until: expiresAt, now, &judgement)
        }
    }

    private func stop(_ subject: Subject, _ now: Milliseconds, _ judgement: inout PushJudgement) {
        guard subject.wasRung, let expiresAt = subject.member.expiresAt else { return }
        for registration in subject.registrations where registration.key.platform.takesStop {
            add(.stop, registration, subject, from: now, until: expiresAt, now, &judgement)
        }
    }

    /// Records that the device needs no `stop`, because the device itself has ended its ringing, even when another
    /// device joins later.
    private func noStop(_ subject: Subject, _ judgement: inout PushJudgement) {
        guard subject.wasRung else { return }
        for registration in subject.registrations where registration.key.platform.takesStop {
            var state = subject.state(of: registration)
            guard state.stop == nil else { continue }
            state.stop = .over
            judgement.settled.append(state)
        }
    }

    private func missed(
        _ subject: Subject, _ since: Milliseconds, _ now: Milliseconds, _ judgement: inout PushJudgement
    ) {
        guard !subject.hasEnd, subject.wasRung || !subject.isOnline else { return }
        let due = subject.isOnline ? since + policy.after : now
        for registration in subject.registrations where registration.key.platform != .apnsVoIP {
            // A device that registers after the end has not missed the call.
            guard registration.since <= since || subject.state(of: registration).missed != nil else { continue }
            add(.missed, registration, subject, from: due, until: since + PushLimits.missedLife, now, &judgement)
        }
    }

    /// Reports due rings that were not sent before the ringing ended as late, because the timeline has no other
    /// explanation for a phone that did not ring. A device that has acked or has answered itself knew of the call.
    private func giveUpRings(
        _ subject: Subject, wasSeen: Bool, _ unsent: Set<PushID>, _ now: Milliseconds,
        _ judgement: inout PushJudgement
    ) {
        let ringing = Ringing(of: subject.member, in: subject.call, now)
        guard let end = ringing.end(of: subject.member, in: subject.call), !subject.hasInvitation,
            !ringing.isAnswered(by: subject.device.deviceID)
        else { return }
        let invitedAt = subject.call.invitedAt(subject.member) ?? end
        // An online device gets some time for its ack first. After an answer nobody can say whether that time was over,
        // since the record keeps only the last answering device.
        let wasDue = wasSeen ? !ringing.isAnswered && invitedAt + policy.after < end : invitedAt < end
        for registration in subject.ringing {
            var state = subject.state(of: registration)
            let isHeldUp =
                state.ring == .trying && unsent.contains(PushID(state.key, .ring, invitation: state.invitation))
            guard isHeldUp || state.ring == nil && wasDue && registration.since <= invitedAt else { continue }
            state.ring = .over
            judgement.settled.append(state)
            judgement.late.append(PushID(state.key, .ring, invitation: state.invitation))
        }
    }

    private func add(
        _ kind: PushKind, _ registration: PushRegistration, _ subject: Subject, from due: Milliseconds,
        until expiresAt: Milliseconds, _ now: Milliseconds, _ judgement: inout PushJudgement
    ) {
        let state = subject.state(of: registration)
        guard state[kind] == nil || state[kind] == .trying, now < expiresAt else { return }
        guard due <= now else {
            judgement.next = min(judgement.next ?? .max, due)
            judgement.postponed.insert(PushID(registration.key, kind, invitation: state.invitation))
            return
        }
        judgement.due.append(
            DuePush(
                registration: registration, kind: kind, inviter: subject.member.invitedBy ?? subject.call.inviter,
                expiresAt: expiresAt, state: state, wasRung: subject.wasRung))
    }

    /// Takes pushes back that stand as `trying`, were not sent and are not due: another worker would take such a push
    /// for sent.
    private func takeBack(
        _ known: Known, _ unsent: Set<PushID>, _ now: Milliseconds, _ judgement: inout PushJudgement
    ) {
        guard !unsent.isEmpty else { return }
        let due = Set(judgement.due.map(\.id))
        for state in known.pushes.values.joined().sorted(by: { $0.key < $1.key }) {
            let kinds = PushKind.allCases.filter { kind in
                let id = PushID(state.key, kind, invitation: state.invitation)
                return state[kind] == .trying && unsent.contains(id) && !due.contains(id)
            }
            guard !kinds.isEmpty else { continue }
            let place = judgement.settled.firstIndex { $0.key == state.key }
            var changed = place.map { judgement.settled[$0] } ?? state
            for kind in kinds {
                // A push to a device that came online meanwhile will be due again unless the device acks.
                let isPostponed = judgement.postponed.contains(PushID(state.key, kind, invitation: state.invitation))
                let mayBeDue = isPostponed || kind == .ring && isStillRinging(state, known, now)
                changed[kind] = mayBeDue ? nil : .over
            }
            if let place { judgement.settled[place] = changed } else { judgement.settled.append(changed) }
        }
    }

    private func isStillRinging(_ state: PushState, _ known: Known, _ now: Milliseconds) -> Bool {
        guard let member = known.call.member(state.key.device.userID), member.invitedRevision == state.invitation,
            case .on = Ringing(of: member, in: known.call, now)
        else { return false }
        return !Subject(known, member, state.key.device, [], isOnline: false).hasInvitation
    }
}

extension PushPlatform {
    /// Whether the platform may get a `stop`. Apple ends apps that get a push for calls and show no call, and shows
    /// other pushes to the user as they are.
    fileprivate var takesStop: Bool { self == .fcm || self == .webPush }
}

/// The state of a member's ringing.
private enum Ringing {
    case on(until: Milliseconds)
    /// The invitation has expired, and no coordinator has served the deadline yet.
    case expired
    case answered(by: DeviceID?)
    /// The ringing ended, with `missed` (section 5).
    case missed(since: Milliseconds)
    /// The ringing ended in another way, without an answer.
    case stopped

    init(of member: Member, in call: Call, _ now: Milliseconds) {
        switch member.state {
        case .inviting, .notYetReceived, .received:
            if !call.isLive {
                self = Self.unanswered(member, since: call.endedAt ?? call.updatedAt)
            } else if let expiresAt = member.expiresAt, now < expiresAt {
                self = .on(until: expiresAt)
            } else {
                self = .expired
            }
        case .accepted, .rejected, .quit: self = .answered(by: member.device)
        case .cancelled, .timeout: self = Self.unanswered(member, since: member.updatedAt)
        }
    }

    /// Returns the state after ringing without an answer. A member who has taken part before knows of the call, so that
    /// only the end of the ringing matters.
    private static func unanswered(_ member: Member, since end: Milliseconds) -> Ringing {
        member.hasResponded ? .stopped : .missed(since: end)
    }

    /// Returns the end of the ringing; after an answer, possibly a later time; nil while the member rings.
    func end(of member: Member, in call: Call) -> Milliseconds? {
        switch self {
        case .on: nil
        case .expired: member.expiresAt
        case .missed(let since): since
        case .answered: member.updatedAt
        // When the call was ended, the pending members did not change.
        case .stopped: member.state.isPending ? call.endedAt : member.updatedAt
        }
    }

    var isAnswered: Bool {
        if case .answered = self { true } else { false }
    }

    func isAnswered(by device: DeviceID) -> Bool {
        if case .answered(by: device) = self { true } else { false }
    }
}

/// The facts by device: a call may have many members, and each may have many devices.
private struct Known {
    let call: Call
    /// The last revision that each device has acknowledged, in any session.
    let acked: [DeviceAddress: Int]
    let checks: [DeviceAddress: [RingCheck]]
    let pushes: [DeviceAddress: [PushState]]
    let unsent: Set<PushID>

    init(_ reading: PushReading, unsent: Set<PushID>) {
        call = reading.call
        acked = Dictionary(reading.acks.map { ($0.device, $0.revision) }, uniquingKeysWith: max)
        checks = Dictionary(grouping: reading.checks, by: \.device)
        pushes = Dictionary(grouping: reading.pushes, by: \.key.device)
        self.unsent = unsent
    }
}

/// A device of a member, with the facts about the device.
private struct Subject {
    let call: Call
    let member: Member
    let device: DeviceAddress
    let registrations: [PushRegistration]
    let isOnline: Bool
    /// Whether the device has acknowledged the invitation or a later revision.
    let hasInvitation: Bool
    /// Whether the device has acknowledged the end of the ringing.
    let hasEnd: Bool
    /// Whether a ring was or may have been sent to the device.
    let wasRung: Bool
    private let states: [PushState]
    private let unsent: Set<PushID>

    init(
        _ known: Known, _ member: Member, _ device: DeviceAddress, _ registrations: [PushRegistration], isOnline: Bool
    ) {
        let invitation = member.invitedRevision
        let acked = known.acked[device] ?? 0
        call = known.call
        self.member = member
        self.device = device
        self.registrations = registrations
        self.isOnline = isOnline
        hasInvitation = acked >= invitation || known.checks[device]?.contains { $0.invitation == invitation } ?? false
        hasEnd = acked >= call.lastRevision(of: member)
        states = (known.pushes[device] ?? []).filter { $0.invitation == invitation }
        wasRung = states.contains { state in
            let id = PushID(state.key, .ring, invitation: invitation)
            return state.wasRungElsewhere || state.ring == .sent
                || state.ring == .trying && !known.unsent.contains(id)
        }
        unsent = known.unsent
    }

    /// The registrations that ring. Each VoIP push must show a call, so the device would ring twice if other
    /// registrations rang too.
    var ringing: [PushRegistration] {
        let hasVoIP = registrations.contains { $0.key.platform == .apnsVoIP }
        return registrations.filter { !hasVoIP || $0.key.platform == .apnsVoIP }
    }

    func state(of registration: PushRegistration) -> PushState {
        let ring = PushID(registration.key, .ring, invitation: member.invitedRevision)
        let state =
            states.first { $0.key == registration.key }
            ?? PushState(registration.key, invitation: member.invitedRevision)
        return state.of(registration, isUnsent: unsent.contains(ring))
    }
}
