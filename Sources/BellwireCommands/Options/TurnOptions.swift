import MQTTClient
import Tokens

/// The flags for the TURN servers, which relay media between devices without a direct connection (docs/browsers.md).
enum TurnOptions {
    static let all = [
        Option(
            "turn", "URL,URL", default: "",
            "TURN servers for devices, such as turn:host:3478 or turns:host:5349; with --turn-secret-file"),
        Option("turn-secret-file", "FILE", default: "", "a file with their secret (coturn: static-auth-secret)"),
    ]

    /// Returns nil when no servers are named.
    static func servers(_ arguments: Arguments) throws(UsageError) -> TurnServers? {
        let command = "\(arguments.command.title)"
        let urls = arguments.text("turn").flatMap { $0.isEmpty ? nil : $0 }
        let file = try arguments.file("turn-secret-file")
        guard let urls, let file else {
            guard urls == nil, file == nil else {
                throw UsageError("\(command): --turn and --turn-secret-file go together")
            }
            return nil
        }
        let each = urls.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
        for url in each where !TurnServers.isURL(url) {
            throw UsageError(
                "\(command): --turn \(url): expected turn:HOST:PORT or turns:HOST:PORT, perhaps with ?transport=udp or tcp"
            )
        }
        guard each.count <= TurnServers.mostURLs else {
            throw UsageError("\(command): --turn: at most \(TurnServers.mostURLs) servers")
        }
        guard let secret = readSecret(file), let servers = TurnServers(urls: each, secret: secret) else {
            throw UsageError("\(command): --turn-secret-file \(file): no secret of 1 to 256 bytes in it")
        }
        return servers
    }
}
