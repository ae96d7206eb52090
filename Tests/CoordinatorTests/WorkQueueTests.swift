import CallCore
import CallStore
import SignalingProtocol
import Testing

@testable import Coordinator

/// The requests that are served together, and the requests that wait for others (docs/protocol.md, section 1).
struct WorkQueueTests {
    private var queue = WorkQueue()

    private func device(_ name: String) -> DeviceAddress {
        DeviceAddress(userID: UserID(name)!, deviceID: DeviceID("phone")!)
    }

    private mutating func presence(_ device: DeviceAddress) {
        let change = PresenceChange(session: DeviceSession(device, id: "s"), status: .online, tokenExpiresAt: nil)
        _ = queue.append(.presence(change), from: device, 10, at: 0)
    }

    private mutating func ack(_ name: String, _ callID: String, at moment: Int64 = 0) {
        _ = queue.append(.call(CallID(callID)!, .ack(device(name), revision: 1)), from: device(name), 10, at: moment)
    }

    private func received(_ name: String, _ body: Request.Body) -> ReceivedRequest {
        ReceivedRequest(
            device: device(name), request: Request(id: RequestID("r")!, body: body))
    }

    private mutating func end(_ name: String, _ callID: String) {
        let request = received(name, .end(.init(callID: CallID(callID)!)))
        _ = queue.append(.call(CallID(callID)!, .request(request)), from: device(name), 10, at: 0)
    }

    private mutating func query(_ name: String) {
        _ = queue.append(.user(received(name, .query(.init()))), from: device(name), 10, at: 0)
    }

    private func served(_ batch: Batch) -> String {
        (batch.presence.map { "\($0.session.device.userID)" } + batch.calls.works.map { "\($0.id):\($0.events.count)" }
            + batch.requests.map { "\($0.device.userID)?" }).joined(separator: " ")
    }

    private mutating func next(_ limit: Int = .max) -> WorkQueue.KeyedBatch? {
        queue.next(limit, 0)
    }

    /// Takes all batches of the waiting requests; each batch is served before the next batch begins.
    private mutating func batches() -> [Batch] {
        var batches: [Batch] = []
        while let keyed = next() {
            batches.append(keyed.batch)
            queue.finish(keyed)
        }
        return batches
    }

    @Test mutating func whatDifferentUsersSendIsOneBatch() {
        for number in 0..<20 {
            presence(device("u\(number)"))
            ack("u\(number)", "c\(number % 2)")
            query("u\(number)")
        }
        let batches = batches()
        #expect(batches.count == 1)
        #expect(batches[0].calls.works.map(\.events.count) == [10, 10])
        #expect(Set(batches[0].senders).count == 20)
    }

    @Test mutating func whatOneUserSendsKeepsItsOrder() {
        query("alice")
        presence(device("alice"))
        ack("alice", "c")
        presence(device("alice"))
        query("alice")
        ack("alice", "d")
        #expect(batches().map(served) == ["alice?", "alice c:1", "alice alice?", "d:1"])
    }

    @Test mutating func nobodyWaitsForWhatOthersSend() {
        for _ in 0..<30 {
            query("flooder")
            ack("flooder", "x")
        }
        end("alice", "c")
        query("bob")
        let batches = batches()
        #expect(batches.count == 31)
        #expect(batches[0].calls.works.map(\.id.string) == ["c"])
        #expect(batches[0].requests.map(\.device) == [device("flooder"), device("bob")])
    }

    @Test mutating func requestsOnOneCallAreServedTogetherAndOnTwoOneAfterTheOther() {
        end("alice", "c")
        end("alice", "c")
        ack("alice", "d")
        end("alice", "d")
        end("bob", "d")
        ack("alice", "c")
        #expect(batches().map(served) == ["c:2 d:1", "d:2 c:1"])
    }

    @Test mutating func devicesOfOneUserComeTogether() {
        presence(device("alice"))
        presence(DeviceAddress(userID: UserID("alice")!, deviceID: DeviceID("tablet")!))
        #expect(batches().map(served) == ["alice alice"])
    }

    @Test mutating func whoSentNothingUsefulIsAliveAllTheSame() {
        presence(device("alice"))
        _ = queue.append(.nothing, from: device("alice"), 10, at: 0)
        _ = queue.append(.nothing, from: device("bob"), 10, at: 0)
        #expect(batches().map(\.senders) == [[device("alice"), device("bob")]])
    }

    // MARK: Several at a time

    @Test mutating func aUserOfWhomSomethingIsServedWaits() {
        ack("alice", "c")
        let first = next()
        ack("alice", "d")
        ack("bob", "e")
        #expect(next().map { served($0.batch) } == "e:1")
        #expect(next() == nil)
        queue.finish(first!)
        #expect(next().map { served($0.batch) } == "d:1")
    }

