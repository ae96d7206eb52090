import SignalingProtocol

/// The profile that a user shows to other users (docs/protocol.md, section 2, `user.update`).
package struct UserProfile: Equatable, Sendable {
    package var name: String?
    package var avatarURL: String?
    package var extendedData: String?

    package init(name: String? = nil, avatarURL: String? = nil, extendedData: String? = nil) {
        self.name = name
        self.avatarURL = avatarURL
        self.extendedData = extendedData
    }

    /// Applies `user.update`: a missing field stays unchanged, and the empty string removes a field.
    package mutating func apply(_ update: Request.UserUpdate) {
        func changed(_ old: String?, _ new: String?) -> String? {
            guard let new else { return old }
            return new.isEmpty ? nil : new
        }
        name = changed(name, update.name)
        avatarURL = changed(avatarURL, update.avatarURL)
        extendedData = changed(extendedData, update.extendedData)
    }

    package func snapshot(of user: UserID, isOnline: Bool) -> UserSnapshot {
        UserSnapshot(
            userID: user, name: name, avatarURL: avatarURL, extendedData: extendedData, isOnline: isOnline)
    }
}
