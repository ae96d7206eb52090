import CallCore
import CallStore
import Glibc

/// A store that other processes serve at the same time, for a command that asks the store step by step. `Store`: the
/// operations that the command needs.
struct VisitedStore<Store> {
    private let store: Store
    private let served: any CallStore
    private let executor = WorkExecutor()
    /// The name of the command in error messages.
    private let command: String

    /// `served`: the same store as `store`.
    init(_ store: Store, _ served: any CallStore, _ command: String) {
        self.store = store
        self.served = served
        self.command = command
    }

    /// Asks until the store has done the step. A step that conflicts with another process is tried again.
    func ask<Value>(_ question: @escaping (Store) async throws(StoreError) -> Value) throws -> Value {
        var tries = 0
        while true {
            do throws(StoreError) {
                return try executor.complete(served) { [store] () async throws(StoreError) in
                    try await question(store)
                }
            } catch {
                tries += 1
                guard !served.isShared, error.code == .notWritten, tries < VisitedStoreBounds.tries else {
                    throw UsageError("\(command): \(error.description)")
                }
                usleep(VisitedStoreBounds.pause)
            }
        }
    }
}

private enum VisitedStoreBounds {
    /// How often a step is tried again that conflicted with another process, and the pause in microseconds.
    static let tries = 40
    static let pause: UInt32 = 25_000
}
