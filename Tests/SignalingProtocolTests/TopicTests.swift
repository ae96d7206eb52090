import SignalingProtocol
import Support
import Testing

struct TopicTests {
    private let topics = Topics.standard

    private func device(_ user: String, _ device: String = "phone") -> DeviceAddress {
        DeviceAddress(userID: UserID(user)!, deviceID: DeviceID(device)!)
    }

    @Test func topicsAreThoseOfTheContract() {
        let device = device("alice")
        #expect(topics.up(device) == "bellwire/v1/up/alice/phone")
        #expect(topics.presence(device) == "bellwire/v1/presence/alice/phone")
        #expect(topics.down(device) == "bellwire/v1/down/alice/phone")
        #expect(topics.down(device.userID) == "bellwire/v1/down/alice")
        #expect(
            topics.sharedFilters(group: "g") == ["$share/g/bellwire/v1/up/#", "$share/g/bellwire/v1/presence/#"])
        #expect(Topics.clientID(DeviceAddress(userID: UserID("a/b")!, deviceID: device.deviceID)) == "a%2Fb/phone")
    }

    @Test func exactlyTheNamedBytesAreEncoded() {
        for byte in UInt8(0)...127 {
            let text = String(decoding: [byte], as: UTF8.self)
            let isEncoded = byte < 0x20 || byte == 0x7F || "%+/#".contains(text)
            let hex = String(byte, radix: 16, uppercase: true)
            let expected = isEncoded ? "%" + (hex.count == 1 ? "0" : "") + hex : text
            #expect(Topics.encode(UserID(text)!) == expected, "byte \(byte)")
        }
    }

    @Test(arguments: ["é", "日本", "😀", " ", "$SYS", "a b", "\u{A0}", "e\u{301}", "*", "?", "\u{FEFF}"])
    func everythingElseStandsAsItIs(_ user: String) {
        #expect(Array(Topics.encode(UserID(user)!).utf8) == Array(user.utf8))
    }

    @Test func everyUserComesBackFromItsTopic() {
        var random = SplitMix64(seed: 7)
        var tried = 0
        while tried < 3000 {
            let count = Int.random(in: 1...12, using: &random)
            let isASCII = random.chance(50)
            var name = ""
            for _ in 0..<count {
                let value = UInt32.random(in: 0...(isASCII ? 127 : 0x10FFFF), using: &random)
                if let scalar = Unicode.Scalar(value) { name.unicodeScalars.append(scalar) }
            }
            guard let user = UserID(name) else { continue }
            tried += 1
            let address = DeviceAddress(userID: user, deviceID: DeviceID("web")!)
            #expect(topics.parse(topics.up(address)) == .up(address))
            #expect(topics.parse(topics.presence(address)) == .presence(address))
        }
    }

    @Test(arguments: [
        "%41", "%61", "%20", "%2f", "%2b", "%0a", "%7f", "%C3%A9", "%", "%2", "a%", "a%2", "%2G", "%G2", "%%", "%25%",
        "%ZZ", "%+2", "% 2", "a\u{1}b", "a\u{7F}", "a+b", "+", "#", "a#", "", "%u0041", "%E9",
    ])
    func spellingsThatAreNotCanonicalAreRefused(_ level: String) {
        #expect(topics.parse("bellwire/v1/up/\(level)/phone") == .refused(mirror: "bellwire/v1/down/\(level)/phone"))
        #expect(
            topics.parse("bellwire/v1/presence/\(level)/phone") == .refused(mirror: "bellwire/v1/down/\(level)/phone"))
    }

    @Test func usersThatMayNotExistAreRefused() {
        let names = [
            "\u{80}", "a\u{85}b", "\u{9F}", "\(Unicode.Scalar(0xFDD0 as UInt16)!)", "\u{FFFE}", "\u{FFFF}", "\u{1FFFE}",
            "\u{10FFFF}",
            String(repeating: "u", count: 65), String(repeating: "é", count: 33),
        ]
        for name in names {
            #expect(
                topics.parse("bellwire/v1/up/\(name)/phone") == .refused(mirror: "bellwire/v1/down/\(name)/phone"),
                "\(name.debugDescription)")
        }
    }

    @Test func lengthCountsBeforeEncoding() {
        let name = String(repeating: "/", count: 64)
        let address = device(name)
        #expect(Topics.encode(address.userID).utf8.count == 192)
        #expect(topics.parse(topics.up(address)) == .up(address))
        let longer = String(repeating: "%2F", count: 65)
        #expect(topics.parse("bellwire/v1/up/\(longer)/phone") == .refused(mirror: "bellwire/v1/down/\(longer)/phone"))
    }

    @Test func twoSpellingsOfOneLetterAreTwoTopics() {
        guard case .up(let composed) = topics.parse("bellwire/v1/up/\u{E9}/phone"),
            case .up(let decomposed) = topics.parse("bellwire/v1/up/e\u{301}/phone")
        else {
            Issue.record("refused")
            return
        }
        #expect(composed != decomposed)
        #expect(Array(topics.down(composed).utf8) != Array(topics.down(decomposed).utf8))
    }

    @Test(arguments: ["", "a b", "é", "%41", "a+", "#", "a:b", String(repeating: "d", count: 65), "a%2F"])
    func devicesThatMayNotExistAreRefused(_ name: String) {
        #expect(topics.parse("bellwire/v1/up/alice/\(name)") == .refused(mirror: "bellwire/v1/down/alice/\(name)"))
    }

    @Test(arguments: [
        "", "bellwire", "bellwire/v1", "bellwire/v1/", "bellwire/v1/up", "bellwire/v2/up/alice/phone",
        "bellwire/v1x/up/alice/phone", "x/bellwire/v1/up/alice/phone", "/bellwire/v1/up/alice/phone",
        "bellwire/v1/down/alice/phone", "bellwire/v1/UP/alice/phone", "bellwire/v1//alice/phone",
        "bellwire/v1/upp/alice/phone", "bellwire/v1up/alice/phone",
    ])
    func topicsOfOthersAreForeign(_ topic: String) {
        #expect(topics.parse(topic) == .foreign)
    }

    @Test(arguments: ["alice/phone/x", "alice/phone/", "/alice/phone", "alice//phone"])
    func aLevelTooManyIsAnsweredOnTheSameLevels(_ levels: String) {
        #expect(topics.parse("bellwire/v1/up/\(levels)") == .refused(mirror: "bellwire/v1/down/\(levels)"))
        #expect(topics.parse("bellwire/v1/presence/\(levels)") == .refused(mirror: "bellwire/v1/down/\(levels)"))
    }

    @Test(arguments: ["b", "a/b/c", "büro/v1", "a b"])
    func rootMayBeAnyTopic(_ root: String) throws {
        let topics = try #require(Topics(root: root))
        #expect(topics.parse("\(root)/up/alice/phone") == .up(device("alice")))
        #expect(topics.down(UserID("bob")!) == "\(root)/down/bob")
    }

    @Test(arguments: [
        "", "/", "a//b", "/a", "a/", "a/+", "#", "$share/x", "$SYS", "a\u{0}", String(repeating: "r", count: 257),
        "a\u{1}",
        "a\nb", "\t", "a\u{1B}[31m", "a\u{7F}", "a/\u{85}/b", "\u{9F}", "\(Unicode.Scalar(0xFDD0 as UInt16)!)",
        "a\u{FFFE}",
        "\u{1FFFF}", String(decoding: [0x61, 0xFF], as: UTF8.self), "a\r\nb", "a\u{301}+", "+\u{301}", "a/#\u{301}",
    ])
    func rootThatCannotBeATopicIsRefused(_ root: String) {
        #expect(Topics(root: root) == nil)
    }
}
