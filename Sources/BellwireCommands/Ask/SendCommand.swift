import BellwireClient
import SignalingProtocol

/// `bellwire send`: sends a peer message and waits for its receipt (docs/protocol.md, section 2, Peer messages).
package enum SendCommand {
    static let command = Command(
        name: "send", arguments: "USER TEXT",
        summary: """
            Sends a message to all devices of a user, and waits for the receipt.
            Exit status: 0 delivered, 3 expired, 1 error.
            """,
        options: AskingClient.options + [
            Option("ttl", "DURATION", default: "30s", "how long the message waits for a device: 1s to 10m")
        ], positionals: 2...2)

    package static func run(_ words: [String]) async throws -> Int32 {
        let arguments = try Arguments(command, words)
        guard let user = UserID(arguments.positionals[0]) else {
            throw UsageError("bellwire send: \(arguments.positionals[0]) is not a user id")
        }
        let ttl = try arguments.milliseconds("ttl", in: 1_000...600_000)
        guard ttl % 1000 == 0 else { throw UsageError("bellwire send: --ttl: expected whole seconds") }
        let client = try AskingClient.make(arguments)
        try await client.connect()
        let messageID = try await client.send(
            JSONText(string: arguments.positionals[1]), to: user, ttl: Int(ttl / 1000))
        writeOutput("message \(messageID) is under way")
        for await event in client.events {
            switch event {
            case .receipt(let receipt) where receipt.messageID == messageID:
                writeOutput("message \(messageID) is \(receipt.state.rawValue)")
                await client.disconnect()
                return receipt.state == .delivered ? 0 : 3
            case .error(let error): throw error
            default: continue
            }
        }
        return 1
    }
}
