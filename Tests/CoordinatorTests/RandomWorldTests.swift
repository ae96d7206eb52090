import CallCore
import CallStore
import Coordinator
import SignalingProtocol
import Support
import Testing

/// Random users, with random faults in the store, the broker and the coordinators. Once the faults are over, every
/// device is up to date within seconds, whatever happened before. A seed that fails becomes a test of its own.
struct RandomWorldTests {
    @Test(arguments: UInt64(1)...12)
    func afterAnyFaultsEveryDeviceIsUpToDate(_ seed: UInt64) {
        let drive = RandomDrive(seed: seed)
        for _ in 0..<120 {
            drive.step()
            drive.checkCalls()
        }
        drive.heal()
        drive.checkDevices()
        drive.checkResends()
    }
}

private final class RandomDrive {
    private var random: SplitMix64
    private let seed: UInt64
    private let world: World
    private let store: FaultyStore
    private let phones: [Phone]
    private let names = ["alice", "bob", "carol"]
    private var calls: [String] = []
    /// The requests that succeeded, by device, newest last.
    private var succeeded: [DeviceAddress: [(id: RequestID, body: Request.Body)]] = [:]
    private var revisions: [CallID: Int] = [:]
    private var ended: [CallID: EndReason] = [:]

    init(seed: UInt64) {
        self.seed = seed
        random = SplitMix64(seed: seed)
        var settings = ServiceSettings()
        settings.presence.lease = 86_400_000
        var faulty: FaultyStore!
        world = World(
            coordinators: 2, settings,
            store: { memory in
                faulty = FaultyStore(memory)
                return faulty
            })
        store = faulty
        let world = world
        phones = ["alice/phone", "alice/web", "bob/phone", "bob/web", "carol/phone"].map { world.phone($0) }
        let salt = Int.random(in: 1...1000, using: &random)
        world.route = { turn in (turn &* 31 &+ salt) / 3 }
    }

    func step() {
        let phone = phones.randomElement(using: &random)!
        switch Int.random(in: 0..<20, using: &random) {
        case 0: phone.isConnected ? phone.lose() : phone.comeOnline()
        case 1: phone.isConnected ? phone.logOut() : phone.comeOnline()
        case 2: phone.comeOnline()
        case 3: phone.republishPresence()
        case 4:
            request(from: phone) { [world] in world.losesPublications = $0 }
        case 5:
            let limit = Int.random(in: 0..<12, using: &random)
            request(from: phone) { [store] in store.failsAfter = $0 ? store.operations + limit : nil }
        case 6:
            let other = phones.randomElement(using: &random)!
            if let body = body(other) { intrude(other.up(body)) }
            request(from: phone)
            store.beforeCommit = nil
        case 7: world.restart(store: store)
        case 8, 9, 10: world.pass(Milliseconds.random(in: 0...12_000, using: &random))
        case 11: phone.acks.toggle()
        case 12: for phone in phones { for call in calls { phone.heartbeat(call) } }
        default: request(from: phone)
        }
    }

    private func intrude(_ message: InboundMessage) {
        store.beforeCommit = { [world, store] _ in
            store.beforeCommit = nil
            world.send([message], to: world.coordinators.firstIndex { !$0.isAtWork }!)
        }
    }

    /// Sends a request. Under a fault the request has no outcome that counts, and the device sends the request again,
    /// as the contract demands.
    private func request(from phone: Phone, fault: ((Bool) -> Void)? = nil) {
        guard phone.isConnected, let body = body(phone) else { return }
        let id = world.nextRequestID()
        if let fault {
            fault(true)
            phone.request(body, id: id)
            fault(false)
        }
        let outcome = phone.request(body, id: id)
        if outcome?.success != nil { succeeded[phone.address, default: []].append((id, body)) }
    }

