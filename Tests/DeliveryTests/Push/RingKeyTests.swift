import SignalingProtocol
import Testing

@testable import Delivery

struct RingKeyTests {
    private let secret = [UInt8](0..<32)

    private func key(
        _ secret: [UInt8]? = nil, _ call: CallID = callID, _ user: UserID = bob, _ device: DeviceID = phone,
        _ invitation: Int = 7
    ) throws -> String {
        try #require(
            RingKey.text(
                secret: secret ?? self.secret, callID: call, user: user, device: device, invitation: invitation))
    }

    private func invitation(_ text: String) -> Int? {
        RingKey.invitation(of: text, secret: secret, callID: callID, user: bob, device: phone)
    }

    @Test func aKeyTellsItsInvitation() throws {
        let key = try key()
        #expect(key.hasPrefix("7.") && key.utf8.count == 45)
        #expect(invitation(key) == 7)
        #expect(try self.key() == key)
    }

    @Test func itIsGoodForItsOwnDeviceAndInvitationAlone() throws {
        let others = [
            try key([UInt8](1...32)), try key(nil, CallID("call-2")!), try key(nil, callID, alice),
            try key(nil, callID, bob, DeviceID("phone2")!),
            try key(nil, callID, bob, phone, 8).replacing("8.", with: "7."),
        ]
        #expect(others.allSatisfy { invitation($0) == nil })
        #expect(Set(others + [try key()]).count == 6)
    }

    @Test func noTwoSpellingsAreOneDevice() throws {
        let left = try key(nil, callID, UserID("a\nb")!, DeviceID("c")!)
        let right = try key(nil, callID, UserID("a")!, DeviceID("c")!)
        #expect(left != right)
    }

    @Test func whatIsNoKeyIsNone() throws {
        let key = try key()
        let code = key.dropFirst(2)
        let wrong = [
            "", ".", "7", "7.", ".\(code)", "07.\(code)", "+7.\(code)", "-7.\(code)", "7.\(code).", "7.\(code)A",
            "7.\(code.dropLast())", "7.\(code)=", " \(key)", "0.\(code)", "99999999999999999999.\(code)",
        ]
        #expect(wrong.allSatisfy { invitation($0) == nil })
    }
}
