import SignalingProtocol

/// The change to another token before the present token ends (docs/protocol.md, section 1, Tokens). The app is not
/// told.
extension ClientMachine {
    /// The time between the request for another token and the end of the present token, in milliseconds. A token that
    /// lives for less than twice that is replaced in the middle of its life.
    private static let renewalMargin: Int64 = 60_000
    /// The least time until the next renewal, in milliseconds: a provider that returns the same token until the token
    /// ends must not make the device connect all the time.
    private static let leastPause: Int64 = 1_000
    /// The time from a warning to the renewal, in milliseconds: tokens that live for less than a minute bring a warning
    /// with each connection.
    private static let renewalPause: Int64 = 5_000

    /// Sets the time at which this device renews its token. The welcome names the end of the token and `serverTime`,
    /// both by the service's clock.
    mutating func setTokenRenewal(_ welcome: Welcome, now: Int64) {
        guard configuration.renewsTokens, let expiresAt = welcome.tokenExpiresAt else { return }
        // For any input the pause is positive, and the addition does not overflow.
        let life = min(max(0, expiresAt.subtractingReportingOverflow(welcome.serverTime).partialValue), 1 << 40)
        tokenRenewal = now + max(life - Self.renewalMargin, life / 2, Self.leastPause)
    }

    /// Handles the service's warning, a minute before the token ends, on a device whose welcome named no end.
    mutating func tokenWillExpire(now: Int64) -> [Action] {
        guard configuration.renewsTokens, tokenRenewal == nil, case .subscribed = link else { return [] }
        tokenRenewal = now + Self.renewalPause
        return []
    }

    mutating func tokenRenewalDue(now: Int64) -> [Action] {
        guard case .subscribed = link, let due = tokenRenewal, due <= now else { return [] }
        tokenRenewal = nil
        return [.renewToken]
    }

    /// Prepares to replace the connection by a connection with another token. The device does not go offline for the
    /// new token, and the app is told only if the next connection fails.
    package mutating func renewing() {
        link = .offline
        presence = PresenceSchedule()
        isRenewing = true
    }
}
