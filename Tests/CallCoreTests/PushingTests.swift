import SignalingProtocol
import Testing

@testable import CallCore

/// The users whom a call may wake, and the words of the pushes (docs/decisions/0021).
@Suite struct PushingTests {
    private let texts = Request.Push(title: "t", content: "c", payload: "p")

    private func acting(_ user: UserID, _ id: String = "r") -> CallMachine.Acting {
        let device = DeviceAddress(userID: user, deviceID: phone)
        return CallMachine.Acting(key: RequestKey(device: device, requestID: RequestID(id)!), now: Scene.start)
    }

    private func known(_ pushable: [UserID]?, withheld: [UserID] = []) -> CallMachine.Invitees {
        .init(profiles: [:], unregistered: [], limited: [], withheld: withheld, pushable: pushable)
    }

    private func invited(
        _ invitees: [UserID], pushable: [UserID]?, withheld: [UserID] = [], busy: [UserID] = [],
        isCancelled: Bool = false, push: Request.Push? = nil
    ) throws -> CallMachine {
        let invite = Request.Invite(
            invitees: invitees, mode: .advanced, ifBusy: busy.isEmpty ? .ring : .reject, push: push)
        return try CallMachine.invited(
            .init(callID: CallID("call-1")!, invite: invite, busy: busy, isCancelled: isCancelled), acting(alice),
            known(pushable, withheld: withheld), activeElsewhere: nil, settings: CallSettings())
    }

    private func marked(_ machine: CallMachine) -> [UserID] {
        machine.call.members.filter(\.mayBePushed).map(\.userID)
    }

    // MARK: Marks

    @Test func whoIsRegisteredAndRungMayBePushed() throws {
        let machine = try invited([bob, carol], pushable: [bob])
        #expect(marked(machine) == [bob])
        #expect(machine.unmarked == [carol])
        #expect(machine.call.mayNeedPushes(since: 0))
    }

    @Test func whoIsNotRungIsNotPushed() throws {
        let all = [bob, carol, dave]
        #expect(marked(try invited(all, pushable: all, withheld: [carol], busy: [dave])) == [bob])
        let withheld = try invited([bob], pushable: [bob], withheld: [bob])
        #expect(marked(withheld).isEmpty && withheld.unmarked.isEmpty && !withheld.call.mayNeedPushes(since: 0))
        let cancelled = try invited([bob], pushable: [bob], isCancelled: true)
        #expect(marked(cancelled).isEmpty && cancelled.unmarked.isEmpty)
    }

    @Test func whoRegistersWhileRungIsMarkedAndNobodySees() throws {
        var machine = try invited([bob, carol], pushable: [])
        let before = machine.call
        var isRung = machine.markPushable([carol, eve])
        #expect(isRung)
        #expect(marked(machine) == [carol])
        #expect(machine.call.revision == before.revision && machine.call.snapshot == before.snapshot)
        isRung = machine.markPushable([carol])
        #expect(isRung, "another device of the same user")
        try machine.acceptRequested(.init(callID: before.callID), acting(carol), activeElsewhere: nil)
        isRung = machine.markPushable([carol])
        #expect(!isRung, "the phone has stopped ringing")
    }

    @Test func whoIsWithheldIsNeverMarked() throws {
        var machine = try invited([bob], pushable: [], withheld: [bob])
        let isRung = machine.markPushable([bob])
        #expect(!isRung && marked(machine).isEmpty)
    }

    @Test func whatHappensToOthersOwesNoPush() throws {
        var machine = try invited([bob, carol], pushable: [bob])
        try machine.acceptRequested(.init(callID: machine.call.callID), acting(bob), activeElsewhere: nil)
        #expect(machine.call.mayNeedPushes(since: 1), "bob's other devices stop ringing")
        try machine.acceptRequested(.init(callID: machine.call.callID), acting(carol), activeElsewhere: nil)
        #expect(!machine.call.mayNeedPushes(since: 2))
        #expect(!machine.call.mayNeedPushes(since: machine.call.revision))
    }

