/// The paths that a listener of a gateway serves. The listener answers a request for any other path as a request for an
/// unknown path.
enum ListenerScope {
    /// The only listener of a gateway without `--admin-http`.
    case everything
    /// The listener for backends, phones and monitoring beside a listener for administrators.
    case allButAdmin
    /// The listener for administrators (`--admin-http`), which also answers load balancers.
    case adminAlone

    /// Whether the listener serves a path.
    /// - Parameter levels: the decoded levels of the path.
    func has(_ levels: [String]) -> Bool {
        let isAdmin = levels.first == "admin" || levels.starts(with: ["v1", "admin"])
        return switch self {
        case .everything: true
        case .allButAdmin: !isAdmin
        case .adminAlone: isAdmin || levels == ["healthz"] || levels == ["readyz"]
        }
    }
}
