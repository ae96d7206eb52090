import SignalingProtocol
import Testing

struct IdentifierTests {
    @Test(arguments: ["a", "Z", "0", "_", "-", "call-1", String(repeating: "x", count: 64)])
    func tokensTakeTheirAlphabet(_ text: String) {
        #expect(CallID(text)?.string == text)
        #expect(RequestID(text)?.string == text)
        #expect(MessageID(text)?.string == text)
        #expect(DeviceID(text)?.string == text)
    }

    @Test(arguments: ["", " ", "a b", "a/b", "a+b", "a#b", "a%20", "é", "a\n", "\u{0}", "a\u{301}", "\u{212A}", "a:b"])
    func tokensRefuseEverythingElse(_ text: String) {
        #expect(CallID(text) == nil)
        #expect(RequestID(text) == nil)
        #expect(MessageID(text) == nil)
        #expect(DeviceID(text) == nil)
    }

    @Test func tokensHaveAtMost64Bytes() {
        let long = String(repeating: "x", count: 65)
        #expect(CallID(long) == nil)
        #expect(RequestID(long) == nil)
        #expect(MessageID(long) == nil)
        #expect(DeviceID(long) == nil)
    }

    @Test func deviceAlsoHasDotAndTilde() {
        #expect(DeviceID("a.b~c") != nil)
        #expect(CallID("a.b") == nil)
        #expect(RequestID("a~b") == nil)
    }

    @Test func everyASCIIByteIsJudgedAsTheContractSays() {
        let token = Set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-".utf8)
        for byte in UInt8(0)...127 {
            let text = String(decoding: [byte], as: UTF8.self)
            #expect((CallID(text) != nil) == token.contains(byte), "\(byte)")
            #expect((DeviceID(text) != nil) == (token.contains(byte) || text == "." || text == "~"), "\(byte)")
            #expect(UserID(text) != nil, "\(byte)")
        }
    }

    @Test func userHasOneTo64Bytes() {
        #expect(UserID("") == nil)
        #expect(UserID(String(repeating: "u", count: 64)) != nil)
        #expect(UserID(String(repeating: "u", count: 65)) == nil)
        #expect(UserID(String(repeating: "é", count: 32)) != nil)
        #expect(UserID(String(repeating: "é", count: 33)) == nil)
        #expect(UserID(String(repeating: "😀", count: 16)) != nil)
    }

    @Test func userHasNoneOfTheCharactersThatBrokersDrop() {
        for value in UInt32(0x80)...0x9F { #expect(UserID("a\(Unicode.Scalar(value)!)") == nil) }
        for value in UInt32(0xFDD0)...0xFDEF { #expect(UserID("\(Unicode.Scalar(value)!)") == nil) }
        for plane in UInt32(0)...16 {
            #expect(UserID("\(Unicode.Scalar(plane << 16 | 0xFFFE)!)x") == nil)
            #expect(UserID("\(Unicode.Scalar(plane << 16 | 0xFFFF)!)x") == nil)
        }
        for value: UInt32 in [0xA0, 0xFDCF, 0xFDF0, 0xFFFD, 0x1FFFD, 0xFEFF, 0x7F, 0x00, 0x2028] {
            #expect(UserID("\(Unicode.Scalar(value)!)") != nil, "U+\(String(value, radix: 16))")
        }
    }

    @Test func twoSpellingsOfOneLetterAreTwoUsers() {
        let composed = UserID("\u{E9}")!
        let decomposed = UserID("e\u{301}")!
        #expect(composed.string == decomposed.string, "Swift's String holds them equal")
        #expect(composed != decomposed)
        #expect(Set([composed, decomposed]).count == 2)
        #expect([decomposed: 1][composed] == nil)
        #expect((composed < decomposed) != (decomposed < composed))
    }

    @Test func identifiersAreOrderedAsBytes() {
        let names = ["a", "B", "é", "z", "aa", "\u{FF5E}", "😀", "Z"]
        let sorted = names.compactMap { UserID($0) }.sorted().map { Array($0.string.utf8) }
        #expect(sorted == names.map { Array($0.utf8) }.sorted { $0.lexicographicallyPrecedes($1) })
    }

    @Test func devicesAreOrderedByUserAndThenByDevice() {
        func device(_ user: String, _ device: String) -> DeviceAddress {
            DeviceAddress(userID: UserID(user)!, deviceID: DeviceID(device)!)
        }
        #expect(device("a", "z") < device("b", "a"))
        #expect(device("a", "a") < device("a", "b"))
        #expect(!(device("a", "a") < device("a", "a")))
        #expect(device("a", "p").description == "a/p")
    }

    /// Swift's strings hold both spellings of "café" equal.
    @Test func textThatNamesSomebodyIsComparedAsBytes() {
        let (composed, decomposed) = ("caf\u{E9}", "cafe\u{301}")
        #expect(composed == decomposed)
        #expect(ByteString(composed) != ByteString(decomposed))
        #expect(Set([ByteString(composed), ByteString(decomposed), ByteString(composed)]).count == 2)
        #expect(!composed.hasSameBytes(as: decomposed))
        #expect(composed.hasSameBytes(as: "caf\u{E9}"))
    }
}
