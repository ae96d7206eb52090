import CallCore
import SignalingProtocol
import Testing

let alice = UserID("alice")!
let bob = UserID("bob")!
let carol = UserID("carol")!
let dave = UserID("dave")!
/// Eve is never invited to a call.
let eve = UserID("eve")!
let phone = DeviceID("phone")!
let web = DeviceID("web")!
let tablet = DeviceID("tablet")!
let seconds: Milliseconds = 1000

/// A call in virtual time. Alice invites on her phone; every act happens at `now`, which only `pass` moves.
final class Scene {
    var machine: CallMachine
    var now = Scene.start
    /// When the devices in the call were last heard of; only `beat` writes these times.
    var heard: [UserID: Milliseconds] = [:]
    var listeningSince: Milliseconds = 0
    var isInviterOnline = false
    private var requests = 0

    static let start: Milliseconds = 1_790_000_000_000

    var call: Call { machine.call }
    /// The time since the call was created.
    var elapsed: Milliseconds { now - Scene.start }

    /// Alice's invitation of `invitees`.
    init(
        _ mode: CallMode = .common, _ invitees: [UserID] = [bob], busy: [UserID] = [], isCancelled: Bool = false,
        settings: CallSettings = CallSettings(), activeElsewhere: CallID? = nil,
        _ configure: (inout Request.Invite) -> Void = { _ in }
    ) throws(SignalingError) {
        var invite = Request.Invite(invitees: invitees, mode: mode)
        configure(&invite)
        let invitation = CallMachine.Invitation(
            callID: CallID("call-1")!, invite: invite, busy: busy, isCancelled: isCancelled)
        let key = RequestKey(
            device: DeviceAddress(userID: alice, deviceID: phone), requestID: RequestID("invite")!)
        machine = try CallMachine.invited(
            invitation, CallMachine.Acting(key: key, now: now), .plain, activeElsewhere: activeElsewhere,
            settings: settings)
    }

    private init(of scene: Scene) {
        machine = scene.machine
        now = scene.now
        heard = scene.heard
        listeningSince = scene.listeningSince
        isInviterOnline = scene.isInviterOnline
        requests = scene.requests
    }

    /// Returns the same situation once more, so that a test can go another way from here.
    func copy() -> Scene { Scene(of: self) }

    // MARK: Requests

    /// A device makes a request. Returns the per-user errors of its response.
    @discardableResult
    func ask(
        _ body: Request.Body, by user: UserID, on device: DeviceID = phone, activeElsewhere: CallID? = nil
    ) throws(SignalingError) -> [UserError] {
        requests += 1
        let key = RequestKey(
            device: DeviceAddress(userID: user, deviceID: device), requestID: RequestID("r\(requests)")!)
        let acting = CallMachine.Acting(key: key, now: now)
        switch body {
        case .accept(let accept): try machine.acceptRequested(accept, acting, activeElsewhere: activeElsewhere)
        case .reject(let reject): try machine.rejectRequested(reject, acting, isCheck: false)
        case .cancel(let cancel): return try machine.cancelRequested(cancel, acting)
        case .add(let add): return try machine.addRequested(add, acting, .plain)
        case .join(let join):
            try machine.joinRequested(join, acting, activeElsewhere: activeElsewhere, profile: nil)
        case .quit(let quit): try machine.quitRequested(quit, acting)
        case .end(let end): try machine.endRequested(end, acting)
        case .get: try machine.getRequested(by: user)
        case .signal(let signal): return try machine.call.judge(signal, from: user)
        case .invite: preconditionFailure("a scene begins with its invitation")
        case .report, .trace, .media, .query, .message, .userUpdate, .userQuery, .userBlock, .userBlockList,
            .userSignOut,
            .userDelete, .pushRegister, .pushUnregister, .ringCheck:
            preconditionFailure("no matter of the machine")
        }
        return []
    }

    /// Returns why the service refuses a request; nil when the service serves the request. A refused request must
    /// change nothing.
    func refusal(
        _ body: Request.Body, by user: UserID, on device: DeviceID = phone, activeElsewhere: CallID? = nil,
        at location: SourceLocation = #_sourceLocation
    ) -> SignalingError? {
        let before = call
        do throws(SignalingError) {
            try ask(body, by: user, on: device, activeElsewhere: activeElsewhere)
            return nil
        } catch {
            if call != before { Issue.record("a refused request changed the call", sourceLocation: location) }
            return error
        }
    }

    func accept(_ user: UserID, on device: DeviceID = phone) throws(SignalingError) {
        try ask(.accept, by: user, on: device)
    }

    func reject(
        _ user: UserID, _ reason: String = WellKnownReason.declined, on device: DeviceID = phone
    ) throws(SignalingError) {
        try ask(.reject(.init(callID: call.callID, reason: reason)), by: user, on: device)
    }

