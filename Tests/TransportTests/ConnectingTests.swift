import BellwireClient
import BellwireMosquitto
import Foundation
import TemporaryFiles
import Testing

/// Connections that do not come about, or only by a detour.
@Suite struct ConnectingTests {
    let directory = try! TemporaryDirectory()

    @Test(arguments: Carrier.allCases) func whoIsNotKnownIsRefused(_ carrier: Carrier) async throws {
        let users = try directory.write("users", "")
        let broker = try Broker(directory, ["allow_anonymous false", "password_file \(users)"])
        let error = await failure { () async throws(BellwireTransportError) in
            _ = try await Device(carrier.transport(broker.port))
        }
        #expect(error == BellwireTransportError(.refused, "the broker refused: Not authorized"))
    }

    @Test(arguments: Carrier.allCases) func aRefusalIsToldInTheBrokersWords(_ carrier: Carrier) async throws {
        let listener = try Listener { peer in
            _ = peer.packet()
            // Not authorized; the property Reason String, "bye".
            peer.send([0x20, 9, 0, 0x87, 6, 0x1F, 0, 3, 0x62, 0x79, 0x65])
            _ = peer.packet()
        }
        let error = await failure { () async throws(BellwireTransportError) in
            _ = try await Device(carrier.transport(listener.port))
        }
        #expect(error == BellwireTransportError(.refused, "the broker refused: bye"))
    }

    /// The same client may be let in a moment later: no reason to give up, or to ask for another token.
    @Test(arguments: Carrier.allCases) func aBrokerThatIsBusyRefusesNobody(_ carrier: Carrier) async throws {
        let listener = try Listener { peer in
            _ = peer.packet()
            // Server busy.
            peer.send([0x20, 3, 0, 0x89, 0])
            _ = peer.packet()
        }
        let error = await failure { () async throws(BellwireTransportError) in
            _ = try await Device(carrier.transport(listener.port))
        }
        #expect(error?.kind != .refused && error?.message.contains("busy") == true)
    }

    @Test(arguments: Carrier.allCases) func aRefusedSubscriptionIsARefusal(_ carrier: Carrier) async throws {
        let listener = try Listener { peer in
            _ = peer.packet()
            peer.send([0x20, 3, 0, 0, 0])
            let subscribe = peer.packet()
            peer.send([0x90, 4, subscribe[2], subscribe[3], 0, 0x87])
            _ = peer.packet()
        }
        let error = await failure { () async throws(BellwireTransportError) in
            _ = try await Device(carrier.transport(listener.port), topics: ["t"])
        }
        #expect(error?.kind == .refused)
    }

    @Test(arguments: Carrier.allCases) func whereNobodyListensNobodyIsReached(_ carrier: Carrier) async throws {
        let port = try Loopback.freePort()
        let error = await failure { () async throws(BellwireTransportError) in
            _ = try await Device(carrier.transport(port))
        }
        #expect(error?.kind == .unreachable)
        #expect(error?.message.contains("Connection refused") == true)
    }

    @Test(arguments: Carrier.withTLS) func tlsGoesByAnAuthorityOfOnesOwn(_ carrier: Carrier) async throws {
        let (broker, authority) = try tlsBroker()
        let device = try await Device(carrier.transport(broker.port, authority: authority), topics: ["t"])
        try device.publish("secret", "t")
        #expect(try await device.received(1) == ["secret"])
        await device.connection.close()
    }

    @Test(arguments: Carrier.withTLS) func aCertificateOfSomebodyElseIsNotTrusted(_ carrier: Carrier) async throws {
        let (broker, _) = try tlsBroker()
        let other = try certificate("other")
        let missing = directory.path + "/missing.crt"
        for authority in [other.certificate, missing] {
            let error = await failure { () async throws(BellwireTransportError) in
                _ = try await Device(carrier.transport(broker.port, authority: authority))
            }
            #expect(error?.kind == .tls, "\(error?.message ?? "connected") with \(authority)")
        }
    }

    @Test(arguments: Carrier.withTLS) func tlsAtAPortWithoutItFailsSoon(_ carrier: Carrier) async throws {
        let broker = try Broker(directory)
        let authority = try certificate("other").certificate
        let error = await failure { () async throws(BellwireTransportError) in
            _ = try await Device(carrier.transport(broker.port, authority: authority))
        }
        #expect(error != nil)
    }

    @Test(arguments: Carrier.allCases) func anAttemptThatIsCancelledIsGivenUp(_ carrier: Carrier) async throws {
        let (asked, asking) = AsyncStream.makeStream(of: Void.self)
        let (ended, ending) = AsyncStream.makeStream(of: Void.self)
        // The listener takes CONNECT and says nothing.
        let listener = try Listener { peer in
            _ = peer.packet()
            asking.yield()
            _ = peer.packet()
            ending.yield()
        }
        let attempt = Task {
            await failure { () async throws(BellwireTransportError) in
                _ = try await Device(carrier.transport(listener.port))
            }
        }
        for await _ in asked { break }
        attempt.cancel()
        #expect(await attempt.value != nil)
        for await _ in ended { break }
    }

    // MARK: Certificates

    private func tlsBroker() throws -> (Broker, authority: String) {
        let files = try certificate("server")
        let broker = try Broker(
            directory, ["allow_anonymous true", "certfile \(files.certificate)", "keyfile \(files.key)"])
        return (broker, files.certificate)
    }

    /// Makes a certificate that signs itself.
    private func certificate(_ name: String) throws -> (certificate: String, key: String) {
        let files = (certificate: "\(directory.path)/\(name).crt", key: "\(directory.path)/\(name).key")
        let openssl = Process()
        openssl.executableURL = URL(filePath: "/usr/bin/openssl")
        openssl.arguments =
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=\(name)"
            .split(separator: " ").map(String.init)
            + ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", files.key, "-out", files.certificate]
        openssl.standardError = FileHandle.nullDevice
        try openssl.run()
        openssl.waitUntilExit()
        try #require(openssl.terminationStatus == 0)
        return files
    }
}
