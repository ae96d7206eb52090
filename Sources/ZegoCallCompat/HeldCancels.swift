internal import SignalingProtocol

/// Cancels of one of several callees, until the service has answered the call's start.
///
/// A cancel that overtakes its start is remembered for the call as a whole, so that nobody would ring.
struct HeldCancels {
    struct Cancel {
        let callee: UserID
        let callback: ZegoConnection.Callback
        /// When the app is to be answered.
        let deadline: ContinuousClock.Instant
    }

    /// Of one call: each callee once.
    static let most = Limits.inviteesPerRequest

    /// By the calls that are being started. The client bounds how many those can be, and for how long.
    private var cancels: [CallID: [Cancel]] = [:]

    mutating func starting(_ callID: CallID) { cancels[callID] = [] }

    /// False when the call is not being started, so that there is nothing to wait for.
    ///
    /// - Throws: `failed` when there is no room.
    mutating func hold(_ cancel: Cancel, of callID: CallID) throws(ZegoError) -> Bool {
        guard let held = cancels[callID] else { return false }
        guard held.count < Self.most else { throw .failed }
        cancels[callID] = held + [cancel]
        return true
    }

    /// Those that waited for this start, in their order.
    mutating func answered(_ callID: CallID) -> [Cancel] { cancels.removeValue(forKey: callID) ?? [] }

    mutating func removeAll() -> [Cancel] {
        defer { cancels = [:] }
        return cancels.values.flatMap(\.self)
    }
}
