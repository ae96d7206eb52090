/// The operation that a method and a path name (docs/backend.md). This list is complete; a test compares
/// docs/openapi.yaml with this list.
package enum Route: String, CaseIterable, Sendable {
    case invite = "POST /v1/calls"
    case call = "GET /v1/calls/{callID}"
    case trace = "GET /v1/calls/{callID}/trace"
    case accept = "POST /v1/calls/{callID}/accept"
    case reject = "POST /v1/calls/{callID}/reject"
    case cancel = "POST /v1/calls/{callID}/cancel"
    case add = "POST /v1/calls/{callID}/add"
    case join = "POST /v1/calls/{callID}/join"
    case quit = "POST /v1/calls/{callID}/quit"
    case end = "POST /v1/calls/{callID}/end"
    case media = "POST /v1/calls/{callID}/media"
    case heartbeat = "POST /v1/calls/{callID}/heartbeat"
    case history = "GET /v1/users/{userID}/calls"
    case user = "GET /v1/users/{userID}"
    case updateUser = "PATCH /v1/users/{userID}"
    case deleteUser = "DELETE /v1/users/{userID}"
    case devices = "GET /v1/users/{userID}/devices"
    case signOut = "DELETE /v1/users/{userID}/devices/{device}"
    case message = "POST /v1/users/{userID}/messages"
    case token = "POST /v1/tokens"
    case ringCheck = "GET /v1/ring/{callID}"
    case ringReject = "POST /v1/ring/{callID}/reject"
    case ringCheckPreflight = "OPTIONS /v1/ring/{callID}"
    case ringRejectPreflight = "OPTIONS /v1/ring/{callID}/reject"
    case zegoStart = "POST /call/start_call"
    case zegoCancel = "POST /call/cancel_call"
    case zegoAccept = "POST /call/accept_call"
    case zegoDecline = "POST /call/decline_call"
    case zegoEnd = "POST /call/end_call"
    case zegoHeartbeat = "POST /call/heartbeat"
    case zegoEvents = "GET /call/events"
    case adminOnline = "GET /v1/admin/online"
    case adminLiveCalls = "GET /v1/admin/calls"
    case adminCalls = "GET /v1/admin/users/{userID}/calls"
    case adminDevices = "GET /v1/admin/users/{userID}/devices"
    case adminCall = "GET /v1/admin/calls/{callID}"
    case adminEnd = "POST /v1/admin/calls/{callID}/end"
    case adminSignOut = "POST /v1/admin/users/{userID}/sign-out"
    case adminDisable = "POST /v1/admin/users/{userID}/disable"
    case adminEnable = "POST /v1/admin/users/{userID}/enable"
    case adminLogLevel = "PUT /v1/admin/log-level"
    case adminWebhooks = "GET /v1/admin/webhooks"
    case adminDeadLetters = "GET /v1/admin/webhooks/{name}/dead"
    case adminReplay = "POST /v1/admin/webhooks/{name}/replay"
    case adminAudit = "GET /v1/admin/audit"
    case description = "GET /openapi.yaml"
    case healthy = "GET /healthz"
    case ready = "GET /readyz"
    case metrics = "GET /metrics"

    /// Whether the request needs a token of a backend, or of a user (`isZegoCall`).
    package var needsToken: Bool {
        switch self {
        case .description, .healthy, .ready, .metrics: false
        default: !isRing
        }
    }

    /// Whether a woken device sends this request, with the key in its query as its authorization.
    var isRing: Bool {
        switch self {
        case .ringCheck, .ringReject, .ringCheckPreflight, .ringRejectPreflight: true
        default: false
        }
    }

    /// Whether a user sends this request, with the user's own token (docs/migrate/zego-call-server.md).
    var isZegoCall: Bool {
        switch self {
        case .zegoStart, .zegoCancel, .zegoAccept, .zegoDecline, .zegoEnd, .zegoHeartbeat, .zegoEvents: true
        default: false
        }
    }

    /// Whether an administrator sends this request (docs/operations.md, Acting on calls and users).
    var isAdmin: Bool {
        switch self {
        case .adminOnline, .adminLiveCalls, .adminCalls, .adminDevices, .adminCall, .adminEnd, .adminSignOut,
            .adminDisable, .adminEnable, .adminLogLevel, .adminWebhooks, .adminDeadLetters, .adminReplay, .adminAudit:
            true
        default: false
        }
    }

    /// Whether the path serves monitoring or a ringing phone. Such requests are served even when there are too many
    /// connections for others.
    static func isVital(_ path: String) -> Bool {
        ["/healthz", "/readyz", "/metrics"].contains(path) || path.hasPrefix("/v1/ring/")
    }

    /// Whether HEAD is allowed as a GET without a body: only where GET changes nothing, because proxies and scanners
    /// send HEAD for any link. A ring check counts as the ack of a woken device, and a stream of events makes its
    /// device online.
    package var answersHead: Bool {
        switch self {
        case .ringCheck, .zegoEvents: false
        default: method == "GET"
        }
    }

    package var method: Substring { rawValue.prefix { $0 != " " } }

    /// The levels of the path; levels in braces are parameters.
    var levels: [Substring] { rawValue.drop { $0 != "/" }.dropFirst().split(separator: "/") }

    /// The result of a search for a path.
    enum Match: Equatable {
        case found(Route, parameters: [String: String])
        /// The path exists, with other methods.
        case wrongMethod(allowed: [String])
        case unknown
    }

    private static let table = allCases.map { route in
        (
            route: route, methods: [String(route.method)] + (route.answersHead ? ["HEAD"] : []),
            levels: route.levels
        )
    }

    /// - Parameter levels: the decoded levels of the path.
    static func find(_ method: String, _ levels: [String]) -> Match {
        let fitting = table.compactMap { entry in
            parameters(entry.levels, levels).map { (entry.route, entry.methods, $0) }
        }
        guard !fitting.isEmpty else { return .unknown }
        for (route, methods, parameters) in fitting where methods.contains(method) {
            return .found(route, parameters: parameters)
        }
        return .wrongMethod(allowed: fitting.flatMap(\.1))
    }

    /// Returns the parameters; nil when the path does not fit.
    private static func parameters(_ pattern: [Substring], _ levels: [String]) -> [String: String]? {
        guard pattern.count == levels.count else { return nil }
        var parameters: [String: String] = [:]
        for (expected, level) in zip(pattern, levels) {
            if expected.hasPrefix("{") {
                // Parameters are never empty: `/v1/calls/` is another path.
                guard !level.isEmpty else { return nil }
                parameters[String(expected.dropFirst().dropLast())] = level
            } else if !expected.utf8.elementsEqual(level.utf8) {
                return nil
            }
        }
        return parameters
    }
}
