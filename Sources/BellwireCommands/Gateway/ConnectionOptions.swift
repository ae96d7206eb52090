import Gateway
import Glibc
import HTTPServing

/// The flags for the number of a gateway's connections, and for their idle time.
enum ConnectionOptions {
    /// The range of `--http-streams`. A stream needs two topic filters at the broker, and the broker allows a backend
    /// 40,000 filters (docs/bounds.md).
    private static let streams = 1...20_000

    static let all = [
        Option(
            "http-connections", "N", default: "10000",
            "connections at once, except streams; at the bound the connection that is idle longest is closed"),
        Option("http-streams", "N", default: "10000", "streams of events at once (GET /call/events)"),
        Option(
            "http-address-connections", "N", default: "0",
            "connections of an address at once, streams included; 0 for no bound, as behind a load balancer"),
        Option(
            "http-idle", "DURATION", default: "75s",
            "how long an idle connection is kept: longer than a load balancer keeps its connections"),
    ]

    /// A warning that there are fewer connections than configured, since the process has not enough descriptors.
    typealias Warning = KeyValuePairs<StaticString, String>

    static func read(_ arguments: Arguments, into settings: inout Gateway.Settings) throws(UsageError) -> Warning? {
        settings.http.mostConnections = try arguments.integer("http-connections", in: 1...1_000_000)
        settings.http.mostStreams = try arguments.integer("http-streams", in: streams)
        settings.http.mostPerAddress = try arguments.integer("http-address-connections", in: 0...1_000_000)
        settings.http.longestIdle = try arguments.milliseconds("http-idle", in: 1_000...86_400_000)
        let adminSockets = settings.adminSockets
        return settings.http.fit(into: raisedDescriptorLimit(), beside: adminSockets)
    }

    /// Raises the soft limit of descriptors to the hard limit. Returns the resulting limit.
    private static func raisedDescriptorLimit() -> Int {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limit = rlimit()
        guard getrlimit(resource, &limit) == 0 else { return 1_024 }
        let former = limit.rlim_cur
        limit.rlim_cur = limit.rlim_max
        return Int(clamping: setrlimit(resource, &limit) == 0 ? limit.rlim_cur : former)
    }
}

extension HTTPServerSettings {
    /// Descriptors for other uses than clients: the broker, the store, and requests of webhooks and pushes.
    private static let otherDescriptors = 512

    /// Lowers both bounds by the same factor if there are not enough descriptors. Returns a warning in that case.
    /// - Parameter sockets: the number of sockets of another listener.
    fileprivate mutating func fit(into descriptors: Int, beside sockets: Int) -> ConnectionOptions.Warning? {
        let needed = mostSockets + sockets + Self.otherDescriptors
        guard needed > descriptors else { return nil }
        let wanted = mostConnections + mostStreams
        let share = Double(max(2, descriptors - (needed - wanted))) / Double(wanted)
        let asked = (connections: mostConnections, streams: mostStreams)
        mostConnections = max(1, Int(Double(mostConnections) * share))
        mostStreams = max(1, Int(Double(mostStreams) * share))
        return [
            "connections": "\(mostConnections) of \(asked.connections)",
            "streams": "\(mostStreams) of \(asked.streams)",
            "descriptors": "\(descriptors), and \(needed) are needed (RLIMIT_NOFILE)",
        ]
    }
}
