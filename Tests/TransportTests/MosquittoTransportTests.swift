import BellwireMosquitto
import TemporaryFiles
import Testing

/// The abilities that only libmosquitto has, and its messages to the broker.
@Suite struct MosquittoTransportTests {
    let directory = try! TemporaryDirectory()

    @Test func olderBrokersAreSpokenToByTheirVersion() async throws {
        let broker = try Broker(directory)
        var transport = MosquittoTransport(host: "127.0.0.1", port: broker.port)
        transport.version = .v311
        let first = try await Device(transport, topics: ["t"])
        try first.publish("one", "t")
        #expect(try await first.received(1) == ["one"])
        let second = try await Device(transport)
        #expect(try await first.closing() == .lost(isClean: true), "such a broker does not say why")
        await second.connection.close()
    }

    @Test func aRefusalOfTheOlderVersionSaysWhy() async throws {
        let users = try directory.write("users", "")
        let broker = try Broker(directory, ["allow_anonymous false", "password_file \(users)"])
        var transport = MosquittoTransport(host: "127.0.0.1", port: broker.port)
        transport.version = .v311
        let error = await failure { [transport] () async throws(BellwireTransportError) in
            _ = try await Device(transport)
        }
        #expect(error?.kind == .refused)
        #expect(error?.message.contains("not authorised") == true, "\(error?.message ?? "connected")")
    }

    @Test(arguments: [false, true]) func aProxyLeadsToTheBroker(_ hasPassword: Bool) async throws {
        let broker = try Broker(directory)
        let proxy = try SOCKSServer(password: hasPassword ? "secret" : nil)
        var transport = MosquittoTransport(host: "localhost", port: broker.port)
        transport.socks = .init(
            host: "127.0.0.1", port: proxy.port, username: hasPassword ? "name" : nil,
            password: hasPassword ? "secret" : nil)
        let device = try await Device(transport, topics: ["t"])
        try device.publish("through", "t")
        #expect(try await device.received(1) == ["through"])
        #expect(proxy.asked == ["localhost:\(broker.port)"])
        await device.connection.close()
    }

    @Test func aProxyThatIsNotThereIsUnreachable() async throws {
        var transport = MosquittoTransport(host: "127.0.0.1", port: try Loopback.freePort())
        transport.socks = .init(host: "127.0.0.1", port: try Loopback.freePort())
        let error = await failure { [transport] () async throws(BellwireTransportError) in
            _ = try await Device(transport)
        }
        #expect(error?.kind == .unreachable)
    }

    @Test func aClientIsConfiguredInWords() throws {
        let settings = try SignalingClient.Configuration(
            user: "alice", device: "phone", mosquitto: "mqtts://me:secret@[::1]")
        let transport = try #require(settings.transport as? MosquittoTransport)
        #expect((transport.host, transport.port, transport.isTLS) == ("::1", 8883, true))
        #expect((transport.username, transport.password) == ("me", "secret"))
        for (user, device, url) in [("", "d", "mqtt://h"), ("u", "a b", "mqtt://h"), ("u", "d", "http://h")] {
            #expect(throws: SignalingError.self) {
                try SignalingClient.Configuration(user: user, device: device, mosquitto: url)
            }
        }
    }
}
