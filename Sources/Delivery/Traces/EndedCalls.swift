import SignalingProtocol
import Support
import Synchronization

/// The ended calls whose spans are to be made. The coordinator adds calls and never waits; a worker takes the calls
/// some time later, when other processes have written the last entries of the timelines.
package final class EndedCalls: Sendable {
    struct Ended {
        let callID: CallID
        /// When the call ended, and when its timeline is to be read, by the boot clock, in milliseconds.
        let endedAt: Int64
        var due: Int64
    }

    private struct State {
        var calls: [Ended] = []
        var dropped = 0
    }

    /// The bound on waiting calls. Further calls are dropped and counted.
    package static let capacity = 10_000
    /// How long a timeline may still grow after the end of its call, in milliseconds: entries are written within a
    /// second.
    static let pause: Int64 = 2_000

    private let state = Mutex(State())

    package init() {}

    /// Adds a call that has just ended. May be called on any thread.
    package func add(_ callID: CallID, at now: Int64 = SystemClock.boot.milliseconds) {
        add(Ended(callID: callID, endedAt: now, due: now + Self.pause))
    }

    /// Adds a call whose timeline could not be read, or could not be read yet.
    func add(_ call: Ended) {
        state.withLock { state in
            guard state.calls.count < Self.capacity else { return state.dropped += 1 }
            state.calls.append(call)
        }
    }

    var isEmpty: Bool { state.withLock { $0.calls.isEmpty } }

    /// The time at which the first of the calls is due; nil without a call.
    var nextDue: Int64? { state.withLock { $0.calls.first?.due } }

    /// Takes out calls that are due, in the order in which they were added.
    func take(_ limit: Int, until now: Int64) -> [Ended] {
        state.withLock { state in
            let taken = Array(state.calls.prefix(limit).prefix { $0.due <= now })
            state.calls.removeFirst(taken.count)
            return taken
        }
    }

    /// Takes out the number of calls that were dropped since the last call.
    func takeDropped() -> Int {
        state.withLock { state in
            defer { state.dropped = 0 }
            return state.dropped
        }
    }
}
