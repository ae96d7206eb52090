import CallCore

/// A worker that delivers entries of the store to endpoints or providers. A worker belongs to one thread, which calls
/// `turn`, and never waits. Times are milliseconds of the boot clock.
package protocol DeliveryWorker: AnyObject {
    /// The sender, whose descriptor announces responses.
    var requests: any RequestSender { get }

    /// Tells the worker that these records have changed.
    func committed(_ ids: [RecordID])

    /// The latest time of the next call of `turn`.
    var nextTurn: Int64 { get }

    /// To be called at `nextTurn`, when responses have come, and when the store has answered.
    func turn(_ now: Int64)

    /// Begins to give back the worker's claims, and begins no new work. `hasStopped` is true when this is done.
    func stop()

    var hasStopped: Bool { get }

    /// Runs the ready work for the last time. A simulation calls this method for a worker whose process has died, so
    /// that the worker's tasks end.
    func giveUp()

    /// Called once with the reason when the store begins to fail, and once with nil when the store works again.
    var onFailure: (String?) -> Void { get set }
}
