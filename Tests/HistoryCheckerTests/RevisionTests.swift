import HistoryChecker
import SignalingProtocol
import Testing

/// A single order of revisions per call, the same for all devices; legal moves; final states.
@Suite struct RevisionTests {
    @Test func anAnsweredCallBreaksNothing() {
        var ringing = Ringing()
        ringing.accept()
        ringing.settle()
        #expect(ringing.tale.violations.isEmpty)
    }

    @Test func oneRevisionHasOneFace() {
        var ringing = Ringing()
        ringing.accept()
        ringing.tale.told("bob/web", .handledElsewhere, ringing.received.then("bob", .rejected, on: "phone", at: 2_000))
        #expect(ringing.tale.broken.contains(.twoFaces))
    }

    @Test func whatIsFixedStaysFixed() {
        var ringing = Ringing()
        var changed = ringing.accepted
        changed.createdAt += 1
        ringing.tale.at(2_010)
        ringing.tale.told("alice/phone", .userStateChanged, changed)
        #expect(ringing.tale.broken == [.disorder])
    }

    @Test func membersDoNotVanish() {
        var tale = Tale()
        let call = invitation(to: ["bob", "carol"])
        tale.online("alice/phone")
        tale.told("alice/phone", .created, call)
        var without = call.then("bob", .received, at: 200)
        without.members.removeLast()
        tale.told("alice/phone", .userStateChanged, without)
        #expect(tale.broken == [.disorder])
    }

    @Test func timeRunsWithTheRevisions() {
        var ringing = Ringing()
        ringing.tale.told(
            "alice/phone", .userStateChanged, ringing.received.then("bob", .accepted, on: "phone", at: 105))
        #expect(ringing.tale.broken == [.disorder])
    }

    /// A welcome does not say when the revision was made, and a member that moves to another device is no younger.
    @Test func aRevisionThatAWelcomeShowsFirstHasNoTimeOfItsOwn() {
        var tale = Tale()
        var call = invitation(to: ["bob"], mode: .advanced).then("bob", .accepted, on: "phone", at: 200)
        tale.online("alice/phone")
        call.revision += 1
        call.members[1].device = DeviceID("tablet")!
        tale.told("alice/phone", .userStateChanged, call, time: 9_000)
        call.revision += 1
        call.members[1].device = DeviceID("web")!
        tale.at(9_500)
        tale.online("alice/web", calls: [call])
        #expect(!tale.broken.contains(.disorder))
    }

    @Test(arguments: [MemberState.cancelled, .timeout, .rejected])
    func anAnswerStays(state: MemberState) {
        var tale = Tale()
        let call = invitation(to: ["bob", "carol"])
        let accepted = call.then("bob", .accepted, on: "phone", at: 200)
        tale.online("alice/phone")
        tale.told("alice/phone", .userStateChanged, accepted)
        tale.told("alice/phone", .userStateChanged, accepted.then("bob", state, at: 11_000))
        #expect(tale.broken.contains(.illegalTransition))
    }

    @Test func aMoveNeedsItsRevisions() {
        var tale = Tale()
        let call = invitation(mode: .advanced)
        let joined = call.then("bob", .accepted, on: "phone", at: 200)
        tale.online("alice/phone")
        tale.told("alice/phone", .userStateChanged, joined)
        tale.told("alice/phone", .userStateChanged, joined.then("bob", .inviting, at: 300))
        #expect(tale.broken == [.illegalTransition])
    }

    @Test func movesThatNobodySawAreAllowed() {
        var tale = Tale()
        let call = invitation(mode: .advanced)
        var later = call.then("bob", .rejected, on: "phone", at: 200).then("bob", .accepted, on: "web", at: 300)
        later.revision += 1
        tale.online("alice/phone")
        tale.told("alice/phone", .userStateChanged, call)
        tale.told("alice/phone", .userStateChanged, later)
        #expect(tale.violations.isEmpty)
    }

    @Test func nobodyEntersACommonCall() {
        var tale = Tale()
        var larger = invitation(to: ["bob", "carol"]).then("bob", .received, at: 200)
        larger.revision = 2
        tale.online("alice/phone")
        tale.told("alice/phone", .userStateChanged, invitation())
        tale.told("alice/phone", .userStateChanged, larger)
        #expect(tale.broken == [.illegalTransition])
    }

    @Test func anEndedCallDoesNotChange() {
        var ringing = Ringing()
        ringing.accept()
        var again = ringing.accepted
        again.revision += 1
        ringing.tale.told("alice/phone", .userStateChanged, again)
        #expect(ringing.tale.broken == [.finalStateChanged])
    }

    @Test func aCommonCallIsOverWhenNobodyIsPending() {
        var ringing = Ringing()
        var live = ringing.accepted
        live.state = .active
        live.endedAt = nil
        live.endReason = nil
        ringing.tale.at(2_005)
        ringing.tale.told("alice/phone", .userStateChanged, live)
        #expect(ringing.tale.broken == [.inconsistentCall])
    }

    @Test func anAdvancedCallDoesNotEndWhileSomebodyIsPending() {
        var tale = Tale()
        tale.online("alice/phone")
        tale.told("alice/phone", .ended, invitation(mode: .advanced).over(.quit, at: 300))
        #expect(tale.broken == [.inconsistentCall])
    }

    @Test func anEventFitsItsReceiver() {
        var ringing = Ringing()
        ringing.tale.told("alice/phone", .cancelled, ringing.received)
        #expect(ringing.tale.broken == [.wrongEvent])
    }

    @Test func anEventGoesToMembersOnly() {
        var ringing = Ringing()
        ringing.tale.online("mallory/phone")
        ringing.tale.told("mallory/phone", .userStateChanged, ringing.received)
        #expect(ringing.tale.broken == [.wrongEvent])
    }
}
