import MQTTClient
import Testing

struct BrokerAddressTests {
    @Test(arguments: [
        ("mqtt://localhost", BrokerAddress(host: "localhost", port: 1883)),
        ("mqtts://localhost", BrokerAddress(host: "localhost", port: 8883, isTLS: true)),
        ("mqtt://localhost:1884", BrokerAddress(host: "localhost", port: 1884)),
        ("mqtt://localhost:1884/", BrokerAddress(host: "localhost", port: 1884)),
        ("mqtt://127.0.0.1:65535", BrokerAddress(host: "127.0.0.1", port: 65535)),
        ("mqtts://broker.example:1", BrokerAddress(host: "broker.example", port: 1, isTLS: true)),
        ("mqtt://[::1]", BrokerAddress(host: "::1", port: 1883)),
        ("mqtt://[2001:db8::1]:99", BrokerAddress(host: "2001:db8::1", port: 99)),
        ("mqtt://me@host", BrokerAddress(host: "host", port: 1883, username: "me")),
        ("mqtt://me:secret@host:5", BrokerAddress(host: "host", port: 5, username: "me", password: "secret")),
        ("mqtt://me:@host", BrokerAddress(host: "host", port: 1883, username: "me", password: "")),
        ("mqtt://me:a:b@host", BrokerAddress(host: "host", port: 1883, username: "me", password: "a:b")),
        ("mqtt://me:p@ss@host", BrokerAddress(host: "host", port: 1883, username: "me", password: "p@ss")),
        (
            "mqtt://a%40b:%3A%2f%20%C3%A9@host",
            BrokerAddress(host: "host", port: 1883, username: "a@b", password: ":/ é")
        ),
    ])
    func isReadFromAURL(_ url: String, _ expected: BrokerAddress) {
        #expect(BrokerAddress(url: url) == expected)
    }

    @Test(arguments: [
        "", "mqtt", "mqtt:", "mqtt:/", "mqtt://", "mqtts://", "mqtt:///", "localhost", "localhost:1883", "http://host",
        "MQTT://host", "tcp://host:1", "mqtt://:1883", "mqtt://host:", "mqtt://host:0", "mqtt://host:65536",
        "mqtt://host:-1", "mqtt://host:x", "mqtt://host:1x", "mqtt://host: 1", "mqtt://host:1:2", "mqtt://host/path",
        "mqtt://host:1/path", "mqtt://host//", "mqtt://@host", "mqtt://:secret@host", "mqtt://me@", "mqtt://me%zz@host",
        "mqtt://me%4@host", "mqtt://me:%@host", "mqtt://me%ff@host", "mqtt://[]", "mqtt://[::1", "mqtt://[::1]x",
        "mqtt://[::1]:x", "mqtt://host:+1", "mqtt://me%+4@host", "mqtt://ho st", "mqtt://host?x=1", "mqtt://host#x",
    ])
    func isNothingWhenTheURLIsNotOne(_ url: String) {
        #expect(BrokerAddress(url: url) == nil)
    }

    @Test func isDescribedWithoutItsCredentials() {
        #expect(BrokerAddress(url: "mqtt://me:secret@host")?.description == "mqtt://host:1883")
        #expect(BrokerAddress(url: "mqtts://me:secret@[::1]:7")?.description == "mqtts://[::1]:7")
    }

    @Test func aDescriptionIsAURLOfTheSameBroker() {
        for url in ["mqtt://host:5", "mqtts://host:8883", "mqtt://[::1]:1883"] {
            let address = BrokerAddress(url: url)
            #expect(address?.description == url)
            #expect(address == BrokerAddress(url: address?.description ?? ""))
        }
    }
}
