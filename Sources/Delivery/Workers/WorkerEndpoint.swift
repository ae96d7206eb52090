import CallCore
import HTTPSending
import SignalingProtocol

/// An endpoint with the state that this worker keeps for it.
struct WorkerEndpoint {
    let name: EndpointName
    let settings: WebhookEndpoint
    let rules: AddressRules
    /// The event patterns of the endpoint, as stored.
    var events: EventPatterns
    /// Whether the endpoint has answered "gone" (410), and has had the same URL since.
    var isOff = false
    /// Whether the store is being told that the endpoint is off; until then the store's own value is ignored.
    var isTurningOff = false
    /// The reason why the endpoint did not accept the last event; nil after an accepted event.
    var trouble: String?
    var loggedOff = BoundedChange(false)
    var loggedTrouble = BoundedChange<String?>(nil)
    /// The outcome of the last attempt, until stored.
    var unwritten: String?
    /// The earliest time for storing the outcome.
    var nextNote: Int64 = 0
    /// The number of lines that this worker has claimed.
    var claimed = 0
    /// Whether there were more lines than this worker could claim.
    var hasMore = false
    /// The time of the next search for lines; nil during the search.
    var nextLook: Int64? = 0

    /// The bound of the lines that a worker has claimed; more lines would only wait for the host.
    static let mostClaimed = 64

    /// Returns nil when the name or a network is invalid.
    init?(_ endpoint: WebhookEndpoint) {
        guard let name = EndpointName(endpoint.name) else { return nil }
        let networks = endpoint.allowedNetworks.compactMap { Network($0) }
        guard networks.count == endpoint.allowedNetworks.count else { return nil }
        self.name = name
        settings = endpoint
        events = endpoint.events
        rules = AddressRules(allowedNetworks: networks)
    }

}

extension KeptEndpoint {
    /// Makes the stored form of an endpoint of the settings; returns nil when its name is invalid.
    package init?(_ endpoint: WebhookEndpoint) {
        guard let name = EndpointName(endpoint.name) else { return nil }
        self.init(
            name: name, patterns: endpoint.events.stored, url: endpoint.url.text, backlog: endpoint.backlog,
            bytes: endpoint.backlogBytes)
    }
}
