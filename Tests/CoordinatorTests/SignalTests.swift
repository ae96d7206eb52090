import CallStore
import SignalingProtocol
import Testing

@testable import CallCore
@testable import Coordinator

/// `call.signal` (docs/protocol.md, section 2, Signals).
struct SignalTests {
    private let world = World(coordinators: 2)

    /// An advanced call of alice, in which bob and carol are accepted and dave is pending.
    private func call() -> (alice: Phone, bob: Phone, carol: Phone, dave: Phone) {
        let phones = ["alice", "bob", "carol", "dave"].map { world.phone("\($0)/phone") }
        world.phone("bob/web")
        phones[0].invite("bob", "carol", "dave", mode: .advanced)
        phones[1].accept()
        phones[2].accept()
        return (phones[0], phones[1], phones[2], phones[3])
    }

    private func signal(
        _ phone: Phone, _ data: String, to: [String]? = nil, seq: Int64? = nil, id: String? = nil
    ) -> [String] {
        _ = world.lines()
        let signal = Request.Signal(
            callID: CallID("c")!, to: to?.map { UserID($0)! }, seq: seq, data: JSONText(data)!)
        let message: UpMessage =
            id.map { .request(Request(id: RequestID($0)!, body: .signal(signal))) } ?? .signal(signal)
        world.send([phone.up(message)])
        return world.lines()
    }

    @Test func aSignalReachesTheAcceptedDevicesOfTheOthersAndHasNoResponse() {
        let (alice, bob, carol, _) = call()
        #expect(
            signal(alice, #"{"a" : 1.50}"#, seq: 7) == [
                #"bob/phone signal {"a" : 1.50}"#, #"carol/phone signal {"a" : 1.50}"#,
            ])
        #expect(
            bob.signals == [
                BellwireSignal(callID: CallID("c")!, from: alice.address, seq: 7, data: JSONText(#"{"a" : 1.50}"#)!)
            ])
        #expect(carol.signals == bob.signals)
    }

    @Test func withAnIdItIsAnsweredWithTheCallAndWithThoseWhomItCannotReach() throws {
        let (alice, _, _, _) = call()
        let lines = signal(alice, "1", to: ["carol", "dave", "erin", "alice"], id: "s1")
        let response = try #require(alice.responses.last)
        #expect(lines == ["alice/phone ok 6", "carol/phone signal 1"])
        guard case .success(let success) = response.outcome else { return #expect(Bool(false)) }
        #expect(
            success.errors == [
                UserError(userID: UserID("dave")!, code: .invalidState),
                UserError(userID: UserID("erin")!, code: .callNotFound),
                UserError(userID: UserID("alice")!, code: .invalidState),
            ])
    }

    @Test func nobodyMaySignalWhoIsNotAcceptedInALiveCall() {
        let (alice, _, _, dave) = call()
        let erin = world.phone("erin/phone")
        #expect(signal(dave, "1", id: "s1") == ["dave/phone invalidState received"])
        #expect(signal(dave, "1") == ["dave/phone error invalidState"])
        #expect(signal(erin, "1", id: "s2") == ["erin/phone callNotFound"])
        #expect(signal(erin, "1") == ["erin/phone error callNotFound"])
        alice.end()
        #expect(signal(alice, "1", id: "s3") == ["alice/phone callEnded accepted"])
    }

    @Test func theAliasOfAMergedCallServesItsOwnerAlone() {
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        alice.invite("bob", callID: "a", mode: .advanced)
        bob.invite("alice", callID: "b", mode: .advanced) { $0.glare = .merge }
        let signal = Request.Signal(callID: CallID("b")!, data: JSONText("1")!)
        world.send([bob.up(UpMessage.signal(signal))])
        #expect(alice.signals.map(\.callID.string) == ["a"])
        _ = world.lines()
        world.send([alice.up(UpMessage.signal(signal))])
        #expect(world.lines() == ["alice/phone error callNotFound"])
    }

