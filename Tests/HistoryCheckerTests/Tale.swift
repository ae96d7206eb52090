import HistoryChecker
import SignalingProtocol

/// A history made by hand. Times are in milliseconds since its beginning.
struct Tale {
    static let beginning: Int64 = 1_790_000_000_000

    private(set) var entries: [HistoryEntry] = []
    private var now: Int64 = 0
    private var sessions = 0

    init(coordinators: [String] = ["one", "two", "three"]) { write(.began(coordinators: coordinators)) }

    mutating func at(_ milliseconds: Int64) { now = milliseconds }

    private mutating func write(_ content: HistoryEntry.Content) {
        entries.append(HistoryEntry(at: Self.beginning + now, content))
    }

    // MARK: Devices

    /// Connects and is welcomed.
    mutating func online(_ devices: String..., calls: [CallSnapshot] = [], keptSession: String? = nil) {
        for device in devices {
            sessions += 1
            let session = keptSession ?? "s\(sessions)"
            write(.connected(address(device), session: session))
            write(.presented(address(device), PresenceMessage(.online, session: session)))
            write(
                .received(
                    address(device),
                    .welcome(
                        Welcome(
                            session: session, serverTime: Self.beginning + now, heartbeatInterval: 20,
                            heartbeatTimeout: 60, calls: calls))))
        }
    }

    mutating func offline(_ device: String) { write(.disconnected(address(device))) }

    mutating func ask(_ device: String, _ id: String, _ body: Request.Body) {
        write(.sent(address(device), .request(Request(id: RequestID(id)!, body: body))))
    }

    mutating func ok(
        _ device: String, _ id: String, _ call: CallSnapshot, offline: [UserID]? = nil, errors: [UserError] = [],
        merged: Bool = false
    ) {
        let success = Response.Success(
            call: call, time: call.madeAt, offline: offline, errors: errors, merged: merged)
        write(.received(address(device), .response(Response(id: RequestID(id)!, outcome: .success(success)))))
    }

    mutating func refused(
        _ device: String, _ id: String, _ code: ErrorCode, state: String? = nil, callID: CallID? = nil
    ) {
        let error = SignalingError(code, "", state: state, callID: callID)
        write(.received(address(device), .response(Response(id: RequestID(id)!, outcome: .failure(error)))))
    }

    mutating func told(
        _ device: String, _ name: EventName, _ call: CallSnapshot, expiresIn: Int? = nil, time: Int64? = nil
    ) {
        let left = name == .invited ? expiresIn ?? Int(call.members[1].expiresAt! - Self.beginning - now) : nil
        write(
            .received(
                address(device),
                .event(
                    Event(
                        name: name, revision: call.revision, time: time.map { Self.beginning + $0 } ?? call.madeAt,
                        call: call, expiresIn: left))))
    }

    // MARK: Faults

    mutating func fault(_ target: String, _ fault: HistoryEntry.Fault = .killed) {
        write(.faultBegan(target: target, fault))
    }

    mutating func healed(_ target: String) { write(.faultEnded(target: target)) }

    mutating func storeWentBack(to moment: Int64) { write(.storeWentBack(since: Self.beginning + moment)) }

    mutating func loss(_ device: String, _ direction: HistoryEntry.Direction = .down) {
        write(.lost(address(device), direction))
    }

    mutating func settled() { write(.settled) }

    // MARK: Judgement

    var violations: [Violation] {
        var checker = HistoryChecker()
        for entry in entries { checker.observe(entry) }
        checker.finish()
        return checker.violations
    }

    /// The broken invariants by name, each once.
    var broken: [Violation.Kind] { Set(violations.map(\.kind)).sorted() }
}

func address(_ name: String) -> DeviceAddress {
    let parts = name.split(separator: "/")
    return DeviceAddress(userID: UserID(String(parts[0]))!, deviceID: DeviceID(String(parts[1]))!)
}

func user(_ name: String) -> UserID { UserID(name)! }

/// `alice` on her phone invites at `at`; each invitee is `inviting`.
func invitation(
    _ id: String = "c", by inviter: String = "alice/phone", to invitees: [String] = ["bob"], at: Int64 = 100,
    timeout: Int = 10, mode: CallMode = .common
) -> CallSnapshot {
    let made = Tale.beginning + at
    var call = CallSnapshot(
        callID: CallID(id)!, revision: 1, mode: mode, state: .ringing, inviter: address(inviter).userID,
        createdAt: made, timeout: timeout, members: [])
    call.members = [
        MemberSnapshot(
            userID: call.inviter, state: .accepted, device: address(inviter).deviceID, updatedAt: made)
    ]
    call.members += invitees.map {
        MemberSnapshot(
            userID: user($0), state: .inviting, invitedBy: call.inviter, expiresAt: made + Int64(timeout) * 1000,
            updatedAt: made)
    }
    return call
}

extension CallSnapshot {
    /// The time of the latest change of a member, which in these tales is the time of the revision.
    var madeAt: Int64 { members.map(\.updatedAt).max()! }

    /// The next revision, in which a user moves to `state`; the call's own state follows.
    func then(_ name: String, _ state: MemberState, on device: String? = nil, at: Int64) -> CallSnapshot {
        var call = self
        let made = Tale.beginning + at
        let index = call.members.firstIndex { $0.userID == user(name) }!
        call.revision += 1
        call.members[index].state = state
        call.members[index].updatedAt = made
        if let device { call.members[index].device = DeviceID(device)! }
        if state == .rejected { call.members[index].reason = "declined" }
        if state == .accepted, call.acceptedAt == nil { call.acceptedAt = made }
        if state == .accepted { call.state = .active }
        let pending = call.members.contains { $0.state.isPending }
        if mode == .common, !pending {
            let reasons: [MemberState: EndReason] = [.rejected: .rejected, .cancelled: .cancelled, .timeout: .timeout]
            return call.over(call.acceptedAt == nil ? reasons[state]! : .answered, at: at)
        }
        return call
    }

    /// The same revision, ended.
    func over(_ reason: EndReason, at: Int64) -> CallSnapshot {
        var call = self
        call.state = .ended
        call.endReason = reason
        call.endedAt = Tale.beginning + at
        return call
    }

    /// The next revision, in which `name` ended the call for all.
    func ended(by name: String, at: Int64) -> CallSnapshot {
        var call = over(.hangup, at: at)
        call.revision += 1
        call.endedBy = user(name)
        call.members[call.members.firstIndex { $0.userID == user(name) }!].updatedAt = Tale.beginning + at
        return call
    }

    var accept: Request.Body { .accept(.init(callID: callID)) }
    var get: Request.Body { .get(.init(callID: callID)) }
    var reject: Request.Body { .reject(.init(callID: callID)) }
    var cancel: Request.Body { .cancel(.init(callID: callID)) }
    var end: Request.Body { .end(.init(callID: callID)) }

    func invite(notReceivedAfter: Int? = nil, glare: GlarePolicy = .ring) -> Request.Body {
        .invite(
            .init(
                invitees: members.dropFirst().map(\.userID), callID: callID, mode: mode, timeout: timeout,
                notReceivedCheck: notReceivedAfter != nil, notReceivedAfter: notReceivedAfter, glare: glare))
    }
}
