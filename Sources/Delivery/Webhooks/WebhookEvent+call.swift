import CallCore
import SignalingProtocol

extension WebhookEvent {
    /// What is told of the present revision of `call`. It must be built from the call as it stood at that revision: of a change that
    /// makes two revisions at once, the first would be lost otherwise.
    ///
    /// Its id is `{callID}_{revision}`. A call id has no dots, and a revision no underscore, so that no two calls share one.
    ///
    /// A member from whom the invitation is withheld stands in it as for the inviter: invited, and never reached. Whoever reads it
    /// serves the whole app, but it may well show it to its users, who must not learn of a block.
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
    /// A call that has ended is never changed again (`RandomCallTests` holds it to that), so that the revision with which it ended is
    /// the last. Times would not tell: two revisions may be made within a millisecond.
    fileprivate init(revisionOf call: Call) {
        if !call.isLive {
            self = .callEnded
        } else {
            self = call.revision == 1 ? .callCreated : .callUserStateChanged
        }
    }
}

extension Call {
    /// Those whose state or device changed with the present revision, or who gave a reason or data with it; at the first revision
    /// everybody. A hand-over to another device counts, of which other members are not told.
    fileprivate var membersChangedLast: [Member] {
        members.filter { revision == 1 || $0.changedRevision == revision || $0.handledRevision == revision }
    }
}
