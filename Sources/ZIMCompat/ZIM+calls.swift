internal import BellwireClient
internal import DropInSupport
internal import SignalingProtocol

#if canImport(ObjectiveC)
    internal import Foundation
#endif

/// Call invitations (docs/protocol.md, section 2; error codes: docs/migrate/zim.md). Each callback is called once,
/// before the events of its request.
extension ZIM {
    /// Invites 1 to 9 users to a new call. The callback has the id of the call, or an empty text when the request
    /// failed.
    #if canImport(ObjectiveC)
        @objc(callInviteWithInvitees:config:callback:)
    #endif
    public func callInvite(
        with invitees: [String], config: ZIMCallInviteConfig, callback: ZIMCallInvitationSentCallback?
    ) {
        let callback = OnMain(callback)
        perform { () throws(Refusal) in
            .invite(try Self.invitation(invitees, config))
        } done: { result in
            let callID = result.success?.call.callID.string ?? ""
            callback.value?(callID, ZIMCallInvitationSentInfo(result.success), ZIMError(result.refusal))
        }
    }

    private static func invitation(
        _ invitees: [String], _ config: ZIMCallInviteConfig
    ) throws(Refusal) -> Request.Invite {
        guard let mode = CallMode(config.mode) else { throw .badParameter("mode: general or advanced") }
        return Request.Invite(
            invitees: try users(invitees), callID: SignalingClient.makeCallID(), mode: mode,
            timeout: config.timeout == 0 ? 90 : Int(config.timeout),
            media: config.pushConfig?.voIPConfig.map { $0.iOSVoIPHasVideo ? "video" : "voice" },
            extendedData: config.extendedData.nonEmpty,
            notReceivedCheck: config.enableNotReceivedCheck, autoEnd: mode == .common,
            push: Request.Push(config.pushConfig))
    }

    /// Takes back pending invitations that this user made; all of these when `invitees` is empty. The callback names
    /// the invitees for whom that failed.
    #if canImport(ObjectiveC)
        @objc(callCancelWithInvitees:callID:config:callback:)
    #endif
    public func callCancel(
        with invitees: [String], callID: String, config: ZIMCallCancelConfig, callback: ZIMCallCancelSentCallback?
    ) {
        let (callback, extendedData) = (OnMain(callback), config.extendedData.nonEmpty)
        perform { () throws(Refusal) in
            let users = invitees.isEmpty ? nil : try Self.users(invitees)
            return .cancel(.init(callID: try Self.callID(callID), invitees: users, extendedData: extendedData))
        } done: { result in
            let failed = result.success.map { $0.errors.map(\.userID.string) } ?? invitees
            callback.value?(callID, failed, ZIMError(result.refusal))
        }
    }

    /// Accepts an invitation on this device. `config.extendedData` has at most 2048 bytes.
    #if canImport(ObjectiveC)
        @objc(callAcceptWithCallID:config:callback:)
    #endif
    public func callAccept(
        with callID: String, config: ZIMCallAcceptConfig, callback: ZIMCallAcceptanceSentCallback?
    ) {
        let (callback, extendedData) = (OnMain(callback), config.extendedData.nonEmpty)
        perform { () throws(Refusal) in
            .accept(.init(callID: try Self.callID(callID), extendedData: extendedData))
        } done: { result in
            callback.value?(callID, ZIMError(result.refusal))
        }
    }

    /// Rejects an invitation. `config.extendedData` has at most 2048 bytes.
    #if canImport(ObjectiveC)
        @objc(callRejectWithCallID:config:callback:)
    #endif
    public func callReject(
        with callID: String, config: ZIMCallRejectConfig, callback: ZIMCallRejectionSentCallback?
    ) {
        let (callback, extendedData) = (OnMain(callback), config.extendedData.nonEmpty)
        perform { () throws(Refusal) in
            .reject(.init(callID: try Self.callID(callID), extendedData: extendedData))
        } done: { result in
            callback.value?(callID, ZIMError(result.refusal))
        }
    }

    // MARK: Advanced calls

