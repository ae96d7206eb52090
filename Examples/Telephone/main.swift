// A telephone in the terminal: `Telephone ME` waits for calls, `Telephone ME WHOM` calls. Enter answers, and hangs up.
import BellwireClient
import Foundation

let names = CommandLine.arguments.dropFirst()
guard let me = names.first else { fatalError("usage: Telephone ME [WHOM]") }
let broker = ProcessInfo.processInfo.environment["BROKER"] ?? "mqtt://127.0.0.1:1883"

let client = SignalingClient(try .init(user: me, broker: broker))
let telephone = BellwireCallManager(client)
let changes = telephone.changes
try await client.connect()
say("\(me) is online")

// The terminal waits on a thread of its own.
Thread.detachNewThread {
    while readLine() != nil { Task { await pressed() } }
}

if let whom = names.dropFirst().first.flatMap(UserID.init) {
    try await telephone.call([whom], media: "voice")
}
for await change in changes {
    say("\(change.state): \(change.reason)")
    // Here an app sets its media up, and says when they flow.
    if change.state == .connecting { telephone.mediaConnected() }
    if change.state == .idle { break }
}
await client.disconnect()

@Sendable func pressed() async {
    do {
        if telephone.state == .ringing { try await telephone.accept() } else { try await telephone.hangUp() }
    } catch {
        say("\(error)")
    }
}

/// At once, also into a pipe.
@Sendable func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }
