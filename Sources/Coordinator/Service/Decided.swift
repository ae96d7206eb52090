import CallCore
import SignalingProtocol

/// What was decided of one work, and what became of it.
final class Decided {
    let work: CallWork
    let decision: Decision
    /// It lost against somebody else.
    var isLost = false
    /// The record was written, with this deadline; `outboxBytes`: the bytes that were written to the outbox with it, about.
    var written: (id: RecordID, deadline: Milliseconds?, outboxBytes: Int)?

    init(_ work: CallWork, _ decision: consuming Decision) {
        self.work = work
        self.decision = decision
    }
}
