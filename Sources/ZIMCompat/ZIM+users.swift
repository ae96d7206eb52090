internal import BellwireClient
internal import DropInSupport
internal import SignalingProtocol

#if canImport(ObjectiveC)
    internal import Foundation
#endif

/// User profiles (docs/protocol.md, section 2, Users).
extension ZIM {
    /// Queries the profiles of 1 to 100 users. The error list names users who have never logged in or stored a profile;
    /// the code is success in spite of these users.
    #if canImport(ObjectiveC)
        @objc(queryUsersInfo:config:callback:)
    #endif
    public func queryUsersInfo(
        by userIDs: [String], config: ZIMUsersInfoQueryConfig, callback: ZIMUsersInfoQueriedCallback?
    ) {
        let callback = OnMain(callback)
        let valid = userIDs.compactMap(UserID.init)
        let malformed = userIDs.filter { UserID($0) == nil }
        let answer: @Sendable ([UserSnapshot], [String], Refusal?) -> Void = { users, unknown, refusal in
            MainDelivery.deliver {
                let errors = unknown.map { ZIMErrorUserInfo($0, .commonModuleUserIsNotExist) }
                callback.value?(users.map(ZIMUserFullInfo.init), errors, ZIMError(refusal))
            }
        }
        ask { _ throws(Refusal) in
            guard !userIDs.isEmpty else { throw .badParameter("userIDs: the list is empty") }
            guard !valid.isEmpty else { throw .nobody }
            return .userQuery(.init(userIDs: Self.distinct(valid)))
        } done: { _, result in
            switch result {
            case .success(.users(let users, let errors)):
                answer(users, errors.map(\.userID.string) + malformed, nil)
            case .success: answer([], [], .unexpected)
            case .failure(.nobody): answer([], malformed, nil)
            case .failure(let refusal): answer([], [], refusal)
            }
        }
    }

    private static func distinct(_ users: [UserID]) -> [UserID] {
        var seen: Set<UserID> = []
        return users.filter { seen.insert($0).inserted }
    }

    /// Stores the user's name: at most 256 bytes; empty to remove the name.
    #if canImport(ObjectiveC)
        @objc(updateUserName:callback:)
    #endif
    public func updateUserName(_ userName: String, callback: ZIMUserNameUpdatedCallback?) {
        let callback = OnMain(callback)
        update(.init(name: userName)) { refusal in callback.value?(userName, ZIMError(refusal)) }
    }

    /// Stores the URL of the user's avatar: at most 512 bytes; empty to remove the URL.
    #if canImport(ObjectiveC)
        @objc(updateUserAvatarUrl:callback:)
    #endif
    public func updateUserAvatarUrl(_ userAvatarUrl: String, callback: ZIMUserAvatarUrlUpdatedCallback?) {
        let callback = OnMain(callback)
        update(.init(avatarURL: userAvatarUrl)) { refusal in callback.value?(userAvatarUrl, ZIMError(refusal)) }
    }

    /// Stores the user's extra data: at most 2048 bytes; empty to remove the data.
    #if canImport(ObjectiveC)
        @objc(updateUserExtendedData:callback:)
    #endif
    public func updateUserExtendedData(_ extendedData: String, callback: ZIMUserExtendedDataUpdatedCallback?) {
        let callback = OnMain(callback)
        update(.init(extendedData: extendedData)) { refusal in callback.value?(extendedData, ZIMError(refusal)) }
    }

    private func update(_ profile: Request.UserUpdate, done: @escaping @Sendable (Refusal?) -> Void) {
        ask { _ throws(Refusal) in
            .userUpdate(profile)
        } done: { session, result in
            MainDelivery.deliver { done(result.refusal) }
            if case .success(.user(let user)) = result { session?.changed(user) }
        }
    }
}

extension Refusal {
    /// All requested ids are malformed, so no such users can exist, and the SDK does not ask the service.
    fileprivate static let nobody = Refusal(code: .commonModuleUserIsNotExist, message: "no such users")

    fileprivate static func ~= (pattern: Refusal, value: Refusal) -> Bool { pattern == value }
}
