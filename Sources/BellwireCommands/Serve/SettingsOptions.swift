import CallCore
import CallStore
import Coordinator
import SignalingProtocol

/// The flags for every setting that the protocol calls configurable, with their ranges. `serve` and `dev` share these
/// flags.
enum SettingsOptions {
    private static let standard = ServiceSettings()
    private static let oneDay: Int64 = 86_400_000
    static let historyPerUser = 1...100_000

    static let takeOverStore = Option(
        switch: "take-over-store", "give the store to this --topic-root, although another deployment used the store")

    /// The stamp by which a store recognises its deployment: the topic root.
    static func stamp(_ arguments: Arguments, _ settings: ServiceSettings) -> DeploymentStamp {
        DeploymentStamp(topicRoot: settings.topics.root, takesOver: arguments.isSet("take-over-store"))
    }

    static let topicRoot = Option("topic-root", "TOPIC", default: Topics.defaultRoot, "the root of all topics")
    static let presenceLease = Option(
        "presence-lease", "DURATION", default: duration(standard.presence.lease),
        "how long a silent device counts as online")

    static let historyRetention = Option(
        "retain-history", "DURATION", default: duration(standard.historyRetention), "how long ended calls are kept")
    static let trace = Option(
        "trace", "POLICY", default: "all", "calls whose timeline is kept: all, errors, a share such as 5%, or off")

    static func historyRetention(_ arguments: Arguments) throws(UsageError) -> Milliseconds {
        try arguments.milliseconds("retain-history", in: 1_000...3650 * oneDay)
    }

    static func trace(_ arguments: Arguments) throws(UsageError) -> TracePolicy {
        try arguments.required("trace", "all, errors, off or a percentage such as 5%") { TracePolicy($0) }
    }

    static func topics(_ arguments: Arguments) throws(UsageError) -> Topics {
        try arguments.required("topic-root", Topics.rootForm, Topics.init(root:))
    }

    static func presenceLease(_ arguments: Arguments) throws(UsageError) -> Milliseconds {
        try arguments.milliseconds("presence-lease", in: 1_000...oneDay)
    }

