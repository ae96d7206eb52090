import CallCore

/// Work beside the coordinator's, in its thread and with its store: for a store that has one writer at a time. It never waits. Times are
/// of the boot clock, in milliseconds.
package protocol Companion: AnyObject {
    /// Readable while something has come for it; below 0 for none.
    var descriptor: Int32 { get }

    /// When it wants its turn at the latest.
    var nextTurn: Int64 { get }

    func turn(_ now: Int64)

    /// Nothing more is begun, and what it holds is given back with the next turn.
    func stop()
}
