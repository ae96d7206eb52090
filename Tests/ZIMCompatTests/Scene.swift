import BellwireClient
import SignalingProtocol

@testable import ZIMCompat

let alice = UserID("alice")!
let bob = UserID("bob")!
let carol = UserID("carol")!
let phone = DeviceID("phone")!
let tablet = DeviceID("tablet")!
let callID = CallID("call-1")!

/// The narration of a device, with a call that its test changes.
struct Scene {
    var narration: Narration
    var call: CallSnapshot
    /// The time at which the call's revision was made.
    var time: Int64 = 1
    /// The response to a request of this device, with the call as it is now.
    var answer: Response.Success { Response.Success(call: call, time: time) }

    init(_ user: UserID, mode: CallMode = .advanced, others: [UserID] = [], hasLastToken: Bool = false) {
        narration = Narration(user: user, device: phone, hasLastToken: hasLastToken)
        var members = [MemberSnapshot(userID: alice, state: .accepted, device: phone, updatedAt: 1)]
        members += ([bob] + others).map {
            MemberSnapshot(userID: $0, state: .inviting, invitedBy: alice, expiresAt: 90_001, updatedAt: 1)
        }
        call = CallSnapshot(
            callID: callID, revision: 1, mode: mode, state: .ringing, inviter: alice, createdAt: 1, timeout: 90,
            extendedData: "hello", members: members)
    }

    /// Returns a scene in which the call was told, and the notices are forgotten.
    static func ringing(_ user: UserID, mode: CallMode = .advanced, others: [UserID] = []) -> Scene {
        var scene = Scene(user, mode: mode, others: others)
        if user == alice { _ = scene.answered(isInvite: true) } else { _ = scene.event(.invited) }
        return scene
    }

    /// Returns a scene in which the user was in the call, and quit.
    static func left(_ user: UserID) -> Scene {
        var scene = Scene.ringing(user, others: [carol])
        scene.move(user, to: .accepted, on: phone)
        _ = scene.answered()
        scene.move(user, to: .quit)
        _ = scene.answered()
        return scene
    }

    mutating func move(
        _ user: UserID, to state: MemberState, on device: DeviceID? = nil, extendedData: String? = nil
    ) {
        change()
        let index = call.members.firstIndex { $0.userID == user }!
        call.members[index].updatedAt = time
        call.members[index].state = state
        call.members[index].device = device
        call.members[index].extendedData = extendedData
    }

    mutating func end(by user: UserID?) {
        change()
        (call.state, call.endedBy, call.endedAt) = (.ended, user, time)
    }

    private mutating func change() {
        call.revision += 1
        time += 1
    }

    mutating func event(_ name: EventName) -> [Notice] {
        narration.received(.event(Event(name: name, revision: call.revision, time: time, call: call)))
    }

    mutating func snapshot() -> [Notice] { narration.received(.snapshot(call)) }

    /// A request of this device that succeeded, with its snapshot, which the client tells at once.
    mutating func answered(isInvite: Bool = false) -> [Notice] {
        narration.asks(callID)
        return narration.answered(callID, with: answer, isInvite: isInvite) + snapshot()
    }

    mutating func stands(_ state: BellwireConnectionState) -> [Notice] { narration.received(.connection(state)) }
}

/// A notice in short: `states bob:received`.
func words(_ notices: [Notice]) -> [String] {
    notices.map { notice in
        switch notice {
        case .connection(let state, let event): "connection \(state) \(event)"
        case .error(let refusal): "error \(refusal.code.rawValue)"
        case .tokenWillExpire(let seconds): "token \(seconds)"
        case .profile(let user): "profile \(user.userID)"
        case .created: "created"
        case .received: "received"
        case .cancelled: "cancelled"
        case .timeout: "timeout"
        case .ended: "ended"
        case .overHere: "over here"
        case .states(_, let members, _): "states " + members.map { "\($0.userID):\($0.state)" }.joined(separator: " ")
        }
    }
}
