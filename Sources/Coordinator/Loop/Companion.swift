import CallCore

/// Work that runs on the coordinator's thread and with its store, since the store has a single writer at a time. A
/// companion never waits. Times are of the boot clock, in milliseconds.
package protocol Companion: AnyObject {
    /// A descriptor that is readable while the companion has input; below 0 for none.
    var descriptor: Int32 { get }

    /// The latest time for the companion's next turn.
    var nextTurn: Int64 { get }

    func turn(_ now: Int64)

    /// Stops the companion: the companion begins no more work, and gives its leases back in its next turn.
    func stop()
}
