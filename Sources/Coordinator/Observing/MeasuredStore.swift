import CallCore
import CallStore
import Support

/// A store that measures how long the other store takes to answer.
final class MeasuredStore: ForwardingStore {
    let store: any CallStore
    /// Called with each operation and its duration in microseconds, also when the operation has failed.
    var onAnswer: (StoreOperation, Int64) -> Void = { _, _ in }

    init(_ store: any CallStore) { self.store = store }

    func around<Value>(
        _ operation: StoreOperation, _ work: () async throws(StoreError) -> Value
    ) async throws(StoreError) -> Value {
        let began = SystemClock.boot.microseconds
        defer { onAnswer(operation, SystemClock.boot.microseconds - began) }
        return try await work()
    }
}