    private func body(_ phone: Phone) -> Request.Body? {
        let others = names.filter { $0 != phone.user.string }.map { UserID($0)! }
        if calls.isEmpty || random.chance(15) {
            let name = "c\(calls.count)"
            calls.append(name)
            var invite = Request.Invite(
                invitees: random.chance(60) ? [others.randomElement(using: &random)!] : others,
                callID: CallID(name)!, mode: random.chance(60) ? .advanced : .common)
            invite.timeout = random.chance(50) ? Int.random(in: 1...60, using: &random) : nil
            invite.notReceivedCheck = random.chance(50)
            invite.autoEnd = random.chance(80)
            invite.glare = random.chance(50) ? .merge : .ring
            invite.ifBusy = random.chance(20) ? .reject : .ring
            return .invite(invite)
        }
        // Most changes happen in the newest calls.
        let call = CallID(calls.suffix(3).randomElement(using: &random)!)!
        switch Int.random(in: 0..<10, using: &random) {
        case 0, 1, 2: return .accept(.init(callID: call))
        case 3: return .reject(.init(callID: call))
        case 4: return .cancel(.init(callID: call))
        case 5: return .join(.init(callID: call))
        case 6: return .quit(.init(callID: call))
        case 7: return .end(.init(callID: call))
        default: return .add(.init(callID: call, invitees: [others.randomElement(using: &random)!]))
        }
    }

    // MARK: Rules that must hold

    /// Revisions only grow, an end is final, and no user is accepted in two live advanced calls.
    func checkCalls() {
        var active: [UserID: CallID] = [:]
        for call in calls.compactMap({ world.stored(CallID($0)!) }) {
            #expect(call.revision >= revisions[call.callID] ?? 0, "seed \(seed)")
            revisions[call.callID] = call.revision
            if let reason = ended[call.callID] { #expect(call.endReason == reason, "seed \(seed): an end is final") }
            ended[call.callID] = call.endReason
            #expect((call.state == .ended) == (call.endReason != nil && call.endedAt != nil), "seed \(seed)")
            guard call.isLive, call.mode == .advanced else { continue }
            for member in call.members where member.state == .accepted {
                let other = active.updateValue(call.callID, forKey: member.userID)
                #expect(other == nil, "seed \(seed): \(member.userID) is in \(call.callID) and \(other!)")
            }
        }
    }

    /// The faults are over: every phone is connected and acks, and a few seconds pass.
    func heal() {
        for phone in phones {
            phone.acks = true
            if phone.isConnected { phone.republishPresence() } else { phone.comeOnline() }
        }
        for _ in 0..<3 {
            world.pass(seconds: 4)
            for phone in phones { for call in calls { phone.heartbeat(call) } }
        }
    }

    func checkDevices() {
        for stored in world.memory.load(calls.map { RecordID.call(CallID($0)!) }) {
            guard case .call(let call)? = stored?.record else { continue }
            for phone in phones { check(phone, call, stored!.acks) }
        }
    }

    private func check(_ phone: Phone, _ call: Call, _ acks: [DeviceAck]) {
        let presence = world.memory.devices(of: [phone.user])[0].first { $0.device == phone.address }
        guard let presence, let member = call.member(phone.user) else { return }
        let ack = acks.first { $0.device == phone.address && $0.session == presence.session }
        let view = DeviceView(address: phone.address, acked: ack?.revision ?? 0, sessionStart: presence.since)
        let delivery = call.delivery(to: view, now: world.clock.now, settings: world.settings.calls)
        #expect(
            delivery == nil, "seed \(seed): \(phone.address) has not acknowledged \(delivery!.name) of \(call.callID)")
        guard let known = phone.calls[call.callID] else {
            #expect(!member.state.isPending || !call.isLive, "seed \(seed): \(phone.address) does not ring")
            return
        }
        let rings = known.state != .ended && known.state(of: phone.user.string)!.isPending
        let shouldRing = call.isLive && member.state.isPending
        #expect(
            rings == shouldRing, "seed \(seed): \(phone.address) in \(call.callID), \(known.revision)/\(call.revision)")
    }

    /// The newest requests of each device that succeeded succeed again and change nothing.
    func checkResends() {
        for phone in phones {
            for (id, body) in (succeeded[phone.address] ?? []).suffix(8) {
                let before = calls.map { world.stored(CallID($0)!) }
                let outcome = phone.request(body, id: id)
                #expect(outcome?.success != nil, "seed \(seed): \(phone.address) \(body.type) \(id)")
                #expect(calls.map { world.stored(CallID($0)!) } == before, "seed \(seed): \(body.type) changed a call")
            }
        }
    }
}