    static let all = [
        topicRoot,
        Option(
            "invitation-timeout", "DURATION", default: duration(Int64(standard.calls.invitationTimeout) * 1000),
            "how long an invitation lasts without a timeout of its own"),
        Option(
            "not-received-after", "DURATION", default: duration(standard.calls.notReceivedAfter),
            "when an unacknowledged invitation becomes notYetReceived"),
        Option(
            "caller-grace", "DURATION", default: duration(standard.calls.callerGrace),
            "how long a lost caller may take to come back"),
        Option(
            "heartbeat-interval", "DURATION", default: duration(standard.heartbeatInterval),
            "how often devices are told to send heartbeats"),
        Option(
            "heartbeat-timeout", "DURATION", default: duration(standard.calls.heartbeatTimeout),
            "silence after which a member of an advanced call has quit"),
        Option(
            "empty-call-timeout", "DURATION", default: duration(standard.calls.emptyCallTimeout),
            "how long a call without autoEnd stays without live members"),
        Option(
            "ended-retention", "DURATION", default: duration(standard.calls.endedRetention),
            "how long devices are still told of an ended call"),
        Option(
            "max-members", "N", default: "\(standard.calls.maxMembers)", "live members of a call, the inviter included"),
        Option("one-active-call", "BOOL", default: "true", "a user is accepted in at most one live advanced call"),
        Option("max-payload", "BYTES", default: "\(standard.maxPayload)", "largest request"),
        Option("max-devices", "N", default: "\(standard.presence.maxDevices)", "online devices of a user"),
        presenceLease,
        Option(
            "held-timeout", "DURATION", default: duration(standard.calls.heldTimeout),
            "how long a backend that holds a member's place in a call may be silent"),
        Option(
            "session-memory", "DURATION", default: duration(standard.presence.sessionMemory),
            "how long an ended session is remembered"),
        Option(
            "cancel-memory", "DURATION", default: duration(standard.cancelMemory),
            "how long an early cancel (before its invite) is remembered"),
        historyRetention,
        Option(
            "users", "POLICY", default: standard.users.rawValue,
            "who may be invited: any, or known: users who were ever online or sent user.update"),
        Option(
            "request-rate", "N/BURST", default: limit(standard.limits.requests),
            "a user's requests per second / at once; 0/0 for no limit"),
        Option(
            "invite-rate", "N/BURST", default: limit(standard.limits.invitations),
            "the same for call.invite and call.add"),
        Option("message-rate", "N/BURST", default: limit(standard.limits.messages), "the same for message.send"),
        Option("signal-rate", "N/BURST", default: limit(standard.limits.signals), "the same for call.signal"),
        Option("device-rate", "N/BURST", default: limit(standard.limits.device), "all messages of a device"),
        Option("presence-rate", "N/BURST", default: limit(standard.limits.presence), "presence messages of a device"),
        Option("pair-rate", "N/BURST", default: limit(standard.limits.pair), "invitations of a user by another user"),
        Option("callee-rate", "N/BURST", default: limit(standard.limits.callee), "invitations of a user by all users"),
        Option(
            "sent-bytes-rate", "N/BURST", default: limit(standard.limits.sentBytes),
            "bytes sent because of a user's requests"),
        Option(
            "pair-bytes-rate", "N/BURST", default: limit(standard.limits.pairBytes),
            "bytes that a user's calls and messages send to another user"),
        Option(
            "callee-bytes-rate", "N/BURST", default: limit(standard.limits.calleeBytes),
            "bytes that the calls and messages of all others send to a user"),
        Option(
            "live-invitations", "N", default: "\(standard.quotas.liveInvitations)",
            "unanswered invitations of a user"),
        Option(
            "pair-invitations", "N", default: "\(standard.quotas.pairInvitations)",
            "unanswered invitations of a user to the same other user"),
        Option(
            "waiting-messages", "N", default: "\(standard.quotas.waitingMessages)",
            "a user's messages that wait for an ack"),
        Option(
            "stored-bytes", "BYTES", default: "\(standard.quotas.storedBytes)",
            "kept calls that a user has made; 0 for no limit"),
        Option(
            "message-ttl", "DURATION", default: duration(standard.messageTTL),
            "how long a peer message waits without a ttl of its own"),
        Option(
            "message-memory", "DURATION", default: duration(standard.messageMemory),
            "how long a finished peer message is remembered"),
        trace,
        Option("history-per-user", "N", default: "200", "ended calls kept in a user's list"),
    ]

