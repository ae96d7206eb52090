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

    @Test mutating func aCallThatIsAnsweredInCallKitIsShownThere() {
        _ = machine.handle(.pushed(content(), id))
        _ = machine.handle(.answer(id))
        #expect(machine.handle(.reported(id, ring: 1, isShown: false)) == [])
        #expect(machine.handle(.answered(id, ring: 1, isAccepted: true)) == [.fulfillAnswer(id)])
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

    // MARK: Calls that this device has accepted without CallKit

    @Test mutating func aCallThatIsAcceptedWithoutCallKitIsAnsweredThere() {
        _ = machine.handle(.pushed(content(check: check), id))
        _ = machine.handle(.reported(id, ring: 1, isShown: true))
        #expect(machine.handle(.accepted(id, revision: 2)) == [.requestAnswer(id, ring: 1)])
        #expect(machine.handle(.accepted(id, revision: 2)) == [])
        #expect(machine.handle(.checked(id, ring: 1, RingCheckAnswer(ringing: false))) == [])
        #expect(machine.handle(.expired(id, ring: 1)) == [])
        #expect(machine.handle(.answer(id)) == [.fulfillAnswer(id)])
        #expect(machine.handle(.hangUp(id)) == [.hangUp(content(check: check))])
    }

    /// CallKit refuses an answer of a call that it does not show yet.
    @Test mutating func theAnswerIsRequestedOnceCallKitShowsTheCall() {
        _ = machine.handle(.pushed(content(), id))
        #expect(machine.handle(.accepted(id, revision: 2)) == [])
        #expect(machine.handle(.reported(id, ring: 1, isShown: true)) == [.requestAnswer(id, ring: 1)])
    }

    @Test mutating func anAcceptanceDuringTheAnswerOfCallKitChangesNothing() {
        _ = machine.handle(.pushed(content(), id))
        _ = machine.handle(.reported(id, ring: 1, isShown: true))
        _ = machine.handle(.answer(id))
        #expect(machine.handle(.accepted(id, revision: 2)) == [])
        #expect(machine.handle(.answered(id, ring: 1, isAccepted: true)) == [.fulfillAnswer(id)])
    }

    @Test mutating func anAcceptanceOfTheFirstRingingDoesNotAnswerTheSecond() {
        _ = machine.handle(.pushed(content(5), id))
        _ = machine.handle(.reported(id, ring: 1, isShown: true))
        #expect(machine.handle(.accepted(id, revision: 2)) == [])
        #expect(machine.handle(.expired(id, ring: 1)) == [.end(id, .unanswered)])
    }

    @Test mutating func callKitDoesNotRingOverACallThatItDoesNotAnswer() {
        _ = machine.handle(.pushed(content(), id))
        _ = machine.handle(.reported(id, ring: 1, isShown: true))
        _ = machine.handle(.accepted(id, revision: 2))
        #expect(machine.handle(.refused(id, ring: 1)) == [.end(id, .answeredElsewhere)])
        #expect(machine.handle(.ended(id, revision: 3, .remoteEnded)) == [])
    }

    // MARK: Calls that the user makes

    private let own = UUID()
    private let ownContent = PushContent(callID: "o1", revision: 0, inviter: "bob")

    @Test mutating func aCallOfTheUserBeginsWithCallKit() {
        #expect(machine.handle(.call(ownContent, own)) == [.requestStart(own, ring: 1, ownContent)])
        #expect(machine.handle(.start(own)) == [.fulfillStart(own), .connect, .call(own, ring: 1)])
        #expect(machine.handle(.called(own, ring: 1, as: own, ownContent)) == [.startedConnecting(own)])
        #expect(machine.handle(.accepted(own, revision: 1)) == [], "the inviter is in the call from its beginning")
        #expect(machine.handle(.active(own, revision: 2)) == [.connected(own)])
        #expect(machine.handle(.active(own, revision: 3)) == [])
        #expect(machine.handle(.ended(own, revision: 4, .remoteEnded)) == [.end(own, .remoteEnded)])
        #expect(machine.calls.isEmpty)
    }

    @Test mutating func aStartThatCallKitRefusesMakesNoCall() {
        _ = machine.handle(.call(ownContent, own))
        #expect(machine.handle(.refused(own, ring: 1)) == [.abandonCall(own)])
        #expect(machine.handle(.start(own)) == [.failStart(own)])
    }

    @Test mutating func aCallThatTheServiceRefusesHasFailed() {
        _ = machine.handle(.call(ownContent, own))
        _ = machine.handle(.start(own))
        #expect(machine.handle(.callFailed(own, ring: 1)) == [.end(own, .failed)])
    }

    @Test mutating func theUserHangsUpBeforeTheServiceAnswers() {
        _ = machine.handle(.call(ownContent, own))
        _ = machine.handle(.start(own))
        #expect(machine.handle(.hangUp(own)) == [.hangUp(ownContent)])
        #expect(machine.handle(.called(own, ring: 1, as: own, ownContent)) == [])
        #expect(machine.handle(.callFailed(own, ring: 1)) == [])
    }

    /// The invitation that rang in CallKit is the user's own call after the merge.
    @Test mutating func afterAGlareMergeCallKitShowsTheUsersOwnCall() {
        _ = machine.handle(.call(ownContent, own))
        _ = machine.handle(.start(own))
        _ = machine.handle(.rings(content(), id))
        _ = machine.handle(.reported(id, ring: 2, isShown: true))
        #expect(machine.handle(.accepted(id, revision: 2)) == [], "the response tells of the merge")
        #expect(
            machine.handle(.called(own, ring: 1, as: id, content(2))) == [
                .end(id, .answeredElsewhere), .startedConnecting(own),
            ])
        #expect(machine.handle(.answer(id)) == [.failAnswer(id)])
        #expect(machine.handle(.active(id, revision: 2)) == [.connected(own)])
        let late = content(1, check: check)
        #expect(machine.handle(.pushed(late, id)) == [.reportAgain(own, late)])
        #expect(machine.shownID(id) == own)
        #expect(machine.handle(.hangUp(own)) == [.hangUp(content(2))])
        #expect(machine.shownID(id) == id)
    }

    @Test mutating func aResetLeavesAndAbandonsTheUsersCalls() {
        let other = UUID()
        _ = machine.handle(.call(ownContent, own))
        _ = machine.handle(.start(own))
        _ = machine.handle(.call(ownContent, other))
        #expect(machine.handle(.reset) == [.hangUp(ownContent), .abandonCall(other)])
    }

    /// Ten thousand orders of all events that may happen to two ringings of the same call, and to a call of the user,
    /// which the service may merge with the former.
    @Test func inEveryOrderCallKitShowsWhatIsSoAndEachActionEndsOnce() {
        var random = Numbers(state: 1)
        for _ in 0..<10_000 { RandomOrder(id: id, own: own, check: check).run(&random) }
    }
}

