import CallCore
import CallStore
import Coordinator
import Delivery
import HTTPSending

/// The texts of a process about a kind of delivery.
struct DeliveryKind {
    /// The flag that turns on the delivery, with its dashes.
    let flag: String
    /// The name of the deliveries in error messages.
    let deliveries: String
    /// The log messages when the store fails, and when the store is back.
    let waits: StaticString
    let goesOn: StaticString
    /// The name of the command in error messages.
    let command: String
}

/// The store of a delivery worker. `Store`: the operations that the worker needs.
struct DeliveryStore<Store> {
    let store: Store
    /// Whether the worker has a thread, and a store, of its own.
    let hasThread: Bool
    /// The bound of the claims, and of the settlements, in one step of the store.
    let inOneStep: Int

    /// `coordinators`: the coordinator's store; nil in a process without a coordinator. `another`: opens the same store
    /// again, for a thread. `delivering`: returns the store as a `Store`; nil for a store without the operations of
    /// `Store`.
    init(
        _ kind: DeliveryKind, beside coordinators: (any CallStore)?, another: () throws -> any CallStore,
        _ delivering: (any CallStore) -> Store?
    ) throws {
        hasThread = coordinators?.isShared ?? true
        let own = try hasThread ? another() : coordinators!
        guard let store = delivering(own) else {
            throw UsageError("\(kind.command): \(kind.flag): this store keeps no \(kind.deliveries)")
        }
        self.store = store
        // In a store that another process serves, the worker takes small steps, so that the other process does not
        // wait.
        inOneStep = coordinators == nil && !own.isShared ? 1 : 64
    }
}

/// The place where a delivery worker runs: in the coordinator's thread if the store has a single writer, else in a
/// thread of its own.
struct DeliveryPlace {
    /// The worker in the coordinator's thread; nil if the worker has a thread of its own.
    let companion: (any Companion)?
    /// The function that must be called with the ids of records that have deliveries for the worker.
    let committed: ([RecordID]) -> Void
    private let thread: DeliveryThread?
    private let sender: HTTPSender

    /// `hasThread` and `store`: see `DeliveryStore`.
    init(
        _ worker: any DeliveryWorker, _ kind: DeliveryKind, hasThread: Bool, _ store: any AnswersLater,
        _ sender: HTTPSender, _ log: Log
    ) throws(UsageError) {
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
            companion = WorkerCompanion(worker)
            committed = worker.committed
        }
    }

    static func sender(
        trusting certificateAuthorityFile: String?, _ file: String, _ kind: DeliveryKind,
        setting: String = "certificateAuthorityFile"
    ) throws(UsageError) -> HTTPSender {
        try sender(
            trusting: certificateAuthorityFile, flag: kind.flag, file, command: kind.command, setting: setting)
    }

    static func sender(
        trusting certificateAuthorityFile: String?, flag: String, _ file: String, command: String,
        setting: String = "certificateAuthorityFile"
    ) throws(UsageError) -> HTTPSender {
        do throws(HTTPSender.SetupError) {
            return try HTTPSender(
                certificateAuthorityFile: certificateAuthorityFile, userAgent: "bellwire/\(bellwireVersion)")
        } catch {
            let place = error.isAboutAuthorities ? "\(setting): " : ""
            throw UsageError("\(command): \(flag) \(file): \(place)\(error.description)")
        }
    }

    func stop() {
        thread?.stop()
        sender.stop()
    }
}

/// A delivery worker in the coordinator's thread.
private final class WorkerCompanion: Companion {
    private let worker: any DeliveryWorker

    init(_ worker: any DeliveryWorker) { self.worker = worker }

    var descriptor: Int32 { worker.requests.descriptor }
    var nextTurn: Int64 { worker.nextTurn }

    func turn(_ now: Int64) { worker.turn(now) }
    func stop() { worker.stop() }
}
