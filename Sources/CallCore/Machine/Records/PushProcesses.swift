import SignalingProtocol

/// Which processes push, and until when each counts as there: the rule to which every store is held.
package struct PushProcesses: Equatable, Sendable {
    private var ends: [WorkerID: Milliseconds] = [:]

    package init() {}

    /// The process is there for so long from now on; 0: no more.
    package mutating func lives(_ process: WorkerID, for life: Milliseconds, now: Milliseconds) {
        ends[process] = now + life
        // Of these nothing follows any more.
        ends = ends.filter { $0.value > now - PushLimits.missedLife }
    }

    /// Until when one of them counts as there; 0 when that is long ago, or none ever was.
    package var until: Milliseconds { ends.values.max() ?? 0 }
}