/// CallKit, the service and the user of one random order.
private final class RandomOrder {
    private typealias Event = RingingMachine.Event

    private let id: UUID
    private let own: UUID
    private let check: URL
    private var machine = RingingMachine()
    private var open: [Event] = []
    /// The calls that CallKit shows or is asked to start.
    private var shown: Set<UUID> = []
    private var isAnswering = false
    private var isStarting = false
    /// The newest ringing of each call.
    private var rings: [UUID: Int] = [:]
    /// Whether this device has accepted the ringing of `id` that CallKit shows, and whether CallKit shows that.
    private var (isAccepted, isAnswered) = (false, false)
    /// The outcomes of the user's call for the app, and what CallKit was told of that call.
    private var outcomes = 0
    private var told: [String] = []

    init(id: UUID, own: UUID, check: URL) { (self.id, self.own, self.check) = (id, own, check) }

    private func content(_ revision: Int = 1, check: URL? = nil) -> PushContent {
        var content = PushContent(callID: "c1", revision: revision, inviter: "alice")
        content.check = check
        content.expiresIn = 30_000
        return content
    }

    func run(_ random: inout Numbers) {
        let ownContent = PushContent(callID: "o1", revision: 0, inviter: "bob")
        open = [
            .pushed(content(1, check: check), id), .pushed(content(1, check: check), id),
            .pushed(content(3, check: URL(string: "https://ring.example.com/c1?key=2")), id), .rings(content(3), id),
            .accepted(id, revision: 2), .accepted(id, revision: 4), .active(id, revision: 4),
            .ended(id, revision: 2, .remoteEnded), .ended(id, revision: 4, .remoteEnded), .answer(id), .hangUp(id),
            .call(ownContent, own), .active(own, revision: 1), .ended(own, revision: 1, .remoteEnded), .hangUp(own),
        ]
        // Without some events, so that others meet later states.
        open = open.shuffled(using: &random).filter { _ in random.next() % 6 != 0 }
        let calls = open.count { if case .call = $0 { true } else { false } }
        while !open.isEmpty { step(&random) }
        #expect(!isAnswering && !isStarting)
        #expect(shown == machine.calls)
        #expect(outcomes == calls, "the app is told once of its call")
        #expect(!isAccepted || isAnswered || !shown.contains(id), "CallKit does not ring over a call that runs")
    }

