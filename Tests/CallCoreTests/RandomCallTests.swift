import CallCore
import SignalingProtocol
import Testing

/// The rules that every call keeps, whatever happens to the call.
@Suite struct RandomCallTests {
    /// The calls are played once, and every test judges them.
    static let moments: [Moment] = (1...3000).flatMap(RandomCall.play)

    @Test func theRandomCallsMeetEverythingThatCanHappen() {
        let moments = Self.moments
        let states = Set(moments.flatMap { $0.call.members.map(\.state) })
        #expect(states == Set(MemberState.allCases))
        #expect(Set(moments.map(\.call.state)) == Set(BellwireCallState.allCases))
        #expect(Set(moments.compactMap(\.call.endReason)) == Set(EndReason.allCases))
        let refusals = Set(
            moments.compactMap { moment -> ErrorCode? in
                if case .request(_, _, _, let refusal) = moment.step { refusal?.code } else { nil }
            })
        #expect(
            refusals == [
                .callNotFound, .notInviter, .wrongMode, .invalidState, .answeredElsewhere, .callEnded, .alreadyInCall,
                .callFull, .noInvitees,
            ])
    }

    @Test func theRevisionGrowsByOneExactlyWhenSomethingCanBeSeen() {
        for moment in Self.moments {
            var now = moment.call.snapshot
            let grown = now.revision - moment.before.revision
            now.revision = moment.before.revision
            moment.expect((grown == 0) == (now == moment.before.snapshot))
            // Several deadlines may have come together, each with its own revision.
            if case .deadline = moment.step {
                moment.expect((0...5).contains(grown))
            } else {
                moment.expect((0...1).contains(grown))
            }
            moment.expect(moment.call.updatedAt == (grown > 0 ? moment.now : moment.before.updatedAt))
        }
    }

    @Test func aRefusedRequestChangesNothing() {
        for moment in Self.moments {
            if case .request(_, _, _, .some) = moment.step { moment.expect(moment.call == moment.before) }
        }
    }

    @Test func aRequestNamesItsUserAsActorAndATimerNobody() {
        for moment in Self.moments where moment.call.revision > moment.before.revision {
            switch moment.step {
            case .request(_, let user, _, _): moment.expect(moment.call.actor == user)
            case .deadline: moment.expect(moment.call.actor == nil)
            case .ack, .lost, .back, .logout: break
            }
        }
    }

    @Test func statesOnlyMoveAsTheProtocolSays() {
        let order: [BellwireCallState] = [.ringing, .active, .ended]
        for moment in Self.moments {
            let (before, call) = (moment.before, moment.call)
            moment.expect(order.firstIndex(of: call.state)! >= order.firstIndex(of: before.state)!)
            moment.expect(
                Array(call.members.map(\.userID).prefix(before.members.count)) == before.members.map(\.userID))
            for (old, new) in zip(before.members, call.members) where old.state != new.state {
                moment.expect(Self.successors(of: old.state, in: call.mode).contains(new.state))
            }
        }
    }

    private static func successors(of state: MemberState, in mode: CallMode) -> Set<MemberState> {
        switch state {
        case .inviting: [.notYetReceived, .received, .accepted, .rejected, .cancelled, .timeout]
        case .notYetReceived: [.received, .accepted, .rejected, .cancelled, .timeout]
        case .received: [.accepted, .rejected, .cancelled, .timeout]
        case .accepted: mode == .advanced ? [.quit] : []
        case .rejected, .cancelled, .timeout, .quit: mode == .advanced ? [.inviting, .accepted] : []
        }
    }

    @Test func anEndedCallNeverChanges() {
        for moment in Self.moments where !moment.before.isLive {
            moment.expect(moment.call.snapshot == moment.before.snapshot)
        }
    }

    @Test func aCallIsLiveExactlyWhileItsModesRuleSaysSo() {
        for moment in Self.moments {
            let call = moment.call
            let pending = call.members.count { $0.state.isPending }
            let accepted = call.members.count { $0.state == .accepted }
            moment.expect((call.endReason == nil) == call.isLive && (call.endedAt == nil) == call.isLive)
            moment.expect((call.endedBy != nil) == (call.endReason == .hangup))
            // `call.end` ends any call; so does the fast cancel, before anything else happens.
            if call.endReason == .hangup || call.revision == 1 { continue }
            switch call.mode {
            case .common: moment.expect(call.isLive == (pending > 0))
            case .advanced where call.autoEnd:
                moment.expect(call.isLive == (accepted > 0 && accepted + pending >= 2))
            case .advanced: moment.expect(call.isLive || accepted + pending == 0)
            }
        }
    }

    @Test func noDeadlineLiesInThePastOnceItWasServed() {
        for moment in Self.moments {
            guard case .deadline = moment.step else { continue }
            var machine = moment.machine
            machine.delivered(at: moment.now, next: nil)
            if let next = machine.nextDeadline { moment.expect(next > moment.now) }
        }
    }

    @Test func everyLiveCallHasADeadline() {
        for moment in Self.moments where moment.call.isLive {
            var machine = moment.machine
            machine.delivered(at: moment.now, next: nil)
            moment.expect(machine.nextDeadline != nil, "nothing would ever end it")
        }
    }

    @Test func membersAreWellFormed() {
        for moment in Self.moments {
            let call = moment.call
            moment.expect(call.members.count { $0.state.isLive } <= moment.machine.settings.maxMembers)
            for member in call.members {
                moment.expect((1...call.revision).contains(member.changedRevision))
                moment.expect(member.invitedRevision <= member.changedRevision)
                if member.state.isPending {
                    moment.expect(member.invitedBy != nil && member.expiresAt != nil && member.device == nil)
                }
                if member.state == .accepted { moment.expect(member.device != nil) }
                if member.state == .rejected { moment.expect(member.reason != nil) }
            }
        }
    }

    @Test func whatADeviceIsOwedFollowsFromTheCall() {
        for moment in Self.moments where moment.call.revision > moment.before.revision {
            let revision = moment.call.revision
            for user in RandomCall.users {
                for device in [phone, web] {
                    moment.expect(moment.event(user, on: device, acked: revision) == nil, "it is up to date")
                    for acked in [0, revision / 2, revision - 1] {
                        guard let event = moment.event(user, on: device, acked: acked) else { continue }
                        check(event, user, acked, moment)
                    }
                }
            }
        }
    }

    private func check(_ event: Event, _ user: UserID, _ acked: Int, _ moment: Moment) {
        let call = moment.call
        let member = call.member(user)!
        moment.expect(event.revision == call.revision)
        switch event.name {
        case .invited: moment.expect(call.isLive && member.state.isPending && acked < member.invitedRevision)
        case .userStateChanged: moment.expect(!event.changes.isEmpty)
        case .ended: moment.expect(!call.isLive && call.mode == .advanced && member.state.isLive)
        case .cancelled: moment.expect(member.state == .cancelled)
        case .timeout: moment.expect(member.state == .timeout)
        case .created: moment.expect(user == call.inviter)
        case .handledElsewhere: moment.expect(member.hasResponded && member.device != nil)
        }
    }
}
