import SignalingProtocol
import Testing

@testable import AgoraSignalClient

/// The order of messages on their way.
struct OutboxTests {
    private static let bob = UserID("bob")!
    private static let carol = UserID("carol")!

    private static func makeOutbox() -> Outbox {
        var streams = 0
        return Outbox {
            streams += 1
            return "s\(streams)"
        }
    }

    private static func draft(_ name: String, to peer: UserID = bob, until deadline: Int64 = 10_000) -> Outbox.Draft {
        Outbox.Draft(messageID: MessageID(name)!, to: peer, data: JSONText(string: name), deadline: deadline)
    }

    private static func places(_ sendings: [Outbox.Sending]) -> [String] {
        sendings.map { "\($0.draft.messageID) \($0.stream)/\($0.seq)" }
    }

    @Test func messagesToOnePeerAreNumberedInTheOrderInWhichTheyWereSent() {
        var outbox = Self.makeOutbox()
        for name in ["a", "b"] { _ = outbox.add(Self.draft(name)) }
        _ = outbox.add(Self.draft("c", to: Self.carol))
        #expect(Self.places(outbox.takeNext(now: 0)).sorted() == ["a s1/1", "b s1/2", "c s2/1"])
        #expect(Self.places(outbox.takeNext(now: 0)).isEmpty)
    }

    @Test func noMoreAreUnderWayThanAReceiverHolds() {
        var outbox = Self.makeOutbox()
        for number in 1...50 { _ = outbox.add(Self.draft("m\(number)")) }
        #expect(outbox.takeNext(now: 0).count == Outbox.underWayPerPeer)
        outbox.settle(MessageID("m1")!, to: Self.bob, isDelivered: true)
        #expect(Self.places(outbox.takeNext(now: 0)) == ["m33 s1/33"])
    }

    @Test func noMoreAreSentBehindTheOldestThanAReceiverHolds() {
        var outbox = Self.makeOutbox()
        for number in 1...50 { _ = outbox.add(Self.draft("m\(number)")) }
        _ = outbox.takeNext(now: 0)
        for number in 2...32 { outbox.settle(MessageID("m\(number)")!, to: Self.bob, isDelivered: true) }
        #expect(Self.places(outbox.takeNext(now: 0)).isEmpty)
        outbox.settle(MessageID("m1")!, to: Self.bob, isDelivered: true)
        #expect(outbox.takeNext(now: 0).count == 18)
    }

    @Test func noMoreAreUnderWayThanTheServiceLetsOneUserHaveWaiting() {
        var outbox = Self.makeOutbox()
        for peer in 1...5 {
            for number in 1...30 { _ = outbox.add(Self.draft("m\(peer)-\(number)", to: UserID("peer\(peer)")!)) }
        }
        #expect(outbox.takeNext(now: 0).count == Outbox.underWay)
    }

    @Test func moreThanTheBoundAreNotTaken() {
        var outbox = Self.makeOutbox()
        let taken = (1...Outbox.waiting).map { outbox.add(Self.draft("m\($0)")) }
        let beyond = outbox.add(Self.draft("beyond"))
        #expect(!taken.contains(false) && !beyond)
    }

    @Test func nothingIsSentBehindAMessageThatIsNotTaken() {
        var outbox = Self.makeOutbox()
        _ = outbox.add(Self.draft("a"))
        _ = outbox.takeNext(now: 0)
        _ = outbox.add(Self.draft("b", until: 12_000))
        #expect(Self.places(outbox.takeNext(now: Outbox.patience)).isEmpty)
        outbox.settle(MessageID("a")!, to: Self.bob, isDelivered: true)
        #expect(Self.places(outbox.takeNext(now: 2_000)) == ["b s1/2"])
    }

    @Test func anotherStreamBeginsAfterAMessageThatNobodyTook() {
        var outbox = Self.makeOutbox()
        _ = outbox.add(Self.draft("a"))
        _ = outbox.takeNext(now: 0)
        _ = outbox.add(Self.draft("b", until: 20_000))
        outbox.settle(MessageID("a")!, to: Self.bob, isDelivered: false)
        #expect(Self.places(outbox.takeNext(now: 10_000)) == ["b s2/1"])
    }

    @Test func theStreamGoesOnWhereTheReceiverHoldsALaterMessage() {
        var outbox = Self.makeOutbox()
        for name in ["a", "b"] { _ = outbox.add(Self.draft(name)) }
        _ = outbox.takeNext(now: 0)
        _ = outbox.add(Self.draft("c", until: 20_000))
        outbox.settle(MessageID("a")!, to: Self.bob, isDelivered: false)
        #expect(Self.places(outbox.takeNext(now: 500)).isEmpty)
        outbox.settle(MessageID("b")!, to: Self.bob, isDelivered: true)
        #expect(Self.places(outbox.takeNext(now: 500)) == ["c s1/3"])
    }

    @Test func aMessageLivesForWhatIsLeftOfItsTimeInWholeSeconds() {
        var outbox = Self.makeOutbox()
        _ = outbox.add(Self.draft("a", until: 10_000))
        #expect(outbox.takeNext(now: 0).map(\.ttl) == [10])
        _ = outbox.add(Self.draft("late", to: Self.carol, until: 10_000))
        #expect(outbox.takeNext(now: 7_500).map(\.ttl) == [3])
    }

    @Test func aMessageThatWasGivenUpBeforeItLeftTakesNoPlace() {
        var outbox = Self.makeOutbox()
        for name in ["a", "b"] { _ = outbox.add(Self.draft(name)) }
        #expect(outbox.isWaiting(MessageID("a")!, to: Self.bob))
        outbox.settle(MessageID("a")!, to: Self.bob, isDelivered: false)
        #expect(Self.places(outbox.takeNext(now: 0)) == ["b s1/1"])
    }

    @Test func aPeerThatWasForgottenIsWrittenToInAnotherStream() {
        var outbox = Self.makeOutbox()
        _ = outbox.add(Self.draft("first"))
        _ = outbox.takeNext(now: 0)
        outbox.settle(MessageID("first")!, to: Self.bob, isDelivered: true)
        for number in 1...Outbox.peers {
            _ = outbox.add(Self.draft("m\(number)", to: UserID("peer\(number)")!))
            _ = outbox.takeNext(now: 0)
            outbox.settle(MessageID("m\(number)")!, to: UserID("peer\(number)")!, isDelivered: true)
        }
        _ = outbox.add(Self.draft("again"))
        let again = outbox.takeNext(now: 0)
        #expect(again.map(\.seq) == [1] && again.map(\.stream) != ["s1"])
    }
}