    /// The members' states stay: a member who was being rung must stop.
    @Test func anEndOwesAPushToWhoWasPending() throws {
        var machine = try invited([bob, carol], pushable: [bob])
        try machine.acceptRequested(.init(callID: machine.call.callID), acting(carol), activeElsewhere: nil)
        let revision = machine.call.revision
        try machine.endRequested(.init(callID: machine.call.callID), acting(carol))
        #expect(machine.call.mayNeedPushes(since: revision))
    }

    @Test func anotherInvitationIsMarkedAnew() throws {
        var machine = try invited([bob, carol], pushable: [bob])
        try machine.acceptRequested(.init(callID: machine.call.callID), acting(carol), activeElsewhere: nil)
        try machine.rejectRequested(.init(callID: machine.call.callID), acting(bob), isCheck: false)
        _ = try machine.addRequested(
            .init(callID: machine.call.callID, invitees: [bob]), acting(carol, "add"), known([], withheld: []))
        #expect(marked(machine).isEmpty && machine.unmarked == [bob])
    }

    // MARK: Texts

    @Test func whatAnInvitationSaysIsKeptWithIt() throws {
        var machine = try invited([bob, carol], pushable: [], push: texts)
        #expect(machine.call.pushTexts(of: try #require(machine.call.entry(bob))) == texts)
        #expect(machine.call.pushTexts(of: try #require(machine.call.entry(alice))) == nil)
        try machine.acceptRequested(.init(callID: machine.call.callID), acting(carol), activeElsewhere: nil)
        let other = Request.Push(title: "other")
        _ = try machine.addRequested(
            .init(callID: machine.call.callID, invitees: [dave], push: other), acting(carol, "add"), known([dave]))
        #expect(machine.call.pushTexts(of: try #require(machine.call.entry(bob))) == texts)
        #expect(machine.call.pushTexts(of: try #require(machine.call.entry(dave))) == other)
    }

    @Test(arguments: [nil, Request.Push()])
    func whatSaysNothingIsNotKept(push: Request.Push?) throws {
        #expect(try invited([bob], pushable: [bob], push: push).call.pushTexts.isEmpty)
    }

    @Test func nothingIsKeptWhereNothingIsPushed() throws {
        #expect(try invited([bob], pushable: nil, push: texts).call.pushTexts.isEmpty)
    }

    @Test func whatNobodyIsPushedAnyMoreIsForgotten() throws {
        var machine = try invited([bob], pushable: [], push: texts)
        try machine.acceptRequested(.init(callID: machine.call.callID), acting(bob), activeElsewhere: nil)
        #expect(machine.call.pushTexts.isEmpty, "no device of his is registered")
        var missed = try invited([bob], pushable: [bob], push: texts)
        missed.deadlineReached(
            .init(now: Scene.start + 60 * seconds, heard: [:], listeningSince: 0, isInviterOnline: true))
        #expect(missed.call.endReason == .timeout)
        #expect(
            missed.call.pushTexts(of: try #require(missed.call.entry(bob))) == texts, "the push says what was missed")
    }

    @Test func anotherInvitationHasItsOwn() throws {
        var machine = try invited([bob, carol], pushable: [bob, carol], push: texts)
        for user in [bob, carol] {
            try machine.acceptRequested(.init(callID: machine.call.callID), acting(user), activeElsewhere: nil)
        }
        try machine.quitRequested(.init(callID: machine.call.callID), acting(bob))
        _ = try machine.addRequested(
            .init(callID: machine.call.callID, invitees: [bob]), acting(carol, "add"), known([bob]))
        #expect(machine.call.pushTexts(of: try #require(machine.call.entry(bob))) == nil)
    }

    @Test func theyCountAsWhatIsKept() throws {
        let long = Request.Push(payload: String(repeating: "x", count: 2048))
        let plain = try invited([bob], pushable: [bob]).call.approximateBytes
        #expect(try invited([bob], pushable: [bob], push: long).call.approximateBytes >= plain + 2048)
    }
}
