/// The users whom administrators have disabled, as coordinators tell brokers (docs/protocol.md, section 1, Disabled
/// users).
package struct DisabledUsers: Equatable, Sendable {
    /// The number of users that can be disabled, and the size of their list in bytes: a broker takes the list in one
    /// packet (`max_packet_size` in deploy/mosquitto/mosquitto.conf).
    package static let most = 5_000
    package static let mostBytes = 360 * 1_024

    package let users: Set<UserID>

    package init(_ users: Set<UserID>) { self.users = users }

    /// Returns nil for a payload that is not such a list.
    package init?(payload: [UInt8]) {
        guard case .object(let json)? = try? JSONParser.parse(payload), let users = json["users"]?.array else {
            return nil
        }
        self.users = Set(users.prefix(Self.most).compactMap { $0.string.flatMap(UserID.init) })
    }

    /// Returns the list with one user more; nil when the new list would be too long.
    package func adding(_ user: UserID) -> DisabledUsers? {
        if users.contains(user) { return self }
        let longer = DisabledUsers(users.union([user]))
        return users.count < Self.most && longer.payload.count <= Self.mostBytes ? longer : nil
    }

    package var payload: [UInt8] {
        JSONWriter.object { writer in
            writer.array("users") { writer in for user in users.sorted() { writer.string(user.string) } }
        }
    }
}
