internal import SignalingProtocol

/// Cancels for a single callee among several, held until the service has answered the call's start.
///
/// If a cancel overtook the start, the service would remember the cancel for the whole call, and no callee would ring.
struct HeldCancels {
    struct Cancel {
        let callee: UserID
        let callback: ZegoConnection.Callback
        /// The time at which the time limit of the app's request ends.
        let deadline: ContinuousClock.Instant
    }

    /// The number of held cancels per call: one for each callee.
    static let most = Limits.inviteesPerRequest

    /// The held cancels, by the calls that are being started. The client bounds the number of those calls, and the
    /// time that each start takes.
    private var cancels: [CallID: [Cancel]] = [:]

    mutating func starting(_ callID: CallID) { cancels[callID] = [] }

    /// Holds a cancel; returns false when the call is not being started, so that the cancel can leave at once.
    ///
    /// - Throws: `failed` when the call has no room for another cancel.
    mutating func hold(_ cancel: Cancel, of callID: CallID) throws(ZegoError) -> Bool {
        guard let held = cancels[callID] else { return false }
        guard held.count < Self.most else { throw .failed }
        cancels[callID] = held + [cancel]
        return true
    }

    /// Returns the cancels that waited for this start, in their order.
    mutating func answered(_ callID: CallID) -> [Cancel] { cancels.removeValue(forKey: callID) ?? [] }

    mutating func removeAll() -> [Cancel] {
        defer { cancels = [:] }
        return cancels.values.flatMap(\.self)
    }
}
