import BellwireClient
import MQTTClient
import SignalingProtocol

/// A call between two devices through the broker, with the time of each step. Further calls measure the latency.
struct Demonstration {
    let broker: BrokerAddress
    let topics: Topics
    let rounds: Int

    /// A step of the demonstration that failed.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    func run() async throws {
        try await withTwoPhones(showCall)
        if rounds > 0 { try await measure() }
    }

    private func withTwoPhones(_ body: (_ alice: DemoPhone, _ bob: DemoPhone) async throws -> Void) async throws {
        // The users have names of their own, so that users named alice and bob on this machine are not disturbed.
        let alice = try await DemoPhone(user: "alice-\(randomHex(bytes: 3))", device: "phone", broker, topics)
        let bob = try await DemoPhone(user: "bob-\(randomHex(bytes: 3))", device: "laptop", broker, topics)
        try await body(alice, bob)
        await alice.client.disconnect()
        await bob.client.disconnect()
    }

    private func showCall(_ alice: DemoPhone, _ bob: DemoPhone) async throws {
        writeOutput("\ndemonstration: alice calls bob (advanced mode), bob answers, alice hangs up\n")
        var timeline = Timeline()
        let callID = SignalingClient.makeCallID()
        timeline.show("alice", "publishes call.invite")
        async let response = alice.client.invite(
            Request.Invite(invitees: [bob.user], callID: callID, mode: .advanced, media: "video"))
        try await bob.event(.invited, callID)
        timeline.show("bob", "rings: call.invited")
        let invited = try await response
        timeline.show("alice", "response ok, revision \(invited.call.revision)")
        try await alice.state(.received, of: bob.user, callID)
        timeline.show("alice", "knows that bob's phone rings: received")

        timeline.show("bob", "publishes call.accept")
        async let accepted = bob.client.accept(callID)
        try await alice.state(.accepted, of: bob.user, callID)
        timeline.show("alice", "knows that bob accepted")
        let active = try await accepted
        timeline.show("bob", "response ok, the call is \(active.call.state.rawValue)")

        timeline.show("alice", "publishes call.end")
        async let ended = alice.client.end(callID)
        try await bob.event(.ended, callID)
        timeline.show("bob", "is told: call.ended")
        let final = try await ended.call
        timeline.show("alice", "response ok, ended: \(final.endReason?.rawValue ?? "?") by alice")
        guard final.state == .ended, final.endReason == .hangup, final.endedBy == alice.user else {
            throw Failure(description: "the call did not end as it should: \(final)")
        }
    }

    /// How many consecutive calls of two users are within the limits (docs/protocol.md, section 2, Rate limits: 20 at
    /// once).
    private static let callsOfTwo = 15

    /// Measures the time from the publishing of `call.invite` until `call.invited` arrives, one call after the other.
    private func measure() async throws {
        var times: [Duration] = []
        while times.count < rounds {
            try await withTwoPhones { alice, bob in
                for _ in 0..<min(Self.callsOfTwo, rounds - times.count) { times.append(try await ring(alice, bob)) }
            }
        }
        times.sort()
        let p50 = times[times.count / 2]
        let p99 = times[min(times.count - 1, times.count * 99 / 100)]
        writeOutput("\ninvite → ring over \(rounds) calls: p50 \(milliseconds(p50)) ms, p99 \(milliseconds(p99)) ms")
    }

    private func ring(_ alice: DemoPhone, _ bob: DemoPhone) async throws -> Duration {
        let callID = SignalingClient.makeCallID()
        let start = ContinuousClock.now
        async let response = alice.client.invite(Request.Invite(invitees: [bob.user], callID: callID))
        let arrival = try await bob.event(.invited, callID)
        _ = try await response
        _ = try await bob.client.reject(callID)
        try await alice.state(.rejected, of: bob.user, callID)
        return start.duration(to: arrival)
    }
}

/// A device of the demonstration.
private final class DemoPhone: Sendable {
    let user: UserID
    let client: SignalingClient
    private let inbox = DemoInbox()

    init(user: String, device: String, _ broker: BrokerAddress, _ topics: Topics) async throws {
        guard let user = UserID(user), let device = DeviceID(device) else {
            throw Demonstration.Failure(description: "\(user)/\(device) is no valid device")
        }
        self.user = user
        var configuration = SignalingClient.Configuration(user: user, device: device, broker: broker)
        configuration.topics = topics
        client = SignalingClient(configuration)
        Task { [client, inbox] in
            for await event in client.events { await inbox.received(event, at: ContinuousClock.now) }
        }
        try await client.connect()
        try await inbox.wait("be welcomed as \(user)") { $0 == .online }
    }

    @discardableResult
    func event(_ name: EventName, _ callID: CallID) async throws -> ContinuousClock.Instant {
        try await inbox.wait("\(user) to get \(name.rawValue)") { event in
            guard case .event(let event) = event else { return false }
            return event.name == name && event.callID == callID
        }
    }

    @discardableResult
    func state(_ state: MemberState, of user: UserID, _ callID: CallID) async throws -> ContinuousClock.Instant {
        try await inbox.wait("\(self.user) to see \(user) \(state.rawValue)") { event in
            guard case .event(let event) = event, event.callID == callID else { return false }
            return event.call.member(user)?.state == state
        }
    }
}

/// The events of a device, kept until a step waits for them.
private actor DemoInbox {
    private typealias TimedEvent = (event: ClientEvent, at: ContinuousClock.Instant)
    private var entries: [TimedEvent] = []
    private var waiter:
        (matches: @Sendable (ClientEvent) -> Bool, resume: CheckedContinuation<ContinuousClock.Instant?, Never>)?

    func received(_ event: ClientEvent, at instant: ContinuousClock.Instant) {
        entries.append((event, instant))
        if entries.count > 1000 { entries.removeFirst(500) }
        guard let waiting = waiter, waiting.matches(event) else { return }
        waiter = nil
        waiting.resume.resume(returning: instant)
    }

    @discardableResult
    func wait(
        _ what: String, until matches: @escaping @Sendable (ClientEvent) -> Bool
    ) async throws -> ContinuousClock.Instant {
        if let known = entries.last(where: { matches($0.event) }) { return known.at }
        let alarm = Task {
            try await Task.sleep(for: .seconds(10))
            self.giveUp()
        }
        defer { alarm.cancel() }
        guard let instant = await withCheckedContinuation({ waiter = (matches, $0) }) else {
            throw Demonstration.Failure(description: "waited 10 s for \(what)")
        }
        return instant
    }

    private func giveUp() {
        waiter?.resume.resume(returning: nil)
        waiter = nil
    }
}

/// Prints each step with the milliseconds since the first step and since the previous step.
private struct Timeline {
    private let start = ContinuousClock.now
    private var last = ContinuousClock.now

    mutating func show(_ who: String, _ what: String) {
        let now = ContinuousClock.now
        let total = milliseconds(start.duration(to: now))
        let step = milliseconds(last.duration(to: now))
        writeOutput("\(total.leftPadded(to: 9)) ms  +\(step.padded(to: 8)) \(who.padded(to: 6)) \(what)")
        last = now
    }
}

private func milliseconds(_ duration: Duration) -> String {
    let microseconds = duration.components.seconds * 1_000_000 + duration.components.attoseconds / 1_000_000_000_000
    let fraction = String(microseconds % 1000 / 10)
    return "\(microseconds / 1000).\(fraction.count == 1 ? "0" : "")\(fraction)"
}

extension String {
    fileprivate func leftPadded(to width: Int) -> String {
        count >= width ? self : String(repeating: " ", count: width - count) + self
    }
}
