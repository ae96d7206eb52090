import CallCore
import SignalingProtocol

/// The push registrations of devices, for coordinators and workers (docs/decisions/0021). `Registrations` defines the
/// rules.
package protocol RegistrationStore: AnswersLater {
    /// Returns the deployment's push policy and the end of its validity; nil when no process was ever started with
    /// push.
    func pushPolicy() async throws(StoreError) -> KeptPushPolicy?

    /// Returns the deployment's secret of 32 random bytes, made once, from which the keys of ring checks are derived.
    func pushSecret() async throws(StoreError) -> [UInt8]

    /// Adds or replaces a registration. The first write makes this device the owner of the target. Enforces
    /// the limits of the device and of the user. The store sets `since` to its own time. Returns the registrations of
    /// the device.
    func register(_ registration: PushRegistration) async throws(StoreError) -> [PushRegistration]

    /// Ends registrations of a device; a nil platform or app means all of them. Returns the remaining registrations of
    /// the device.
    func unregister(
        _ device: DeviceAddress, _ platform: PushPlatform?, _ app: AppName?
    ) async throws(StoreError) -> [PushRegistration]

    /// Ends a registration unless the device has registered anew since.
    func end(_ registration: PushRegistration) async throws(StoreError)

    /// Returns the registrations of each user, in the order of their keys, without registrations whose target now
    /// belongs to another device.
    func registrations(of users: [UserID]) async throws(StoreError) -> [[PushRegistration]]

    /// Removes calls that have been due in the queue for longer than `PushLimits.missedLife`, and the earliest queued
    /// calls while the queue holds more than `most`. Returns the number of removed calls. Coordinators call this,
    /// whether or not any process pushes.
    func boundPushes(most: Int) async throws(StoreError) -> Int
}

extension RegistrationStore {
    package func boundPushes() async throws(StoreError) -> Int { try await boundPushes(most: PushLimits.queued) }
}

/// The queue of calls that may need a push. A commit with `pushes` puts its call into the queue, and a worker claims
/// the call. `PushQueue` defines the rules.
package protocol PushStore: RegistrationStore, RecordStore, BrokerStore, TimelineStore, WorkerStore {
    /// Stores the push policy of a process with push. The policy that was stored last applies, even after that process
    /// has ended.
    func keep(_ policy: PushPolicy) async throws(StoreError)

    /// Declares that this process pushes for `life` milliseconds from now on, regardless of earlier declarations; 0
    /// ends its pushing. `PushProcesses` defines the rules.
    func pushes(_ process: WorkerID, for life: Milliseconds) async throws(StoreError)

    /// Claims up to `limit` due calls, or a few more, and renews the worker's lease. A non-nil `near` lets the store
    /// search only near these calls; nil means that the store searches all of the queue.
    func takePushes(
        by worker: WorkerID, limit: Int, near: [CallID]?
    ) async throws(StoreError) -> [CallID]

    /// Applies the settlements, which do not depend on each other, and returns the consequence of each.
    func settlePushes(_ settlements: [PushSettlement], by worker: WorkerID) async throws(StoreError) -> [PushSettled]

    /// Frees the calls of workers whose lease has expired. Returns the number of freed calls.
    func recoverPushes() async throws(StoreError) -> Int

    /// Returns the number of queued or claimed calls, and since when the earliest queued call has been due; nil when no
    /// queued call is due.
    func countPushes() async throws(StoreError) -> (calls: Int, oldest: Milliseconds?)

    /// Returns for each push whether the worker may send the push: a device gets a limited number in a period
    /// (`PushLimits`). A push that was already reserved within `PushLimits.window` may be sent again.
    /// `PushReservations` defines the rules.
    func reserve(_ pushes: [PushReservation]) async throws(StoreError) -> [Bool]
}
