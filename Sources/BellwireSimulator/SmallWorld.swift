import CallCore
import CallStore
import Coordinator
import HistoryChecker
import SignalingProtocol

/// A world small enough to try every sequence of steps: a few devices, each with a few requests.
///
/// The service is real, with a store in memory. Devices and the network are not: a device may send any of its requests
/// at any time, sensible or not, may send a request again, and may ack any revision that exists. These steps cover all
/// ways in which a network may lose, double, delay and reorder messages.
struct SmallWorld: Sendable {
    struct Wish: Sendable {
        let device: DeviceAddress
        let body: Request.Body
    }

    let name: String
    let devices: [DeviceAddress]
    let wishes: [Wish]

    static let all = [common, advanced, membership, glare]

    private static let alice = DeviceAddress(userID: UserID("alice")!, deviceID: DeviceID("phone")!)
    private static let bob = DeviceAddress(userID: UserID("bob")!, deviceID: DeviceID("phone")!)
    private static let web = DeviceAddress(userID: UserID("bob")!, deviceID: DeviceID("web")!)
    private static let carol = DeviceAddress(userID: UserID("carol")!, deviceID: DeviceID("phone")!)
    private static let call = CallID("c")!

    private static func invite(_ invitees: [DeviceAddress], _ mode: CallMode) -> Request.Body {
        var invite = Request.Invite(invitees: invitees.map(\.userID), callID: call, mode: mode)
        invite.timeout = 3
        invite.notReceivedCheck = true
        invite.notReceivedAfter = 1
        return .invite(invite)
    }

    private static let accept = Request.Body.accept(.init(callID: call))
    private static let reject = Request.Body.reject(.init(callID: call))
    private static let cancel = Request.Body.cancel(.init(callID: call))
    private static let quit = Request.Body.quit(.init(callID: call))
    private static let end = Request.Body.end(.init(callID: call))
    private static let join = Request.Body.join(.init(callID: call))

    private static func wishes(_ list: [(DeviceAddress, [Request.Body])]) -> [Wish] {
        list.flatMap { device, bodies in bodies.map { Wish(device: device, body: $0) } }
    }

    /// An inviter and two invitees, one of them with two devices.
    static let common = SmallWorld(
        name: "common", devices: [alice, bob, web, carol],
        wishes: wishes([
            (alice, [invite([bob, carol], .common), cancel]), (bob, [accept, reject]), (web, [accept, reject]),
            (carol, [accept, reject]),
        ]))

    static let advanced = SmallWorld(
        name: "advanced", devices: [alice, bob, web, carol],
        wishes: wishes([
            (alice, [invite([bob, carol], .advanced), cancel, end]), (bob, [accept, quit]), (web, [accept, reject]),
            (carol, [accept, quit]),
        ]))

    static let membership = SmallWorld(
        name: "membership", devices: [alice, bob, web, carol],
        wishes: wishes([
            (alice, [invite([bob], .advanced), .add(.init(callID: call, invitees: [carol.userID])), quit]),
            (bob, [accept, quit]), (web, [accept, join]),
            (carol, [accept, join, .cancel(.init(callID: call, invitees: [bob.userID]))]),
        ]))

    static let glare = SmallWorld(
        name: "glare", devices: [alice, bob, web],
        wishes: wishes([
            (alice, [merging(call, bob), cancel, .accept(.init(callID: back))]),
            (bob, [merging(back, alice), .cancel(.init(callID: back)), accept]), (web, [accept, reject]),
        ]))

    private static let back = CallID("back")!

    private static func merging(_ callID: CallID, _ other: DeviceAddress) -> Request.Body {
        var invite = Request.Invite(invitees: [other.userID], callID: callID, mode: .common)
        invite.timeout = 3
        invite.glare = .merge
        return .invite(invite)
    }
}
