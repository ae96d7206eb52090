import CallCore
import CallStore
import Coordinator
import SignalingProtocol
import Testing

/// A coordinator dies at any point; another coordinator on the same store brings every device up to date.
struct CrashTests {
    let world = World()
    let alice: Phone
    let bob: Phone
    private let id = RequestID("again")!

    init() {
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone")
        _ = world.lines()
    }

    /// Loses the messages that the coordinator publishes for `act`; then the coordinator dies, and another takes its
    /// place.
    private func dieBeforePublishing(_ act: () -> Void) {
        world.losesPublications = true
        act()
        world.losesPublications = false
        world.restart()
    }

    /// The records are damaged, or of a later version. Such records stay due for ever, and these records are more than
    /// a coordinator looks at in a single sweep.
    @Test func recordsThatNobodyCanReadKeepNoDeadlineFromItsTurn() {
        world.memory.addUnreadable(600, dueAt: world.clock.now - 60_000)
        alice.invite("bob") { $0.timeout = 10 }
        world.restart()
        world.pass(seconds: 30)
        #expect(bob.names == [.invited, .timeout])
    }

    @Test func deadBeforeTheCommitNothingHappened() {
        let faulty = FaultyStore(world.memory)
        faulty.failing = [.commit]
        world.losesPublications = true
        world.restart(store: faulty)
        alice.invite("bob", id: id)
        world.losesPublications = false
        world.restart()
        #expect(world.stored(callID) == nil)
        #expect(alice.invite("bob", id: id)?.call?.revision == 1)
        #expect(bob.names == [.invited])
    }

    /// Found by simulation (seed 11775): the call began with the time from before the freeze, so that its invitation
    /// was over already.
    @Test func whatACoordinatorDecidedBeforeItWasFrozenIsNotWritten() {
        let faulty = FaultyStore(world.memory)
        world.restart(store: faulty)
        faulty.beforeCommit = { [world] _ in
            faulty.beforeCommit = nil
            world.clock.now += 10_000
        }
        #expect(alice.invite("bob", id: id) == nil, "what would be told so late is dropped")
        #expect(world.service.counters[.responses, "unavailable"] == 1, "and that is what would be told")
        #expect(world.stored(callID) == nil)
        #expect(bob.names.isEmpty)
        #expect(alice.invite("bob", id: id)?.call?.createdAt == world.clock.now, "the resend makes the call")
    }

    @Test func deadBeforeTellingOfAnInviteTheInviteeRingsAllTheSame() {
        dieBeforePublishing { alice.invite("bob", id: id) }
        #expect(bob.names.isEmpty)
        world.pass(seconds: 2)
        #expect(bob.names == [.invited])
        #expect(alice.events.last?.call.state(of: "bob") == .received)
        #expect(alice.invite("bob", id: id)?.success?.offline == [], "and the caller's resend is answered")
        #expect(bob.names == [.invited])
    }

    @Test func deadBeforeTellingOfAnAnswerEverybodyHearsOfItAllTheSame() {
        let web = world.phone("bob/web")
        alice.invite("bob")
        dieBeforePublishing { bob.accept(id: id) }
        world.pass(seconds: 2)
        #expect(alice.events.last?.call.endReason == .answered)
        #expect(web.names.last == .handledElsewhere)
        #expect(bob.accept(id: id)?.call?.endReason == .answered)
    }

    @Test func deadBeforeTellingOfACancelThePhoneStopsRinging() {
        alice.invite("bob")
        dieBeforePublishing { alice.cancel(id: id) }
        world.pass(seconds: 2)
        #expect(bob.names.last == .cancelled)
        #expect(alice.cancel(id: id)?.call?.endReason == .cancelled)
    }

    @Test func deadBeforeTellingOfATimeoutBothHearOfIt() {
        alice.invite("bob")
        world.pass(59_000)
        world.losesPublications = true
        world.pass(1_000)
        world.losesPublications = false
        world.restart()
        world.pass(seconds: 2)
        #expect(bob.names.last == .timeout)
        #expect(alice.events.last?.call.endReason == .timeout)
    }

