import CallCore
import SignalingProtocol

/// The decision for the queued requests of one call, and the result of its commit.
final class Decided {
    let work: CallWork
    let decision: Decision
    /// Whether the commit lost against another writer.
    var isLost = false
    /// The record that was written and its deadline; `outboxBytes` estimates the bytes that were written to the outbox
    /// with it. Nil when no record was written.
    var written: (id: RecordID, deadline: Milliseconds?, outboxBytes: Int)?

    init(_ work: CallWork, _ decision: consuming Decision) {
        self.work = work
        self.decision = decision
    }
}
