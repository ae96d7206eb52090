import BellwireClient

let client = SignalingClient(try .init(user: "alice", broker: "mqtt://127.0.0.1:1883", device: "laptop"))
try await client.connect()

let call = try await client.call("bob", media: "voice")
for await change in call.changes {
    switch change {
    case .member(let member, by: _): print("\(member.userID) is \(member.state)")
    case .active:
        print("we talk")
        try await call.hangUp()
    case .ended(let reason): print("over: \(reason?.rawValue ?? "unknown")")
    case .signal, .handledElsewhere, .invitationExpired, .left: break
    }
}
await client.disconnect()
