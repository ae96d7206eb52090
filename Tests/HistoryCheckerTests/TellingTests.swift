import HistoryChecker
import SignalingProtocol
import Testing

/// Every device knows in the end, and no phone rings on.
@Suite struct TellingTests {
    // MARK: Devices that were not told

    @Test func theCallerIsTold() {
        var ringing = Ringing()
        ringing.accept(telling: false)
        ringing.tale.told("bob/web", .handledElsewhere, ringing.accepted)
        ringing.settle()
        #expect(ringing.tale.violations.map(\.kind) == [.notTold])
        #expect(ringing.tale.violations.map(\.device) == [address("alice/phone")])
    }

    @Test func theOtherDeviceIsTold() {
        var ringing = Ringing()
        ringing.accept(telling: false)
        ringing.tale.told("alice/phone", .userStateChanged, ringing.accepted)
        ringing.settle()
        #expect(ringing.tale.violations.filter { $0.kind == .notTold }.map(\.device) == [address("bob/web")])
    }

    @Test(arguments: [MemberState.cancelled, .timeout]) func theInviteeIsTold(state: MemberState) {
        var ringing = Ringing()
        let over = ringing.received.then("bob", state, at: 10_100)
        ringing.tale.at(10_105)
        ringing.tale.told("alice/phone", .userStateChanged, over)
        ringing.tale.told("bob/phone", state == .timeout ? .timeout : .cancelled, over)
        ringing.settle()
        #expect(ringing.tale.violations.filter { $0.kind == .notTold }.map(\.device) == [address("bob/web")])
    }

    @Test func theEndOfAnAdvancedCallIsTold() {
        var ringing = Ringing(mode: .advanced)
        ringing.accept()
        let over = ringing.accepted.ended(by: "alice", at: 5_000)
        ringing.tale.at(4_995)
        ringing.tale.ask("alice/phone", "end", over.end)
        ringing.tale.ok("alice/phone", "end", over)
        ringing.settle()
        // Bob's web knows that the phone took the call, and is owed no further event.
        #expect(ringing.tale.violations.map(\.device) == [address("bob/phone")])
        #expect(ringing.tale.broken == [.notTold])
    }

    @Test func whoComesBackIsToldAnew() {
        var ringing = Ringing(mode: .advanced)
        ringing.accept()
        ringing.tale.at(3_000)
        ringing.tale.offline("alice/phone")
        ringing.tale.at(3_100)
        ringing.tale.online("alice/phone", calls: [ringing.accepted])
        ringing.settle()
        #expect(ringing.tale.violations.map(\.device) == [address("alice/phone")])
    }

    /// The will of the connection before names the same session, and may be served last: the device is not online then.
    @Test(arguments: [3_100, 6_000] as [Int64]) func whoKeepsItsSessionMayHaveLostItAtOnce(back: Int64) {
        var ringing = Ringing(mode: .advanced)
        ringing.accept()
        ringing.tale.at(2_000)
        ringing.tale.online("alice/phone", calls: [ringing.accepted], keptSession: "kept")
        ringing.tale.at(3_000)
        ringing.tale.offline("alice/phone")
        ringing.tale.at(back)
        ringing.tale.online("alice/phone", calls: [ringing.accepted], keptSession: "kept")
        ringing.settle()
        #expect(ringing.tale.violations.map(\.device) == (back < 5_000 ? [] : [address("alice/phone")]))
    }

    @Test func whatWasOverBeforeIsNotOwed() {
        var ringing = Ringing()
        ringing.tale.offline("bob/web")
        ringing.tale.offline("alice/phone")
        ringing.accept(telling: false)
        ringing.tale.at(3_000)
        ringing.tale.online("bob/web", "alice/phone")
        ringing.settle()
        #expect(ringing.tale.violations.isEmpty)
    }

    @Test func whoIsOfflineNeedNotKnow() {
        var ringing = Ringing()
        ringing.tale.offline("bob/web")
        ringing.tale.offline("alice/phone")
        ringing.accept(telling: false)
        ringing.settle()
        #expect(ringing.tale.violations.isEmpty)
    }

    @Test func withoutPeaceNobodyIsJudged() {
        var ringing = Ringing()
        ringing.accept(telling: false)
        #expect(ringing.tale.violations.isEmpty)
    }

