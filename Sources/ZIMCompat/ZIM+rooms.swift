internal import DropInSupport

#if canImport(ObjectiveC)
    internal import Foundation
#endif

/// Rooms, as far as an app needs rooms on its way into a call: the SDK notes, for this login, that this user is in a
/// room. Other users are not told, and there are no messages to a room.
extension ZIM {
    /// Enters a room. Succeeds for a user who is logged in, also in a room that was entered before. `config` is not
    /// used.
    #if canImport(ObjectiveC)
        @objc(enterRoom:config:callback:)
    #endif
    public func enterRoom(
        with roomInfo: ZIMRoomInfo, config: ZIMRoomAdvancedConfig?, callback: ZIMRoomEnteredCallback?
    ) {
        let roomID = roomInfo.roomID
        answer(roomID, roomInfo.roomName, callback) { session throws(Refusal) in try session.enterRoom(roomID) }
    }

    /// Leaves a room. Succeeds for a room that was entered in this login.
    #if canImport(ObjectiveC)
        @objc(leaveRoom:callback:)
    #endif
    public func leaveRoom(by roomID: String, callback: ZIMRoomLeftCallback?) {
        let callback = OnMain(callback)
        let refusal = refusal { session throws(Refusal) in try session.leaveRoom(roomID) }
        MainDelivery.deliver { callback.value?(roomID, ZIMError(refusal)) }
    }

    /// Fails: there are no rooms of several users.
    #if canImport(ObjectiveC)
        @objc(createRoom:callback:)
    #endif
    public func createRoom(with roomInfo: ZIMRoomInfo, callback: ZIMRoomCreatedCallback?) {
        refuse(.roomModuleCreateRoomError, roomInfo.roomID, roomInfo.roomName, callback)
    }

    /// Fails: there are no rooms of several users.
    #if canImport(ObjectiveC)
        @objc(createRoom:config:callback:)
    #endif
    public func createRoom(
        with roomInfo: ZIMRoomInfo, config: ZIMRoomAdvancedConfig, callback: ZIMRoomCreatedCallback?
    ) {
        createRoom(with: roomInfo, callback: callback)
    }

    /// Fails: there are no rooms of several users.
    #if canImport(ObjectiveC)
        @objc(joinRoom:callback:)
    #endif
    public func joinRoom(by roomID: String, callback: ZIMRoomJoinedCallback?) {
        refuse(.roomModuleJoinRoomError, roomID, "", callback)
    }

    private func refuse(
        _ code: ZIMErrorCode, _ roomID: String, _ name: String, _ callback: ((ZIMRoomFullInfo, ZIMError) -> Void)?
    ) {
        answer(roomID, name, callback) { _ throws(Refusal) in
            throw Refusal(code: code, message: "rooms are not part of this SDK, except for enterRoom and leaveRoom")
        }
    }

    private func answer(
        _ roomID: String, _ name: String, _ callback: ((ZIMRoomFullInfo, ZIMError) -> Void)?,
        _ change: (Session) throws(Refusal) -> Void
    ) {
        let callback = OnMain(callback)
        let refusal = refusal(change)
        MainDelivery.deliver {
            let room = ZIMRoomFullInfo()
            (room.baseInfo.roomID, room.baseInfo.roomName) = (roomID, name)
            callback.value?(room, ZIMError(refusal))
        }
    }

    private func refusal(_ change: (Session) throws(Refusal) -> Void) -> Refusal? {
        do throws(Refusal) {
            let session = try session()
            guard !session.isLoggedOut else { throw .notLoggedIn }
            try change(session)
            return nil
        } catch {
            return error
        }
    }
}
