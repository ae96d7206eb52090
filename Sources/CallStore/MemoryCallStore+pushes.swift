import CallCore
import SignalingProtocol

/// The push queue and the registrations in memory. The data are the models of the stores' rules (`PushQueue`,
/// `Registrations` and others).
extension MemoryCallStore: PushStore {
    package func pushPolicy() -> KeptPushPolicy? {
        contents.pushPolicy.map { KeptPushPolicy($0, until: contents.pushProcesses.until) }
    }

    package func keep(_ policy: PushPolicy) { contents.pushPolicy = policy }

    package func pushes(_ process: WorkerID, for life: Milliseconds) {
        contents.pushProcesses.lives(process, for: life, now: now())
    }

    package func pushSecret() -> [UInt8] {
        let secret = contents.pushSecret ?? PushSecret.make()
        contents.pushSecret = secret
        return secret
    }

    // MARK: Registrations

    package func register(_ registration: PushRegistration) -> [PushRegistration] {
        contents.registrations.register(registration, now: now())
    }

    package func unregister(
        _ device: DeviceAddress, _ platform: PushPlatform?, _ app: AppName?
    ) -> [PushRegistration] {
        contents.registrations.unregister(device, platform, app, now: now())
    }

    package func end(_ registration: PushRegistration) { contents.registrations.end(registration) }

    package func registrations(of users: [UserID]) -> [[PushRegistration]] {
        users.map { contents.registrations.registrations(of: $0, now: now()) }
    }

    // MARK: The queue

    package func takePushes(by worker: WorkerID, limit: Int, near: [CallID]?) -> [CallID] {
        contents.pushes.take(by: worker, limit: limit, now: now())
    }

    package func settlePushes(_ settlements: [PushSettlement], by worker: WorkerID) -> [PushSettled] {
        settlements.map { contents.pushes.settle($0, by: worker, now: now()) }
    }

    package func recoverPushes() -> Int { contents.pushes.recover(now: now()) }

    package func countPushes() -> (calls: Int, oldest: Milliseconds?) { contents.pushes.count(now: now()) }

    package func boundPushes(most: Int) -> Int { contents.pushes.bound(most: most, now: now()) }

    package func reserve(_ pushes: [PushReservation]) -> [Bool] {
        pushes.map { contents.reservations.reserve($0, now: now()) }
    }
}
