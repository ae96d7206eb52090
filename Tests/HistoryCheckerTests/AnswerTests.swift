import HistoryChecker
import SignalingProtocol
import Testing

/// An answer lasts, comes once, and has a single winner.
@Suite struct AnswerTests {
    // MARK: ok is reflected

    @Test func anAcceptThatTheCallDoesNotShowIsNoted() {
        var ringing = Ringing()
        ringing.tale.ask("bob/phone", "accept", ringing.received.accept)
        ringing.tale.ok("bob/phone", "accept", ringing.received)
        #expect(ringing.tale.broken == [.okNotReflected])
    }

    @Test func aLaterViewMustShowItToo() {
        var ringing = Ringing(mode: .advanced)
        ringing.accept(telling: false)
        let later = ringing.accepted.then("bob", .quit, at: 3_000).then("bob", .inviting, at: 3_100)
        ringing.tale.told("bob/web", .invited, later)
        #expect(ringing.tale.broken == [.okNotReflected])
    }

    @Test func whoWasAddedAgainMayRingAgain() {
        var ringing = Ringing(mode: .advanced)
        ringing.accept(telling: false)
        ringing.tale.at(3_050)
        ringing.tale.ask("alice/phone", "add", .add(.init(callID: ringing.invited.callID, invitees: [user("bob")])))
        let later = ringing.accepted.then("bob", .quit, at: 3_000).then("bob", .inviting, at: 3_100)
        ringing.tale.at(3_105)
        ringing.tale.ok("alice/phone", "add", later)
        #expect(ringing.tale.violations.isEmpty)
    }

    /// Bob invites Alice while she invites him: his own call id leads to her call.
    @Test func whoWasAddedUnderAnIDThatLeadsToTheCallMayRingAgain() {
        var ringing = Ringing(mode: .advanced)
        ringing.tale.at(1_000)
        invite(by: "bob/phone", .merge, &ringing)
        ringing.accept(telling: false)
        add(to: "back", &ringing)
        #expect(!ringing.tale.broken.contains(.okNotReflected))
    }

    @Test func anIDThatCannotLeadToTheCallIsAnotherOne() {
        for (device, glare) in [("bob/phone", .ring), ("carol/phone", .merge)] as [(String, GlarePolicy)] {
            var ringing = Ringing(mode: .advanced)
            ringing.tale.online("carol/phone")
            ringing.tale.at(1_000)
            invite(by: device, glare, &ringing)
            ringing.accept(telling: false)
            add(to: "back", &ringing)
            #expect(ringing.tale.broken.contains(.okNotReflected), "\(device) \(glare)")
        }
    }

    private func invite(by device: String, _ glare: GlarePolicy, _ ringing: inout Ringing) {
        let invite = Request.Invite(
            invitees: [user("alice")], callID: CallID("back")!, mode: .advanced, glare: glare)
        ringing.tale.ask(device, "back", .invite(invite))
    }

    /// Bob, who has left, is invited again.
    private func add(to id: String, _ ringing: inout Ringing) {
        ringing.tale.at(3_050)
        ringing.tale.ask("alice/phone", "add", .add(.init(callID: CallID(id)!, invitees: [user("bob")])))
        ringing.tale.at(3_105)
        let later = ringing.accepted.then("bob", .quit, at: 3_000).then("bob", .inviting, at: 3_100)
        ringing.tale.told("bob/web", .invited, later)
    }

    @Test func whoEndedTheCallIsNamed() {
        var ringing = Ringing(mode: .advanced)
        ringing.accept()
        ringing.tale.at(3_000)
        ringing.tale.ask("alice/phone", "end", ringing.received.end)
        ringing.tale.ok("alice/phone", "end", ringing.accepted.ended(by: "bob", at: 3_000))
        #expect(ringing.tale.broken == [.okNotReflected])
    }

    // MARK: No seen change is lost

