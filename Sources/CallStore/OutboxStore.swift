import CallCore
import SignalingProtocol

/// Workers take what is to be done, and hold it as long as they live.
package protocol WorkerStore: AnswersLater {
    /// To be called every `WorkerLease.renewal`. False when what the worker holds is void, whatever that is: it is to go on as another one.
    func renew(_ worker: WorkerID) async throws(StoreError) -> Bool
}

/// What is owed to endpoints, for who hands it over (docs/decisions/0019). `Outbox` is the rule; each operation is one step for everybody else.
package protocol OutboxStore: EndpointStore, StoreTime, WorkerStore {
    /// It has said at this URL that it is gone; of no matter when it has moved since.
    func turnOff(_ endpoint: EndpointName, at url: String) async throws(StoreError)

    /// An operator has seen to an endpoint that had said that it is gone. False when there is no such endpoint.
    func turnOn(_ endpoint: EndpointName) async throws(StoreError) -> Bool

    /// Writes down what the last attempt at this URL came to, for operators; nothing when the endpoint has moved since.
    func note(_ attempt: String, of endpoint: EndpointName, at url: String) async throws(StoreError)

    /// Takes an endpoint from the list: nothing more is written for it as soon as every coordinator has read that.
    func forget(_ endpoint: EndpointName) async throws(StoreError)

    /// Removes some of what is kept for an endpoint that is not in the list. False when there is nothing left.
    func clear(_ endpoint: EndpointName) async throws(StoreError) -> Bool

    /// Claims what is due for an endpoint, up to `limit` lines or a few more, and renews the worker's lease. `near`: looked for only where
    /// these records are, or more widely; nil: everywhere.
    func claim(
        _ endpoint: EndpointName, by worker: WorkerID, limit: Int, near: [RecordID]?
    ) async throws(StoreError) -> [OutboxItem]

    /// Of each: what follows. They do not depend on each other.
    func settle(_ settlements: [Settlement], by worker: WorkerID) async throws(StoreError) -> [Settled]

    /// Frees what workers have claimed that are gone. Returns how many lines.
    func recover() async throws(StoreError) -> Int

    func count(_ endpoint: EndpointName) async throws(StoreError) -> OutboxCount

    /// The earliest revisions first.
    func deadLetters(
        _ endpoint: EndpointName, since: Milliseconds, limit: Int
    ) async throws(StoreError) -> [DeadLetter]

    /// They are owed again, each in its place in its line. Returns how many of them there were.
    func replay(_ letters: [DeadLetter], of endpoint: EndpointName) async throws(StoreError) -> Int
}
