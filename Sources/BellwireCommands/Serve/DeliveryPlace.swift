import CallCore
import CallStore
import Coordinator
import Delivery
import HTTPSending

/// Where a worker runs that hands something over: in the coordinator's thread where the store has one writer, else in one of its own.
struct DeliveryPlace<Worker: DeliveryWorker & Companion> {
    /// What a process has to say of one kind of delivery.
    struct Kind {
        /// The flag that asks for it, with its dashes.
        let flag: String
        /// What is logged when the store fails, and when it is back.
        let waits: StaticString
        let goesOn: StaticString
        /// As the command is named in errors.
        let command: String
    }

    /// In the coordinator's thread; nil when it has its own.
    let companion: Worker?
    /// To be told of the records of which something is owed.
    let committed: ([RecordID]) -> Void
    private let thread: DeliveryThread?
    private let sender: HTTPSender

    /// `hasThread`: see `hasThread(beside:)`. `store`: the worker's own.
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

    /// Whether the worker has a thread, and a store, of its own. `store`: the coordinator's; nil in a process without one.
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
