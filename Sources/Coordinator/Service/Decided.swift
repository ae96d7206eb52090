import CallCore
import SignalingProtocol

/// The decision for the queued requests of a call, and the result of its commit.
final class Decided {
    let work: CallWork
    let decision: Decision
    /// Whether the commit lost against another writer.
    var isLost = false
    /// The record that was written and its deadline; `outboxBytes` estimates the bytes that this write added to the
    /// outbox. Nil when no record was written.
    var written: (id: RecordID, deadline: Milliseconds?, outboxBytes: Int)?

    init(_ work: CallWork, _ decision: consuming Decision) {
        self.work = work
        self.decision = decision
    }
}
