import BellwireClient
import BellwireClientCore
import SignalingProtocol
import Testing

/// The brokers of a configuration (docs/swift.md).
@Suite struct BrokerListTests {
    @Test(arguments: ["", "mqtt://a,", "mqtt://a,tcp://b", "mqtt://a,mqtt://b,mqtts://a:1883"])
    func anEmptyMalformedOrRepeatedEntryIsRefused(_ brokers: String) {
        let error = #expect(throws: SignalingError.self) {
            _ = try SignalingClient.Configuration(user: "alice", broker: brokers, device: "phone")
        }
        #expect(error?.code == .badRequest && error?.message.hasPrefix("broker: ") == true)
    }

    @Test func theTokenProviderIsTaken() async throws {
        let configuration = try SignalingClient.Configuration(
            user: "alice", broker: "mqtt://a", device: "phone", tokenProvider: { "token" })
        #expect(try await configuration.tokenProvider?() == "token")
    }

    @Test func severalBrokersAreTaken() throws {
        _ = try SignalingClient.Configuration(user: "alice", broker: "mqtt://a,mqtt://b,mqtt://a:1884", device: "phone")
    }
}
