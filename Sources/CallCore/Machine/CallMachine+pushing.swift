import SignalingProtocol

/// Whom a call may wake, and with which words (docs/decisions/0021). Nobody sees any of it: no revision comes of it.
extension CallMachine {
    /// The members who are rung and are not known to be registered for pushes.
    package var unmarked: [UserID] {
        guard call.isLive else { return [] }
        return call.members.filter { $0.isRung && !$0.mayBePushed }.map(\.userID)
    }

    /// A device of these users is registered. Returns whether one of them is rung.
    package mutating func markPushable(_ users: [UserID]) -> Bool {
        defer { check() }
        guard call.isLive else { return false }
        var isRung = false
        for index in call.members.indices
        where call.members[index].isRung && users.contains(call.members[index].userID) {
            call.members[index].mayBePushed = true
            isRung = true
        }
        return isRung
    }

    /// Keeps what the invitation of the present revision wants pushes to say.
    mutating func keepPushTexts(_ push: Request.Push?) {
        if let push, push != Request.Push() { call.pushTexts.append(InvitationTexts(invitation: call.revision, push)) }
        forgetPushTexts()
    }

    /// Of invitations because of which nobody is pushed any more.
    mutating func forgetPushTexts() {
        guard !call.pushTexts.isEmpty else { return }
        call.pushTexts.removeAll { texts in
            !call.members.contains { member in
                member.invitedRevision == texts.invitation && (member.mayBePushed || member.isRung)
            }
        }
    }
}

extension Member {
    /// Devices ring for this member, as far as any are to know of the call.
    fileprivate var isRung: Bool { state.isPending && !isWithheld && invitedRevision > 0 }
}

/// What one invitation wants pushes to say.
package struct InvitationTexts: Equatable, Sendable {
    /// The revision of the call that invited.
    package let invitation: Int
    package let push: Request.Push

    package init(invitation: Int, _ push: Request.Push) {
        self.invitation = invitation
        self.push = push
    }

    /// How many bytes of the record they take, by and large.
    var approximateBytes: Int {
        let texts = [push.title, push.content, push.payload, push.missed?.title, push.missed?.content]
        return texts.reduce(60) { $0 + ($1?.utf8.count ?? 0) }
    }
}

extension Call {
    /// What the member's invitation wants pushes to say; nil when it says nothing.
    package func pushTexts(of member: Member) -> Request.Push? {
        pushTexts.first { $0.invitation == member.invitedRevision }?.push
    }

    /// Whether somebody may have to be woken, or told, because of what happened since the revision.
    package func owesPushes(since revision: Int) -> Bool {
        guard self.revision > revision else { return false }
        return members.contains { $0.mayBePushed && ($0.state.isPending || $0.changedRevision > revision) }
    }
}
