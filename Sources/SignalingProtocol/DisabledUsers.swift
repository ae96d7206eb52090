/// The users whom administrators have disabled, as coordinators tell brokers (docs/protocol.md, section 1, Disabled
/// users).
package struct DisabledUsers: Equatable, Sendable {
    /// The number of users that can be disabled.
    package static let most = 10_000

    package let users: Set<UserID>

    package init(_ users: Set<UserID>) { self.users = users }

    /// Returns nil for a payload that is not such a list.
    package init?(payload: [UInt8]) {
        guard case .object(let json)? = try? JSONParser.parse(payload), let users = json["users"]?.array else {
            return nil
        }
        self.users = Set(users.prefix(Self.most).compactMap { $0.string.flatMap(UserID.init) })
    }

    package var payload: [UInt8] {
        JSONWriter.object { writer in
            writer.array("users") { writer in for user in users.sorted() { writer.string(user.string) } }
        }
    }
}
