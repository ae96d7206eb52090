import CallCore
import HTTPSending
import SignalingProtocol

/// An endpoint, and what this worker holds of it.
struct Target {
    let name: EndpointName
    let endpoint: WebhookEndpoint
    let rules: AddressRules
    /// What it wants, as the store has it.
    var events: EventPatterns
    /// It said that it is gone, and has not moved since.
    var isOff = false
    /// The store is being told that it is off: what the store says of that counts again afterwards.
    var isTurningOff = false
    /// Why it did not take the last attempt; nil when it did.
    var trouble: String?
    var loggedOff = BoundedChange(false)
    var loggedTrouble = BoundedChange<String?>(nil)
    /// What the last attempt came to, while the store does not know that.
    var unwritten: String?
    /// The earliest time at which that is written.
    var nextNote: Int64 = 0
    /// How many lines this worker has claimed.
    var held = 0
    /// There were more lines than it could claim.
    var hasMore = false
    /// When it is looked for lines everywhere; nil while that is done.
    var nextLook: Int64? = 0

    /// How many lines a worker has claimed at most: more would only wait for their turn with the host.
    static let mostHeld = 64

    /// Nil when one of the networks is none.
    init?(_ endpoint: WebhookEndpoint) {
        guard let name = EndpointName(endpoint.name) else { return nil }
        let networks = endpoint.allowedNetworks.compactMap { Network($0) }
        guard networks.count == endpoint.allowedNetworks.count else { return nil }
        self.name = name
        self.endpoint = endpoint
        events = endpoint.events
        rules = AddressRules(allowedNetworks: networks)
    }

}

extension KeptEndpoint {
    /// As settings have it; nil when its name is none.
    package init?(_ endpoint: WebhookEndpoint) {
        guard let name = EndpointName(endpoint.name) else { return nil }
        self.init(
            name: name, patterns: endpoint.events.stored, url: endpoint.url.text, backlog: endpoint.backlog,
            bytes: endpoint.backlogBytes)
    }
}