    @discardableResult
    func cancel(_ invitees: [UserID]? = nil, by user: UserID = alice) throws(SignalingError) -> [UserError] {
        try ask(.cancel(invitees), by: user)
    }

    @discardableResult
    func add(_ invitees: [UserID], by user: UserID = alice) throws(SignalingError) -> [UserError] {
        try ask(.add(invitees), by: user)
    }

    func join(_ user: UserID, on device: DeviceID = phone) throws(SignalingError) {
        try ask(.join, by: user, on: device)
    }

    func quit(_ user: UserID) throws(SignalingError) { try ask(.quit, by: user) }

    func end(by user: UserID) throws(SignalingError) { try ask(.end, by: user) }

    // MARK: Acks, heartbeats, presence

    /// A device acknowledges the present revision, or an earlier revision. Returns whether the ack changed the call.
    @discardableResult
    func ack(_ user: UserID, _ revision: Int? = nil) -> Bool {
        machine.acknowledged(by: user, revision: revision ?? call.revision, now: now)
    }

    /// The service hears of the call from these members' devices.
    func beat(_ users: UserID...) {
        for user in users { heard[user] = now }
    }

    @discardableResult
    func goOffline(
        _ user: UserID = alice, _ reason: PresenceMessage.OfflineReason, on device: DeviceID = phone
    ) -> Bool {
        machine.wentOffline(DeviceAddress(userID: user, deviceID: device), reason: reason, now: now)
    }

    @discardableResult
    func comeOnline(_ user: UserID = alice, on device: DeviceID = phone) -> Bool {
        machine.cameOnline(DeviceAddress(userID: user, deviceID: device))
    }

    // MARK: Time

    /// Time goes on, and every deadline is served at its very moment. Resends are left out, since no device listens.
    func pass(_ duration: Milliseconds) {
        let end = now + duration
        machine.delivered(at: now, next: nil)
        while let due = machine.nextDeadline, due <= end {
            now = max(now, due)
            serveDeadlines()
            machine.delivered(at: now, next: nil)
        }
        now = end
    }

    /// Time goes on while no coordinator serves anything.
    func passUnserved(_ duration: Milliseconds) { now += duration }

    func serveDeadlines() {
        machine.deadlineReached(
            CallMachine.DeadlineContext(
                now: now, heard: heard, listeningSince: listeningSince, isInviterOnline: isInviterOnline))
    }

    // MARK: The visible state

    func state(_ user: UserID) -> MemberState? { call.member(user)?.state }
    func reason(_ user: UserID) -> String? { call.member(user)?.reason }

    /// Returns the delivery to a device that acknowledged `acked`; `online` is when its session began.
    func delivery(
        _ user: UserID, on device: DeviceID = phone, acked: Int = 0, online: Milliseconds? = nil
    ) -> EventName? {
        let view = DeviceView(
            address: DeviceAddress(userID: user, deviceID: device), acked: acked, sessionStart: online)
        return call.delivery(to: view, now: now, settings: machine.settings)?.name
    }

    /// Returns the event as the service would send it to that device now.
    func event(
        _ user: UserID, on device: DeviceID = phone, acked: Int = 0
    ) -> Event? {
        let view = DeviceView(address: DeviceAddress(userID: user, deviceID: device), acked: acked)
        return call.delivery(to: view, now: now, settings: machine.settings).map {
            call.event($0, for: user, now: now, snapshot: call.snapshot)
        }
    }
}

extension CallMachine.Invitees {
    /// Every user may be invited, and no user has a profile.
    static let plain = Self(profiles: [:], unregistered: [], limited: [], withheld: [], pushable: nil)
}

/// Requests about the only call of a scene.
extension Request.Body {
    static let accept = Request.Body.accept(.init(callID: CallID("call-1")!))
    static let reject = Request.Body.reject(.init(callID: CallID("call-1")!))
    static let cancel = Request.Body.cancel(.init(callID: CallID("call-1")!))
    static let join = Request.Body.join(.init(callID: CallID("call-1")!))
    static let quit = Request.Body.quit(.init(callID: CallID("call-1")!))
    static let end = Request.Body.end(.init(callID: CallID("call-1")!))
    static let get = Request.Body.get(.init(callID: CallID("call-1")!))

    static func cancel(_ invitees: [UserID]?) -> Request.Body {
        .cancel(.init(callID: CallID("call-1")!, invitees: invitees))
    }

    static func add(_ invitees: [UserID]) -> Request.Body {
        .add(.init(callID: CallID("call-1")!, invitees: invitees))
    }
}

extension Event {
    /// The users whose changes the event reports, in order.
    var changed: [UserID] { changes.map(\.userID) }
}
