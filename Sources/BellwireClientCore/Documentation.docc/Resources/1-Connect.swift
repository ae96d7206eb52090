import BellwireClient

let client = SignalingClient(try .init(user: "bob", broker: "mqtt://127.0.0.1:1883"))
try await client.connect()
print("bob is online")

await client.disconnect()