    @Test func aSignalAfterTheAcceptInTheSameBatchIsPassedOn() {
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        alice.invite("bob", mode: .advanced)
        let signal = Request.Signal(callID: CallID("c")!, data: JSONText("1")!)
        world.send([bob.up(.accept(.init(callID: CallID("c")!))), bob.up(UpMessage.signal(signal))])
        #expect(alice.signals.map(\.data.description) == ["1"])
    }

    @Test func aBurstKeepsItsOrderAndWritesNothing() throws {
        let (alice, bob, _, _) = call()
        let version = try #require(world.memory.load([.call(CallID("c")!)])[0]?.version)
        let commits = world.services.map { $0.counters[.commits] }
        world.send(
            (1...50 as ClosedRange<Int64>).map { seq in
                alice.up(UpMessage.signal(.init(callID: CallID("c")!, seq: seq, data: JSONText("\(seq)")!)))
            })
        #expect(bob.signals.map(\.seq) == Array(1...50))
        #expect(world.services.map { $0.counters[.commits] } == commits)
        #expect(world.memory.load([.call(CallID("c")!)])[0]?.version == version)
    }

    @Test func signalsKeepTheirSenderAliveWithoutAHeartbeat() {
        let (alice, bob, carol, _) = call()
        for _ in 0..<10 {
            world.pass(seconds: 15)
            _ = signal(alice, "1")
            for phone in [bob, carol] { phone.heartbeat("c") }
        }
        #expect(world.stored(CallID("c")!)?.member(UserID("alice")!)?.state == .accepted)
        world.pass(seconds: 61)
        #expect(world.stored(CallID("c")!)?.member(UserID("alice")!)?.state == .quit)
    }

    @Test func aBurstOfOneSecondPassesAndAFloodIsToldWhenToGoOn() throws {
        let (alice, bob, _, _) = call()
        let burst = (0..<1001).map { seq in
            alice.up(UpMessage.signal(.init(callID: CallID("c")!, seq: Int64(seq), data: JSONText("0")!)))
        }
        _ = world.lines()
        world.send(burst)
        #expect(bob.signals.count == 1000)
        #expect(world.lines().filter { $0.contains("error") } == ["alice/phone error rateLimited"])
    }
}

/// `call.report` (section 2, Reports).
struct ReportTests {
    private let world = World()

    private func report(_ phone: Phone, _ milestones: [(String, Int64)]) -> Response.Outcome? {
        phone.request(
            .report(
                .init(
                    callID: CallID("c")!, milestones: milestones.map { Milestone(name: $0.0, milliseconds: $0.1) })))
    }

    private func reports(_ outcome: Response.Outcome?) -> [String]? {
        outcome?.success?.reports.map { report in
            "\(report.device) " + report.milestones.map { "\($0.name) \($0.milliseconds)" }.joined(separator: " ")
        }
    }

