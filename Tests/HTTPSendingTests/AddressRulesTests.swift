import HTTPSending
import Testing

private func parsed(_ text: String) throws -> IPAddress { try #require(IPAddress(text)) }

private func parsed(_ cidr: String) throws -> Network { try #require(Network(cidr)) }

/// The addresses to which a stranger's URL may lead.
struct AddressRulesTests {
    @Test(arguments: [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.0.0.1",
        "127.255.255.255", "169.254.169.254", "172.16.0.0", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1",
        "192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.7", "203.0.113.7", "224.0.0.1",
        "239.255.255.255", "240.0.0.1", "255.255.255.255",
    ])
    func specialIPv4AddressesAreRefusedInAllTheirForms(text: String) throws {
        let address = try parsed(text) as IPAddress
        let reason = try #require(AddressRules().refuses(address))
        #expect(reason.hasPrefix("\(text) is "))
        #expect(AddressRules().refuses(try parsed("::ffff:\(text)")) == reason)
        #expect(AddressRules().refuses(try parsed("64:ff9b::\(text)")) != nil)
        #expect(AddressRules().refuses(try parsed("::\(text)")) != nil)
        let pairs = address.description.split(separator: ".").map { String(Int($0)!, radix: 16) }
            .map { $0.count == 1 ? "0\($0)" : $0 }
        #expect(
            AddressRules().refuses(try parsed("2002:\(pairs[0])\(pairs[1]):\(pairs[2])\(pairs[3])::1"))
                != nil)
    }

    @Test(arguments: [
        "::", "::1", "::2", "::8.8.8.8", "64:ff9b:1::1", "64:ff9b:1:ffff:ffff:ffff:808:808", "100::1", "2001::1",
        "2001:0:1:2::3", "2001:1ff:ffff::1", "2001:db8::1", "3fff::1", "5f00::1", "fc00::1", "fdff:ffff::1", "fe80::1",
        "febf::1", "fec0::1", "feff::1", "ff00::1", "ff02::1", "4000::1", "e000::1", "1fff::1", "64:ff9b:0:1::808:808",
        "2002:7f00:1::1", "64:ff9b::7f00:1",
    ])
    func specialIPv6AddressesAreRefused(text: String) throws {
        let reason = try #require(AddressRules().refuses(try parsed(text)))
        #expect(reason.hasPrefix(text))
    }

    @Test(arguments: [
        "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
        "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0",
        "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "203.0.112.255", "223.255.255.255",
        "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1", "2001:200::1", "2001:4860:4860::8888", "2606:4700::1",
        "2a00:1450::1", "3ffe::1",
    ])
    func publicAddressesAreNotRefused(text: String) throws {
        #expect(AddressRules().refuses(try parsed(text)) == nil)
    }

    @Test func aReasonNamesTheAddressAndWhatItIs() throws {
        func reason(_ text: String, _ port: Int = 443) throws -> String? {
            AddressRules().refuses(try parsed(text), port: port)
        }
        #expect(try reason("127.0.0.1") == "127.0.0.1 is a loopback address")
        #expect(try reason("::ffff:10.0.0.1") == "10.0.0.1 is a private address")
        #expect(try reason("::1") == "::1 is a loopback address")
        #expect(try reason("2002:7f00:1::") == "2002:7f00:1:: is a way to 127.0.0.1, a loopback address")
        #expect(try reason("8.8.8.8", 8443) == "8.8.8.8 may be asked at port 443 only, not at 8443")
    }

    @Test func anAllowedNetworkOpensItsAddressesAtEveryPortAndNoOthers() throws {
        let rules = AddressRules(allowedNetworks: [
            try parsed("10.1.0.0/16"), try parsed("fd00:1::/32"),
            try parsed("8.8.8.0/24"),
        ])
        for text in ["10.1.0.0", "10.1.255.255", "::ffff:10.1.2.3", "fd00:1::1", "8.8.8.8"] {
            #expect(rules.refuses(try parsed(text), port: 8443) == nil, "\(text)")
        }
        for text in ["10.0.255.255", "10.2.0.0", "::ffff:10.2.0.0", "fd00:2::1", "64:ff9b::10.1.0.1", "::10.1.0.1"] {
            #expect(rules.refuses(try parsed(text)) != nil, "\(text)")
        }
        #expect(rules.refuses(try parsed("8.8.4.4"), port: 8443) != nil)
    }
}

struct NetworkTests {
    @Test(arguments: [
        ("0.0.0.0/0", "255.255.255.255"), ("10.0.0.0/8", "10.255.0.1"), ("192.0.2.1/32", "192.0.2.1"),
        ("::/0", "ffff::"), ("fd00::/8", "fdff::1"), ("2001:db8::1/128", "2001:db8::1"),
        ("::ffff:10.0.0.0/104", "10.255.0.1"), ("10.0.0.0/8", "::ffff:10.0.0.1"),
    ])
    func aNetworkHoldsTheAddressesThatBeginAsItDoes(network: String, address: String) throws {
        #expect(try parsed(network).contains(try parsed(address)))
    }

    @Test(arguments: [
        ("10.0.0.0/8", "11.0.0.0"), ("192.0.2.1/32", "192.0.2.0"), ("::/0", "10.0.0.1"), ("::/0", "::ffff:10.0.0.1"),
        ("0.0.0.0/0", "::1"), ("fd00::/8", "fc00::1"), ("2001:db8::1/128", "2001:db8::2"),
    ])
    func itHoldsNoOthers(network: String, address: String) throws {
        #expect(!(try parsed(network).contains(try parsed(address))))
    }

    @Test(arguments: [
        "", "/", "10.0.0.0", "10.0.0.0/", "/8", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/+8", "10.0.0.0/08",
        "10.0.0.0/8/8", "10.0.0.1/8", "10/8", "10.0.0.0/8 ", " 10.0.0.0/8", "010.0.0.0/8", "::1/64", "::/129",
        "fe80::%eth0/10",
        "[::]/0", "::ffff:10.0.0.0/95", "::ffff:10.0.0.1/104", "example.com/8", "10.0.0.0\u{0}/8", "10.0.0.0/٨",
    ])
    func whatIsNoNetworkIsNone(text: String) {
        #expect(Network(text) == nil)
    }

    @Test(arguments: ["10.0.0.0/8", "fd00::/8", "2001:db8::1/128", "0.0.0.0/0"])
    func aNetworkIsWrittenAsItIsRead(text: String) throws {
        #expect(try #require(Network(text)).description == text)
    }

    @Test(arguments: ["", "1.2.3", "1.2.3.4.5", "256.1.1.1", "::g", "fe80::1%1", "[::1]", "1.2.3.4\u{0}", "localhost"])
    func whatIsNoAddressIsNone(text: String) {
        #expect(IPAddress(text) == nil)
    }
}
