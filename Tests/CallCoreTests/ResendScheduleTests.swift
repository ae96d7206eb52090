@testable import CallCore
import SignalingProtocol
import Testing

/// Section 5 of the protocol: "Unacked events are resent after 1, 2, 4, 8 s, then every 8 s: invitations until they
/// expire, the rest for 60 s; and whenever the device comes online; to a device that acknowledges late, at its pace
/// (Clarifications, Slow devices)."
@Suite struct ResendScheduleTests {
    @Test func resendsComeAfter1248SecondsThenEvery8() {
        let anchor = Scene.start
        var at = anchor
        var delays: [Milliseconds] = []
        for _ in 0..<8 {
            let next = ResendSchedule.next(after: at, from: anchor)
            delays.append(next - at)
            at = next
        }
        #expect(delays == [1, 2, 4, 8, 8, 8, 8, 8].map { $0 * seconds })
    }

    @Test func theNextResendAlwaysLiesAheadAndOnTheSchedule() {
        let anchor = Scene.start
        let slots = [1, 3, 7, 15, 23, 31, 39, 47, 55, 63].map { anchor + $0 * seconds }
        for moment in stride(from: anchor - 2000, to: anchor + 60 * seconds, by: 100) {
            let next = ResendSchedule.next(after: moment, from: anchor)
            #expect(next == slots.first { $0 > moment })
        }
    }

    @Test func theScheduleGoesOnForAsLongAsAnInvitationMayLast() {
        let anchor = Scene.start
        var at = anchor
        while at < anchor + 600 * seconds {
            let next = ResendSchedule.next(after: at, from: anchor)
            #expect(next > at && next - at <= 8 * seconds)
            at = next
        }
    }

    // The schedule counts from the owed change, or from the device's coming online.

    @Test func everyChangeBeginsTheScheduleAnew() throws {
        let scene = try Scene(.common, [bob, carol])
        let view = DeviceView(address: DeviceAddress(userID: bob, deviceID: phone), acked: 0)
        #expect(scene.call.deliveryDue == scene.now + 1 * seconds)
        #expect(scene.call.resendAnchor(for: view) == scene.now)
        scene.pass(20 * seconds)
        try scene.reject(carol)
        #expect(scene.call.deliveryDue == scene.now + 1 * seconds)
        #expect(scene.call.resendAnchor(for: view) == scene.now)
    }

    @Test func aDeviceThatCameOnlineLaterHasItsOwnSchedule() throws {
        let scene = try Scene()
        let online = scene.now + 20 * seconds
        let view = DeviceView(
            address: DeviceAddress(userID: bob, deviceID: phone), acked: 0, sessionStart: online)
        #expect(scene.call.resendAnchor(for: view) == online)
    }

    @Test func anInvitationIsResentUntilItExpiresAndTheRestForAMinute() throws {
        let scene = try Scene(.common, [bob, carol]) { $0.timeout = 300 }
        let view = DeviceView(address: DeviceAddress(userID: bob, deviceID: phone), acked: 0)
        let invited = UnackedEvent(name: .invited, since: 0)
        #expect(scene.call.resendEnd(invited, for: view) == scene.now + 300 * seconds)
        scene.pass(100 * seconds)
        try scene.cancel([bob])
        let cancelled = UnackedEvent(name: .cancelled, since: 0)
        #expect(scene.call.resendEnd(cancelled, for: view) == scene.now + 60 * seconds)
    }

    // The coordinator tells the machine these facts about deliveries.

    @Test func theNextDeadlineIsTheEarlierOfResendAndTransition() throws {
        let scene = try Scene { $0.timeout = 10 }
        let start = scene.now
        #expect(scene.machine.nextDeadline == start + 1 * seconds)
        scene.machine.delivered(at: start + 7 * seconds, next: start + 15 * seconds)
        #expect(scene.machine.nextDeadline == start + 10 * seconds)
        scene.machine.delivered(at: start + 7 * seconds, next: nil)
        #expect(scene.machine.nextDeadline == start + 10 * seconds)
    }

    @Test func anEndedCallHasNoDeadlineButItsResends() throws {
        let scene = try Scene()
        try scene.cancel()
        #expect(scene.machine.nextDeadline == scene.now + 1 * seconds)
        scene.machine.delivered(at: scene.now + 1 * seconds, next: nil)
        #expect(scene.machine.nextDeadline == nil)
    }

    @Test func aDeliveryIsScheduledEarlierButNeverLater() throws {
        let scene = try Scene()
        let start = scene.now
        scene.machine.delivered(at: start, next: start + 8 * seconds)
        scene.machine.scheduleDelivery(at: start + 2 * seconds)
        #expect(scene.call.deliveryDue == start + 2 * seconds)
        scene.machine.scheduleDelivery(at: start + 4 * seconds)
        #expect(scene.call.deliveryDue == start + 2 * seconds)
    }
}