    @Test mutating func aCallThatIsServedWaitsAndKeepsItsTurn() {
        ack("alice", "c")
        let first = next()
        ack("bob", "c")
        ack("bob", "d")
        ack("carol", "c")
        ack("dave", "d")
        #expect(next() == nil, "what bob sends keeps its order, and what waits for it as well")
        queue.finish(first!)
        #expect(next().map { served($0.batch) } == "c:2 d:2")
    }

    @Test mutating func whatIsAboutOneCallKeepsItsOrder() {
        for name in ["alice", "bob", "alice", "bob", "alice"] { ack(name, "c") }
        let events = next()!.batch.calls.works[0].events
        #expect(events.map { $0.sender } == ["alice", "bob", "alice", "bob", "alice"].map(device))
    }

    @Test mutating func aBurstIsSpread() {
        for number in 0..<100 { ack("flooder", "f\(number)") }
        for name in ["alice", "bob", "carol"] { ack(name, name) }
        let first = next(20)!
        #expect(first.batch.senders.count(where: { $0 == device("flooder") }) == WorkQueue.mostOfUser)
        #expect(first.batch.calls.works.map(\.id.string).suffix(3) == ["alice", "bob", "carol"])
        queue.finish(first)
        ack("alice", "again")
        let second = next(20)!
        #expect(second.batch.calls.works.last?.id == CallID("again"))
    }

    @Test mutating func whatWaitedTooLongIsDropped() {
        ack("alice", "old", at: 1_000)
        ack("alice", "new", at: 3_000)
        ack("bob", "old", at: 1_000)
        let dropped = dropLate(3_000)
        #expect(dropped == 2)
        #expect(queue.next(10, 3_000).map { served($0.batch) } == "new:1")
        #expect(queue.count == 0)
    }

    @Test mutating func whoseWorksAreServedKeepsWhatWaitsForThem() {
        end("alice", "a")
        end("alice", "b")
        let first = queue.next(10, 1_900)!
        var dropped = dropLate(2_500)
        #expect(queue.next(10, 2_500) == nil)
        queue.finish(first)
        dropped += dropLate(3_800)
        #expect(queue.next(10, 3_800).map { served($0.batch) } == "b:1")
        #expect(dropped == 0)
    }

    @Test mutating func whatThereIsNoRoomForIsRefused() {
        for _ in 0..<WorkQueue.mostWaiting { ack("flooder", "c") }
        let content = RequestContent.call(CallID("d")!, .ack(device("flooder"), revision: 1))
        // The flooder's bytes lessen the room for other users by a sixteenth of these bytes.
        let most = WorkQueue.mostBytes - 10 * WorkQueue.mostWaiting / 16
        let taken = [("flooder", 10), ("alice", most), ("alice", 1)].map { name, bytes in
            queue.append(content, from: device(name), bytes, at: 0)
        }
        #expect(taken == [false, true, false])
        let served = batches().map(\.senders.count).reduce(0, +)
        #expect(served == WorkQueue.mostWaiting + 1)
        let isTaken = queue.append(content, from: device("alice"), WorkQueue.mostBytes, at: 0)
        #expect(isTaken, "there is room again")
    }

    @Test mutating func aBurstKeepsItsOrder() {
        for number in 0..<1_000 { end("flooder", "c\(number)") }
        #expect(batches().map { $0.calls.works[0].id.string } == (0..<1_000).map { "c\($0)" })
        #expect(queue.count == 0)
    }

    @Test mutating func nothingOvertakesTheRestOfABurst() {
        for number in 0..<20 { end("flooder", "c\(number)") }
        let first = next()!
        end("flooder", "last")
        queue.finish(first)
        #expect(batches().map { $0.calls.works[0].id.string } == (1..<20).map { "c\($0)" } + ["last"])
    }

    @Test mutating func latenessIsThatOfWhatCouldBegin() {
        end("alice", "a")
        end("alice", "b")
        #expect(queue.lateness(700) == 700)
        let first = queue.next(10, 700)!
        #expect(queue.lateness(900) == 0, "the second waits for the first")
        queue.finish(first)
        #expect(queue.lateness(900) == 200)
    }

    /// No request of the user is served, so that no end of a request would bring the parked requests into the queue.
    @Test mutating func whatIsParkedBehindWhatWasDroppedIsServed() {
        for number in 0..<100 { ack("alice", "old\(number)", at: 0) }
        ack("alice", "new", at: 2_500)
        let dropped = dropLate(3_000)
        #expect(dropped == 100)
        #expect(queue.count == 1)
        #expect(queue.next(10, 3_000).map { served($0.batch) } == "new:1")
    }

    private func record(_ name: String) -> RecordID { .call(CallID(name)!) }

    @Test mutating func deadlinesWaitForWhatIsServed() {
        ack("alice", "c")
        let first = next()!
        queue.append(ownDeadlines: [record("c"), record("d")])
        #expect(queue.readyDeadlines == 1, "what must wait takes nobody's place")
        #expect(nextDeadlines() == [record("d")])
        #expect(queue.waitingDeadlines == 1)
        queue.finish(first)
        #expect(nextDeadlines() == [record("c")])
        ack("bob", "c")
        #expect(next() == nil, "the deadline is served")
        queue.finish([.call(CallID("c")!)])
        #expect(next() != nil)
    }

