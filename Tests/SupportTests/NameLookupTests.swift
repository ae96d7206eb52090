import Basics
import Support
import Testing

@Suite struct NameLookupTests {
    @Test(arguments: ["127.0.0.1", "::1", "192.0.2.7"])
    func anAddressIsItsOwnAnswer(address: String) {
        #expect(NameLookup.addresses(of: address, within: 0) == [address])
    }

    @Test func aNameIsLookedUp() {
        let addresses = NameLookup.addresses(of: "localhost", within: 10_000)
        #expect(!addresses.isEmpty)
        #expect(addresses.allSatisfy { ["127.0.0.1", "::1"].contains($0) })
    }

    @Test func aNameThatNobodyHasGivesNothing() {
        // By RFC 6761, section 6.4, this name is never found.
        #expect(NameLookup.addresses(of: "bellwire.invalid", within: 10_000).isEmpty)
    }

    @Test func nobodyWaitsLongerThanTheLimit() {
        let start = ContinuousClock.now
        _ = NameLookup.addresses(of: "bellwire-slow.invalid", within: 20)
        // The work of the other thread in the meantime does not matter; the margin is for a busy machine.
        #expect(ContinuousClock.now - start < .seconds(2))
    }
}

@Suite struct ServerURLTests {
    @Test func allPartsAreRead() throws {
        let url = try #require(ServerURL("redis://me:s%40cret@[::1]:6380/3"))
        #expect(url.scheme == "redis")
        #expect(url.username == "me")
        #expect(url.password == "s@cret")
        #expect(url.host == "::1")
        #expect(url.port == 6380)
        #expect(url.path == "3")
    }

    @Test func aPasswordNeedsNoUser() throws {
        let url = try #require(ServerURL("redis://:secret@host"))
        #expect(url.username == nil)
        #expect(url.password == "secret")
        #expect(url.port == nil)
    }

    /// U+0600 joins the character after it, which hid the colon before the port.
    @Test func signsAreFoundWhereSwiftSeesOneCharacter() throws {
        let url = try #require(ServerURL("redis://host\u{600}:6380/3"))
        #expect(url.host == "host\u{600}")
        #expect(url.port == 6380)
        #expect(url.path == "3")
        #expect(ServerURL.authority(host: "a:\u{301}b", port: 1) == "[a:\u{301}b]:1")
    }

    @Test(arguments: [
        "", "host", "redis:/host", "redis://", "redis://host:", "redis://host:0", "redis://host:65536", "redis://ho st",
        "redis://@host", "redis://me:%zz@host", "redis://[::1", "redis://host?x",
    ])
    func whatIsNoURLIsNone(text: String) {
        #expect(ServerURL(text) == nil)
    }
}
