import AppleTransport
import BellwireClient
import Network
import TemporaryFiles
import Testing

/// The tests that concern only the transport of Apple's platforms: paths that change, and connections that wait for a
/// network.
@Suite(.serialized) struct NetworkConnectionTests {
    let directory = try! TemporaryDirectory()

    @Test func aPathThatIsLostMakesTheClientAskTheBroker() async throws {
        let broker = try Broker(directory)
        let device = try await Device(Carrier.network.transport(broker.port), topics: ["t"])
        // The path is back at once: the broker answers.
        for connection in NWConnection.all { connection.changePath(isViable: false) }
        try device.publish("here", "t")
        #expect(try await device.received(1) == ["here"])
        broker.freeze()
        let start = ContinuousClock.now
        for connection in NWConnection.all { connection.changePath(isViable: false) }
        #expect(try await device.closing() == .lost(isClean: false))
        // The keepalive is a minute: without the question the client would notice much later.
        #expect(ContinuousClock.now - start < .seconds(8))
    }

    /// Network.framework waits for another network; the SDK has a backoff of its own.
    @Test func aConnectionThatWaitsForANetworkFails() async throws {
        let error = await failure { () async throws(BellwireTransportError) in
            _ = try await Device(Carrier.network.transport(1))
        }
        #expect(error?.kind == .unreachable)
        #expect(error?.message.hasPrefix("mqtt://127.0.0.1:1: ") == true, "\(error?.message ?? "connected")")
    }

    @Test func anAttemptThatIsCancelledEndsAtOnce() async throws {
        let broker = try Broker(directory)
        broker.freeze()
        let attempt = Task { try await Device(Carrier.network.transport(broker.port)) }
        try await eventually { !NWConnection.all.isEmpty }
        let start = ContinuousClock.now
        attempt.cancel()
        let result = await attempt.result
        #expect(throws: BellwireTransportError(.lost(isClean: false), "given up")) { try result.get() }
        #expect(ContinuousClock.now - start < .seconds(1))
        // No connection is left behind.
        try await eventually { NWConnection.all.isEmpty }
    }

    @Test func nothingIsLeftOfAClosedConnection() async throws {
        let broker = try Broker(directory)
        for _ in 0..<20 {
            let device = try await Device(Carrier.network.transport(broker.port), topics: ["t"])
            try device.publish("x", "t")
            await device.connection.close()
        }
        try await eventually { NWConnection.all.isEmpty }
    }
}
