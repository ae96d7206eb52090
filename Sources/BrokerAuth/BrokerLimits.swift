/// What clients may take of the broker. Coordinators are held to none of it but the number of their subscriptions.
package struct BrokerLimits: Sendable {
    /// How much one user may publish, subscribe and unsubscribe, all devices together; nil: without limit. What the service's own
    /// limits (docs/protocol.md, section 2, Rate limits) would answer must reach it first, and a large burst makes everybody wait:
    /// this one keeps floods from it.
    package var publishing = PublishLimit(rate: 1_000, burst: 1_000)
    /// Devices of one user that are connected at once; nil: without limit. Twice as many as may be online.
    package var connectionsPerUser: Int? = 20
    /// Devices that are connected at once from one address; nil: without limit, since behind a proxy, Docker's bridge or an
    /// operator's NAT everybody has the same one.
    package var connectionsPerAddress: Int?

    package init() {}

    /// A device needs four filters at most; some clients add before they take away.
    static let subscriptionsPerDevice = 32
    /// A backend may act for many users, each by a filter of its own. A gateway takes two for each stream of events.
    static let subscriptionsPerServer = 40_000
    static let subscriptionsPerCoordinator = 64
    /// What may wait in the broker for one device, in bytes of topics and payloads: some sixteen of the largest messages.
    static let backlogPerDevice: Int64 = 4 << 20
    /// The same for a backend, whose filters may bring it what all users get.
    static let backlogPerServer: Int64 = 64 << 20
}
