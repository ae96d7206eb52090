import CallCore
import CallStore
import Gateway
import Glibc
import MQTTClient
import SQLiteStore
import SignalingProtocol
import Support
import Tokens

/// The gateway of `bellwire dev`, with keys of its own: the broker of `dev` does not check tokens.
struct DevGateway {
    private static let tokenLife: Int64 = 3_650 * 86_400_000

    let port: Int
    /// A token of a backend.
    let token: String
    /// The path of the file that also holds the token.
    let tokenFile: String
    private let gateway: Gateway

    init(
        port: Int, directory: String, store path: String, broker: BrokerAddress, topics: Topics, lease: Milliseconds,
        page: CallPage?
    ) throws {
        let keys = directory + "/keys.json"
        if access(keys, F_OK) != 0 {
            try writeFile(KeySet([try TokenKey.generate(.es256)]).encoded(isPublic: false), to: keys, mode: 0o600)
        }
        guard let key = try KeySet(file: keys).signingKey else {
            throw DeploymentError("\(keys): no private key in it")
        }
        let now = SystemClock.wall.milliseconds / 1_000 * 1_000
        var token = Token(user: UserID("backend")!, expiresAt: now + Self.tokenLife)
        token.role = .server
        token.audience = [Token.standardAudience]
        self.token = try token.signed(by: key, issuedAt: now)
        tokenFile = directory + "/server-token"
        try writeFile(Array((self.token + "\n").utf8), to: tokenFile, mode: 0o600)
        var settings = Gateway.Settings(
            host: "127.0.0.1", port: port, brokers: [broker], name: "gateway-dev", lease: lease)
        settings.topics = topics
        settings.page = page
        let store = try SQLiteCallStore(path: path, lease: lease, isVisited: true)
        let bearers = try BearerCheck(keys: keys, issuer: nil, audience: Token.standardAudience)
        do throws(Gateway.SetupError) {
            // From here on only the gateway's thread uses the store.
            nonisolated(unsafe) let own: Gateway.Store = store
            gateway = try Gateway(settings, own, bearers, GatewayStatus())
        } catch {
            throw DeploymentError("--gateway-port: \(error.description)")
        }
        self.port = gateway.port
    }

    func stop() { gateway.stop() }
}
