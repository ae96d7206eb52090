import BellwireClient

let client = SignalingClient(try .init(user: "bob", broker: "mqtt://127.0.0.1:1883"))
let incomingCalls = client.incomingCalls
try await client.connect()
print("bob is online")

for await call in incomingCalls {
    print("\(call.inviter) calls")
    try await call.accept()
    for await change in call.changes {
        switch change {
        case .active: print("we talk")
        case .ended(let reason): print("over: \(reason?.rawValue ?? "unknown")")
        case .member, .signal, .handledElsewhere, .invitationExpired, .left: break
        }
    }
    break
}
await client.disconnect()
