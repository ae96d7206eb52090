import SignalingProtocol
import Support
import Tokens

/// `bellwire token`: makes a token, as an app's backend does for its users.
package enum TokenCommand {
    private static let command = Command(
        name: "token", arguments: "",
        summary: """
            Prints a token: the MQTT password of a user's device, of a backend or of a coordinator.
            An app's own backend makes tokens with any JWT library.
            """,
        options: [
            Option("keys", "FILE", "the key set; its first private key signs; required"),
            Option("user", "USER", "the token's user: sub; for a server or a coordinator its name; required"),
            Option("device", "DEVICE", "the only device that may use the token; any device of the user when not given"),
            Option("role", "ROLE", default: Token.Role.device.rawValue, "\(roles)"),
            Option("ttl", "DURATION", default: "1h", "how long the token is valid: 1s to 3650d"),
            Option("issuer", "TEXT", "iss"),
            Option("audience", "TEXT", default: Token.standardAudience, "aud: the token's purpose; empty for none"),
        ], positionals: 0...0)

    private static let roles = Token.Role.allCases.map(\.rawValue).joined(separator: ", ")

    package static func run(_ words: [String]) throws {
        let arguments = try Arguments(command, words)
        let path = try arguments.required("keys", "a file") { $0.isEmpty ? nil : $0 }
        let user = try arguments.required("user", "a user id of 1 to 64 bytes", UserID.init)
        let life = try arguments.milliseconds("ttl", in: 1_000...3_650 * 86_400_000)
        // The times of a token are whole seconds.
        let now = SystemClock.wall.milliseconds / 1000 * 1000
        var token = Token(user: user, expiresAt: now + life)
        token.device = try arguments.value("device", "1 to 64 of A-Z a-z 0-9 . _ ~ -", DeviceID.init)
        token.role = try arguments.required("role", roles, Token.Role.init)
        token.issuer = arguments.text("issuer")
        token.audience = arguments.text("audience").flatMap { $0.isEmpty ? nil : [$0] } ?? []
        guard let key = try KeySet(file: path).signingKey else {
            throw UsageError("bellwire token: \(path): no private key in it")
        }
        writeOutput(try token.signed(by: key, issuedAt: now))
    }
}
