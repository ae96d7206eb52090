import SignalingProtocol

/// The members who may get pushes because of a call, and the texts of these pushes (docs/decisions/0021). Devices never
/// see this data, so changes of this data make no revision.
extension CallMachine {
    /// The ringing members who are not known to have a push registration.
    package var unmarked: [UserID] {
        guard call.isLive else { return [] }
        return call.members.filter { $0.isRung && !$0.mayBePushed }.map(\.userID)
    }

    /// Marks the given users, who have a push registration. Returns whether any of these users rings.
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

    /// Keeps the push texts of the present revision's invitation.
    mutating func keepPushTexts(_ push: Request.Push?) {
        if let push, push != Request.Push() { call.pushTexts.append(InvitationTexts(invitation: call.revision, push)) }
        forgetPushTexts()
    }

    /// Forgets the texts of invitations that cause no more pushes.
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
    /// Whether the member's devices ring, as far as devices may know of the call.
    fileprivate var isRung: Bool { state.isPending && !isWithheld && invitedRevision > 0 }
}

/// The push texts of an invitation.
package struct InvitationTexts: Equatable, Sendable {
    /// The revision of the call that made the invitation.
    package let invitation: Int
    package let push: Request.Push

    package init(invitation: Int, _ push: Request.Push) {
        self.invitation = invitation
        self.push = push
    }

    /// The approximate size of the texts in the record, in bytes.
    var approximateBytes: Int {
        let texts = [push.title, push.content, push.payload, push.missed?.title, push.missed?.content]
        return texts.reduce(60) { $0 + ($1?.utf8.count ?? 0) }
    }
}

extension Call {
    /// Returns the push texts of the member's invitation; nil when the invitation has no texts.
    package func pushTexts(of member: Member) -> Request.Push? {
        pushTexts.first { $0.invitation == member.invitedRevision }?.push
    }

    /// Whether a device may need a push because of the changes since the revision.
    package func mayNeedPushes(since revision: Int) -> Bool {
        guard self.revision > revision else { return false }
        return members.contains { $0.mayBePushed && ($0.state.isPending || $0.changedRevision > revision) }
    }
}
