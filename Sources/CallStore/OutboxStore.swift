import CallCore
import SignalingProtocol

/// The leases of workers. A worker claims work, and keeps the claims as long as its lease lasts.
package protocol WorkerStore: AnswersLater {
    /// Renews the worker's lease. Workers must call this every `WorkerLease.renewal`. Returns false when the lease has
    /// expired and all claims of the worker are void; the process must then continue as a new worker.
    func renew(_ worker: WorkerID) async throws(StoreError) -> Bool
}

/// The outbox, for the workers that deliver its entries (docs/decisions/0019). `Outbox` defines the rules. Each
/// operation is atomic for all other processes.
package protocol OutboxStore: EndpointStore, StoreTime, WorkerStore {
    /// Turns the endpoint off after a response at `url` that says the endpoint is gone. Has no effect when the
    /// endpoint's URL has changed since.
    func turnOff(_ endpoint: EndpointName, at url: String) async throws(StoreError)

    /// Turns an endpoint on again, on an operator's command. Returns false when the endpoint does not exist.
    func turnOn(_ endpoint: EndpointName) async throws(StoreError) -> Bool

    /// Stores the result of the last attempt at `url`, for operators. Has no effect when the endpoint's URL has changed
    /// since.
    func note(_ attempt: String, of endpoint: EndpointName, at url: String) async throws(StoreError)

    /// Stores again each of `endpoints` that the store has lost, for example at a failover: endpoints that the store's
    /// list does not contain although no operator has removed the endpoints since the last `keep`.
    func keepLost(_ endpoints: [KeptEndpoint]) async throws(StoreError)

    /// Removes an endpoint from the list, until settings are kept that name the endpoint. Commits write no more entries
    /// for the endpoint as soon as every coordinator has read the new list.
    func forget(_ endpoint: EndpointName) async throws(StoreError)

    /// Removes some entries of an endpoint that is not in the list. Returns false when no entries are left.
    func clear(_ endpoint: EndpointName) async throws(StoreError) -> Bool

    /// Claims up to `limit` due lines of an endpoint, or a few more, and renews the worker's lease. A non-nil `near`
    /// lets the store search only near these records; nil means that the store searches all of the outbox.
    func claim(
        _ endpoint: EndpointName, by worker: WorkerID, limit: Int, near: [RecordID]?
    ) async throws(StoreError) -> [OutboxItem]

    /// Applies the settlements, which do not depend on each other, and returns the consequence of each.
    func settle(_ settlements: [Settlement], by worker: WorkerID) async throws(StoreError) -> [Settled]

    /// Frees the lines of workers whose lease has expired. Returns the number of freed lines.
    func recover() async throws(StoreError) -> Int

    func count(_ endpoint: EndpointName) async throws(StoreError) -> OutboxCount

    /// Returns dead letters, the earliest revisions first.
    func deadLetters(
        _ endpoint: EndpointName, since: Milliseconds, limit: Int
    ) async throws(StoreError) -> [DeadLetter]

    /// Puts dead letters back into the outbox, each at its place in its line. Returns the number of dead letters that
    /// existed.
    func replay(_ letters: [DeadLetter], of endpoint: EndpointName) async throws(StoreError) -> Int
}

extension OutboxStore {
    /// Calls `keepLost` with the endpoints that the list of the store, as it was just read, does not contain.
    package func keepLost(of endpoints: [KeptEndpoint], known: [KeptEndpoint]) async throws(StoreError) {
        let missing = endpoints.filter { endpoint in !known.contains { $0.name == endpoint.name } }
        if !missing.isEmpty { try await keepLost(missing) }
    }
}
