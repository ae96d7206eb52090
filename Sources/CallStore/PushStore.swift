import CallCore
import SignalingProtocol

/// Who is to be woken where, for coordinators and workers (docs/decisions/0021). `Registrations` is the rule.
package protocol RegistrationStore: AnswersLater {
    /// What the deployment pushes, and until when; nil when no process was ever started with push.
    func pushPolicy() async throws(StoreError) -> KeptPushPolicy?

    /// 32 random bytes, made once for the deployment: with them the keys of ring checks are made.
    func pushSecret() async throws(StoreError) -> [UInt8]

    /// Makes a registration, or makes it anew: its target belongs to this device from now on, first of all. Holds device and user to
    /// their limits. `since` is the store's time, whatever is given. Returns those of the device.
    func register(_ registration: PushRegistration) async throws(StoreError) -> [PushRegistration]

    /// Ends registrations of a device; nil: of all its platforms, or apps. Returns those that are left.
    func unregister(
        _ device: DeviceAddress, _ platform: PushPlatform?, _ app: AppName?
    ) async throws(StoreError) -> [PushRegistration]

    /// Ends a registration unless it was made anew.
    func end(_ registration: PushRegistration) async throws(StoreError)

    /// Of each user: all that are theirs, in the order of their keys. One whose target has another owner is not among them.
    func registrations(of users: [UserID]) async throws(StoreError) -> [[PushRegistration]]

    /// Forgets calls of the queue that have been due for longer than `PushLimits.missedLife`, and the earliest that wait while there are more
    /// than `most`. Returns how many. Coordinators see to it, whoever pushes or does not.
    func boundPushes(most: Int) async throws(StoreError) -> Int
}

extension RegistrationStore {
    package func boundPushes() async throws(StoreError) -> Int { try await boundPushes(most: PushLimits.queued) }
}

/// Calls because of which somebody may have to be woken: a commit with `pushes` enters them, a worker takes them. `PushQueue` is the rule.
package protocol PushStore: RegistrationStore, RecordStore, TimelineStore, WorkerStore {
    /// Keeps what the deployment pushes, as a process with push has it: what was kept last counts, also when that process has ended.
    func keep(_ policy: PushPolicy) async throws(StoreError)

    /// This process pushes for so long from now on, whatever it said before; 0: no more. `PushProcesses` is the rule.
    func pushes(_ process: WorkerID, for life: Milliseconds) async throws(StoreError)

    /// Takes calls that are due, up to `limit` or a few more, and renews the worker's lease. `near`: looked for only where these are; nil:
    /// everywhere.
    func takePushes(
        by worker: WorkerID, limit: Int, near: [CallID]?
    ) async throws(StoreError) -> [CallID]

    /// Of each: what follows. They do not depend on each other.
    func settlePushes(_ settlements: [PushSettlement], by worker: WorkerID) async throws(StoreError) -> [PushSettled]

    /// Frees what workers hold that are gone. Returns how many calls.
    func recoverPushes() async throws(StoreError) -> Int

    /// How many calls wait or are held, and since when the earliest that waits has been due; nil when none is.
    func countPushes() async throws(StoreError) -> (calls: Int, oldest: Milliseconds?)

    /// Of each push whether it may be sent: a device gets so many in a while (`PushLimits`). What was reserved within
    /// `PushLimits.window` may. `PushReservations` is the rule.
    func reserve(_ pushes: [PushReservation]) async throws(StoreError) -> [Bool]
}