    // MARK: Ringing

    /// Alice cancels at 2 s; the phone is told after `delay`.
    private func cancel(toldAfter delay: Int64, _ meanwhile: (inout Tale) -> Void = { _ in }) -> Tale {
        var ringing = Ringing()
        let over = ringing.received.then("bob", .cancelled, at: 2_000)
        ringing.tale.at(1_995)
        ringing.tale.ask("alice/phone", "cancel", over.cancel)
        ringing.tale.at(2_005)
        ringing.tale.ok("alice/phone", "cancel", over)
        ringing.tale.told("bob/web", .cancelled, over)
        meanwhile(&ringing.tale)
        ringing.tale.at(2_000 + delay)
        ringing.tale.told("bob/phone", .cancelled, over)
        ringing.settle()
        return ringing.tale
    }

    @Test func aPhoneStopsWithinASecond() {
        #expect(cancel(toldAfter: 1_000).violations.isEmpty)
        #expect(cancel(toldAfter: 1_001).broken == [.rangOn])
    }

    @Test func aFaultMayCostAResend() {
        func fault(_ tale: inout Tale) {
            tale.at(2_010)
            tale.fault("one")
        }
        #expect(cancel(toldAfter: 2_500, fault).violations.isEmpty)
        #expect(cancel(toldAfter: 2_501, fault).broken == [.rangOn])
    }

    @Test func aLossMayCostMore() {
        func loss(_ tale: inout Tale) { tale.loss("bob/phone") }
        #expect(cancel(toldAfter: 7_100, loss).violations.isEmpty)
    }

    @Test func aPhoneThatComesBackStopsWithinASecond() {
        for (delay, broken) in [(1_000, []), (1_001, [.rangOn])] as [(Int64, [Violation.Kind])] {
            var ringing = Ringing()
            ringing.tale.at(500)
            ringing.tale.offline("bob/web")
            ringing.accept(telling: false)
            ringing.tale.at(4_000)
            // The welcome says that the call still rings: only an event can stop the web now.
            ringing.tale.online("bob/web", calls: [ringing.received])
            ringing.tale.at(4_000 + delay)
            ringing.tale.told("bob/web", .handledElsewhere, ringing.accepted)
            #expect(ringing.tale.broken.filter { $0 == .rangOn } == broken)
        }
    }

    @Test func aWelcomeWithoutTheCallStopsThePhone() {
        var ringing = Ringing()
        ringing.tale.at(500)
        ringing.tale.offline("bob/web")
        ringing.accept(telling: false)
        ringing.tale.told("alice/phone", .userStateChanged, ringing.accepted)
        ringing.tale.at(9_000)
        ringing.tale.online("bob/web")
        ringing.settle()
        #expect(ringing.tale.violations.isEmpty)
    }

    @Test func aPhoneThatRingsAtTheEndIsNoted() {
        var ringing = Ringing()
        ringing.accept(telling: false)
        ringing.tale.told("alice/phone", .userStateChanged, ringing.accepted)
        ringing.tale.at(8_000)
        ringing.tale.settled()
        #expect(ringing.tale.broken == [.notTold, .rangOn])
    }

    // MARK: Long histories

    @Test func whatIsLongOverIsJudgedAndForgotten() {
        var ringing = Ringing()
        ringing.accept(telling: false)
        ringing.tale.told("alice/phone", .userStateChanged, ringing.accepted)
        ringing.tale.at(140_000)
        ringing.tale.offline("carol/phone")
        #expect(ringing.tale.violations.filter { $0.kind == .notTold }.map(\.device) == [address("bob/web")])
    }

    @Test func aViolationReadsLikeAStory() throws {
        var ringing = Ringing()
        ringing.accept(telling: false)
        ringing.tale.told("alice/phone", .userStateChanged, ringing.accepted)
        ringing.settle()
        let story = try #require(ringing.tale.violations.first { $0.kind == .notTold }).description
        #expect(story.contains("notTold: answered on phone, it had revision 1 of 3 (call c, device bob/web)"))
        #expect(story.contains("bob/phone sends accept c (request accept)"))
        #expect(
            story.contains(
                "bob/web receives call.invited: c revision 1 common ringing [alice accepted@phone, bob inviting]"))
    }
}
