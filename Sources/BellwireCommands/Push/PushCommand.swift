import SignalingProtocol
import Glibc
import Tokens

/// `bellwire push`: makes the keys for pushes, and tests pushes (docs/push.md, Command line).
package enum PushCommand {
    private static let keys = Command(
        name: "push keys", arguments: "",
        summary: """
            Makes the key by which browsers' push services know this deployment (VAPID), writes the key into a new file
            that only its owner may read, and prints its public half: the applicationServerKey of PushManager.subscribe
            in a web app. Subscriptions are bound to the key: with another key they end.
            """,
        options: [Option("out", "FILE", "the new file, as PKCS #8 in PEM; required")], positionals: 0...0)

    private static let usage = """
        usage: bellwire push keys|test [options]

        commands:
          push keys   make the key for pushes to browsers
          push test   send a test push to the devices of a user
        """

    package static func run(_ words: [String]) throws {
        var words = words
        let name = words.isEmpty ? "" : words.removeFirst()
        switch name {
        case "keys": try makeKeys(words)
        case "test": exit(try PushTest.run(words))
        case "--help", "-h", "help": print(usage)
        default: throw UsageError("bellwire push: expected keys or test; see bellwire push --help")
        }
    }

    private static func makeKeys(_ words: [String]) throws {
        let arguments = try Arguments(keys, words)
        let path = try arguments.required("out", "a file") { $0.isEmpty ? nil : $0 }
        guard access(path, F_OK) != 0 else {
            throw UsageError(
                "bellwire push keys: \(path) is there already; all subscriptions are bound to the key in it")
        }
        let key = try CryptographicKey.generate(.es256)
        guard let point = key.publicPoint else { throw TokenError(.keys, "the key has no public half") }
        try writeFile(try key.pem(), to: path, mode: 0o600, isNew: true)
        writeOutput(Base64URL.encode(point))
    }
}
