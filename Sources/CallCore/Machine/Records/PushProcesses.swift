import SignalingProtocol

/// The model of the processes that push, with the expiry of each: the rules that every store must follow.
package struct PushProcesses: Equatable, Sendable {
    private var ends: [WorkerID: Milliseconds] = [:]

    package init() {}

    /// Records that the process runs for `life` milliseconds from now on; 0 ends its time.
    package mutating func lives(_ process: WorkerID, for life: Milliseconds, now: Milliseconds) {
        ends[process] = now + life
        // Ends that are older than this no longer affect any decision.
        ends = ends.filter { $0.value > now - PushLimits.missedLife }
    }

    /// The latest expiry of any process; 0 when no process has run lately or ever.
    package var until: Milliseconds { ends.values.max() ?? 0 }
}
