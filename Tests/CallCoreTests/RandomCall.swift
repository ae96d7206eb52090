import CallCore
import SignalingProtocol
import Support
import Testing

/// A step of a random call: an event, with the call before and after the event.
struct Moment: Sendable {
    enum Step: Sendable {
        /// A request, and why it was refused.
        case request(Request.Body, by: UserID, on: DeviceID, refusal: SignalingError?)
        case ack, lost, back, logout
        /// A deadline was served, at or after its moment.
        case deadline
    }

    let seed: UInt64
    let step: Step
    let before: Call
    let machine: CallMachine
    let now: Milliseconds

    var call: Call { machine.call }

    /// Returns the delivery to a device that acknowledged `acked`.
    func event(_ user: UserID, on device: DeviceID, acked: Int) -> Event? {
        let view = DeviceView(address: DeviceAddress(userID: user, deviceID: device), acked: acked)
        return call.delivery(to: view, now: now, settings: machine.settings).map {
            call.event($0, for: user, now: now, snapshot: call.snapshot)
        }
    }

    /// Checks like `#expect`, which takes its expression apart and is too slow for this number of checks.
    func expect(
        _ condition: Bool, _ meaning: @autoclosure () -> String = "", at location: SourceLocation = #_sourceLocation
    ) {
        guard !condition else { return }
        Issue.record("seed \(seed): \(meaning())\n\(step)\n\(before)\n\(call)", sourceLocation: location)
    }
}

/// A call to which random things happen.
struct RandomCall {
    static let users = [alice, bob, carol, dave, eve]
    private static let steps = 40
    /// The number of steps after the call is over.
    private static let stepsAfterTheEnd = 8

    private let scene: Scene
    private var random: SplitMix64

    /// Returns all that happens to the call of this seed.
    static func play(seed: UInt64) -> [Moment] {
        var call = RandomCall(seed: seed)
        var moments: [Moment] = []
        var stepsLeft = steps
        while stepsLeft > 0 {
            let before = call.scene.call
            let step = call.step()
            moments.append(
                Moment(seed: seed, step: step, before: before, machine: call.scene.machine, now: call.scene.now))
            stepsLeft = call.scene.call.isLive ? stepsLeft - 1 : min(stepsLeft - 1, stepsAfterTheEnd)
        }
        return moments
    }

    private init(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let invitees = Array([bob, carol, dave].shuffled(using: &random).prefix(Int.random(in: 1...3, using: &random)))
        var settings = CallSettings()
        settings.maxMembers = random.pick([4, 10])
        // No invitation of this kind is refused.
        scene = try! Scene(
            random.pick(CallMode.allCases), invitees, busy: random.oneIn(4) ? [bob] : [],
            isCancelled: random.oneIn(20), settings: settings
        ) {
            $0.autoEnd = random.oneIn(2)
            $0.notReceivedCheck = random.oneIn(2)
            $0.notReceivedAfter = random.oneIn(2) ? Int.random(in: 1...30, using: &random) : nil
            $0.timeout = random.pick([1, 5, 30, 60, 600])
            $0.joinPolicy = random.pick(JoinPolicy.allCases)
            $0.ifBusy = random.pick(BusyPolicy.allCases)
        }
        self.random = random
    }

    private mutating func step() -> Moment.Step {
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<10: return request()
        case 10..<12:
            scene.ack(random.pick(Self.users), Int.random(in: 0...scene.call.revision + 1, using: &random))
            return .ack
        case 12..<15: return presence()
        default: return deadline()
        }
    }

    private mutating func request() -> Moment.Step {
        let user = random.pick(Self.users)
        let device = random.pick([phone, phone, web])
        let named = Array(Self.users.shuffled(using: &random).prefix(Int.random(in: 1...3, using: &random)))
        let bodies: [Request.Body] = [
            .accept, .accept, .reject, .cancel, .cancel(named), .add(named), .join, .quit, .end, .get,
        ]
        var body = random.pick(bodies)
        // An end would leave no further changes, so that ends are rare.
        if body == .end, !random.oneIn(6) { body = .reject }
        let other = random.oneIn(10) ? CallID("other") : nil
        let refusal = scene.refusal(body, by: user, on: device, activeElsewhere: other)
        return .request(body, by: user, on: device, refusal: refusal)
    }

    private mutating func presence() -> Moment.Step {
        let user = random.pick([alice, alice, alice, bob])
        let device = random.pick([phone, phone, web])
        switch Int.random(in: 0..<12, using: &random) {
        case 0..<8:
            scene.goOffline(user, .lost, on: device)
            return .lost
        case 8..<11:
            scene.comeOnline(user, on: device)
            return .back
        default:
            scene.goOffline(user, .logout, on: device)
            return .logout
        }
    }

    /// Some members are heard of, time goes on, perhaps beyond the next deadline, and the due deadlines are served.
    private mutating func deadline() -> Moment.Step {
        for user in Self.users where random.oneIn(2) { scene.beat(user) }
        scene.machine.delivered(at: scene.now, next: nil)
        let next = max(scene.machine.nextDeadline ?? 0, scene.now)
        switch Int.random(in: 0..<6, using: &random) {
        case 0..<2: scene.now += Milliseconds.random(in: 0...9_000, using: &random)
        case 2..<5: scene.now = next
        default: scene.now = next + Milliseconds.random(in: 0...90_000, using: &random)
        }
        scene.isInviterOnline = random.oneIn(4)
        if random.oneIn(10) { scene.listeningSince = scene.now }
        scene.serveDeadlines()
        return .deadline
    }
}
