import CallCore
import SignalingProtocol

extension WebhookEvent {
    /// Makes the event for the present revision of `call`. The call must have the state of that revision, because a
    /// change with two revisions at once would otherwise lose the first.
    ///
    /// The event's id is `{callID}_{revision}`. Call ids contain no dots, and revisions no underscores, so that no two
    /// calls share an event id.
    ///
    /// A member whose invitation is withheld (because of a block) appears as invited and never reached, as for the
    /// inviter. Backends serve the whole app, but may show the event to their users, and users must not learn of a
    /// block.
    package init(call: Call) {
        self.init(
            type: WebhookEventType(revisionOf: call), id: "\(call.callID)_\(call.revision)", time: call.updatedAt,
            data: JSONWriter.object(capacity: 1024) { writer in
                writer.field("callID", call.callID.string)
                writer.field("revision", call.revision)
                writer.field("actor", call.actor?.string)
                writer.array("changes") { writer in
                    for member in call.membersChangedLast { writer.object { member.change.write(to: &$0) } }
                }
                writer.object("call") { call.snapshot.write(to: &$0) }
            })
    }
}

extension WebhookEventType {
    /// The type of the call's present revision. A call that has ended never changes again (`RandomCallTests` checks
    /// this), so the revision that ended the call is its last. Timestamps would not identify this revision: two
    /// revisions may be made within a millisecond.
    fileprivate init(revisionOf call: Call) {
        if !call.isLive {
            self = .callEnded
        } else {
            self = call.revision == 1 ? .callCreated : .callUserStateChanged
        }
    }
}

extension Call {
    /// The members whose state or device changed with the present revision, or who gave a reason or data with this
    /// revision; at the first revision all members. A hand-over to another device counts too, although other members
    /// are not told of a hand-over.
    fileprivate var membersChangedLast: [Member] {
        members.filter { revision == 1 || $0.changedRevision == revision || $0.handledRevision == revision }
    }
}
