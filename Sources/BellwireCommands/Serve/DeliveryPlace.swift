import CallCore
import CallStore
import Coordinator
import Delivery
import HTTPSending

/// The place where a delivery worker runs: in the coordinator's thread if the store has a single writer, else in a
/// thread of its own.
struct DeliveryPlace<Worker: DeliveryWorker & Companion> {
    /// The texts of a process about a kind of delivery.
    struct Kind {
        /// The flag that turns on the delivery, with its dashes.
        let flag: String
        /// The log messages when the store fails, and when the store is back.
        let waits: StaticString
        let goesOn: StaticString
        /// The name of the command in error messages.
        let command: String
    }

    /// The worker in the coordinator's thread; nil if the worker has a thread of its own.
    let companion: Worker?
    /// The function that must be called with the ids of records that have deliveries for the worker.
    let committed: ([RecordID]) -> Void
    private let thread: DeliveryThread?
    private let sender: HTTPSender

    /// `hasThread`: the result of `hasThread(beside:)`. `store`: the worker's own store.
    init(_ worker: Worker, _ kind: Kind, hasThread: Bool, _ store: any AnswersLater, _ sender: HTTPSender, _ log: Log)
        throws(UsageError)
    {
        self.sender = sender
        worker.onFailure = { reason in
            if let reason {
                log(.warning, kind.waits, ["reason": reason])
            } else {
                log(.info, kind.goesOn)
            }
        }
        if hasThread {
            guard let thread = DeliveryThread(worker, store) else {
                throw UsageError("\(kind.command): \(kind.flag): there is no thread for it")
            }
            self.thread = thread
            companion = nil
            committed = thread.committed
        } else {
            thread = nil
            companion = worker
            committed = worker.committed
        }
    }

    /// Whether the worker has a thread, and a store, of its own. `store`: the coordinator's store; nil in a process
    /// without a coordinator.
    static func hasThread(beside store: (any CallStore)?) -> Bool { store?.isShared ?? true }

    static func sender(
        trusting certificateAuthorityFile: String?, _ file: String, _ kind: Kind
    ) throws(UsageError) -> HTTPSender {
        do throws(HTTPSender.SetupError) {
            return try HTTPSender(
                certificateAuthorityFile: certificateAuthorityFile, userAgent: "bellwire/\(bellwireVersion)")
        } catch {
            throw UsageError("\(kind.command): \(kind.flag) \(file): \(error.description)")
        }
    }

    func stop() {
        thread?.stop()
        sender.stop()
    }
}
