import CallStore
import SignalingProtocol
import Testing

@testable import CallCore
@testable import Coordinator

/// `message.send`, acks and receipts (docs/protocol.md, section 2, Peer messages).
struct MessageTests {
    private func send(
        _ phone: Phone, _ id: String = "m", to: String = "bob", ttl: Int? = nil, request: String? = nil,
        data: String = "1"
    ) -> String {
        let message = Request.Message(
            to: UserID(to)!, data: JSONText(data)!, ttl: ttl, messageID: MessageID(id)!, seq: 9, stream: "s")
        switch phone.request(.message(message), id: request.flatMap { RequestID($0) }) {
        case .answer(.message(let id, _, let state)): return "\(id) \(state.rawValue)"
        case .failure(let error): return error.code.rawValue
        case .success, .answer, nil: return "unexpected"
        }
    }

    @Test func aMessageReachesAllDevicesIsAckedAndGetsOneReceipt() {
        let world = World(coordinators: 2)
        let alice = world.phone("alice/phone")
        world.phone("alice/web")
        let bob = world.phone("bob/phone")
        let web = world.phone("bob/web")
        _ = world.lines()
        #expect(send(alice) == "m sent")
        #expect(
            world.lines() == ["alice/phone ok m sent", "bob message m 1", "alice/phone receipt m delivered"])
        #expect(bob.messages == web.messages)
        #expect(
            bob.messages == [
                BellwireIncomingMessage(
                    messageID: MessageID("m")!, from: alice.address, time: world.clock.now, seq: 9, stream: "s",
                    data: JSONText("1")!)
            ])
        world.pass(seconds: 120)
        #expect(world.lines().isEmpty)
        #expect(alice.receipts.map(\.to) == [UserID("bob")!])
    }

    @Test func withoutAnAckItIsSentAgainUntilItExpires() {
        let world = World()
        let alice = world.phone("alice/phone")
        world.phone("bob/phone", acks: false)
        _ = world.lines()
        let start = Double(world.elapsed) / 1000
        #expect(send(alice, ttl: 30) == "m sent")
        world.pass(seconds: 120)
        #expect(
            world.timedLines() == [
                "\(start) alice/phone ok m sent", "\(start) bob message m 1", "\(start + 1) bob message m 1",
                "\(start + 3) bob message m 1", "\(start + 7) bob message m 1", "\(start + 15) bob message m 1",
                "\(start + 23) bob message m 1", "\(start + 30) alice/phone receipt m expired",
            ])
    }

    @Test func messageExpiryIsWhatIsLeftOfTheTimeToLive() {
        let world = World()
        let alice = world.phone("alice/phone")
        _ = send(alice, ttl: 20)
        world.pass(seconds: 8)
        #expect(world.published.filter { $0.topic == "bob" }.map(\.expirySeconds) == [20, 19, 17, 13])
    }

    @Test func aDeviceThatComesOnlineGetsWhatWaitsAfterItsWelcome() {
        let world = World(coordinators: 2)
        let alice = world.phone("alice/phone")
        _ = send(alice, "m1", ttl: 600)
        world.pass(seconds: 2)
        _ = send(alice, "m2", ttl: 600)
        world.pass(seconds: 2)
        _ = world.lines()
        let bob = world.phone("bob/phone")
        #expect(
            world.lines() == [
                "bob/phone welcome s1", "bob/phone message m1 1", "bob/phone message m2 1",
                "alice/phone receipt m1 delivered", "alice/phone receipt m2 delivered",
            ])
        #expect(bob.messages.count == 2)
        #expect(bob.messages.allSatisfy { $0.seq == 9 && $0.stream == "s" }, "the record kept their places")
    }

    @Test func aResendCarriesThePlaceToo() {
        let world = World(coordinators: 2)
        _ = send(world.phone("alice/phone"))
        world.pass(seconds: 8)
        let copies = world.published.compactMap { published -> BellwireIncomingMessage? in
            if case .message(let message) = published.message { message } else { nil }
        }
        #expect(copies.count == 4)
        #expect(copies.allSatisfy { $0.seq == 9 && $0.stream == "s" })
    }

    @Test func aRepeatedRequestSendsNothingAndTellsWhatBecameOfIt() {
        let world = World(coordinators: 3)
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone", acks: false)
        #expect(send(alice, request: "r") == "m sent")
        #expect(send(alice, request: "r") == "m sent")
        #expect(send(alice, request: "other") == "m sent")
        #expect(world.published.filter { $0.topic == "bob" }.count == 1)
        world.send([bob.up(.ackMessage(MessageID("m")!))])
        #expect(send(alice, request: "r") == "m delivered")
        #expect(send(alice, "x", ttl: 1) == "x sent")
        world.pass(seconds: 2)
        #expect(send(alice, "x") == "x expired")
        #expect(alice.receipts.map { "\($0.messageID) \($0.state.rawValue)" } == ["m delivered", "x expired"])
    }

    @Test func withoutAMessageIdTheSameRequestIsTheSameMessage() throws {
        let world = World(coordinators: 2)
        let alice = world.phone("alice/phone")
        let message = Request.Message(to: UserID("bob")!, data: JSONText("1")!)
        let id = RequestID("r")!
        let first = alice.request(.message(message), id: id)
        #expect(alice.request(.message(message), id: id) == first)
        #expect(world.published.filter { $0.topic == "bob" }.count == 1)
        #expect(alice.request(.message(message)) != first)
    }

    @Test func anIdBelongsToItsRecipientAndToOneSender() {
        let world = World()
        let alice = world.phone("alice/phone")
        let carol = world.phone("carol/phone")
        #expect(send(alice, to: "bob") == "m sent")
        #expect(send(alice, to: "dave") == "m sent")
        #expect(send(carol, to: "bob") == "badRequest")
        world.pass(seconds: 60)
        #expect(carol.receipts.isEmpty)
        #expect(alice.receipts.count == 2)
        // Ten minutes after the end of the message its id is free again.
        world.pass(seconds: 600)
        _ = world.memory.clean(limit: 100)
        #expect(send(carol, to: "bob") == "m sent")
    }

    @Test func theAckOfAnybodyElseCountsForNothing() {
        let world = World()
        let alice = world.phone("alice/phone")
        let carol = world.phone("carol/phone")
        _ = send(alice, ttl: 5)
        world.send([carol.up(.ackMessage(MessageID("m")!)), alice.up(.ackMessage(MessageID("m")!))])
        world.pass(seconds: 6)
        #expect(alice.receipts.map(\.state) == [.expired])
    }

    @Test func anAckAfterTheEndChangesNothing() {
        let world = World()
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone", acks: false)
        _ = send(alice, ttl: 1)
        world.pass(seconds: 2)
        world.send([bob.up(.ackMessage(MessageID("m")!))])
        world.pass(seconds: 100)
        #expect(alice.receipts.map(\.state) == [.expired])
    }

    @Test func ackAndExpiryAtOnceHaveOneWinnerAndOneReceipt() {
        let race = RaceWorld()
        let alice = race.world.phone("alice/phone")
        let bob = race.world.phone("bob/phone", acks: false)
        race.world.route = { _ in 0 }
        _ = send(alice, ttl: 1)
        // While a coordinator commits the ack, the other coordinator serves the deadline.
        race.world.clock.now += 1_000
        race.atCommit { race.world.join() }
        race.world.send([bob.up(.ackMessage(MessageID("m")!))])
        race.world.pass(seconds: 10)
        #expect(alice.receipts.map(\.state) == [.expired])
    }

    @Test func aReceiptWhoseCoordinatorDiedIsSentByAnother() {
        let world = World()
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone", acks: false)
        _ = send(alice)
        // The coordinator commits that the message was delivered, and dies before it publishes the receipt.
        world.diesBeforePublishing = true
        world.send([bob.up(.ackMessage(MessageID("m")!))])
        world.diesBeforePublishing = false
        world.restart()
        #expect(alice.receipts.isEmpty)
        world.pass(seconds: 3)
        #expect(alice.receipts.map(\.state) == [.delivered])
        world.pass(seconds: 60)
        #expect(alice.receipts.count == 1)
    }

    @Test func aMessageWhoseCoordinatorDiedIsSentAgainByAnother() {
        let world = World()
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        let message = Request.Message(to: bob.user, data: JSONText("1")!, messageID: MessageID("m")!)
        world.diesBeforePublishing = true
        world.send([alice.up(.message(message))])
        world.diesBeforePublishing = false
        world.restart()
        world.pass(seconds: 3)
        #expect(bob.messages.count == 1)
        #expect(alice.receipts.map(\.state) == [.delivered])
    }

    @Test func anotherMessageUnderTheSameRequestIDIsRefused() {
        let world = World()
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        #expect(send(alice, request: "r", data: #"{"a":1,"b":[2]}"#) == "m sent")
        #expect(send(alice, request: "r", data: #"{"a":2,"b":[2]}"#) == "badRequest")
        #expect(send(alice, ttl: 31, request: "r", data: #"{"a":1,"b":[2]}"#) == "badRequest")
        #expect(send(alice, request: "r", data: #"{ "b": [2.0], "a": 1 }"#) == "m delivered", "it is the same data")
        #expect(
            send(alice, request: "s", data: "2") == "m delivered", "the message is named: which one is meant is clear")
        #expect(bob.messages.map(\.data.description) == [#"{"a":1,"b":[2]}"#])
        for (data, expected) in [("1", "ok"), ("2", "badRequest"), ("1", "ok")] {
            let message = Request.Message(to: bob.user, data: JSONText(data)!)
            let outcome = alice.request(.message(message), id: RequestID("derived")!)
            #expect(outcome?.name == expected)
        }
    }

    @Test func oneMaySendToOneself() {
        let world = World()
        let phone = world.phone("alice/phone")
        let web = world.phone("alice/web")
        #expect(send(phone, to: "alice") == "m sent")
        #expect(web.messages.count == 1)
        #expect(phone.receipts.map(\.state) == [.delivered])
    }

    @Test func theSendingDeviceDoesNotDeliverToItself() {
        let world = World()
        let phone = world.phone("alice/phone")
        #expect(send(phone, to: "alice", ttl: 10) == "m sent")
        let web = world.phone("alice/web")
        #expect(web.messages.count == 1)
        #expect(phone.receipts.map(\.state) == [.delivered])
        #expect(send(phone, "n", to: "alice", ttl: 10) == "n sent")
        #expect(phone.receipts.count == 2)
        web.vanish()
        #expect(send(phone, "o", to: "alice", ttl: 10) == "o sent")
        world.pass(seconds: 11)
        #expect(phone.receipts.last?.state == .expired)
    }

    @Test func renewedPresenceBringsNothingAgain() {
        let world = World()
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone", acks: false)
        _ = send(alice, ttl: 600)
        world.pass(seconds: 40)
        let count = world.published.count { $0.topic == "bob/phone" && $0.line.contains("message") }
        bob.republishPresence()
        #expect(world.published.count { $0.topic == "bob/phone" && $0.line.contains("message") } == count)
        bob.comeOnline()
        #expect(world.published.count { $0.topic == "bob/phone" && $0.line.contains("message") } == count + 1)
    }

    @Test func noMoreThanSoManyMessagesWaitForAUser() {
        let world = World()
        let alice = world.phone("alice/phone")
        // A sender may have no more than a hundred waiting messages.
        let others = (0..<3).map { world.phone("sender\($0)/phone") }
        for number in 0..<256 { #expect(send(others[number % 3], "m\(number)", to: "dave") == "m\(number) sent") }
        #expect(send(alice, "last", to: "dave") == "rateLimited")
        #expect(send(alice, "other", to: "erin") == "other sent")
        world.phone("dave/phone")
        #expect(send(alice, "last", to: "dave") == "last sent")
    }

    @Test func registeredUsersOnlyMeansThatUnknownOnesGetNoMessage() {
        var settings = ServiceSettings()
        settings.users = .known
        let world = World(settings)
        let alice = world.phone("alice/phone")
        #expect(send(alice) == "userNotRegistered")
        #expect(world.published.filter { $0.topic == "bob" }.isEmpty)
        _ = world.phone("bob/phone")
        #expect(send(alice) == "m sent")
    }

    @Test func withoutTheStoreTheSenderIsToldToSendAgain() {
        var front: FaultyStore?
        let world = World { memory in
            front = FaultyStore(memory)
            return front!
        }
        let alice = world.phone("alice/phone")
        world.phone("bob/phone")
        front?.failing = [.commit]
        #expect(send(alice) == "unavailable")
        front?.failing = []
        #expect(send(alice) == "m sent")
        #expect(alice.receipts.map(\.state) == [.delivered])
        // Where commits wait for replicas, the response to a repeated request needs a commit.
        front?.waitsForReplicas = true
        front?.failing = [.commit]
        #expect(send(alice) == "unavailable")
        front?.failing = []
        #expect(send(alice) == "m delivered")
    }
}

/// A world of two coordinators; the second coordinator acts while the first is about to commit.
private final class RaceWorld {
    let world: World
    private let store: FaultyStore

    init() {
        var store: FaultyStore?
        world = World(coordinators: 2) { memory in
            store = FaultyStore(memory)
            return store!
        }
        self.store = store!
    }

    func atCommit(_ body: @escaping () -> Void) {
        store.beforeCommit = { [store] _ in
            store.beforeCommit = nil
            body()
        }
    }
}