    @Test func deadBeforeTellingOfAnEndEverybodyHearsOfIt() {
        alice.invite("bob", mode: .advanced)
        bob.accept()
        dieBeforePublishing { bob.end() }
        world.pass(seconds: 2)
        #expect(alice.names.last == .ended)
    }

    @Test func timersThatCameDueMeanwhileFireAtOnce() {
        alice.invite("bob") { $0.notReceivedCheck = true }
        bob.vanish()
        world.clock.now += 300_000
        world.restart()
        #expect(alice.events.last?.call.endReason == .timeout)
        #expect(world.stored(callID)?.endedAt == world.clock.now)
    }

    @Test func notYetReceivedThatCameDueMeanwhileFiresAtOnce() {
        bob.acks = false
        alice.invite("bob") { $0.notReceivedCheck = true }
        world.clock.now += 20_000
        world.restart()
        #expect(alice.events.last?.call.state(of: "bob") == .notYetReceived)
        world.pass(seconds: 41)
        #expect(alice.events.last?.call.endReason == .timeout)
    }

    @Test func aDeadlineThatIsYetToComeIsKeptAfterARestart() {
        alice.invite("bob")
        world.pass(seconds: 30)
        world.restart()
        world.pass(29_999)
        #expect(world.stored(callID)?.state == .ringing)
        world.pass(1 + 2 * World.sweepInterval)
        #expect(world.stored(callID)?.endReason == .timeout)
    }

    @Test func aFastCancelSurvivesTheCoordinator() {
        alice.cancel()
        world.restart()
        #expect(alice.invite("bob")?.call?.endReason == .cancelled)
        #expect(bob.names.isEmpty)
    }

    @Test func sessionsAreKeptAcrossARestart() {
        world.restart()
        #expect(alice.invite("bob")?.success?.offline == [])
        world.send([bob.presence(.offline(.lost), session: "other")])
        #expect(bob.names == [.invited])
    }

    @Test func resendsGoOnWhereTheDeadOneStopped() {
        bob.acks = false
        alice.invite("bob")
        world.pass(seconds: 10)
        world.restart()
        world.pass(seconds: 50)
        let times = world.events(to: "bob/phone").map(\.at)
        #expect(times.count(where: { $0 < 60_000 }) == 9, "none is left out and none comes twice")
        for (time, slot) in zip(times, [1, 3, 7, 15, 23, 31, 39, 47, 55].map { $0 * 1000 as Milliseconds }) {
            #expect(time >= slot && time <= slot + 2 * World.sweepInterval)
        }
    }

    /// The process dies after each message of a call in turn, and its published messages are lost; the call comes to
    /// the same end.
    @Test(arguments: 0..<12)
    func wheneverItDiesTheCallComesToTheSameEnd(_ death: Int) {
        let carol = world.phone("carol/phone")
        let steps: [() -> Response.Outcome?] = [
            { alice.invite("bob", id: RequestID("s0")!, mode: .advanced) }, { bob.accept(id: RequestID("s1")!) },
            { bob.request(.add(.init(callID: callID, invitees: [carol.user])), id: RequestID("s2")!) },
            { carol.accept(id: RequestID("s3")!) },
            { alice.request(.quit(.init(callID: callID)), id: RequestID("s4")!) },
            { bob.request(.end(.init(callID: callID, reason: "bye")), id: RequestID("s5")!) },
        ]
        for (index, step) in steps.enumerated() {
            if index == death % 6 {
                dieBeforePublishing { _ = step() }
                if death >= 6 { world.pass(seconds: 3) }
                #expect(step()?.success != nil, "the resend after the restart")
            } else {
                #expect(step()?.success != nil)
            }
        }
        world.pass(seconds: 3)
        let call = world.stored(callID)!
        #expect(call.endReason == .hangup)
        #expect(call.members.map(\.state) == [.quit, .accepted, .accepted])
        #expect(carol.calls[callID]?.state == .ended)
        #expect(bob.calls[callID]?.state == .ended)
        #expect(alice.calls[callID]?.state(of: "alice") == .quit)
    }
}
