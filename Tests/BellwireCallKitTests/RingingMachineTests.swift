import Foundation
import Testing

@testable import BellwireCallKit

/// The reports to CallKit and the questions to the service, in the orders in which pushes, news and the user's actions
/// come.
@Suite struct RingingMachineTests {
    private typealias Event = RingingMachine.Event
    private typealias Action = RingingMachine.Action

    private var machine = RingingMachine()
    private let id = UUID()
    private let check = URL(string: "https://ring.example.com/c1?key=1")!

    private func content(_ revision: Int = 1, check: URL? = nil) -> PushContent {
        var content = PushContent(callID: "c1", revision: revision, inviter: "alice")
        content.check = check
        content.expiresIn = 30_000
        return content
    }

    @Test mutating func aPushIsReportedBeforeAnythingElse() {
        let first = content(check: check)
        #expect(machine.handle(.pushed(first, id)) == [.report(id, ring: 1, first)])
        #expect(machine.handle(.reported(id, ring: 1, isShown: true)) == [.connect, .check(id, ring: 1, check)])
        #expect(
            machine.handle(.checked(id, ring: 1, RingCheckAnswer(ringing: true, expiresIn: 20_000)))
                == [.wait(id, ring: 1, milliseconds: 20_000)])
        #expect(machine.handle(.expired(id, ring: 1)) == [.end(id, .unanswered)])
        #expect(machine.calls.isEmpty)
    }

    @Test mutating func aPushWithoutACallIsReportedAndEnded() {
        #expect(machine.handle(.pushed(nil, id)) == [.reportNothing(id)])
        #expect(machine.handle(.reportedNothing(id)) == [.end(id, .failed)])
    }

    private static let reasons: [(String?, RingingMachine.EndReason)] = [
        ("answeredElsewhere", .answeredElsewhere), ("rejected", .declinedElsewhere), ("timeout", .unanswered),
        ("cancelled", .remoteEnded), (nil, .remoteEnded),
    ]

    @Test(arguments: reasons)
    func aCheckEndsTheRinging(reason: String?, shown: RingingMachine.EndReason) {
        var machine = machine
        _ = machine.handle(.pushed(content(check: check), id))
        _ = machine.handle(.reported(id, ring: 1, isShown: true))
        #expect(
            machine.handle(.checked(id, ring: 1, RingCheckAnswer(ringing: false, reason: reason))) == [.end(id, shown)])
    }

    @Test mutating func withoutAnAnswerOfTheCheckThePhoneRingsOn() {
        _ = machine.handle(.pushed(content(check: check), id))
        _ = machine.handle(.reported(id, ring: 1, isShown: true))
        #expect(machine.handle(.checked(id, ring: 1, nil)) == [.wait(id, ring: 1, milliseconds: 30_000)])
    }

    @Test mutating func whatBelongsToTheFirstRingingDoesNotTouchTheSecond() {
        _ = machine.handle(.pushed(content(check: check), id))
        _ = machine.handle(.reported(id, ring: 1, isShown: true))
        let second = content(3, check: URL(string: "https://ring.example.com/c1?key=2"))
        #expect(machine.handle(.pushed(second, id)) == [.report(id, ring: 2, second)])
        #expect(machine.handle(.checked(id, ring: 1, RingCheckAnswer(ringing: false))) == [])
        #expect(machine.handle(.expired(id, ring: 1)) == [])
        #expect(machine.handle(.ended(id, revision: 2, .remoteEnded)) == [], "the cancel of the first invitation")
        #expect(machine.calls == [id])
        #expect(machine.handle(.ended(id, revision: 4, .remoteEnded)) == [.end(id, .remoteEnded)])
    }

    @Test mutating func theSamePushAgainAndALatePushChangeNothing() {
        let first = content(3, check: check)
        _ = machine.handle(.pushed(first, id))
        _ = machine.handle(.reported(id, ring: 1, isShown: true))
        #expect(machine.handle(.pushed(first, id)) == [.reportAgain(id, first)])
        let late = content(1, check: URL(string: "https://ring.example.com/c1?key=0"))
        #expect(machine.handle(.pushed(late, id)) == [.reportAgain(id, late)])
        #expect(machine.handle(.rings(content(3), id)) == [])
        #expect(machine.handle(.expired(id, ring: 1)) == [.end(id, .unanswered)])
    }

    /// The connection may bring the second invitation before the check of the first is answered.
    @Test mutating func aSecondInvitationOfTheConnectionIsARingingOfItsOwn() {
        _ = machine.handle(.pushed(content(check: check), id))
        _ = machine.handle(.reported(id, ring: 1, isShown: true))
        #expect(machine.handle(.rings(content(5), id)) == [.report(id, ring: 2, content(5))])
        #expect(machine.handle(.checked(id, ring: 1, RingCheckAnswer(ringing: false, reason: "ended"))) == [])
        #expect(machine.handle(.ended(id, revision: 4, .remoteEnded)) == [])
        #expect(machine.calls == [id])
    }

    @Test mutating func aCallThatCallKitDoesNotShowIsForgotten() {
        _ = machine.handle(.pushed(content(), id))
        #expect(machine.handle(.reported(id, ring: 1, isShown: false)) == [])
        #expect(machine.handle(.ended(id, revision: 9, .remoteEnded)) == [])
        #expect(machine.calls.isEmpty)
    }

    @Test mutating func anAnswerWaitsForTheService() {
        let first = content(check: check)
        _ = machine.handle(.pushed(first, id))
        #expect(machine.handle(.answer(id)) == [.connect, .accept(id, ring: 1, first)])
        #expect(machine.handle(.reported(id, ring: 1, isShown: true)) == [], "the answer connects already")
        #expect(machine.handle(.expired(id, ring: 1)) == [])
        #expect(machine.handle(.answered(id, ring: 1, isAccepted: true)) == [.fulfillAnswer(id)])
        #expect(machine.handle(.pushed(first, id)) == [.reportAgain(id, first)])
        #expect(machine.handle(.hangUp(id)) == [.hangUp(first)])
    }

    @Test mutating func aRefusedAnswerIsNotShownAsAnswered() {
        _ = machine.handle(.pushed(content(), id))
        _ = machine.handle(.answer(id))
        #expect(machine.handle(.answered(id, ring: 1, isAccepted: false)) == [.failAnswer(id), .end(id, .failed)])
        #expect(machine.handle(.answer(id)) == [.failAnswer(id)])
    }

    @Test mutating func anEndWhileTheServiceIsAskedFailsTheAnswer() {
        _ = machine.handle(.pushed(content(), id))
        _ = machine.handle(.answer(id))
        #expect(
            machine.handle(.ended(id, revision: 2, .answeredElsewhere)) == [
                .failAnswer(id), .end(id, .answeredElsewhere),
            ])
        #expect(machine.handle(.answered(id, ring: 1, isAccepted: false)) == [])
    }

    @Test mutating func aDeclineIsToldToTheService() {
        let first = content(check: check)
        _ = machine.handle(.pushed(first, id))
        #expect(machine.handle(.hangUp(id)) == [.connect, .decline(first)])
        #expect(machine.handle(.hangUp(id)) == [])
    }

    @Test mutating func aResetLeavesTheCallsThatWereAnswered() {
        let other = UUID()
        _ = machine.handle(.pushed(content(), id))
        _ = machine.handle(.rings(content(), other))
        _ = machine.handle(.answer(other))
        #expect(machine.handle(.reset) == [.hangUp(content())])
        #expect(machine.calls.isEmpty)
    }

    /// Ten thousand orders of all events that may happen to two ringings of the same call.
    @Test func inEveryOrderCallKitShowsWhatIsSoAndEachAnswerEndsOnce() {
        var random = Numbers(state: 1)
        for _ in 0..<10_000 {
            var machine = RingingMachine()
            var shown: Set<UUID> = []
            var isAnswering = false
            var rings = 0
            let events: [Event] = [
                .pushed(content(1, check: check), id), .pushed(content(1, check: check), id),
                .pushed(content(3, check: URL(string: "https://ring.example.com/c1?key=2")), id),
                .rings(content(3), id),
                .ended(id, revision: 2, .remoteEnded), .ended(id, revision: 4, .remoteEnded), .answer(id), .hangUp(id),
            ]
            var open = events.shuffled(using: &random)
            while !open.isEmpty {
                let event = open.removeFirst()
                // CallKit has no buttons for a call that it does not show, and no second answer while it asks.
                if case .answer = event, !shown.contains(id) || isAnswering { continue }
                if case .hangUp = event {
                    guard shown.remove(id) != nil else { continue }
                }
                if case .answer = event { isAnswering = true }
                for action in machine.handle(event) {
                    switch action {
                    case .report(let id, let ring, _):
                        shown.insert(id)
                        rings = max(rings, ring)
                        open.insert(
                            .reported(id, ring: ring, isShown: random.next() % 8 != 0),
                            at: Int(random.next() % UInt64(open.count + 1)))
                    case .check(let id, let ring, _):
                        let state = RingCheckAnswer(ringing: random.next() % 2 == 0)
                        open.insert(.checked(id, ring: ring, state), at: Int(random.next() % UInt64(open.count + 1)))
                    case .wait(let id, let ring, _):
                        open.insert(.expired(id, ring: ring), at: Int(random.next() % UInt64(open.count + 1)))
                    case .accept(let id, let ring, _):
                        open.insert(
                            .answered(id, ring: ring, isAccepted: random.next() % 2 == 0),
                            at: Int(random.next() % UInt64(open.count + 1)))
                    case .end(let id, _):
                        #expect(shown.remove(id) != nil, "only a call that is shown ends")
                    case .fulfillAnswer, .failAnswer:
                        #expect(isAnswering, "an answer ends once")
                        isAnswering = false
                    case .reportAgain, .reportNothing, .connect, .decline, .hangUp: break
                    }
                }
                if case .reported(let id, let ring, isShown: false) = event, ring == rings, !machine.calls.contains(id)
                {
                    shown.remove(id)
                }
            }
            #expect(!isAnswering)
            #expect(shown == machine.calls)
        }
    }
}

private struct Numbers: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return state >> 16
    }
}