    @Test func anAnswerIsNotOlderThanWhatWasSeenBeforeTheQuestion() {
        var ringing = Ringing()
        ringing.accept()
        ringing.tale.at(3_000)
        ringing.tale.ask("alice/phone", "get", ringing.received.get)
        ringing.tale.ok("alice/phone", "get", ringing.received)
        #expect(ringing.tale.broken == [.staleView])
    }

    @Test func anAnswerMayBeOlderThanWhatWasSeenMeanwhile() {
        var ringing = Ringing()
        ringing.tale.at(1_990)
        ringing.tale.ask("alice/phone", "get", ringing.received.get)
        ringing.accept()
        ringing.tale.ok("alice/phone", "get", ringing.received)
        ringing.settle()
        #expect(ringing.tale.violations.isEmpty)
    }

    @Test func aWelcomeIsNotOlderEither() {
        var ringing = Ringing()
        ringing.accept()
        ringing.tale.at(3_000)
        ringing.tale.offline("alice/phone")
        ringing.tale.at(3_100)
        ringing.tale.online("alice/phone", calls: [ringing.received])
        #expect(ringing.tale.broken == [.staleView])
    }

    @Test func aCallThatWasSeenIsNotForgotten() {
        var ringing = Ringing()
        ringing.tale.at(1_000)
        ringing.tale.ask("bob/phone", "get", ringing.received.get)
        ringing.tale.refused("bob/phone", "get", .callNotFound)
        #expect(ringing.tale.broken == [.lostCall])
    }

    // MARK: A single answer

    @Test func eachCopyIsAnsweredOnce() {
        var ringing = Ringing()
        ringing.tale.ok("alice/phone", "invite", ringing.invited)
        #expect(ringing.tale.broken == [.answeredTwice])
    }

    @Test func twoCopiesMayHaveTwoAnswers() {
        var ringing = Ringing()
        ringing.tale.ask("alice/phone", "invite", ringing.invited.invite())
        ringing.tale.ok("alice/phone", "invite", ringing.received)
        #expect(ringing.tale.violations.isEmpty)
    }

    @Test func bothAnswersSayTheSame() {
        var ringing = Ringing()
        ringing.tale.ask("alice/phone", "invite", ringing.invited.invite())
        ringing.tale.ok("alice/phone", "invite", ringing.received, offline: [user("bob")])
        #expect(ringing.tale.broken == [.answeredTwice])
    }

    @Test func whatSucceededDoesNotFailWhenItIsSentAgain() {
        var ringing = Ringing()
        ringing.accept()
        ringing.tale.at(8_000)
        ringing.tale.ask("bob/phone", "accept", ringing.received.accept)
        ringing.tale.refused("bob/phone", "accept", .callEnded, state: "accepted")
        #expect(ringing.tale.broken == [.answeredTwice])
    }

    @Test func anAnswerToNobodyIsNoted() {
        var ringing = Ringing()
        ringing.tale.ok("bob/phone", "never-sent", ringing.received)
        #expect(ringing.tale.broken == [.answeredTwice])
    }

    @Test func aRequestIsAnswered() {
        var ringing = Ringing()
        ringing.tale.at(1_000)
        ringing.tale.ask("bob/phone", "get", ringing.received.get)
        ringing.tale.at(5_000)
        ringing.tale.told("alice/phone", .userStateChanged, ringing.received)
        #expect(ringing.tale.broken == [.unanswered])
    }

    @Test(arguments: ["fault", "loss", "disconnect"])
    func silenceIsExcusedByWhatStoodInTheWay(what: String) {
        var ringing = Ringing()
        ringing.tale.at(1_000)
        ringing.tale.ask("bob/phone", "get", ringing.received.get)
        ringing.tale.at(1_500)
        switch what {
        case "fault": ringing.tale.fault("one", .frozen)
        case "loss": ringing.tale.loss("bob/phone")
        default: ringing.tale.offline("bob/phone")
        }
        ringing.tale.at(5_000)
        ringing.tale.told("alice/phone", .userStateChanged, ringing.received)
        #expect(ringing.tale.violations.isEmpty)
    }

