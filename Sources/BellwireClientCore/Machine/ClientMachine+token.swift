import SignalingProtocol

/// Another token before the present one ends (docs/protocol.md, section 1, Tokens). The app sees nothing of it.
extension ClientMachine {
    /// How long before the end of its token a device asks for another, in milliseconds; in the middle of a life of
    /// less than twice that.
    private static let renewalMargin: Int64 = 60_000
    /// A provider that gives one and the same token until it ends must not make the device connect all the time.
    private static let leastPause: Int64 = 1_000
    /// After a warning, in milliseconds: tokens that live for less than a minute bring one with each connection.
    private static let renewalPause: Int64 = 5_000

    /// The service says when the token ends, by its own clock, as of which the welcome was sent.
    mutating func setTokenRenewal(_ welcome: Welcome, now: Int64) {
        guard configuration.renewsTokens, let expiresAt = welcome.tokenExpiresAt else { return }
        // Whatever a service says, there is a pause, and it can be added up.
        let life = min(max(0, expiresAt.subtractingReportingOverflow(welcome.serverTime).partialValue), 1 << 40)
        tokenRenewal = now + max(life - Self.renewalMargin, life / 2, Self.leastPause)
    }

    /// Told by the broker a minute before; only news to a device that was not told with its welcome.
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

    /// The connection is about to be given up for one with another token. Neither does the device go offline for
    /// that, nor does the app hear of it, unless the next connection does not come about.
    package mutating func renewing() {
        link = .offline
        presence = PresenceSchedule()
        isRenewing = true
    }
}
