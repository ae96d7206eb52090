import CallCore
import SignalingProtocol

/// The outbox in memory, directly by `Outbox`, the model of the rules.
extension MemoryCallStore: OutboxStore {
    package func endpoints() -> [KeptEndpoint] { contents.outbox.endpoints }

    package func keep(_ endpoints: [KeptEndpoint]) { contents.outbox.keep(endpoints) }

    package func turnOff(_ endpoint: EndpointName, at url: String) { contents.outbox.turnOff(endpoint, at: url) }

    package func turnOn(_ endpoint: EndpointName) -> Bool { contents.outbox.turnOn(endpoint) }

    package func note(_ attempt: String, of endpoint: EndpointName, at url: String) {
        contents.outbox.note(attempt, of: endpoint, at: url)
    }

    package func keepLost(_ endpoints: [KeptEndpoint]) { contents.outbox.keepLost(endpoints) }

    package func forget(_ endpoint: EndpointName) { contents.outbox.forget(endpoint) }

    package func clear(_ endpoint: EndpointName) -> Bool {
        contents.outbox.clear(endpoint)
        return false
    }

    package func claim(
        _ endpoint: EndpointName, by worker: WorkerID, limit: Int, near: [RecordID]?
    ) -> [OutboxItem] {
        contents.outbox.claim(endpoint, by: worker, limit: limit, now: now())
    }

    package func settle(_ settlements: [Settlement], by worker: WorkerID) -> [Settled] {
        settlements.map { contents.outbox.settle($0, by: worker, now: now()) }
    }

    package func renew(_ worker: WorkerID) -> Bool {
        let (isOwed, isPushed) = (contents.outbox.renew(worker, now: now()), contents.pushes.renew(worker, now: now()))
        return isOwed && isPushed
    }

    package func recover() -> Int { contents.outbox.recover(now: now()) }

    package func count(_ endpoint: EndpointName) -> OutboxCount { contents.outbox.count(endpoint) }

    package func bound(_ endpoint: EndpointName, _ bounds: OutboxBounds) -> OutboxLoss {
        contents.outbox.bound(endpoint, bounds, now: now())
    }

    package func deadLetters(_ endpoint: EndpointName, since: Milliseconds, limit: Int) -> [DeadLetter] {
        contents.outbox.deadLetters(endpoint, since: since, limit: limit)
    }

    package func replay(_ letters: [DeadLetter], of endpoint: EndpointName) -> Int {
        contents.outbox.replay(letters, of: endpoint, now: now())
    }
}