    static func settings(_ arguments: Arguments) throws(UsageError) -> ServiceSettings {
        var settings = ServiceSettings()
        settings.topics = try topics(arguments)
        settings.calls.invitationTimeout = try seconds(arguments, "invitation-timeout")
        settings.calls.notReceivedAfter = try arguments.milliseconds("not-received-after", in: 100...30_000)
        settings.calls.callerGrace = try arguments.milliseconds("caller-grace", in: 0...600_000)
        settings.calls.heartbeatTimeout = try arguments.milliseconds("heartbeat-timeout", in: 500...3_600_000)
        settings.heartbeatInterval = try arguments.milliseconds("heartbeat-interval", in: 100...3_600_000)
        guard settings.heartbeatInterval < settings.calls.heartbeatTimeout else {
            throw UsageError(
                "\(arguments.command.title): --heartbeat-interval must be shorter than --heartbeat-timeout")
        }
        settings.calls.emptyCallTimeout = try arguments.milliseconds("empty-call-timeout", in: 100...oneDay)
        settings.calls.endedRetention = try arguments.milliseconds("ended-retention", in: 1_000...3_600_000)
        settings.calls.maxMembers = try arguments.integer("max-members", in: 2...100)
        settings.calls.oneActiveCall = try arguments.required("one-active-call", "true or false") { Bool($0) }
        settings.maxPayload = try arguments.integer("max-payload", in: 256...Limits.parsedBytes)
        settings.presence.maxDevices = try arguments.integer("max-devices", in: 1...100)
        settings.presence.lease = try presenceLease(arguments)
        settings.calls.heldTimeout = try arguments.milliseconds("held-timeout", in: 1_000...30 * oneDay)
        settings.presence.sessionMemory = try arguments.milliseconds("session-memory", in: 1_000...3_600_000)
        settings.cancelMemory = try arguments.milliseconds("cancel-memory", in: 1_000...600_000)
        settings.historyRetention = try historyRetention(arguments)
        settings.users = try arguments.required("users", "any or known", UsersPolicy.init(rawValue:))
        settings.limits.requests = try arguments.required("request-rate", limitForm, rateLimit)
        settings.limits.invitations = try arguments.required("invite-rate", limitForm, rateLimit)
        settings.limits.messages = try arguments.required("message-rate", limitForm, rateLimit)
        settings.limits.signals = try arguments.required("signal-rate", limitForm, rateLimit)
        settings.limits.device = try arguments.required("device-rate", limitForm, rateLimit)
        settings.limits.presence = try arguments.required("presence-rate", limitForm, rateLimit)
        settings.limits.pair = try arguments.required("pair-rate", limitForm, rateLimit)
        settings.limits.callee = try arguments.required("callee-rate", limitForm, rateLimit)
        settings.limits.sentBytes = try arguments.required("sent-bytes-rate", limitForm) {
            rateLimit($0, most: mostBytes)
        }
        settings.limits.pairBytes = try arguments.required("pair-bytes-rate", limitForm) {
            rateLimit($0, most: mostBytes)
        }
        settings.limits.calleeBytes = try arguments.required("callee-bytes-rate", limitForm) {
            rateLimit($0, most: mostBytes)
        }
        settings.quotas.pairInvitations = try arguments.integer("pair-invitations", in: 1...1_000_000)
        settings.quotas.liveInvitations = try arguments.integer("live-invitations", in: 1...1_000_000)
        settings.quotas.waitingMessages = try arguments.integer("waiting-messages", in: 1...1_000_000)
        settings.quotas.storedBytes = try arguments.integer("stored-bytes", in: 0...1_000_000_000_000)
        settings.messageTTL = try arguments.milliseconds("message-ttl", in: 1_000...600_000)
        settings.messageMemory = try arguments.milliseconds("message-memory", in: 1_000...oneDay)
        settings.trace = try trace(arguments)
        return settings
    }

    private static let limitForm = "two whole numbers such as 50/250, or 0/0 for no limit"

    private static func limit(_ limit: RateLimits.Limit) -> String { "\(limit.rate)/\(limit.burst)" }

    /// The greatest rate and burst of limits that count bytes.
    private static let mostBytes = 1_000_000_000

    private static func rateLimit(_ text: String) -> RateLimits.Limit? { rateLimit(text, most: 1_000_000) }

    private static func rateLimit(_ text: String, most: Int) -> RateLimits.Limit? {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false).map { Int($0) }
        guard parts.count == 2, let rate = parts[0], let burst = parts[1], (0...most).contains(rate),
            (rate == 0 ? 0...0 : 1...most).contains(burst)
        else { return nil }
        return RateLimits.Limit(rate: rate, burst: burst)
    }

    /// Returns whole seconds: the protocol counts an invitation's timeout in seconds.
    private static func seconds(_ arguments: Arguments, _ name: String) throws(UsageError) -> Int {
        let milliseconds = try arguments.milliseconds(name, in: 1_000...600_000)
        guard milliseconds % 1000 == 0 else {
            throw UsageError("\(arguments.command.title): --\(name): expected whole seconds")
        }
        return Int(milliseconds / 1000)
    }
}
