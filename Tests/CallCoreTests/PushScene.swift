@testable import CallCore
import SignalingProtocol

/// A call of Alice's, the known facts about its members' devices, and the time.
struct PushScene {
    static let start: Milliseconds = 1_790_000_000_000

    var machine: CallMachine
    var now = start
    var acks: [DeviceAck] = []
    var checks: [RingCheck] = []
    var pushes: [PushState] = []
    var presence: Presence = [:]
    var registrations: [UserID: [PushRegistration]] = [:]
    var unsent: Set<PushID> = []
    private var requests = 0

    static let policy = PushPolicy(
        after: 1_000, apps: [AppName.standard: Set(PushPlatform.allCases), AppName("other")!: [.fcm]])

    /// Alice invites these users, for a minute.
    init(_ mode: CallMode = .common, _ invitees: [UserID] = [bob], withheld: [UserID] = []) {
        let invitation = CallMachine.Invitation(
            callID: CallID("call-1")!, invite: Request.Invite(invitees: invitees, mode: mode), busy: [],
            isCancelled: false)
        let key = RequestKey(
            device: DeviceAddress(userID: alice, deviceID: phone), requestID: RequestID("invite")!)
        machine = try! CallMachine.invited(
            invitation, CallMachine.Acting(key: key, now: now),
            CallMachine.Invitees(
                profiles: [:], unregistered: [], limited: [], withheld: withheld, pushable: invitees),
            activeElsewhere: nil, settings: CallSettings())
    }

    // MARK: Changes of the scene

    mutating func acting(_ user: UserID, _ device: DeviceID) -> CallMachine.Acting {
        requests += 1
        let address = DeviceAddress(userID: user, deviceID: device)
        return CallMachine.Acting(key: RequestKey(device: address, requestID: RequestID("r\(requests)")!), now: now)
    }

    mutating func accept(_ user: UserID = bob, on device: DeviceID) {
        let acting = acting(user, device)
        try! machine.acceptRequested(Request.Accept(callID: machine.call.callID), acting, activeElsewhere: nil)
    }

    mutating func reject(_ user: UserID = bob, on device: DeviceID) {
        let acting = acting(user, device)
        try! machine.rejectRequested(Request.Reject(callID: machine.call.callID), acting, isCheck: false)
    }

    mutating func join(_ user: UserID = bob, on device: DeviceID) {
        let acting = acting(user, device)
        try! machine.joinRequested(
            Request.Join(callID: machine.call.callID), acting, activeElsewhere: nil, profile: nil)
    }

    mutating func cancel() {
        let acting = acting(alice, phone)
        _ = try! machine.cancelRequested(Request.Cancel(callID: machine.call.callID), acting)
    }

    mutating func end() {
        let acting = acting(alice, phone)
        try! machine.endRequested(Request.End(callID: machine.call.callID), acting)
    }

    mutating func add(_ user: UserID = bob, timeout: Int? = nil) {
        let acting = acting(alice, phone)
        _ = try! machine.addRequested(
            Request.Add(callID: machine.call.callID, invitees: [user], timeout: timeout), acting,
            CallMachine.Invitees(profiles: [:], unregistered: [], limited: [], withheld: [], pushable: [user]))
    }

    mutating func expire() {
        now = machine.call.members[1].expiresAt!
        machine.deadlineReached(
            CallMachine.DeadlineContext(now: now, heard: [:], listeningSince: 0, isInviterOnline: true))
    }

    mutating func pass(_ duration: Milliseconds) { now += duration }

    mutating func ack(_ device: DeviceID, _ revision: Int? = nil, of user: UserID = bob) {
        let address = DeviceAddress(userID: user, deviceID: device)
        acks.removeAll { $0.device == address }
        acks.append(DeviceAck(device: address, session: "s", revision: revision ?? machine.call.revision))
    }

    mutating func check(_ device: DeviceID, of user: UserID = bob) {
        let invitation = machine.call.entry(user)!.invitedRevision
        checks.append(
            RingCheck(device: DeviceAddress(userID: user, deviceID: device), invitation: invitation))
    }

    mutating func isOnline(_ device: DeviceID, _ isOnline: Bool = true, of user: UserID = bob) {
        let address = DeviceAddress(userID: user, deviceID: device)
        presence[user, default: []].removeAll { $0.device == address }
        presence[user, default: []].append(
            DevicePresence(device: address, session: "s", isOnline: isOnline, since: now, seen: now))
    }

    mutating func register(
        _ device: DeviceID, _ platform: PushPlatform, app: AppName = .standard, since: Milliseconds = start - 1,
        of user: UserID = bob
    ) {
        let key = PushRegistration.Key(DeviceAddress(userID: user, deviceID: device), app, platform)
        registrations[user, default: []].append(
            PushRegistration(key, target: .token("t"), digest: "d", since: since))
    }

    /// Sets how far the pushes to the registration are.
    mutating func stands(
        _ device: DeviceID, _ platform: PushPlatform, ring: PushState.Phase? = nil, stop: PushState.Phase? = nil,
        missed: PushState.Phase? = nil, isUnsent: Bool = false, of user: UserID = bob
    ) {
        let key = PushRegistration.Key(DeviceAddress(userID: user, deviceID: device), .standard, platform)
        let invitation = machine.call.entry(user)!.invitedRevision
        pushes.removeAll { $0.key == key }
        pushes.append(PushState(key, invitation: invitation, ring: ring, stop: stop, missed: missed))
        guard isUnsent else { return }
        for (kind, phase) in [(PushKind.ring, ring), (.stop, stop), (.missed, missed)] where phase == .trying {
            unsent.insert(PushID(key, kind, invitation: invitation))
        }
    }

    // MARK: Results of the judgement

    var judgement: PushJudgement {
        let stored = StoredRecord(
            .call(machine.call.callID), version: 1, record: .call(machine.call), acks: acks, pushes: pushes,
            checks: checks)
        return PushJudge(policy: Self.policy, lease: 600_000)
            .judge(PushReading(stored, presence, registrations)!, now: now, unsent: unsent)
    }

    /// The due pushes, each in the form `ring bob/phone fcm`.
    var due: [String] {
        judgement.due.map { "\($0.kind) \($0.registration.device) \($0.registration.key.platform)" }.sorted()
    }

    /// Milliseconds from now.
    var next: Milliseconds? { judgement.next.map { $0 - now } }

    /// The late pushes, each in the form `bob/phone fcm`.
    var late: [String] { judgement.late.map { "\($0.key.device) \($0.key.platform)" }.sorted() }

    /// The settled registrations, each in the form `bob/phone fcm ring:over`.
    var settled: [String] {
        judgement.settled.map { state in
            let phases = PushKind.allCases.compactMap { kind in state[kind].map { "\(kind):\($0)" } }
            return ["\(state.key.device) \(state.key.platform)", phases.joined(separator: " ")].joined(separator: " ")
        }.sorted()
    }
}
