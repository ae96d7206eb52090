import SignalingProtocol

@testable import BellwireClientCore

let alice = UserID("alice")!
let bob = UserID("bob")!
let carol = UserID("carol")!
let phone = DeviceID("phone")!
let web = DeviceID("web")!
let callID = CallID("call-1")!

/// A machine in virtual time; the device records every action of the machine with its millisecond.
struct Device {
    var machine: ClientMachine
    var now: Int64 = 1_000_000
    /// The machine's actions since the last `take`, with the time.
    var actions: [(time: Int64, action: ClientMachine.Action)] = []

    init(_ user: UserID = bob, configuration: ClientMachine.Configuration = .init()) {
        machine = ClientMachine(
            device: DeviceAddress(userID: user, deviceID: phone), configuration: configuration)
    }

    /// Returns a device that is connected, subscribed and welcomed; the actions of these steps are taken.
    static func online(_ user: UserID = bob, configuration: ClientMachine.Configuration = .init()) -> Device {
        var device = Device(user, configuration: configuration)
        device.connect("s1")
        device.welcome("s1")
        device.take()
        return device
    }

    mutating func perform(_ act: (inout ClientMachine, Int64) -> [ClientMachine.Action]) {
        actions += act(&machine, now).map { (now, $0) }
    }

    mutating func connect(_ session: String) {
        perform { $0.connected(session: session, now: $1) }
        perform { $0.subscribed(now: $1) }
    }

    mutating func disconnect() { perform { $0.disconnected(reason: "gone", now: $1) } }

    mutating func welcome(
        _ session: String, calls: [CallSnapshot] = [], serverTime: Int64 = 0, heartbeat: Int = 20, omitted: Int = 0,
        lease: Int? = nil, tokenExpiresAt: Int64? = nil
    ) {
        let welcome = Welcome(
            session: session, serverTime: serverTime, heartbeatInterval: heartbeat, heartbeatTimeout: 60, calls: calls,
            omittedCalls: omitted, presenceLease: lease, tokenExpiresAt: tokenExpiresAt)
        receive(.welcome(welcome))
    }

    mutating func receive(_ message: DownMessage) { perform { $0.received(message, now: $1) } }

    mutating func receive(
        _ name: EventName, _ call: CallSnapshot, time: Int64 = 0, expiresIn: Int? = nil
    ) {
        receive(.event(Event(name: name, revision: call.revision, time: time, call: call, expiresIn: expiresIn)))
    }

    mutating func send(_ id: String, _ body: Request.Body) {
        perform { $0.send(Request(id: RequestID(id)!, body: body), now: $1) }
    }

    mutating func respond(_ id: String, _ call: CallSnapshot, time: Int64 = 0) {
        receive(.response(Response(id: RequestID(id)!, outcome: .success(.init(call: call, time: time)))))
    }

    /// The calls that had news which the machine did not take in.
    var refused: [CallID] {
        actions.compactMap { if case .refuse(let callID) = $0.action { callID } else { nil } }
    }

    mutating func respond(_ id: String, _ code: ErrorCode, retryAfter: Int? = nil) {
        let error = SignalingError(code, "no", retryAfter: retryAfter)
        receive(.response(Response(id: RequestID(id)!, outcome: .failure(error))))
    }

    /// Lets virtual time pass, firing the machine's timer exactly at the times for which the machine asks.
    mutating func pass(_ milliseconds: Int64) {
        let end = now + milliseconds
        while let deadline = machine.nextDeadline, deadline <= end {
            now = max(now, deadline)
            perform { $0.timerFired(now: $1) }
            precondition(machine.nextDeadline.map { $0 > now } ?? true, "all that was due is done")
        }
        now = end
    }

    @discardableResult
    mutating func take() -> [ClientMachine.Action] {
        defer { actions = [] }
        return actions.map(\.action)
    }

    // MARK: Actions by kind

    var presences: [PresenceMessage] {
        actions.compactMap { if case .publishPresence(let presence) = $0.action { presence } else { nil } }
    }

    /// Times of published presence, since `start`.
    func presenceTimes(since start: Int64) -> [Int64] {
        actions.compactMap { if case .publishPresence = $0.action { $0.time - start } else { nil } }
    }

    /// Times at which the request `id` was published, since `start`.
    func sendTimes(_ id: String, since start: Int64) -> [Int64] {
        actions.compactMap { entry in
            guard case .publish(.request(let request)) = entry.action, request.id.string == id else { return nil }
            return entry.time - start
        }
    }

    /// Times at which another token was asked for, since `start`.
    func renewalTimes(since start: Int64) -> [Int64] {
        actions.compactMap { if case .renewToken = $0.action { $0.time - start } else { nil } }
    }

    func heartbeatTimes(since start: Int64) -> [Int64] {
        actions.compactMap { if case .publish(.heartbeat) = $0.action { $0.time - start } else { nil } }
    }

    var sentRequests: [String] {
        actions.compactMap { entry in
            guard case .publish(.request(let request)) = entry.action else { return nil }
            return request.id.string
        }
    }

    var acks: [Int] {
        actions.compactMap { if case .publish(.ackCall(_, let revision)) = $0.action { revision } else { nil } }
    }

    var told: [ClientEvent] {
        actions.compactMap { if case .deliver(let event) = $0.action { event } else { nil } }
    }

    /// Outcomes of requests: the id, and the code of a failure.
    var outcomes: [String] {
        actions.compactMap { entry in
            switch entry.action {
            case .succeed(let id, _): "\(id) ok"
            case .fail(let id, let error): "\(id) \(error.code)"
            case .answer(let id, _): "\(id) ok"
            case .publish, .publishPresence, .deliver, .renewToken, .renewSession, .endTakenOver, .refuse: nil
            }
        }
    }
}

/// A call of alice to bob at some revision.
func call(
    _ revision: Int, _ state: BellwireCallState = .ringing, mode: CallMode = .common,
    bob bobState: MemberState = .inviting, bobDevice: DeviceID? = nil, alice aliceState: MemberState = .accepted,
    expiresAt: Int64? = 60_000, id: CallID = callID
) -> CallSnapshot {
    CallSnapshot(
        callID: id, revision: revision, mode: mode, state: state, inviter: alice, createdAt: 0,
        endedAt: state == .ended ? 1 : nil, timeout: 60,
        members: [
            MemberSnapshot(userID: alice, state: aliceState, device: phone, updatedAt: 0),
            MemberSnapshot(
                userID: bob, state: bobState, device: bobDevice, invitedBy: alice, expiresAt: expiresAt, updatedAt: 0),
        ])
}

/// An advanced call in which bob talks on this device.
func talking(_ revision: Int, bobDevice: DeviceID = phone, bob: MemberState = .accepted) -> CallSnapshot {
    call(revision, .active, mode: .advanced, bob: bob, bobDevice: bobDevice)
}

let inviteBob = Request.Body.invite(.init(invitees: [bob], callID: callID))
let cancel = Request.Body.cancel(.init(callID: callID))
let accept = Request.Body.accept(.init(callID: callID))
let quit = Request.Body.quit(.init(callID: callID))
let end = Request.Body.end(.init(callID: callID))
let get = Request.Body.get(.init(callID: callID))
