import SignalingProtocol

/// The members of a call as an app was told of them last, so that the next report has news only: even when two events
/// name a change, an event was missed, or the connection was lost in between.
///
/// The gateway's `HeardCall` follows a call in another way: its record travels in the ids of server-sent events, and
/// therefore has only the states of the members, and the revision that a stream has reported. `KnownCall` decides
/// whether a whole revision is new to a device, before any member is compared.
package struct ReportedMembers: Sendable {
    private var last: [UserID: MemberSnapshot] = [:]

    /// Creates the record of an app that knows no member.
    package init() {}

    /// The member as the app was told of the member last; nil for a member that the app does not know.
    package subscript(user: UserID) -> MemberSnapshot? { last[user] }

    /// Notes what the app knows of a member without a report.
    package mutating func note(_ member: MemberSnapshot) { last[member.userID] = member }

    /// Returns the members that are new to the app, or have another state than in the last report, and notes the
    /// members as reported.
    package mutating func news(in call: CallSnapshot) -> [MemberSnapshot] {
        let news = call.members.filter(isNews)
        for member in news { note(member) }
        return news
    }

    private func isNews(_ member: MemberSnapshot) -> Bool {
        guard let last = last[member.userID] else { return true }
        // The member was invited again: the changes in between were missed.
        return last.state != member.state || member.state.isPending && last.expiresAt != member.expiresAt
    }
}
