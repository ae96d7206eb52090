import SignalingProtocol

/// The promise of an `ok` response: every view of the call from that revision on must show the promised state.
struct Fact: Equatable {
    enum Promise: Equatable {
        case accepted(DeviceAddress)
        case rejected(DeviceAddress)
        case cancelled(UserID)
        case cancelledAll(by: UserID)
        case joined(UserID)
        case added(UserID)
        case quit(UserID)
        case ended(by: UserID)
        case created(by: DeviceAddress, invitees: [UserID])
    }

    let promise: Promise
    /// The revision of the call in the response.
    let revision: Int
    /// The device that sent the request.
    let device: DeviceAddress
    let requestID: RequestID

    /// Returns the promises of a request that was answered `ok`; empty for a request that changes no call.
    static func facts(of request: Request, from device: DeviceAddress, _ success: Response.Success) -> [Fact] {
        promises(request.body, device, success).map {
            Fact(promise: $0, revision: success.call.revision, device: device, requestID: request.id)
        }
    }

    private static func promises(
        _ body: Request.Body, _ device: DeviceAddress, _ success: Response.Success
    ) -> [Promise] {
        let user = device.userID
        func named(_ users: [UserID]) -> [UserID] {
            users.filter { user in !success.errors.contains { $0.userID == user } }
        }
        switch body {
        case .invite(let invite):
            return success.merged ? [.accepted(device)] : [.created(by: device, invitees: invite.invitees)]
        case .accept: return [.accepted(device)]
        case .reject: return [.rejected(device)]
        case .cancel(let cancel):
            // A cancel that names an alias of a glare merge ends the merged call in one of several ways.
            guard cancel.callID == success.call.callID else { return [] }
            return cancel.invitees.map { named($0).map(Promise.cancelled) } ?? [.cancelledAll(by: user)]
        case .add(let add): return named(add.invitees).map(Promise.added)
        case .join: return [.joined(user)]
        case .quit: return [.quit(user)]
        case .end: return [.ended(by: user)]
        case .get, .signal, .report, .trace, .media, .query, .message, .userUpdate, .userQuery, .userBlock,
            .userBlockList,
            .userSignOut, .userDelete, .pushRegister, .pushUnregister, .ringCheck:
            return []
        }
    }

    /// Returns the user whose only invitation this request decided.
    func decides(in call: CallSnapshot) -> UserID? {
        switch promise {
        case .accepted(let device), .rejected(let device): device.userID
        case .cancelled(let user): user
        case .cancelledAll: call.members.count == 2 ? call.members[1].userID : nil
        case .joined, .added, .quit, .ended, .created: nil
        }
    }

    /// Returns a text that tells how `call` breaks the promise; nil when the call keeps the promise.
    func contradiction(in call: CallSnapshot, _ history: CallHistory) -> String? {
        func state(_ user: UserID, _ allowed: Set<MemberState>, on device: DeviceID? = nil) -> String? {
            guard let member = call.member(user) else { return "\(user) is no member" }
            var allowed = allowed
            if call.mode == .advanced, history.joiners.contains(user) { allowed.formUnion([.accepted, .quit]) }
            if call.mode == .advanced, history.additions[user] ?? 0 > 0 { allowed.formUnion(MemberState.allCases) }
            guard allowed.contains(member.state) else { return "\(user) is \(member.state.rawValue)" }
            if call.mode == .common, let device, member.device != device {
                return "\(user) is \(member.state.rawValue) on \(member.device?.string ?? "no device")"
            }
            return nil
        }
        switch promise {
        case .accepted(let device):
            return state(device.userID, call.mode == .common ? [.accepted] : [.accepted, .quit], on: device.deviceID)
        case .rejected(let device): return state(device.userID, [.rejected], on: device.deviceID)
        case .cancelled(let user): return state(user, [.cancelled])
        case .cancelledAll(let inviter):
            let pending = call.members.first {
                $0.invitedBy == inviter && $0.state.isPending && history.additions[$0.userID] ?? 0 == 0
            }
            return pending.map { "\($0.userID) is still \($0.state.rawValue)" }
        case .joined(let user): return state(user, [.accepted, .quit])
        case .added(let user): return call.member(user) == nil ? "\(user) is no member" : nil
        case .quit(let user): return state(user, [.quit])
        case .ended(let user):
            guard call.state == .ended, call.endReason == .hangup, call.endedBy == user else {
                return "the call is \(call.state.rawValue), ended by \(call.endedBy?.string ?? "no user")"
            }
            return nil
        case .created(let device, let invitees):
            guard call.inviter == device.userID else { return "\(call.inviter) is the inviter" }
            return invitees.first { call.member($0) == nil }.map { "\($0) is no member" }
        }
    }
}
