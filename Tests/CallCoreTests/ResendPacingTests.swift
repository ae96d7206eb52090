import SignalingProtocol
import Testing

@testable import CallCore

/// The resends to a device that acknowledges late or not at all (docs/protocol.md, section 5, Slow devices).
struct ResendPacingTests {
    private let phone = DeviceAddress(userID: UserID("bob")!, deviceID: DeviceID("phone")!)
    private let id = RecordID.call(CallID("a")!)
    private var target: ResendPacing.Target { .init(phone.userID, phone.deviceID) }

    private func candidate(
        _ name: String, isRinging: Bool = true, createdAt: Milliseconds = 0, bytes: Int = 1_000
    ) -> ResendPacing.Candidate {
        .init(.call(CallID(name)!), isRinging: isRinging, createdAt: createdAt, bytes: bytes)
    }

    @Test func withinASecondEverythingIsSentAgain() {
        var pacing = ResendPacing()
        for number in 0..<10 {
            let call = candidate("c\(number)", createdAt: Milliseconds(number))
            #expect(pacing.allows(call, to: target, now: 999))
            pacing.sentAgain(call, to: target, now: 999 + Milliseconds(number))
        }
    }

    @Test func aSilentDeviceIsSentTheOldestThatRings() {
        var pacing = ResendPacing()
        let second = candidate("second", createdAt: 2)
        pacing.sentAgain(second, to: target, now: 1_000)
        #expect(pacing.allows(second, to: target, now: 3_000), "by its own schedule")
        #expect(!pacing.allows(candidate("third", createdAt: 3), to: target, now: 3_000))
        #expect(!pacing.allows(candidate("over", isRinging: false, createdAt: 1), to: target, now: 3_000))
        let first = candidate("first", createdAt: 1)
        #expect(pacing.allows(first, to: target, now: 3_000), "it takes the place of a newer one")
        pacing.sentAgain(first, to: target, now: 3_000)
        #expect(!pacing.allows(second, to: target, now: 5_000))
        #expect(pacing.allows(first, to: target, now: 5_000))
        #expect(pacing.allows(second, to: .init(phone.userID, DeviceID("laptop")!), now: 5_000), "another device")
    }

    @Test func anInvitationTakesThePlaceOfAnEventThatRingsNobody() {
        var pacing = ResendPacing()
        pacing.sentAgain(candidate("over", isRinging: false, createdAt: 1), to: target, now: 1_000)
        #expect(pacing.allows(candidate("rings", createdAt: 9), to: target, now: 3_000))
        #expect(!pacing.allows(candidate("over-too", isRinging: false, createdAt: 9), to: target, now: 3_000))
    }

    @Test func anAcknowledgmentReleasesWhatWasHeldBack() {
        var pacing = ResendPacing()
        pacing.sentAgain(candidate("a", createdAt: 1), to: target, now: 1_000)
        for (name, isRinging, at) in [("d", true, 4), ("b", false, 2), ("c", true, 3)] {
            let call = candidate(name, isRinging: isRinging, createdAt: Milliseconds(at))
            #expect(!pacing.allows(call, to: target, now: 3_000))
            pacing.heldBack(call, from: target)
            pacing.heldBack(call, from: target)
        }
        #expect(pacing.acknowledged(id, by: DeviceAddress(userID: UserID("eve")!, deviceID: phone.deviceID)).isEmpty)
        let released = pacing.acknowledged(id, by: phone)
        #expect(released.map(\.id.string) == ["c", "d", "b"], "what rings first, the oldest first")
        #expect(released.allSatisfy { $0.target == target })
        #expect(pacing.acknowledged(id, by: phone).isEmpty, "each once")
        #expect(pacing.allows(candidate("b", isRinging: false), to: target, now: 3_001))
    }

    @Test func aNewSessionIsPacedAnew() {
        var pacing = ResendPacing()
        pacing.sentAgain(candidate("a"), to: target, now: 1_000)
        pacing.began(phone)
        #expect(pacing.allows(candidate("b", createdAt: 2), to: target, now: 3_000))
    }

    /// The leader was acknowledged at another coordinator, or is over.
    @Test func aLeaderThatIsNotSentAgainKeepsNobodyWaitingForLong() {
        var pacing = ResendPacing()
        pacing.sentAgain(candidate("a"), to: target, now: 1_000)
        #expect(!pacing.allows(candidate("b", createdAt: 2), to: target, now: 10_999))
        #expect(pacing.allows(candidate("b", createdAt: 2), to: target, now: 11_000))
    }

    @Test func bytesAreBoundedAlsoWhereTheDeviceAcknowledges() {
        var pacing = ResendPacing()
        var sent = 0
        for number in 0..<100 {
            let call = candidate("c\(number)", createdAt: Milliseconds(number), bytes: 11_000)
            guard pacing.allows(call, to: target, now: 1_000) else { continue }
            pacing.sentAgain(call, to: target, now: 1_000)
            _ = pacing.acknowledged(call.id, by: phone)
            sent += 1
        }
        #expect(sent == 3, "32,000 bytes")
        let next = candidate("next", createdAt: 1_000, bytes: 11_000)
        #expect(!pacing.allows(next, to: target, now: 1_200))
        #expect(pacing.allows(next, to: target, now: 1_000 + 2_000))
    }

    /// A device that reads as fast as it is sent needs no limit.
    @Test func aMessageThatIsAcknowledgedGivesItsBytesBack() {
        var pacing = ResendPacing()
        func message(_ number: Int) -> ResendPacing.Candidate {
            .init(.message(MessageID("m\(number)")!, to: phone.userID), isRinging: false, createdAt: 0, bytes: 15_000)
        }
        for number in 0..<3 {
            #expect(pacing.allows(message(number), to: target, now: 1_000))
            pacing.sentAgain(message(number), to: target, now: 1_000)
        }
        #expect(!pacing.allows(message(3), to: target, now: 1_000))
        for number in 0..<10 {
            _ = pacing.acknowledged(message(number).id, by: phone)
            #expect(pacing.allows(message(number + 3), to: target, now: 1_000))
            pacing.sentAgain(message(number + 3), to: target, now: 1_000)
        }
    }

    /// Devices beyond the bound of the memory are not paced: they lose no message.
    @Test func memoryIsBounded() {
        var pacing = ResendPacing()
        func target(_ number: Int) -> ResendPacing.Target { .init(UserID("u\(number)")!, phone.deviceID) }
        for number in 0..<ResendPacing.capacity + 10 {
            pacing.sentAgain(candidate("a"), to: target(number), now: 1_000)
        }
        let other = candidate("b", createdAt: 2)
        #expect(!pacing.allows(other, to: target(0), now: 3_000))
        #expect(pacing.allows(other, to: target(ResendPacing.capacity + 5), now: 3_000))
        pacing.sentAgain(candidate("a"), to: target(-1), now: 20_000)
        #expect(
            !pacing.allows(other, to: target(-1), now: 21_500), "those that are not awaited any more have made room")
    }
}
