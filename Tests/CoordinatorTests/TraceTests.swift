import CallStore
import SignalingProtocol
import Testing

@testable import CallCore
@testable import Coordinator

/// `call.trace` (docs/protocol.md, section 6).
struct TraceTests {
    private func world(_ policy: TracePolicy = .all, coordinators: Int = 1) -> World {
        var settings = ServiceSettings()
        settings.trace = policy
        settings.coordinator = "c1"
        return World(coordinators: coordinators, settings)
    }

    private func timeline(_ phone: Phone, _ callID: String = "c") -> Timeline? {
        // Entries wait for less than this time to be written.
        phone.world.pass(200)
        return phone.request(.trace(.init(callID: CallID(callID)!)))?.success?.timeline
    }

    private func lines(_ timeline: Timeline?, since start: Milliseconds) -> [String] {
        (timeline?.entries ?? []).map { entry in
            let what =
                switch entry.step {
                case .request(let device, let type, let outcome): "\(device) \(type) \(outcome)"
                case .transition(let revision, let state, let reason, let actor, let changes):
                    "rev \(revision) \(state.rawValue) \(reason?.rawValue ?? "-") by \(actor?.string ?? "-"): "
                        + changes.map { "\($0.userID) \($0.state.rawValue)" }.joined(separator: " ")
                case .send(let event, let user, let device, let revision, let online, let isResend):
                    "\(isResend ? "resend" : "send") \(event.rawValue) \(revision) to \(user)/\(device?.string ?? "*") \(online)"
                case .ack(let device, let revision): "ack \(device) \(revision)"
                case .presence(let device, let state): "\(device) \(state)"
                case .deadline(let late): "deadline \(late)"
                case .media(let device, let server): "media \(device) \(server)"
                case .push(let push):
                    "push \(push.kind.rawValue) \(push.device) \(push.platform.rawValue) \(push.outcome.rawValue)"
                }
            return "\(entry.time - start) \(what)"
        }
    }

