import BellwireClient
import DropInSupport
import SignalingProtocol
import Testing

@Suite struct ConfigurationTests {
    @Test func aClientIsMadeFromIt() throws {
        var configuration = BellwireConfiguration(broker: "mqtt://127.0.0.1")
        configuration.device = "phone"
        configuration.topicRoot = "mine"
        let client = try configuration.clientConfiguration(userID: "alice", token: "t")
        #expect(client.user.string == "alice" && client.device.string == "phone" && client.token == "t")
        #expect(client.topics.root == "mine" && client.tokenProvider == nil)
    }

    @Test func withoutADeviceItIsThisInstallations() throws {
        let configuration = BellwireConfiguration(broker: "mqtt://127.0.0.1")
        #expect(configuration.topicRoot == "bellwire/v1")
        let client = try configuration.clientConfiguration(userID: "alice")
        #expect(client.device == .ofThisInstallation)
    }

    /// A transport of the app needs no broker's address.
    @Test func anAppMayHaveAnMQTTClientOfItsOwn() throws {
        struct Own: BellwireTransport {
            func connect(
                _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
            ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
                throw BellwireTransportError(.unreachable, "own")
            }
        }
        var configuration = BellwireConfiguration(transport: Own())
        configuration.device = "phone"
        let client = try configuration.clientConfiguration(userID: "alice")
        #expect(client.transport is Own && client.device.string == "phone")
        configuration.device = nil
        #expect(try configuration.clientConfiguration(userID: "alice").device == .ofThisInstallation)
    }

    @Test(arguments: ["broker", "device", "topicRoot", "user"])
    func whatIsNotOfItsFormIsNamed(field: String) {
        var configuration = BellwireConfiguration(broker: field == "broker" ? "http://x" : "mqtt://x")
        configuration.device = field == "device" ? "a/b" : "phone"
        if field == "topicRoot" { configuration.topicRoot = "a/#" }
        do throws(SignalingError) {
            _ = try configuration.clientConfiguration(userID: field == "user" ? "" : "alice")
            Issue.record("it was taken")
        } catch {
            #expect(error.code == .badRequest && error.message.hasPrefix(field))
        }
    }

    @Test func theProviderIsAskedForThisUserOnceTheGivenTokenIsUsed() async throws {
        var configuration = BellwireConfiguration(broker: "mqtt://x")
        configuration.tokenProvider = { "of \($0)" }
        let provider = try #require(try configuration.clientConfiguration(userID: "alice", token: "mine").tokenProvider)
        #expect(try await provider() == "mine")
        #expect(try await provider() == "of alice")
        let empty = try #require(try configuration.clientConfiguration(userID: "alice", token: "").tokenProvider)
        #expect(try await empty() == "of alice")
    }
}