    @Test func reportsAreKeptByDeviceAndShownWithTheCall() {
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        alice.invite("bob")
        bob.accept()
        #expect(
            reports(report(alice, [("accepted", 900), ("firstFrame", 1500)])) == [
                "alice/phone accepted 900 firstFrame 1500"
            ])
        #expect(
            reports(report(bob, [("firstFrame", 700)])) == [
                "alice/phone accepted 900 firstFrame 1500", "bob/phone firstFrame 700",
            ])
        #expect(
            reports(report(alice, [("firstFrame", 1600)])) == [
                "alice/phone accepted 900 firstFrame 1600", "bob/phone firstFrame 700",
            ])
        let got = alice.request(.get(.init(callID: CallID("c")!)))
        #expect(
            reports(got) == ["alice/phone accepted 900 firstFrame 1600", "bob/phone firstFrame 700"])
        #expect(got?.success?.call.revision == world.stored(CallID("c")!)?.revision)
    }

    @Test func strangersReportNothingAndADeviceNotWithoutEnd() {
        let alice = world.phone("alice/phone")
        world.phone("bob/phone")
        alice.invite("bob")
        #expect(report(world.phone("erin/phone"), [("accepted", 1)])?.error?.code == .callNotFound)
        #expect(report(alice, (0..<32).map { ("m\($0)", 1) })?.error == nil)
        #expect(report(alice, [("m0", 2)])?.error == nil)
        #expect(report(alice, [("m32", 2)])?.error?.code == .badRequest)
        #expect(reports(alice.request(.get(.init(callID: CallID("c")!))))?.count == 1)
    }

    @Test func oneMemberLeavesTheOthersTheirRoom() {
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        alice.invite("bob")
        let full = (0..<32).map { ("m\($0)", Int64(1)) }
        var refusals: [ErrorCode?] = []
        for number in 0..<12 { refusals.append(report(world.stranger("alice/d\(number)"), full)?.error?.code) }
        #expect(refusals == [nil, nil] + [ErrorCode?](repeating: .badRequest, count: 10))
        #expect(report(bob, full)?.error == nil)
        #expect(reports(alice.request(.get(.init(callID: CallID("c")!))))?.count == 3)
    }

    /// The world checks that no message exceeds the 256 KiB that may be sent.
    @Test func reportsThatWouldMakeAResponseTooLargeAreLeftOut() throws {
        var settings = ServiceSettings()
        settings.calls.maxMembers = 60
        let world = World(settings)
        let alice = world.phone("alice/phone")
        let users = (0..<54).map { UserID("u\($0)" + String(repeating: "x", count: 60))! }
        alice.request(.invite(.init(invitees: Array(users[..<9]), callID: CallID("c")!, mode: .advanced)))
        for place in stride(from: 9, to: users.count, by: 9) {
            alice.request(.add(.init(callID: CallID("c")!, invitees: Array(users[place..<place + 9]))))
        }
        for user in users {
            for device in ["a", "b"] {
                let milestones = (0..<32).map {
                    Milestone(name: "m\($0)" + String(repeating: "y", count: 60), milliseconds: 86_400_000)
                }
                let phone = world.stranger("\(user)/\(device)")
                #expect(phone.request(.report(.init(callID: CallID("c")!, milestones: milestones)))?.error == nil)
            }
        }
        let reports = try #require(alice.request(.get(.init(callID: CallID("c")!)))?.success?.reports)
        #expect((40..<108).contains(reports.count))
    }

    @Test func whatCannotBeKeptIsNotAnsweredOk() {
        var front: FaultyStore?
        let world = World { memory in
            front = FaultyStore(memory)
            return front!
        }
        let alice = world.phone("alice/phone")
        alice.invite("bob")
        front?.failing = [.note]
        let outcome = alice.request(
            .report(.init(callID: CallID("c")!, milestones: [Milestone(name: "accepted", milliseconds: 1)])))
        #expect(outcome?.error?.code == .unavailable)
        #expect(world.service.counters.durations.isEmpty(.milestone))
    }

    @Test func metricsCountThemByNameAndRole() {
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        alice.invite("bob")
        _ = report(alice, [("firstFrame", 700), ("mine", 3)])
        _ = report(bob, [("firstFrame", 40)])
        let text = world.service.counters.durations.text
        for line in [
            #"bellwire_milestone_milliseconds_bucket{milestone="firstFrame",role="caller",le="500"} 0"#,
            #"bellwire_milestone_milliseconds_bucket{milestone="firstFrame",role="caller",le="1000"} 1"#,
            #"bellwire_milestone_milliseconds_bucket{milestone="firstFrame",role="callee",le="50"} 1"#,
            #"bellwire_milestone_milliseconds_sum{milestone="firstFrame",role="caller"} 700"#,
            #"bellwire_milestone_milliseconds_count{milestone="other",role="caller"} 1"#,
            #"bellwire_milestone_seconds_bucket{milestone="firstFrame",role="caller",le="0.5"} 0"#,
            #"bellwire_milestone_seconds_bucket{milestone="firstFrame",role="caller",le="1"} 1"#,
            #"bellwire_milestone_seconds_sum{milestone="firstFrame",role="caller"} 0.7"#,
        ] { #expect(text.contains(line + "\n"), "\(line)") }
    }
}
