import CallCore

/// Who hands over what is in the store: it belongs to one thread, which calls `turn`, and never waits. Times are of the boot clock, in
/// milliseconds.
package protocol DeliveryWorker: AnyObject {
    /// Who brings the answers.
    var requests: any RequestSender { get }

    /// Of these records there is something new.
    func committed(_ ids: [RecordID])

    /// When it wants its turn at the latest.
    var nextTurn: Int64 { get }

    /// To be called when its time has come, when answers have come, and when the store has answered.
    func turn(_ now: Int64)

    /// What it has claimed is given back, and nothing more is begun. `hasStopped` tells when that is done.
    func stop()

    var hasStopped: Bool { get }

    /// Told once when the store fails, with the reason, and once with nil when it is back.
    var onFailure: (String?) -> Void { get set }
}

extension Deliverer: DeliveryWorker {}
