import CallCore
import CallStore
import SignalingProtocol

/// The outbox of a store; each call waits for its answer.
package struct BlockingOutbox {
    private let store: BlockingStore

    package init(_ store: BlockingStore) { self.store = store }

    private func wait<Value>(
        _ ask: @escaping (any OutboxStore) async throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        try store.wait { store throws(StoreError) in try await ask(store as! any OutboxStore) }
    }

    package func endpoints() throws(StoreError) -> [KeptEndpoint] {
        try wait { store throws(StoreError) in try await store.endpoints() }
    }

    package func keep(_ endpoints: [KeptEndpoint]) throws(StoreError) {
        try wait { store throws(StoreError) in try await store.keep(endpoints) }
    }

    package func turnOff(_ endpoint: EndpointName, at url: String) throws(StoreError) {
        try wait { store throws(StoreError) in try await store.turnOff(endpoint, at: url) }
    }

    package func turnOn(_ endpoint: EndpointName) throws(StoreError) -> Bool {
        try wait { store throws(StoreError) in try await store.turnOn(endpoint) }
    }

    package func note(_ attempt: String, of endpoint: EndpointName, at url: String) throws(StoreError) {
        try wait { store throws(StoreError) in try await store.note(attempt, of: endpoint, at: url) }
    }

    package func keepLost(_ endpoints: [KeptEndpoint]) throws(StoreError) {
        try wait { store throws(StoreError) in try await store.keepLost(endpoints) }
    }

    package func forget(_ endpoint: EndpointName) throws(StoreError) {
        try wait { store throws(StoreError) in try await store.forget(endpoint) }
    }

    package func clear(_ endpoint: EndpointName) throws(StoreError) -> Bool {
        try wait { store throws(StoreError) in try await store.clear(endpoint) }
    }

    package func claim(
        _ endpoint: EndpointName, by worker: WorkerID, limit: Int, near: [RecordID]?
    ) throws(StoreError) -> [OutboxItem] {
        try wait { store throws(StoreError) in
            try await store.claim(endpoint, by: worker, limit: limit, near: near)
        }
    }

    package func settle(_ settlements: [Settlement], by worker: WorkerID) throws(StoreError) -> [Settled] {
        try wait { store throws(StoreError) in try await store.settle(settlements, by: worker) }
    }

    package func renew(_ worker: WorkerID) throws(StoreError) -> Bool {
        try wait { store throws(StoreError) in try await store.renew(worker) }
    }

    package func recover() throws(StoreError) -> Int {
        try wait { store throws(StoreError) in try await store.recover() }
    }

    package func count(_ endpoint: EndpointName) throws(StoreError) -> OutboxCount {
        try wait { store throws(StoreError) in try await store.count(endpoint) }
    }

    package func bound(_ endpoint: EndpointName, _ bounds: OutboxBounds) throws(StoreError) -> OutboxLoss {
        try wait { store throws(StoreError) in try await store.bound(endpoint, bounds) }
    }

    package func deadLetters(
        _ endpoint: EndpointName, since: Milliseconds, limit: Int
    ) throws(StoreError) -> [DeadLetter] {
        try wait { store throws(StoreError) in try await store.deadLetters(endpoint, since: since, limit: limit) }
    }

    package func replay(_ letters: [DeadLetter], of endpoint: EndpointName) throws(StoreError) -> Int {
        try wait { store throws(StoreError) in try await store.replay(letters, of: endpoint) }
    }
}
