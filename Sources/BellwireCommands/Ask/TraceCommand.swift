import BellwireClient
import SignalingProtocol

/// `bellwire trace`: why a phone did or did not ring (docs/protocol.md, section 6).
package enum TraceCommand {
    static let command = Command(
        name: "trace", arguments: "CALLID",
        summary: """
            Prints the timeline of a call, as one of its members may see it: each request, change, message and ack with its
            time, the time since the step before, and the coordinator that did it.
            """,
        options: AskingClient.options + [Option(switch: "json", "print the response as JSON")], positionals: 1...1)

    package static func run(_ words: [String]) async throws -> Int32 {
        let arguments = try Arguments(command, words)
        guard let callID = CallID(arguments.positionals[0]) else {
            throw UsageError("bellwire trace: \(arguments.positionals[0]) is not a call id")
        }
        let client = try AskingClient.make(arguments)
        try await client.connect()
        let success = try await client.trace(callID)
        await client.disconnect()
        guard arguments.isSet("json") else {
            writeOutput(TimelineText(success).text)
            return 0
        }
        let response = Response(id: RequestID("trace")!, outcome: .success(success))
        writeOutput(String(decoding: DownMessage.response(response).encoded(), as: UTF8.self))
        return 0
    }
}
