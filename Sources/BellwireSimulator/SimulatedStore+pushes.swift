import CallCore
import CallStore
import SignalingProtocol

/// The operations on registrations and the push queue.
extension SimulatedStore {
    func pushPolicy() async throws(StoreError) -> KeptPushPolicy? {
        try await run(isWrite: false) { () throws(StoreError) in store.pushPolicy() }
    }

    func keep(_ policy: PushPolicy) async throws(StoreError) {
        try await run { () throws(StoreError) in store.keep(policy) }
    }

    func pushes(_ process: WorkerID, for life: Milliseconds) async throws(StoreError) {
        try await run { () throws(StoreError) in store.pushes(process, for: life) }
    }

    func pushSecret() async throws(StoreError) -> [UInt8] {
        try await run { () throws(StoreError) in store.pushSecret() }
    }

    func register(_ registration: PushRegistration) async throws(StoreError) -> [PushRegistration] {
        try await run { () throws(StoreError) in
            defer { world.pushes?.truth.registered(registration, world.now) }
            return store.register(registration)
        }
    }

    func unregister(
        _ device: DeviceAddress, _ platform: PushPlatform?, _ app: AppName?
    ) async throws(StoreError) -> [PushRegistration] {
        try await run { () throws(StoreError) in
            defer { world.pushes?.truth.registered(world.now) }
            return store.unregister(device, platform, app)
        }
    }

    func end(_ registration: PushRegistration) async throws(StoreError) {
        try await run { () throws(StoreError) in
            store.end(registration)
            world.pushes?.truth.registered(world.now)
        }
    }

    func registrations(of users: [UserID]) async throws(StoreError) -> [[PushRegistration]] {
        try await run(isWrite: false) { () throws(StoreError) in store.registrations(of: users) }
    }

    func takePushes(by worker: WorkerID, limit: Int, near: [CallID]?) async throws(StoreError) -> [CallID] {
        try await run { () throws(StoreError) in store.takePushes(by: worker, limit: limit, near: near) }
    }

    func settlePushes(_ settlements: [PushSettlement], by worker: WorkerID) async throws(StoreError) -> [PushSettled] {
        try await run { () throws(StoreError) in store.settlePushes(settlements, by: worker) }
    }

    func recoverPushes() async throws(StoreError) -> Int {
        try await run { () throws(StoreError) in store.recoverPushes() }
    }

    func countPushes() async throws(StoreError) -> (calls: Int, oldest: Milliseconds?) {
        try await run(isWrite: false) { () throws(StoreError) in store.countPushes() }
    }

    func boundPushes(most: Int) async throws(StoreError) -> Int {
        try await run { () throws(StoreError) in store.boundPushes(most: most) }
    }

    func reserve(_ pushes: [PushReservation]) async throws(StoreError) -> [Bool] {
        try await run { () throws(StoreError) in
            let answers = store.reserve(pushes)
            for (push, mayGo) in zip(pushes, answers) where !mayGo { world.pushes?.refused(push) }
            return answers
        }
    }
}
