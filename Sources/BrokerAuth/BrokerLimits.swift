/// The limits of clients at the broker. For coordinators only the number of subscriptions is limited.
package struct BrokerLimits: Sendable {
    /// The limit on a user's publishing, subscribing and unsubscribing, with all devices together; nil: without limit.
    /// The limit keeps floods away from the service, since a large burst would delay all users. The service's own
    /// limits (docs/protocol.md, section 2, Rate limits) can refuse only messages that this limit lets through.
    package var publishing = PublishLimit(rate: 1_000, burst: 1_000)
    /// The number of devices of a user that may be connected at once; nil: without limit. This number is twice the
    /// number of devices that may be online.
    package var connectionsPerUser: Int? = 20
    /// The number of devices that may be connected at once from an address; nil: without limit, since behind a proxy,
    /// Docker's bridge or an operator's NAT all devices have the same address.
    package var connectionsPerAddress: Int?

    package init() {}

    /// A device needs at most four filters; some clients subscribe to a new filter before they unsubscribe from the
    /// old.
    static let subscriptionsPerDevice = 32
    /// A backend may act for many users, each with its own filter. A gateway needs two filters for each stream of
    /// events.
    static let subscriptionsPerServer = 40_000
    static let subscriptionsPerCoordinator = 64
    /// The bound on waiting bytes for a device at the broker, topics and payloads: some sixteen messages of the largest
    /// size.
    static let backlogPerDevice: Int64 = 4 << 20
    /// The bound on waiting bytes for a backend; its filters may match the messages of all users.
    static let backlogPerServer: Int64 = 64 << 20
}