    @Test func aTimelineTellsTheWholeStoryInOrder() {
        let world = world()
        let alice = world.phone("alice/phone")
        alice.invite("bob") { $0.timeout = 20 }
        let start = world.clock.now
        world.pass(seconds: 2)
        let bob = world.phone("bob/phone")
        world.pass(seconds: 3)
        bob.accept()
        #expect(
            lines(timeline(alice), since: start) == [
                "0 alice/phone call.invite ok", "0 rev 1 ringing - by alice: alice accepted bob inviting",
                "0 send call.invited 1 to bob/* 0",
                "2000 bob/phone online", "2000 resend call.invited 1 to bob/phone 1", "2000 ack bob/phone 1",
                "2000 rev 2 ringing - by bob: bob received", "2000 send call.userStateChanged 2 to alice/phone 1",
                "2000 ack alice/phone 2", "5000 bob/phone call.accept ok",
                "5000 rev 3 ended answered by bob: bob accepted", "5000 send call.userStateChanged 3 to alice/phone 1",
                "5000 ack alice/phone 3",
            ])
        #expect(timeline(alice)?.entries.allSatisfy { $0.coordinator == "c1" } ?? false)
    }

    @Test func onlyMembersMayAskAndStrangersLeaveNoTrace() {
        let world = world()
        let alice = world.phone("alice/phone")
        alice.invite("bob")
        let erin = world.phone("erin/phone")
        #expect(erin.request(.trace(.init(callID: CallID("c")!)))?.error?.code == .callNotFound)
        erin.accept()
        #expect(!lines(timeline(alice), since: 0).contains { $0.contains("erin") })
    }

    @Test func theLastTwoHundredStepsAreKept() throws {
        let world = world()
        let alice = world.phone("alice/phone")
        alice.invite("bob", mode: .advanced)
        for _ in 0..<250 {
            alice.accept("c")
            world.pass(100)
        }
        let timeline = try #require(self.timeline(alice))
        #expect(timeline.entries.count == 200)
        #expect(timeline.omitted > 0)
        #expect(timeline.entries == timeline.entries.sorted { $0.time < $1.time })
    }

    @Test func whatTwoReplicasDidIsPutIntoOrder() throws {
        let world = world(coordinators: 2)
        let alice = world.phone("alice/phone")
        world.phone("bob/phone")
        alice.invite("bob", mode: .advanced)
        for _ in 0..<10 {
            world.pass(50)
            alice.accept("c")
        }
        let times = try #require(self.timeline(alice)?.entries.map(\.time))
        #expect(times == times.sorted() && times.count > 12)
    }

    /// Each coordinator has its own reading of the store's clock.
    @Test func whatKnowsARevisionIsNotToldOfAsEarlier() throws {
        let world = world()
        let alice = world.phone("alice/phone")
        alice.invite("bob")
        let start = world.clock.now
        world.clock.now -= 5
        world.phone("bob/phone")
        let entries = try #require(timeline(alice)?.entries)
        #expect(lines(Timeline(entries: entries), since: start).contains { $0.hasSuffix("ack bob/phone 1") })
        #expect(entries.allSatisfy { $0.time >= start })
    }

    @Test func aTimelineThatIsTooLargeLosesItsOldestSteps() throws {
        let world = world()
        let alice = world.phone("alice/phone")
        let call = try #require(alice.invite("bob")?.call)
        // Each control character of an id takes six bytes.
        let changes = (1...9).map { number in
            MemberChange(userID: UserID(String(repeating: "\u{1}", count: 60) + "\(number)")!, state: .inviting)
        }
        let entries = (1...200).map { number in
            TraceEntry(
                time: Int64(number), coordinator: "c1",
                step: .transition(revision: number, state: .active, endReason: nil, actor: nil, changes: changes))
        }
        let success = Response.Success(call: call, time: 1, timeline: Timeline(entries: entries, omitted: 7))
        let response = DownMessage.response(Response(id: RequestID("r")!, outcome: .success(success)))
        let bytes = MessageEncoder(topics: .standard).bounded(response).payload
        #expect(bytes.count <= Limits.downBytes)
        guard case .response(let response)? = DownMessage.decode(bytes) else { return #expect(Bool(false)) }
        let timeline = try #require(response.outcome.success?.timeline)
        #expect(timeline.entries == Array(entries.suffix(timeline.entries.count)) && !timeline.entries.isEmpty)
        #expect(timeline.omitted == 7 + 200 - timeline.entries.count)
    }

    @Test func aRepeatedAckIsNotNoted() {
        let world = world()
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone", acks: false)
        alice.invite("bob")
        for _ in 0..<5 { bob.ack(1) }
        let start = world.clock.now
        #expect(lines(timeline(alice), since: start).filter { $0 == "0 ack bob/phone 1" }.count == 1)
    }

    @Test func offWritesNothingAndTheAnswerIsEmpty() {
        let world = world(.off)
        let alice = world.phone("alice/phone")
        alice.invite("bob")
        #expect(timeline(alice) == Timeline(entries: []))
    }

    @Test func aShareIsTheSameAtEveryCoordinator() {
        let one = TraceRecorder(policy: .share(perTenThousand: 500), coordinator: "1")
        let other = TraceRecorder(policy: .share(perTenThousand: 500), coordinator: "2")
        let ids = (0..<20_000).map { CallID("call-\($0)")! }
        #expect(ids.allSatisfy { one.isTraced($0) == other.isTraced($0) })
        #expect((800...1200).contains(ids.count { one.isTraced($0) }))
        #expect(ids.allSatisfy { TraceRecorder(policy: .share(perTenThousand: 10_000), coordinator: "").isTraced($0) })
    }

    @Test func withErrorsACallIsKeptOnceSomethingGoesWrongWithWhatCameBefore() {
        let world = world(.errors)
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        alice.invite("bob", callID: "good")
        bob.accept("good")
        #expect(timeline(alice, "good") == Timeline(entries: []))
        alice.invite("bob", callID: "bad") { $0.timeout = 3 }
        let start = world.clock.now
        #expect(timeline(alice, "bad") == Timeline(entries: []))
        world.pass(seconds: 5)
        let story = lines(timeline(alice, "bad"), since: start)
        #expect(story.first == "0 alice/phone call.invite ok")
        #expect(story.contains("3000 rev 3 ended timeout by -: bob timeout"))
    }

    @Test(arguments: ["all", "errors", "off", "0%", "100%", "0.25%"])
    func policiesAreRead(text: String) { #expect(TracePolicy(text) != nil) }

    @Test(arguments: ["", "some", "101%", "-1%", "%", "5", "nan%"])
    func whatIsNoPolicyIsRefused(text: String) { #expect(TracePolicy(text) == nil) }

    @Test func aStoreThatFailsCostsTheTraceAndNothingElse() {
        var front: FaultyStore?
        let world = World { memory in
            front = FaultyStore(memory)
            return front!
        }
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        front?.failing = [.trace]
        alice.invite("bob")
        world.pass(200)
        #expect(world.service.counters[.traceEntriesDropped] > 0)
        bob.accept()
        #expect(world.stored(CallID("c")!)?.endReason == .answered)
    }
}
