import BrokerAuth
import CMosquittoBroker
import SignalingProtocol
import Tokens

/// The plugin's options in the broker's configuration (docs/deployment.md, Tokens, By hand).
struct PluginOptions {
    let keys: String
    var issuer: String?
    /// The audience that a token must have; nil accepts tokens for any audience.
    var audience: String? = Token.standardAudience
    /// The longest life of tokens of devices and administrators, in milliseconds; nil for no limit.
    var longestTokenLife: Int64?
    var topics = Topics.standard
    var coordinatorName: String?
    var limits = BrokerLimits()

    init(_ list: UnsafeBufferPointer<mosquitto_opt>) throws(OptionError) {
        var given: [(name: String, value: String)] = []
        for option in list {
            guard let key = option.key, let value = option.value else { continue }
            given.append((String(cString: key), String(cString: value)))
        }
        guard let keys = given.last(where: { $0.name == "keys" })?.value else {
            throw OptionError("plugin_opt_keys FILE is missing")
        }
        self.keys = keys
        for option in given where option.name != "keys" { try set(option.name, option.value) }
        guard !given.contains(where: { $0.name == "audience" }) || audience != nil else {
            throw OptionError("plugin_opt_audience and plugin_opt_accept_tokens_made_for_others exclude each other")
        }
    }

    private mutating func set(_ name: String, _ text: String) throws(OptionError) {
        switch name {
        case "issuer": issuer = text
        case "audience":
            guard !text.isEmpty else { throw OptionError("plugin_opt_audience: empty") }
            if audience != nil { audience = text }
        case "accept_tokens_made_for_others":
            guard text == "true" else {
                throw OptionError("plugin_opt_accept_tokens_made_for_others: expected true, or leave it out")
            }
            audience = nil
        case "coordinator": coordinatorName = text
        case "topic_root":
            guard let topics = Topics(root: text) else {
                throw OptionError("plugin_opt_topic_root: expected \(Topics.rootForm)")
            }
            self.topics = topics
        case "longest_token_life":
            guard let seconds = Int64(text), (0...TokenVerifier.mostLongestLife).contains(seconds) else {
                throw OptionError("plugin_opt_longest_token_life: expected seconds, or 0 for no limit")
            }
            longestTokenLife = seconds == 0 ? nil : seconds * 1_000
        case "user_rate": limits.publishing = try rate(text)
        case "user_connections": limits.connectionsPerUser = try count(name, text)
        case "address_connections": limits.connectionsPerAddress = try count(name, text)
        default: throw OptionError("plugin_opt_\(name): unknown option")
        }
    }

    /// Returns nil for `0/0`, which means no limit.
    private func rate(_ text: String) throws(OptionError) -> PublishLimit? {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false).map { Int($0) }
        if parts == [0, 0] { return nil }
        guard parts.count == 2, let rate = parts[0], let burst = parts[1],
            let limit = PublishLimit(rate: rate, burst: burst)
        else { throw OptionError("plugin_opt_user_rate: expected RATE/BURST, as 1000/1000, or 0/0") }
        return limit
    }

    /// Returns nil for 0, which means no limit.
    private func count(_ name: String, _ text: String) throws(OptionError) -> Int? {
        guard let count = Int(text), (0...1_000_000).contains(count) else {
            throw OptionError("plugin_opt_\(name): expected a number of connections, or 0 for no limit")
        }
        return count == 0 ? nil : count
    }
}

struct OptionError: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
}
