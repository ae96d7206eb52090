import CallCore
import CallStore
import SignalingProtocol

/// Registrations and the queue of pushes of a store; each call waits for its answer.
package struct BlockingPushes {
    private let store: BlockingStore

    package init(_ store: BlockingStore) { self.store = store }

    private func wait<Value>(
        _ ask: @escaping (any PushStore) async throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        try store.wait { store throws(StoreError) in try await ask(store as! any PushStore) }
    }

    package func policy() throws(StoreError) -> PushPolicy? { try kept()?.policy }

    package func kept() throws(StoreError) -> KeptPushPolicy? {
        try wait { store throws(StoreError) in try await store.pushPolicy() }
    }

    package func pushes(_ process: WorkerID, for life: Milliseconds) throws(StoreError) {
        try wait { store throws(StoreError) in try await store.pushes(process, for: life) }
    }

    package func keep(_ policy: PushPolicy) throws(StoreError) {
        try wait { store throws(StoreError) in try await store.keep(policy) }
    }

    package func secret() throws(StoreError) -> [UInt8] {
        try wait { store throws(StoreError) in try await store.pushSecret() }
    }

    // MARK: Registrations

    @discardableResult
    package func register(_ registration: PushRegistration) throws(StoreError) -> [PushRegistration] {
        try wait { store throws(StoreError) in try await store.register(registration) }
    }

    @discardableResult
    package func unregister(
        _ device: DeviceAddress, _ platform: PushPlatform? = nil, _ app: AppName? = nil
    ) throws(StoreError) -> [PushRegistration] {
        try wait { store throws(StoreError) in try await store.unregister(device, platform, app) }
    }

    package func end(_ registration: PushRegistration) throws(StoreError) {
        try wait { store throws(StoreError) in try await store.end(registration) }
    }

    package func registrations(of users: [UserID]) throws(StoreError) -> [[PushRegistration]] {
        try wait { store throws(StoreError) in try await store.registrations(of: users) }
    }

    // MARK: The queue

    package func take(by worker: WorkerID, limit: Int = 1_000, near: [CallID]? = nil) throws(StoreError) -> [CallID] {
        try wait { store throws(StoreError) in try await store.takePushes(by: worker, limit: limit, near: near) }
    }

    package func settle(_ settlements: [PushSettlement], by worker: WorkerID) throws(StoreError) -> [PushSettled] {
        try wait { store throws(StoreError) in try await store.settlePushes(settlements, by: worker) }
    }

    package func renew(_ worker: WorkerID) throws(StoreError) -> Bool {
        try wait { store throws(StoreError) in try await store.renew(worker) }
    }

    package func recover() throws(StoreError) -> Int {
        try wait { store throws(StoreError) in try await store.recoverPushes() }
    }

    package func count() throws(StoreError) -> (calls: Int, oldest: Milliseconds?) {
        try wait { store throws(StoreError) in try await store.countPushes() }
    }

    package func bound(most: Int = PushLimits.queued) throws(StoreError) -> Int {
        try wait { store throws(StoreError) in try await store.boundPushes(most: most) }
    }

    package func reserve(_ pushes: [PushReservation]) throws(StoreError) -> [Bool] {
        try wait { store throws(StoreError) in try await store.reserve(pushes) }
    }
}
