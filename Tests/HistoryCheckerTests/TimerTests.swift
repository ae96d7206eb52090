import HistoryChecker
import SignalingProtocol
import Testing

/// Timers fire in time, with a cause, and always.
@Suite struct TimerTests {
    /// The invitation, due at 10,100 ms, expires at `moment`, and every device is told.
    private func expiry(at moment: Int64, _ before: (inout Tale) -> Void = { _ in }) -> Tale {
        var ringing = Ringing()
        let expired = ringing.received.then("bob", .timeout, at: moment)
        before(&ringing.tale)
        ringing.tale.at(moment + 3)
        ringing.tale.told("alice/phone", .userStateChanged, expired)
        ringing.tale.told("bob/phone", .timeout, expired)
        ringing.tale.told("bob/web", .timeout, expired)
        ringing.settle()
        return ringing.tale
    }

    private func kill(_ target: String, from: Int64, to: Int64) -> (inout Tale) -> Void {
        { tale in
            tale.at(from)
            tale.fault(target)
            tale.at(to)
            tale.healed(target)
        }
    }

    @Test(arguments: [10_100, 10_150]) func anExpiryInTimeIsGood(moment: Int64) {
        #expect(expiry(at: moment).violations.isEmpty)
    }

    @Test func anExpiryMayNotBeEarly() { #expect(expiry(at: 10_099).broken == [.firedEarly]) }

    @Test func undisturbedItMayNotBeLate() { #expect(expiry(at: 10_151).broken == [.firedLate]) }

    @Test(arguments: [11_600, 11_601]) func whenItsOwnerMayHaveDiedItMayBeSomewhatLate(moment: Int64) {
        let tale = expiry(at: moment, kill("one", from: 5_000, to: 6_000))
        #expect(tale.broken == (moment > 11_600 ? [.firedLate] : []))
    }

    /// No device saw the end of the call, and a device asks for the call a quarter of an hour later: the history of the
    /// call is forgotten by then.
    @Test func whatIsLearnedLongAfterwardsIsNotJudged() {
        var tale = Tale()
        let call = invitation()
        tale.online("alice/phone")
        tale.at(102)
        tale.told("alice/phone", .created, call)
        kill(HistoryEntry.store, from: 9_000, to: 12_000)(&tale)
        for minute in 1...15 {
            tale.at(Int64(minute) * 60_000)
            tale.online("carol/phone")
        }
        tale.told("alice/phone", .userStateChanged, call.then("bob", .timeout, at: 13_000))
        #expect(!tale.broken.contains(.firedLate))
    }

    @Test func aFaultBeforeTheLastChangeIsNoExcuse() {
        var tale = Tale()
        kill("one", from: 10, to: 50)(&tale)
        let call = invitation()
        tale.online("alice/phone")
        tale.at(102)
        tale.told("alice/phone", .created, call)
        tale.at(10_400)
        tale.told("alice/phone", .userStateChanged, call.then("bob", .timeout, at: 10_400))
        #expect(tale.broken == [.firedLate])
    }

    @Test func whileTheBrokerIsAwayNothingCanFire() {
        let outage = kill(HistoryEntry.broker, from: 9_000, to: 14_000)
        #expect(expiry(at: 15_500, outage).broken == [])
        #expect(expiry(at: 15_501, outage).broken.contains(.firedLate))
    }

    @Test func whileAllCoordinatorsAreDownNothingCanFire() {
        func allDown(_ tale: inout Tale) {
            tale.at(8_000)
            for name in ["one", "two", "three"] { tale.fault(name) }
            tale.at(13_000)
            tale.healed("two")
        }
        #expect(expiry(at: 14_500, allDown).broken == [])
        #expect(expiry(at: 14_501, allDown).broken.contains(.firedLate))
    }

    @Test func whileOneCoordinatorIsUpItMustFire() {
        func twoDown(_ tale: inout Tale) {
            tale.at(8_000)
            for name in ["one", "two"] { tale.fault(name) }
            tale.at(13_000)
            tale.healed("two")
        }
        #expect(expiry(at: 14_000, twoDown).broken.contains(.firedLate))
    }

    @Test func anInvitationThatIsPendingAfterItsTimeIsNoted() {
        var tale = Tale()
        let call = invitation(to: ["bob", "carol"])
        tale.online("alice/phone")
        tale.told("alice/phone", .created, call)
        tale.at(12_005)
        tale.told("alice/phone", .userStateChanged, call.then("bob", .received, at: 12_000))
        #expect(tale.broken == [.firedLate])
    }

    @Test func everyInvitationEnds() {
        var ringing = Ringing()
        ringing.settle()
        #expect(ringing.tale.broken.contains(.neverEnded))
    }

    @Test func theNotReceivedCheckComesInTime() {
        for (moment, broken) in [(2_100, []), (2_099, [.firedEarly]), (2_151, [.firedLate])]
            as [(Int64, [Violation.Kind])]
        {
            var tale = Tale()
            let call = invitation()
            tale.online("alice/phone")
            tale.at(99)
            tale.ask("alice/phone", "invite", call.invite(notReceivedAfter: 2))
            tale.at(102)
            tale.ok("alice/phone", "invite", call)
            tale.at(moment + 2)
            tale.told("alice/phone", .userStateChanged, call.then("bob", .notYetReceived, at: moment))
            #expect(tale.broken == broken)
        }
    }

    @Test func onlyACallerWhoWentAwayIsLost() {
        for wentAway in [false, true] {
            var ringing = Ringing()
            if wentAway {
                ringing.tale.at(500)
                ringing.tale.offline("alice/phone")
            }
            let lost = ringing.received.then("bob", .cancelled, at: 3_000).over(.callerLost, at: 3_000)
            ringing.tale.at(3_005)
            ringing.tale.told("bob/phone", .cancelled, lost)
            #expect(ringing.tale.broken == (wentAway ? [] : [.firedEarly]))
        }
    }
}
