import SignalingProtocol

/// The access to a topic that a client asks for.
package enum TopicAccess: Sendable {
    /// Publishing on a topic; with `retain` the broker would keep the message.
    case publish(retain: Bool)
    /// Receiving a message from a topic.
    case receive
    /// Subscribing to a filter.
    case subscribe
    /// Ending a subscription.
    case unsubscribe
}

/// The rights of a client (docs/protocol.md, section 1). Access without a rule is denied.
///
/// The rules are checked for each published message and for each delivery, and therefore compare bytes.
struct AccessRules: Equatable, Sendable {
    /// A complete topic, or a prefix of topics.
    private struct Pattern: Equatable, Sendable {
        let bytes: [UInt8]
        let isPrefix: Bool

        init(_ text: String, isPrefix: Bool = false) {
            bytes = Array(text.utf8)
            self.isPrefix = isPrefix
        }

        func matches(_ topic: UnsafeBufferPointer<UInt8>) -> Bool {
            guard isPrefix ? topic.count > bytes.count : topic.count == bytes.count else { return false }
            return topic.starts(with: bytes)
        }
    }

    private var publishing: [Pattern] = []
    private var receiving: [Pattern] = []
    /// The allowed filters. Filters with wildcards are compared as text.
    private var subscribing: [Pattern] = []
    /// The allowed filters of shared subscriptions: the part after `$share/{group}/`.
    private var sharing: [Pattern] = []
    /// The topic prefix below which a device may subscribe to a single further level: `#`, `+` or a device id.
    private var subscribingBelow: Pattern?

    init(_ identity: ClientIdentity, _ topics: Topics) {
        switch identity {
        case .device(let device):
            publishing = [Pattern(topics.up(device)), Pattern(topics.presence(device))]
            // A device may receive the messages for all devices of its user, since a user has no secrets from itself. A
            // user id has a single encoding, and the encoding contains no slash: topics of other users never begin with
            // this prefix.
            let own = [Pattern(topics.down(device.userID)), Pattern(topics.down(device.userID) + "/", isPrefix: true)]
            receiving = own
            subscribing = [own[0]]
            subscribingBelow = own[1]
        case .server:
            publishing = [
                Pattern("\(topics.root)/up/", isPrefix: true), Pattern("\(topics.root)/presence/", isPrefix: true),
            ]
            receiving = [Pattern("\(topics.root)/down/", isPrefix: true)]
            subscribing = receiving
            sharing = receiving
            addExamination(topics)
        case .coordinator:
            publishing = [Pattern("\(topics.root)/down/", isPrefix: true), Pattern(topics.disabledUsers)]
            receiving = [
                Pattern("\(topics.root)/up/", isPrefix: true), Pattern("\(topics.root)/presence/", isPrefix: true),
            ]
            sharing = receiving
            addExamination(topics)
            addFleet(topics)
        }
    }

    /// Adds the topics by which coordinators see whether a broker delivers, and send each other messages for the
    /// brokers that they cannot reach.
    private mutating func addFleet(_ topics: Topics) {
        let own = Pattern(topics.canary(of: ""), isPrefix: true)
        let shared = [Pattern(topics.sharedCanary), Pattern(topics.relay(to: ""), isPrefix: true)]
        publishing += [own] + shared
        receiving += [own] + shared
        subscribing.append(own)
        sharing += shared
    }

    /// Adds the topics on which `bellwire doctor` tries the broker.
    private mutating func addExamination(_ topics: Topics) {
        let pattern = Pattern("\(topics.root)/doctor/", isPrefix: true)
        publishing.append(pattern)
        receiving.append(pattern)
        subscribing.append(pattern)
        sharing.append(pattern)
    }

    func permits(_ access: TopicAccess, _ topic: UnsafeBufferPointer<UInt8>) -> Bool {
        switch access {
        case .publish(let retain): !retain && publishing.contains { $0.matches(topic) }
        case .receive: receiving.contains { $0.matches(topic) }
        case .subscribe: permitsSubscription(topic)
        // A client can only end its own subscriptions.
        case .unsubscribe: true
        }
    }

    private func permitsSubscription(_ filter: UnsafeBufferPointer<UInt8>) -> Bool {
        guard filter.starts(with: Self.shared) else {
            return subscribing.contains { $0.matches(filter) } || isBelow(filter)
        }
        let rest = filter.dropFirst(Self.shared.count)
        guard let slash = rest.firstIndex(of: UInt8(ascii: "/")), slash > rest.startIndex else { return false }
        let shared = UnsafeBufferPointer(rebasing: filter[(slash + 1)...])
        return sharing.contains { $0.matches(shared) }
    }

    private func isBelow(_ filter: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let subscribingBelow, subscribingBelow.matches(filter) else { return false }
        let level = String(decoding: filter.dropFirst(subscribingBelow.bytes.count), as: UTF8.self)
        return level == "#" || level == "+" || DeviceID(level) != nil
    }

    private static let shared = Array("$share/".utf8)
}