    private mutating func nextDeadlines(_ limit: Int = 10) -> [RecordID] { queue.nextDeadlines(limit).ids }

    /// Requests that keep a call busy cannot keep the call's deadline from being served.
    @Test mutating func workTakesTheDeadlineOfItsRecordAlong() {
        ack("alice", "c")
        let first = next()!
        queue.append(ownDeadlines: [record("c")])
        queue.append(foundDeadlines: [record("c")])
        ack("alice", "c")
        queue.finish(first)
        let second = next()!
        #expect(second.batch.calls.works[0].events.map(\.isDeadline) == [true, false])
        #expect(queue.waitingDeadlines == 0, "the same id waits once")
        queue.finish(second)
        #expect(nextDeadlines() == [])
    }

    @Test mutating func ownDeadlinesAndThoseOfOthersTakeTurns() {
        queue.append(ownDeadlines: [record("a"), record("b"), record("c")])
        queue.append(foundDeadlines: [record("x"), record("y")])
        let turns = (0..<5).map { _ in queue.nextDeadlines(1).ids[0] }
        #expect(turns == ["a", "x", "b", "y", "c"].map(record))
    }

    // MARK: Bounds

    /// The users are as many as would fill the queue if each user could have as much as a lone user.
    @Test mutating func manyUsersCannotFillTheQueueForOthers() {
        let users = 100
        for number in 0..<WorkQueue.mostWaiting { for user in 0..<users { ack("u\(user)", "c\(number)") } }
        let content = RequestContent.call(CallID("d")!, .ack(device("alice"), revision: 1))
        for _ in 0..<WorkQueue.mostOfUser {
            let isTaken = queue.append(content, from: device("alice"), 65_536, at: 0)
            #expect(isTaken)
        }
        #expect(queue.count < WorkQueue.mostOfAll)
    }

    @Test mutating func manyUsersCannotFillTheRoomForOthers() {
        let content = RequestContent.call(CallID("d")!, .ack(device("alice"), revision: 1))
        for _ in 0..<WorkQueue.mostBytes / 65_536 {
            for user in 0..<100 { _ = queue.append(content, from: device("u\(user)"), 65_536, at: 0) }
        }
        let isTaken = queue.append(content, from: device("alice"), 65_536, at: 0)
        #expect(isTaken)
    }

    @Test mutating func whatCouldNotBeUsedTakesNoPlace() {
        for _ in 0..<2 {
            for _ in 0..<100 { _ = queue.append(.nothing, from: device("alice"), 10, at: 0) }
            #expect(queue.count == 1)
            #expect(batches().map(\.senders) == [[device("alice")]])
        }
    }

    // MARK: Too late

    private mutating func dropLate(_ now: Int64) -> Int {
        queue.takeLate(now, .init(new: 500, any: 2_000, inAll: 10_000)).dropped
    }

    /// A request that goes on with a call is served, and so is a request that came after the refused request.
    @Test mutating func whatBeginsSomethingIsRefusedSooner() {
        query("alice")
        end("bob", "c")
        let late = queue.takeLate(600, .init(new: 500, any: 2_000, inAll: 10_000))
        #expect(late.refused.map(\.device) == [device("alice")] && late.dropped == 0)
        #expect(queue.next(10, 600).map { served($0.batch) } == "c:1")
    }

    @Test mutating func whoWaitsForARecordIsNotLate() {
        end("alice", "c")
        let first = next()!
        end("bob", "c")
        #expect(queue.lateness(4_000) == 0)
        #expect(dropLate(4_000) == 0)
        #expect(queue.next(10, 5_000) == nil)
        #expect(queue.lateness(5_000) == 0)
        #expect(dropLate(5_000) == 0)
        queue.finish(first)
        #expect(queue.lateness(5_100) == 100)
        #expect(queue.next(10, 5_100).map { served($0.batch) } == "c:1")
    }

    @Test mutating func nobodyWaitsForEverForTheOwnWorks() {
        end("alice", "a")
        let first = next()!
        end("alice", "b")
        #expect(dropLate(9_999) == 0)
        #expect(dropLate(10_000) == 1)
        queue.finish(first)
    }

    @Test mutating func whatIsServedStaysServedWhenTheRestIsForgotten() {
        ack("alice", "c")
        let first = next()!
        ack("alice", "d")
        ack("bob", "e")
        queue.removeAll()
        #expect(queue.count == 0 && next() == nil)
        ack("alice", "f")
        #expect(next() == nil)
        queue.finish(first)
        #expect(next().map { served($0.batch) } == "f:1")
    }
}

extension CallEvent {
    fileprivate var isDeadline: Bool { if case .deadline = self { true } else { false } }
}
