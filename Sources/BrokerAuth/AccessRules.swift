import SignalingProtocol

/// What a client wants to do with a topic.
package enum TopicAccess: Sendable {
    /// To publish there; `retain`: to leave a message behind.
    case publish(retain: Bool)
    /// To be handed a message that was published there.
    case receive
    /// To subscribe to a filter.
    case subscribe
    /// To listen to less.
    case unsubscribe
}

/// What one client may do (docs/protocol.md, section 1). What no rule allows is denied.
///
/// Looked at for each message that is published and again for each that is delivered, so it compares bytes.
struct AccessRules: Equatable, Sendable {
    /// Topics in full, or what they begin with.
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
    /// Filters: with their wildcards they are compared as they stand.
    private var subscribing: [Pattern] = []
    /// Of a shared subscription, what follows `$share/{group}/`.
    private var sharing: [Pattern] = []
    /// What one level may follow: a wildcard, or a device.
    private var subscribingBelow: Pattern?

    init(_ identity: ClientIdentity, _ topics: Topics) {
        switch identity {
        case .device(let device):
            publishing = [Pattern(topics.up(device)), Pattern(topics.presence(device))]
            // All devices of the user, since a user has no secrets from itself. A level of a topic is canonical, and an encoded
            // user has no slash: no other user's topics begin like this.
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
        case .coordinator:
            publishing = [Pattern("\(topics.root)/down/", isPrefix: true)]
            receiving = [
                Pattern("\(topics.root)/up/", isPrefix: true), Pattern("\(topics.root)/presence/", isPrefix: true),
            ]
            sharing = receiving
        }
    }

    func permits(_ access: TopicAccess, _ topic: UnsafeBufferPointer<UInt8>) -> Bool {
        switch access {
        case .publish(let retain): !retain && publishing.contains { $0.matches(topic) }
        case .receive: receiving.contains { $0.matches(topic) }
        case .subscribe: permitsSubscription(topic)
        // Whatever a client names, it ends only what it has.
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
