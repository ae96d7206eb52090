import CallCore
import CallStore
import Coordinator
import HistoryChecker
import SignalingProtocol

/// Tries every sequence of steps in a small world, one step deeper each time, until the time limit.
///
/// A state that is reached by two paths is explored once. From some of the states the search lets the world come to
/// rest, and checks that every device was told.
package final class Exhaustive {
    package struct Result: Sendable {
        package let world: String
        /// The largest length of sequences, in steps, of which every sequence was tried.
        package let depth: Int
        /// Whether every possible sequence was tried, so that a larger depth finds no new state.
        package let isComplete: Bool
        package let states: Int
        package let steps: Int
        /// How often the search let the world come to rest.
        package let rests: Int
        package let violation: Violation?
        /// The steps up to the violation.
        package let path: [String]
    }

    private enum Bounds {
        /// How many requests are sent again on each path.
        static let repeats = 2
        /// The search lets the world come to rest from each state with a fingerprint that is a multiple of this number.
        static let restingShare: UInt64 = 64
        static let restingSteps = 400
    }

    private enum Step {
        case request(Int), again(Int), ack(Int, behind: Int), deadline, leave, back
    }

    /// The state that decides which steps are possible next.
    private struct State {
        var contents: MemoryCallStore.Contents
        var contentsKey: UInt64 = 0
        var checker: HistoryChecker
        var now: Milliseconds
        /// The wishes that were sent and changed something, one bit each. A wish that changed nothing may be sent again
        /// later.
        var sent: UInt32 = 0
        var repeats = 0
        /// Whether the last device has not been away (0), is away (1) or is back (2).
        var absence = 0
    }

    private static let start: Milliseconds = 1_790_000_000_000

    private let world: SmallWorld
    private let clock: () -> Int64
    private let store: MemoryCallStore
    private let settings: ServiceSettings
    /// The ids of the calls that the wishes may create.
    private let callIDs: [CallID]
    private var now = Exhaustive.start
    private var visited: [UInt64: Int] = [:]
    private var steps = 0
    private var rests = 0
    private var path: [Step] = []
    private var failure: (violation: Violation, path: [String])?
    private var wasCut = false
    private var deadline = Int64.max

    package static var worlds: [String] { SmallWorld.all.map(\.name) }

    /// `clock`: real time in milliseconds, which limits the search.
    package init(world name: String, clock: @escaping () -> Int64) {
        world = SmallWorld.all.first { $0.name == name }!
        self.clock = clock
        callIDs = Set(world.wishes.compactMap(\.body.callID)).sorted()
        var settings = ServiceSettings()
        settings.trace = .off
        settings.limits.requests = .init(rate: 0, burst: 0)
        settings.limits.invitations = .init(rate: 0, burst: 0)
        settings.limits.pair = .init(rate: 0, burst: 0)
        settings.limits.pairBytes = .init(rate: 0, burst: 0)
        settings.limits.calleeBytes = .init(rate: 0, burst: 0)
        settings.quotas.pairInvitations = 1_000
        settings.limits.callee = .init(rate: 0, burst: 0)
        settings.limits.sentBytes = .init(rate: 0, burst: 0)
        settings.quotas.storedBytes = 0
        self.settings = settings
        var moment: () -> Milliseconds = { Exhaustive.start }
        store = MemoryCallStore { moment() }
        moment = { [unowned self] in now }
    }

    /// Searches up to `depth` steps, for at most `milliseconds` of real time.
    package func search(depth limit: Int, for milliseconds: Int64) -> Result {
        deadline = clock() + milliseconds
        let beginning = begin()
        var reached = 0
        var isComplete = false
        for depth in 1...max(1, limit) {
            wasCut = false
            explore(beginning, depth)
            if failure != nil || clock() >= deadline { break }
            reached = depth
            if !wasCut {
                isComplete = true
                break
            }
        }
        return Result(
            world: world.name, depth: reached, isComplete: isComplete, states: visited.count, steps: steps,
            rests: rests,
            violation: failure?.violation, path: failure?.path ?? [])
    }

    /// Returns the first state, in which every device is online.
    private func begin() -> State {
        var state = State(contents: .init(), checker: HistoryChecker(), now: Self.start)
        state.checker.observe(HistoryEntry(at: now, .began(coordinators: ["coordinator"])))
        for device in world.devices { comeOnline(device, session: "1", &state) }
        return state
    }

    // MARK: The search

    private func explore(_ state: State, _ depth: Int) {
        guard failure == nil else { return }
        let key = fingerprint(of: state)
        let known = visited[key]
        if let known, known >= depth { return }
        visited[key] = depth
        if known == nil, key % Bounds.restingShare == 0 { rest(state) }
        guard depth > 0 else {
            wasCut = true
            return
        }
        guard steps % 256 != 0 || clock() < deadline else {
            wasCut = true
            return
        }
        for step in possibleSteps(state) {
            var next = state
            path.append(step)
            steps += 1
            take(step, &next)
            if let violation = next.checker.violations.first {
                failure = failure ?? (violation, path.map { describe($0) })
            } else {
                explore(next, depth - 1)
            }
            path.removeLast()
            if failure != nil || clock() >= deadline { return }
        }
    }

    private func fingerprint(of state: State) -> UInt64 {
        var key = state.contentsKey
        for part in [UInt64(bitPattern: state.now), UInt64(state.sent), UInt64(state.repeats), UInt64(state.absence)] {
            key = (key ^ part) &* 0x9E37_79B9_7F4A_7C15
            key ^= key >> 29
        }
        return key
    }

    private func possibleSteps(_ state: State) -> [Step] {
        var steps: [Step] = []
        for index in world.wishes.indices where isOnline(world.wishes[index].device, state) {
            if state.sent & (1 << index) == 0 {
                steps.append(.request(index))
            } else if state.repeats < Bounds.repeats {
                steps.append(.again(index))
            }
        }
        store.contents = state.contents
        if !createdCalls.isEmpty {
            for index in world.devices.indices where isOnline(world.devices[index], state) {
                steps += [.ack(index, behind: 0), .ack(index, behind: 1)]
            }
            if !store.due(before: .max, limit: 1).isEmpty { steps.append(.deadline) }
        }
        switch state.absence {
        case 0: steps.append(.leave)
        case 1: steps.append(.back)
        default: break
        }
        return steps
    }

    /// The calls that exist, while the store holds the state's `contents`.
    private var createdCalls: [CallID] {
        callIDs.filter { id in
            guard case .call? = store.load([.call(id)])[0]?.record else { return false }
            return true
        }
    }

    // MARK: Steps

    private func take(_ step: Step, _ state: inout State) {
        switch step {
        case .request(let index): if send(index, &state) { state.sent |= 1 << index }
        case .again(let index): if send(index, &state) { state.repeats += 1 }
        case .ack(let index, let behind):
            store.contents = state.contents
            for callID in createdCalls {
                guard case .call(let call)? = store.load([.call(callID)])[0]?.record, call.revision > behind else {
                    continue
                }
                send(.ackCall(callID, revision: call.revision - behind), from: world.devices[index], &state)
            }
        case .deadline: serveDeadline(&state)
        case .leave:
            state.absence = 1
            goOffline(world.devices[world.devices.count - 1], session: "1", &state)
        case .back:
            state.absence = 2
            comeOnline(world.devices[world.devices.count - 1], session: "2", &state)
        }
    }

    /// Sends a wish. Returns whether the request changed any record.
    private func send(_ index: Int, _ state: inout State) -> Bool {
        let wish = world.wishes[index]
        let before = state.contentsKey
        send(.request(Request(id: RequestID("q\(index)")!, body: wish.body)), from: wish.device, &state)
        return state.contentsKey != before
    }

    private func send(_ message: UpMessage, from device: DeviceAddress, _ state: inout State) {
        observe(.sent(device, message), &state)
        let topic = settings.topics.up(device)
        serve(&state) { $0.process(InboundMessage(topic: topic, payload: message.encoded())) }
    }

    private func present(_ device: DeviceAddress, _ presence: PresenceMessage, _ state: inout State) {
        let topic = settings.topics.presence(device)
        serve(&state) { $0.process(InboundMessage(topic: topic, payload: presence.encoded())) }
    }

    private func comeOnline(_ device: DeviceAddress, session: String, _ state: inout State) {
        observe(.connected(device, session: session), &state)
        let presence = PresenceMessage(.online, session: session)
        observe(.presented(device, presence), &state)
        present(device, presence, &state)
    }

    private func goOffline(_ device: DeviceAddress, session: String, _ state: inout State) {
        observe(.disconnected(device), &state)
        present(device, PresenceMessage(.offline(.lost), session: session), &state)
    }

    /// Lets time pass until the next deadline.
    private func serveDeadline(_ state: inout State) {
        store.contents = state.contents
        guard let id = store.due(before: .max, limit: 1).first, let due = store.contents.deadline(of: id) else {
            return
        }
        state.now = max(state.now, due)
        serve(&state) { $0.sweep() }
    }

    /// Runs `work` on a coordinator that was just started, since a coordinator keeps no state that matters. Each online
    /// device receives the messages that the coordinator publishes.
    private func serve(_ state: inout State, _ work: (OneAtATime) -> [OutboundMessage]) {
        store.contents = state.contents
        now = state.now
        let service = CallService(store: store, settings: settings)
        service.listeningSince = Self.start
        let coordinator = OneAtATime(service)
        let messages = work(coordinator)
        coordinator.published(messages)
        state.contents = store.contents
        state.contentsKey = state.contents.fingerprint
        for message in messages {
            guard let content = DownMessage.decode(message.payload) else { continue }
            for device in world.devices where isOnline(device, state) {
                let topics = settings.topics
                guard
                    message.topic.hasSameBytes(as: topics.down(device))
                        || message.topic.hasSameBytes(as: topics.down(device.userID))
                else {
                    continue
                }
                observe(.received(device, content), &state)
                received.append((device, content))
            }
        }
    }

    /// The messages that devices received in the last step.
    private var received: [(device: DeviceAddress, message: DownMessage)] = []

    private func isOnline(_ device: DeviceAddress, _ state: State) -> Bool {
        state.absence != 1 || device != world.devices.last
    }

    private func observe(_ content: HistoryEntry.Content, _ state: inout State) {
        state.checker.observe(HistoryEntry(at: state.now, content))
    }

    // MARK: Coming to rest

    /// Lets the world come to rest: every device is online and acks its events, and each deadline is served when due.
    /// In the end every call must have ended, and every device must have received its deliveries.
    private func rest(_ state: State) {
        rests += 1
        var state = state
        received = []
        if state.absence == 1 { take(.back, &state) }
        var left = Bounds.restingSteps
        while left > 0 {
            left -= 1
            let news = received
            received = []
            for (device, message) in news.acks() { send(message, from: device, &state) }
            guard received.isEmpty else { continue }
            store.contents = state.contents
            guard !store.due(before: .max, limit: 1).isEmpty else { break }
            serveDeadline(&state)
        }
        observe(.settled, &state)
        state.checker.finish()
        if let violation = state.checker.violations.first, failure == nil {
            failure = (violation, path.map { describe($0) } + ["then the world comes to rest"])
        }
    }

    // MARK: Descriptions

    private func describe(_ step: Step) -> String {
        switch step {
        case .request(let index): "\(world.wishes[index].device) sends \(world.wishes[index].body.type)"
        case .again(let index): "\(world.wishes[index].device) sends \(world.wishes[index].body.type) again"
        case .ack(let index, let behind):
            "\(world.devices[index]) acks " + (behind == 0 ? "the latest revision" : "the revision before the latest")
        case .deadline: "time passes until the next deadline"
        case .leave: "\(world.devices[world.devices.count - 1]) is lost"
        case .back: "\(world.devices[world.devices.count - 1]) is back"
        }
    }
}

extension [(device: DeviceAddress, message: DownMessage)] {
    /// The acks of these messages: the highest revision of each call.
    fileprivate func acks() -> [(DeviceAddress, UpMessage)] {
        var acks: [(device: DeviceAddress, callID: CallID, revision: Int)] = []
        for case (let device, .event(let event)) in self {
            if let place = acks.firstIndex(where: { $0.device == device && $0.callID == event.callID }) {
                acks[place].revision = Swift.max(acks[place].revision, event.call.revision)
            } else {
                acks.append((device, event.callID, event.call.revision))
            }
        }
        return acks.map { ($0.device, .ackCall($0.callID, revision: $0.revision)) }
    }
}