    // MARK: A single winner

    @Test func oneOfTwoDevicesWins() {
        var ringing = Ringing()
        ringing.accept(telling: false)
        ringing.tale.ask("bob/web", "too", ringing.received.accept)
        ringing.tale.ok("bob/web", "too", ringing.accepted)
        #expect(ringing.tale.broken.contains(.twoWinners))
    }

    @Test func acceptAndCancelDoNotBothWin() {
        var ringing = Ringing()
        ringing.accept(telling: false)
        ringing.tale.ask("alice/phone", "cancel", ringing.received.cancel)
        ringing.tale.ok("alice/phone", "cancel", ringing.accepted)
        #expect(ringing.tale.broken.contains(.twoWinners))
    }

    @Test func theLoserMayBeToldSo() {
        var ringing = Ringing()
        ringing.accept()
        ringing.tale.ask("bob/web", "too", ringing.received.accept)
        ringing.tale.refused("bob/web", "too", .answeredElsewhere)
        ringing.settle()
        #expect(ringing.tale.violations.isEmpty)
    }

    @Test(arguments: [ErrorCode.answeredElsewhere, .callEnded, .invalidState])
    func whatTheLoserIsToldIsTrue(code: ErrorCode) {
        var ringing = Ringing()
        ringing.tale.at(1_000)
        ringing.tale.ask("bob/web", "accept", ringing.received.accept)
        ringing.tale.refused("bob/web", "accept", code, state: "cancelled")
        ringing.accept()
        ringing.settle()
        #expect(ringing.tale.broken == [.wrongRefusal])
    }

    @Test func aCallThatIsOverKeepsNobodyFromTheNextOne() {
        var ringing = Ringing(mode: .advanced)
        ringing.accept()
        let over = ringing.accepted.ended(by: "alice", at: 3_000)
        ringing.tale.at(3_005)
        ringing.tale.told("alice/phone", .ended, over)
        ringing.tale.told("bob/phone", .ended, over)
        ringing.tale.at(4_000)
        let next = invitation("next", at: 4_001, mode: .advanced)
        ringing.tale.ask("alice/phone", "next", next.invite())
        ringing.tale.refused("alice/phone", "next", .alreadyInCall, callID: over.callID)
        ringing.settle()
        #expect(ringing.tale.broken == [.wrongRefusal])
    }

    @Test func nobodyIsInTwoAdvancedCalls() {
        var tale = Tale()
        tale.online("bob/phone")
        for (id, inviter) in [("one", "alice/phone"), ("two", "carol/phone")] {
            let joined = invitation(id, by: inviter, mode: .advanced).then("bob", .accepted, on: "phone", at: 200)
            tale.told("bob/phone", .userStateChanged, joined)
            var later = joined.then("bob", .accepted, on: "phone", at: 200)
            later.members[0].updatedAt = Tale.beginning + 900
            tale.told("bob/phone", .userStateChanged, later)
        }
        #expect(tale.broken == [.twoActiveCalls])
    }

    @Test func aGlareIsMerged() {
        var tale = Tale()
        let theirs = invitation("theirs", by: "bob/phone", to: ["alice"], at: 100)
        let own = invitation("own", by: "alice/phone", to: ["bob"], at: 1_000)
        tale.online("alice/phone", "bob/phone")
        tale.at(105)
        tale.told("alice/phone", .invited, theirs)
        tale.at(995)
        tale.ask("alice/phone", "invite", own.invite(glare: .merge))
        tale.ok("alice/phone", "invite", own)
        var still = theirs.then("alice", .received, at: 1_500)
        tale.at(1_505)
        tale.told("bob/phone", .userStateChanged, still)
        still = still.then("alice", .rejected, on: "phone", at: 2_000)
        tale.at(2_005)
        tale.told("bob/phone", .userStateChanged, still)
        tale.settled()
        #expect(tale.broken.contains(.glareNotMerged))
    }
}