    /// Invites more users to an advanced call that this user has accepted or made.
    #if canImport(ObjectiveC)
        @objc(callingInviteWithInvitees:callID:config:callback:)
    #endif
    public func callingInvite(
        with invitees: [String], callID: String, config: ZIMCallingInviteConfig,
        callback: ZIMCallingInvitationSentCallback?
    ) {
        let (callback, push) = (OnMain(callback), Request.Push(config.pushConfig))
        perform { () throws(Refusal) in
            .add(.init(callID: try Self.callID(callID), invitees: try Self.users(invitees), push: push))
        } done: { result in
            callback.value?(callID, ZIMCallingInvitationSentInfo(result.success), ZIMError(result.refusal))
        }
    }

    /// Enters an advanced call to which this user is or was invited, or moves the call to this device.
    #if canImport(ObjectiveC)
        @objc(callJoin:config:callback:)
    #endif
    public func callJoin(by callID: String, config: ZIMCallJoinConfig, callback: ZIMCallJoinSentCallback?) {
        let (callback, extendedData) = (OnMain(callback), config.extendedData.nonEmpty)
        perform { () throws(Refusal) in
            .join(.init(callID: try Self.callID(callID), extendedData: extendedData))
        } done: { result in
            callback.value?(callID, ZIMCallJoinSentInfo(result.success), ZIMError(result.refusal))
        }
    }

    /// Leaves an advanced call; the call goes on for the other members.
    #if canImport(ObjectiveC)
        @objc(callQuit:config:callback:)
    #endif
    public func callQuit(by callID: String, config: ZIMCallQuitConfig, callback: ZIMCallQuitSentCallback?) {
        let (callback, extendedData) = (OnMain(callback), config.extendedData.nonEmpty)
        perform { () throws(Refusal) in
            .quit(.init(callID: try Self.callID(callID), extendedData: extendedData))
        } done: { result in
            callback.value?(callID, ZIMCallQuitSentInfo(result.success), ZIMError(result.refusal))
        }
    }

    /// Ends an advanced call for all members.
    #if canImport(ObjectiveC)
        @objc(callEnd:config:callback:)
    #endif
    public func callEnd(by callID: String, config: ZIMCallEndConfig, callback: ZIMCallEndSentCallback?) {
        let (callback, extendedData) = (OnMain(callback), config.extendedData.nonEmpty)
        perform { () throws(Refusal) in
            .end(.init(callID: try Self.callID(callID), extendedData: extendedData))
        } done: { result in
            callback.value?(callID, ZIMCallEndedSentInfo(result.success), ZIMError(result.refusal))
        }
    }

    // MARK: The list

    /// Queries the calls of this user, the newest first, as far as the service keeps the calls (docs/protocol.md,
    /// section 2, Queries).
    #if canImport(ObjectiveC)
        @objc(queryCallInvitationListWithConfig:callback:)
    #endif
    public func queryCallInvitationList(
        with config: ZIMCallInvitationQueryConfig, callback: ZIMCallInvitationListQueriedCallback?
    ) {
        let (callback, count, flag) = (OnMain(callback), config.count, config.nextFlag)
        ask { session throws(Refusal) in
            guard let cursor = session.cursor(flag) else {
                throw .badParameter("nextFlag: 0, or the nextFlag of the previous page")
            }
            return .query(.init(count: count == 0 ? nil : Int(count), cursor: cursor))
        } done: { session, result in
            let page = Self.page(session, result)
            MainDelivery.deliver {
                let calls = page.calls.map { ZIMCallInfo($0, user: page.user) }
                callback.value?(calls, page.flag, ZIMError(page.refusal))
            }
        }
    }

    private struct Page {
        var calls: [CallSnapshot] = []
        var user: UserID?
        var flag: Int64 = 0
        var refusal: Refusal?
    }

    private static func page(_ session: Session?, _ result: Result<Answer, Refusal>) -> Page {
        switch result {
        case .success(.calls(let calls, let cursor)):
            Page(calls: calls, user: session?.client.configuration.user, flag: session?.flag(cursor) ?? 0)
        case .success: Page(refusal: .unexpected)
        case .failure(let refusal): Page(refusal: refusal)
        }
    }
}