    private func step(_ random: inout Numbers) {
        let event = open.removeFirst()
        switch event {
        // CallKit has no buttons for a call that it does not show, and no second answer while it asks.
        case .answer(let id):
            if !shown.contains(id) || isAnswering { return }
            isAnswering = true
        case .hangUp(let id): if shown.remove(id) == nil { return }
        case .start: isStarting = true
        case .called, .callFailed: outcomes += 1
        default: break
        }
        let actions = machine.handle(event)
        for action in actions { perform(action, &random) }
        switch event {
        case .reported(let id, let ring, isShown: false) where ring == rings[id] && !machine.calls.contains(id):
            shown.remove(id)
        case .accepted(id, revision: 4) where machine.calls.contains(id): isAccepted = true
        default: break
        }
        if !shown.contains(id) { (isAccepted, isAnswered) = (false, false) }
    }

    private func perform(_ action: RingingMachine.Action, _ random: inout Numbers) {
        switch action {
        case .report(let id, let ring, _):
            shown.insert(id)
            rings[id] = ring
            (isAccepted, isAnswered) = (false, false)
            insert(.reported(id, ring: ring, isShown: random.next() % 8 != 0), &random)
        case .check(let id, let ring, _):
            insert(.checked(id, ring: ring, RingCheckAnswer(ringing: random.next() % 2 == 0)), &random)
        case .wait(let id, let ring, _): insert(.expired(id, ring: ring), &random)
        case .accept(let id, let ring, _):
            insert(.answered(id, ring: ring, isAccepted: random.next() % 2 == 0), &random)
        case .requestAnswer(let id, let ring):
            #expect(shown.contains(id), "CallKit answers a call that it shows")
            insert(random.next() % 8 != 0 ? .answer(id) : .refused(id, ring: ring), &random)
        case .requestStart(let id, let ring, _):
            shown.insert(id)
            insert(random.next() % 8 != 0 ? .start(id) : .refused(id, ring: ring), &random)
        case .call(let own, let ring):
            let call = random.next() % 2 == 0 ? own : id
            insert(
                random.next() % 4 != 0
                    ? .called(own, ring: ring, as: call, content(4)) : .callFailed(own, ring: ring), &random)
        case .abandonCall(let id):
            outcomes += 1
            shown.remove(id)
        case .end(let id, _): #expect(shown.remove(id) != nil, "only a call that is shown ends")
        case .fulfillAnswer, .failAnswer:
            #expect(isAnswering, "an answer ends once")
            isAnswering = false
            if case .fulfillAnswer(id) = action { isAnswered = true }
        case .fulfillStart, .failStart:
            #expect(isStarting, "a start ends once")
            isStarting = false
        case .startedConnecting(let id): tell("connecting", id, after: [])
        case .connected(let id): tell("connected", id, after: ["connecting"])
        case .reportAgain(let id, _): #expect(shown.contains(id))
        case .reportNothing, .connect, .decline, .hangUp: break
        }
    }

    private func insert(_ event: Event, _ random: inout Numbers) {
        open.insert(event, at: Int(random.next() % UInt64(open.count + 1)))
    }

    private func tell(_ what: String, _ id: UUID, after former: [String]) {
        #expect(id == own && shown.contains(id))
        #expect(told == former)
        told.append(what)
    }
}

private struct Numbers: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return state >> 16
    }
}
