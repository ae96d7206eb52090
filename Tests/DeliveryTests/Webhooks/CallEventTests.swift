import CallCore
import SignalingProtocol
import Testing

@testable import Delivery

@Suite struct CallEventTests {
    @Test func theFirstRevisionTellsOfEverybody() throws {
        let event = WebhookEvent(call: try invited(.advanced, [bob, carol]).call)
        #expect(event.type == .callCreated)
        #expect(event.id == "call-1_1")
        #expect(event.time == start)
        #expect(event.changes == ["alice accepted", "bob inviting", "carol inviting"])
        #expect(event.json?["actor"]?.string == "alice")
    }

    @Test func aChangeIsToldAsInEvents() throws {
        var machine = try invited(.advanced, [bob, carol])
        try machine.accept(bob, now: start + 5)
        let event = WebhookEvent(call: machine.call)
        #expect(event.type == .callUserStateChanged)
        #expect(event.id == "call-1_2")
        #expect(event.time == start + 5)
        // The data has the fields of an event of section 5, and no other fields.
        let view = DeviceView(address: DeviceAddress(userID: alice, deviceID: phone), acked: 1)
        let delivery = try #require(machine.call.delivery(to: view, now: start, settings: machine.settings))
        let told = machine.call.event(delivery, for: alice, now: start, snapshot: machine.call.snapshot)
        let wire = try #require(try JSONParser.parse(DownMessage.event(told).encoded()).object)
        let data = try #require(event.json)
        #expect(data.fields.map(\.key) == ["callID", "revision", "actor", "changes", "call"])
        for field in data.fields { #expect(wire[field.key] == field.value) }
    }

    @Test func aTimerIsNoActor() throws {
        var machine = try invited(notReceivedCheck: true)
        machine.timePasses(to: start + 5_000)
        let event = WebhookEvent(call: machine.call)
        #expect(event.changes == ["bob notYetReceived"])
        #expect(event.json?["actor"] == nil)
    }

    @Test func aHandOverTellsOfWhoMoved() throws {
        var machine = try invited()
        try machine.accept(bob)
        try machine.joinRequested(.init(callID: callID), acting(bob, web), activeElsewhere: nil, profile: nil)
        let event = WebhookEvent(call: machine.call)
        #expect(event.id == "call-1_3")
        #expect(event.changes == ["bob accepted"])
        #expect(event.json?["changes"]?.array?.first?.object?["device"]?.string == "web")
    }

    @Test func anAnsweredCommonCallHasEnded() throws {
        var machine = try invited(.common)
        try machine.accept(bob)
        let event = WebhookEvent(call: machine.call)
        #expect(event.type == .callEnded)
        #expect(event.changes == ["bob accepted"])
        #expect(event.json?["call"]?.object?["endReason"]?.string == "answered")
    }

    @Test func aCallThatIsHungUpHasEndedAndNobodyChanged() throws {
        var machine = try invited()
        try machine.accept(bob)
        try machine.endRequested(.init(callID: callID), acting(alice))
        let event = WebhookEvent(call: machine.call)
        #expect(event.type == .callEnded)
        #expect(event.changes.isEmpty)
        #expect(event.json?["changes"]?.array == [])
        #expect(event.json?["call"]?.object?["endedBy"]?.string == "alice")
    }

    @Test func aReasonForTheEndStandsInTheChanges() throws {
        var machine = try invited()
        try machine.accept(bob)
        try machine.endRequested(.init(callID: callID, reason: "tired"), acting(alice))
        #expect(WebhookEvent(call: machine.call).changes == ["alice accepted"])
    }

    @Test func aCallThatIsCancelledBeforeItBeginsHasOnlyEnded() throws {
        let event = WebhookEvent(call: try invited(isCancelled: true).call)
        #expect(event.type == .callEnded)
        #expect(event.id == "call-1_1")
        #expect(event.changes == ["alice accepted", "bob cancelled"])
    }

    @Test func whoMustNotKnowOfTheCallIsToldAsToItsInviter() throws {
        let withheld = WebhookEvent(call: try invited(withheld: [bob]).call)
        let plain = WebhookEvent(call: try invited().call)
        #expect(withheld == plain)
    }
}
