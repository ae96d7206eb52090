import CallCore
import CallStore
import Coordinator
import Delivery
import HistoryChecker
import SignalingProtocol

/// A whole deployment in one thread and in virtual time: devices, brokers, coordinators, a store, and their faults.
///
/// The world is deterministic: all actions run from one queue, ordered by time and then by the order of their addition,
/// and every random number comes from the plan's seed.
///
/// The parts refer to the world by `unowned(unsafe)`: the caller of `play()` keeps the world until the end, and no part
/// acts after that. Checked references took 3 % of the total time.
final class World {
    let plan: Plan
    let mix: FaultMix
    let topics = Topics.standard
    let downPrefix: String
    let settings: ServiceSettings
    let start: Milliseconds = 1_790_000_000_000
    private(set) var now: Milliseconds
    private(set) var isStoreDown = false
    /// The store's servers, if the store is a cluster.
    private(set) var cluster: SimulatedCluster?
    /// Whether all servers of the store take writes.
    var isStoreWhole: Bool { !isStoreDown && !isStoreReadOnly && cluster?.away.isEmpty ?? true }
    private(set) var isStoreReadOnly = false
    /// The error of the clock of the store's machine.
    private var clockError: Milliseconds = 0
    /// The sum of the clock steps since a coordinator last read the clock.
    private var unnoticedStep: Milliseconds = 0
    var sharedClock = SharedClock()
    /// The time by the clock of the coordinator that runs an operation now; nil while no coordinator runs an operation.
    var asksAt: Milliseconds?
    var storesMachine: Milliseconds { now + clockError }

    /// Records that a coordinator has found the clock step.
    func noticedStep() { unnoticedStep = 0 }

    /// Takes back the clock step before a coordinator reads the clock for the first time. A step while no coordinator
    /// was running makes calls last longer (docs/decisions/0014), which the checker cannot tell from a fault: simulated
    /// worlds have no such step.
    func undoUnnoticedStep() {
        clockError -= unnoticedStep
        unnoticedStep = 0
    }
    /// Whether faults still happen; false once the world is to come to rest.
    private(set) var hasFaults = true
    private(set) var brokers: SimulatedFleet!
    private(set) var coordinators: [SimulatedCoordinator] = []
    private(set) var devices: [SimulatedDevice] = []
    /// The webhook endpoint; nil in a world without webhooks.
    private(set) var endpoint: SimulatedEndpoint?
    /// The media server; nil in a world without media servers.
    private(set) var media: SimulatedMediaServer?
    /// The push provider; nil in a world without pushes, as are the gateway and the watch.
    private(set) var provider: SimulatedProvider?
    private(set) var gateway: SimulatedGateway?
    private(set) var pushes: PushWatch?
    private var memory: MemoryCallStore!
    /// Whether the store lost writes. Afterwards only the store knows which calls exist, and the state of earlier
    /// calls.
    private(set) var hasLostWrites = false
    private var callsBeforeLoss: Set<CallID> = []
    private var ownViolations: [Violation] = []
    private var queue = EventQueue()
    /// The number of suspensions of coordinators' operations. All parts stay in one thread, so that the queue alone
    /// decides the order of actions.
    private var sleepers = 0
    private var sleeping: [Int: (UnsafeContinuation<Void, Never>, () -> Void)] = [:]
    private var checker: HistoryChecker
    private var random: SeededRandom
    private var reactions: Set<String> = []
    private var latest: [CallID: CallSnapshot] = [:]
    private let left: Set<Int>
    private let keepsLines: Bool

    /// The number of injected faults by kind.
    private(set) var faults: [String: Int] = [:]
    private(set) var pushesByKind: [PushKind: Int] = [:]
    /// The FNV-1a hash over the history: two runs of the same seed must have the same hash.
    private(set) var fingerprint: UInt64 = 0xcbf2_9ce4_8422_2325
    private(set) var lines: [String] = []

    /// `leaving`: the numbers of planned acts that do not happen.
    init(_ plan: Plan, leaving left: Set<Int> = [], keepsLines: Bool = false) {
        self.plan = plan
        self.left = left
        self.keepsLines = keepsLines
        mix = plan.mix
        checker = HistoryChecker(tolerances: World.tolerances(plan.mix))
        if plan.storeServers > 1 {
            cluster = SimulatedCluster(servers: plan.storeServers, slowness: plan.mix.serverSlowness)
        }
        now = start
        downPrefix = "\(Topics.defaultRoot)/down/"
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
        settings.limits.messages = .init(rate: 0, burst: 0)
        settings.limits.signals = .init(rate: 0, burst: 0)
        if plan.hasRooms { settings.media = MediaUse([], other: "sfu") }
        settings.brokers = (1...plan.brokers).map { "broker-\($0)" }
        self.settings = settings
        random = SeededRandom(seed: plan.seed &* 0x9E37_79B9 &+ 1)
        hasFaults = true
        brokers = SimulatedFleet(plan.brokers, in: self, random: &random)
        let memory = MemoryCallStore { [unowned(unsafe) self] in asksAt ?? now }
        memory.addUnreadable(plan.mix.unreadableRecords, dueAt: start - 1_000)
        self.memory = memory
        coordinators = (1...plan.coordinators).map {
            SimulatedCoordinator("coordinator-\($0)", memory: memory, in: self, random: random.fork())
        }
        devices = plan.addresses.map { SimulatedDevice($0, in: self, random: random.fork()) }
        if plan.hasPushes { beginPushes() }
        if plan.hasRooms {
            media = SimulatedMediaServer(memory, in: self, random: SeededRandom(seed: plan.seed &* 41 &+ 11))
            memory.keep(SimulatedMediaServer.settings.outboxes)
        }
        guard plan.hasWebhooks else { return }
        endpoint = SimulatedEndpoint(in: self, random: SeededRandom(seed: plan.seed &* 31 &+ 3))
        memory.keep([KeptEndpoint(SimulatedEndpoint.settings)!])
    }

    private func beginPushes() {
        provider = SimulatedProvider(in: self, random: SeededRandom(seed: plan.seed &* 37 &+ 5))
        gateway = SimulatedGateway(in: self)
        memory.keep(SimulatedPushService.settings.policy)
        // The platforms that can push do not depend on the coordinators that run: phones register from the beginning.
        memory.pushes(WorkerID("deployment"), for: 1_000_000_000)
        pushes = PushWatch(memory, in: self)
        inspectPushes()
    }

    private func inspectPushes() {
        at(now + 200) { [self] in
            pushes?.inspect()
            inspectPushes()
        }
    }

    /// Whether any process can push.
    var pushersAreFine: Bool {
        isStoreWhole && coordinators.contains(where: \.isPushing)
    }

    /// Whether the store has lost writes or will lose writes: then the watch cannot know which pushes are due.
    var hasForgotten: Bool { plan.losesWrites || hasLostWrites }

    /// The tolerances of the chaos test, except for the costs of a slow store: a request takes some ten operations,
    /// each up to the store's latency.
    private static func tolerances(_ mix: FaultMix) -> Tolerances {
        var tolerances = Tolerances()
        tolerances.timer = 1_000
        tolerances.disturbedTimer = 3_000
        tolerances.ringing = 2_000
        tolerances.disturbedRinging = 4_500
        tolerances.response = 3_000 + 10 * mix.serverSlowness
        // The tolerance for clocks also covers the time from the moment of a decision until its commit.
        tolerances.clock = 550
        return tolerances
    }

    // MARK: Time

    func at(_ moment: Milliseconds, _ action: @escaping () -> Void) { queue.add(at: max(moment, now), action) }

    /// Suspends a coordinator's operation until `moment` while the other parts go on. `goOn` runs after the operation
    /// is resumed.
    func pass(until moment: Milliseconds, _ goOn: @escaping () -> Void) async {
        sleepers += 1
        let number = sleepers
        at(moment) { [self] in wake(number) }
        await withUnsafeContinuation { sleeping[number] = ($0, goOn) }
    }

    private func wake(_ number: Int) {
        guard let (continuation, goOn) = sleeping.removeValue(forKey: number) else { return }
        continuation.resume()
        goOn()
    }

    private func run(until end: Milliseconds) {
        while let next = queue.next, next <= end, let event = queue.take() {
            now = max(now, event.at)
            event.action()
        }
        now = max(now, end)
    }

    // MARK: A run

    func play() -> Verdict {
        note(.began(coordinators: coordinators.map(\.clientID)))
        for coordinator in coordinators { coordinator.start() }
        for device in devices { device.online() }
        run(until: now + 100)
        let began = now
        for act in plan.acts where !left.contains(act.number) {
            at(began + act.at) { [self] in perform(act) }
        }
        run(until: began + plan.duration)
        settle()
        checkWhatDevicesBelieve()
        checker.finish()
        for coordinator in coordinators { coordinator.end() }
        // The suspended operations of dead coordinators run to their end.
        while let number = sleeping.keys.min() { wake(number) }
        for coordinator in coordinators { coordinator.forget() }
        queue = EventQueue()
        return Verdict(
            violations: ownViolations + checker.violations, summary: checker.summary, fingerprint: fingerprint,
            virtualTime: now - start, faults: faults, calls: checker.summary.calls.values.reduce(0, +),
            pushes: pushesByKind, rooms: media?.changes ?? (0, 0))
    }

    /// Ends the faults: every part serves, every device is online, every call ends, and every device is told.
    private func settle() {
        hasFaults = false
        for device in devices { device.online() }
        var rest = 240
        while rest > 0, !isAtRest {
            rest -= 1
            run(until: now + 500)
            if rest % 4 == 0 { endCalls() }
            if rest == Self.restAtWelcome { checkWelcomes() }
        }
        // This time is for resends of the messages that were lost last.
        run(until: now + 20_000)
        checkWebhooks()
        checkRooms()
        checkPushes()
        note(.settled)
    }

    /// Checks the webhook events. Worlds in which the store loses writes are left out, since webhook events may then be
    /// lost or come twice.
    private func checkWebhooks() {
        guard let endpoint, !plan.losesWrites, !hasLostWrites, isAtRest else { return }
        var rest = 120
        while rest > 0, memory.count(SimulatedEndpoint.name).waiting > 0 {
            rest -= 1
            run(until: now + 1_000)
        }
        endpoint.judge(memory.contents.calls, mayRepeat: mayRepeatRequests)
    }

    /// Whether a fault may have made a worker send a request again.
    private var mayRepeatRequests: Bool {
        faults.keys.contains { fault in ["coordinator", "store", "endpoint"].contains { fault.hasPrefix($0) } }
    }

    /// Checks that rooms were closed, in the worlds in which webhook events are checked.
    private func checkRooms() {
        guard let media, !plan.losesWrites, !hasLostWrites, isAtRest else { return }
        let outboxes = SimulatedMediaServer.settings.outboxes
        var rest = 120
        while rest > 0, outboxes.contains(where: { memory.count($0.name).waiting > 0 }) {
            rest -= 1
            run(until: now + 1_000)
        }
        media.judge(memory.contents.calls, mayRepeat: mayRepeatRequests)
    }

    /// Checks that no push is left in the queue.
    private func checkPushes() {
        guard let pushes, !plan.losesWrites, !hasLostWrites, isAtRest else { return }
        var rest = 120
        while rest > 0, !pushes.waiting.isEmpty {
            rest -= 1
            run(until: now + 1_000)
        }
        if !pushes.waiting.isEmpty { violated(.push, nil, nil, "the queue is not empty: \(pushes.waiting)") }
    }

    /// `settle` waits at most 240 rounds of 500 ms for the world to come to rest. When this number of rounds is left,
    /// 30 s after the last fault, every device must have its welcome.
    private static let restAtWelcome = 180

    private func checkWelcomes() {
        for device in devices where !device.isWelcome {
            violated(.notTold, nil, device.address, "it publishes its presence, but gets no welcome and no error")
        }
    }

    private var isAtRest: Bool {
        coordinators.allSatisfy(\.isServing)
            && devices.allSatisfy { $0.isWelcome && $0.unanswered == 0 && $0.awaited.isEmpty }
            && areCallsOver
    }

    private var areCallsOver: Bool {
        (hasLostWrites ? knownCalls : Array(latest.values)).allSatisfy { $0.state == .ended }
    }

    private var knownCalls: [CallSnapshot] {
        guard hasLostWrites else { return latest.values.sorted { $0.callID < $1.callID } }
        return memory.contents.calls.map { call in
            callsBeforeLoss.contains(call.callID) ? call.snapshot : latest[call.callID] ?? call.snapshot
        }
    }

    /// Checks, at rest, that no device considers a call live if the service had to tell the device of the end. A device
    /// needs no such event when the call, or the device's part in the call, was lost as a whole.
    private func checkWhatDevicesBelieve() {
        guard hasLostWrites, isAtRest else { return }
        for call in knownCalls {
            for device in devices where device.ownCalls.contains(call.callID) {
                // A request of the device on this call, such as a request to leave, was given up: the device cannot
                // know the state of the call.
                if device.unansweredCalls.contains(call.callID) { continue }
                // The device had this revision before the store lost the revision: a late ack of the lost revision
                // counts for the new revision.
                if device.acked[call.callID] ?? 0 >= call.revision { continue }
                guard let own = call.member(device.address.userID), call.endedAt ?? 0 > device.welcomeSince else {
                    continue
                }
                // A member who has left, as far as the store knows, is not told of the end: the store lost the member's
                // return.
                let isIn = own.state == .accepted && own.device == device.address.deviceID
                guard own.state.isPending || isIn || [.cancelled, .timeout].contains(own.state) else { continue }
                violated(.notFollowed, call.callID, device.address, "it considers the call live, which has ended")
            }
        }
    }

    func violated(_ kind: Violation.Kind, _ callID: CallID?, _ device: DeviceAddress?, _ what: String) {
        ownViolations.append(Violation(kind, callID: callID, device: device, "\(clock(now)): \(what)"))
    }

    /// Lets a member of each live call end an advanced call and ask for the state of the call, since no device is told
    /// of a call that ended while its members were away.
    private func endCalls() {
        for call in knownCalls where call.state != .ended {
            for member in call.members {
                let own = devices.first {
                    $0.address.userID == member.userID && (member.device ?? $0.address.deviceID) == $0.address.deviceID
                }
                guard let own, own.isWelcome else { continue }
                if call.mode == .advanced, member.state == .accepted { own.request(.end(.init(callID: call.callID))) }
                own.request(.get(.init(callID: call.callID)))
                break
            }
        }
    }

    // MARK: Acts and faults

    private func perform(_ act: PlannedAct) {
        if let address = act.device, let device = devices.first(where: { $0.address == address }) {
            perform(act.what, device)
        } else {
            befall(act.what)
        }
    }

    private func perform(_ what: PlannedAct.What, _ device: SimulatedDevice) {
        switch what {
        case .invite(let invite): device.request(.invite(invite))
        case .accept(let call): device.request(.accept(.init(callID: call)))
        case .reject(let call): device.request(.reject(.init(callID: call)))
        case .cancel(let call): device.request(.cancel(.init(callID: call)))
        case .join(let call): device.request(.join(.init(callID: call)))
        case .quit(let call): device.request(.quit(.init(callID: call)))
        case .end(let call): device.request(.end(.init(callID: call)))
        case .add(let call, let users): device.request(.add(.init(callID: call, invitees: users)))
        case .get(let call): device.request(.get(.init(callID: call)))
        case .message(let message):
            // Half of the messages are sent in order; `seq` selects these messages, so that no random number is drawn.
            device.request(.message(message), ordered: (message.seq ?? 0).isMultiple(of: 2))
        case .signal(let call): device.signal(call, JSONText("1")!)
        case .partition(let up, let down, let duration):
            count("partition")
            device.partition(up: up, down: down, for: duration)
        case .drop(let away):
            count("connection dropped")
            device.drop(for: away)
        case .roam(let kept): device.roam(keepingFormerFor: kept)
        case .logOut(let away):
            count("logged out")
            device.logOut(for: away)
        case .appRestart(let away):
            count("app restarted")
            device.restart(after: away)
        case .register(let platform, let token): device.register(platform, token: token)
        case .unregister(let platform): device.request(.pushUnregister(.init(platform: platform)))
        case .sleep(let away): device.sleep(for: away)
        case .reinstall(let away, let platform, let token):
            device.reinstall(after: away, platform, token: token)
        case .crash, .freeze, .stop, .brokerRestart, .brokerFreeze, .brokerSilence, .cutOff, .storeOutage, .storeLoss,
            .clockStep, .readOnlyStore, .failover, .reshard:
            preconditionFailure("a fault without a device")
        }
    }

    private func befall(_ what: PlannedAct.What) {
        switch what {
        case .crash(let index): crash(coordinators[index].clientID)
        case .freeze(let index, let duration): freeze(coordinators[index], for: duration)
        case .stop(let index):
            let coordinator = coordinators[index]
            guard coordinator.isServing else { return }
            count("coordinator stopped")
            note(.faultBegan(target: coordinator.clientID, .stopped))
            coordinator.stop()
            startLater(coordinator)
        case .brokerRestart(let away, let place):
            let broker = brokers[place]
            guard broker.isUp else { return }
            count("broker restarted")
            note(.faultBegan(target: HistoryEntry.broker, .killed))
            broker.crash()
            at(now + away) { [self] in
                broker.start()
                at(now + 300) { [self] in brokerServed(by: now + Self.longestReconnection) }
            }
        case .brokerFreeze(let duration, let place):
            guard brokers[place].isWorking else { return }
            count("broker frozen")
            note(.faultBegan(target: HistoryEntry.broker, .frozen))
            brokers[place].freeze(for: duration)
            for device in devices { device.standsStill(brokers[place]) }
            at(now + duration + 300) { [self] in brokerServed(by: now + Self.longestReconnection) }
        case .brokerSilence(let duration, let place):
            guard brokers[place].isWorking else { return }
            count("broker silent")
            note(.faultBegan(target: HistoryEntry.broker, .frozen))
            brokers[place].fallSilent(for: duration)
            at(now + duration + 300) { [self] in brokerServed(by: now + Self.longestReconnection) }
        case .cutOff(let index, let duration, let place):
            // A broker that no coordinator can reach is out of service for its devices, as a broker without power is.
            guard brokers[place].isServed(besides: coordinators[index].clientID) else { return }
            count("coordinator cut off from a broker")
            brokers[place].cutOff(coordinators[index].clientID, for: duration)
        case .storeOutage(let away):
            guard isStoreWhole else { return }
            count("store outage")
            note(.faultBegan(target: HistoryEntry.store, .stopped))
            isStoreDown = true
            at(now + away) { [self] in
                isStoreDown = false
                note(.faultEnded(target: HistoryEntry.store))
            }
        case .clockStep(let step):
            guard coordinators.contains(where: \.isServing) else { return }
            count("store's clock set")
            clockError += step
            unnoticedStep += step
            tell("the clock of the store's machine is set by \(step) ms")
        case .readOnlyStore(let duration):
            guard isStoreWhole else { return }
            count("store read-only")
            note(.faultBegan(target: HistoryEntry.store, .stopped))
            isStoreReadOnly = true
            at(now + duration) { [self] in
                isStoreReadOnly = false
                note(.faultEnded(target: HistoryEntry.store))
            }
        case .storeLoss(let duration):
            let (before, since) = (memory!.contents, now)
            at(now + duration) { [self] in
                count("store lost writes")
                memory.contents.forgetCalls(since: before)
                pushes?.truth.wroteAll(now)
                hasLostWrites = true
                callsBeforeLoss.formUnion(latest.keys)
                note(.storeWentBack(since: since))
            }
        case .failover(let server, let away, let lost): failOver(server, away: away, lost: lost)
        case .reshard(let server, let duration):
            count("slots moved")
            cluster?.move(server, until: now + duration)
            // Requests under way may be answered late.
            storeFailed("slots under way")
        default: preconditionFailure("an act of a device")
        }
    }

    /// Ends a server of the cluster. Its replica takes over after a time, without the last writes.
    private func failOver(_ server: Int, away: Milliseconds, lost: Milliseconds) {
        guard isStoreWhole, cluster != nil else { return }
        count("server failed over")
        let (before, since) = (memory!.contents, now)
        at(now + lost) { [self] in
            guard isStoreWhole, let cluster else { return }
            note(.faultBegan(target: HistoryEntry.store, .stopped))
            self.cluster?.leave(server)
            if lost > 0 {
                memory.contents.forgetCalls(
                    since: before, records: { cluster.server(of: $0) == server },
                    users: { cluster.server(of: $0) == server }, claims: { cluster.server(of: $0) == server })
                pushes?.truth.wroteAll(now)
                hasLostWrites = true
                callsBeforeLoss.formUnion(latest.keys)
                note(.storeWentBack(since: since))
            }
            at(now + away) { [self] in
                self.cluster?.comeBack(server)
                note(.faultEnded(target: HistoryEntry.store))
            }
        }
    }

    /// Ends a coordinator as `kill -9` does, at any point of its work.
    func crash(_ name: String) {
        guard let coordinator = coordinators.first(where: { $0.clientID == name }), coordinator.isUp else { return }
        count("coordinator crashed")
        note(.faultBegan(target: name, .killed))
        coordinator.crash()
        startLater(coordinator)
    }

    /// Suspends and continues a coordinator as SIGSTOP and SIGCONT do, at any point of its work.
    func freeze(_ coordinator: SimulatedCoordinator, for duration: Milliseconds) {
        guard coordinator.isServing else { return }
        count("coordinator frozen")
        note(.faultBegan(target: coordinator.clientID, .frozen))
        coordinator.freeze(for: duration)
        at(now + duration + 300) { [self] in served(coordinator) }
    }

    private func startLater(_ coordinator: SimulatedCoordinator) {
        at(now + random.between(20, 2_000)) { [self] in
            coordinator.start()
            at(now + 300) { [self] in served(coordinator) }
        }
    }

    /// Notes that the coordinator serves again, unless another fault hit the coordinator meanwhile.
    private func served(_ coordinator: SimulatedCoordinator) {
        guard coordinator.isServing else {
            guard coordinator.isUp else { return }
            at(now + 100) { [self] in served(coordinator) }
            return
        }
        note(.faultEnded(target: coordinator.clientID))
    }

    /// The longest time until a coordinator connects again after failed attempts, in milliseconds.
    private static let longestReconnection: Int64 = 5_000

    /// Notes that the broker serves again, once the coordinators are connected again or `end` has passed, unless the
    /// broker was killed again meanwhile.
    private func brokerServed(by end: Int64) {
        guard brokers.isWhole else { return }
        guard now >= end || coordinators.allSatisfy({ !$0.isUp || $0.isServing }) else {
            at(now + 100) { [self] in brokerServed(by: end) }
            return
        }
        note(.faultEnded(target: HistoryEntry.broker))
    }

    // MARK: Users

    /// Lets the user of a ringing phone answer, by chance.
    func rang(_ device: SimulatedDevice, _ call: CallSnapshot) {
        guard reactions.insert("\(device.address) \(call.callID)").inserted else { return }
        let dice = random.below(1000)
        let delay = random.between(0, plan.reaction)
        let body: Request.Body
        if dice < plan.acceptance {
            body = .accept(.init(callID: call.callID))
        } else if dice < plan.acceptance + plan.rejection {
            body = .reject(.init(callID: call.callID))
        } else {
            return
        }
        at(now + delay) { device.request(body) }
    }

    func saw(_ call: CallSnapshot) {
        if call.revision > latest[call.callID]?.revision ?? 0 { latest[call.callID] = call }
    }

    // MARK: The history

    /// Notes a failed operation: a request that was being served may be answered late.
    func storeFailed(_ fault: String) {
        count(fault)
        guard isStoreWhole else { return }
        note(.faultBegan(target: HistoryEntry.store, .stopped))
        note(.faultEnded(target: HistoryEntry.store))
    }

    /// Notes that a coordinator was too slow or frozen, so that the coordinator dropped requests or did not publish its
    /// messages. With a slow store and many messages this is a fault like other faults; in worlds without faults no
    /// coordinator may drop a message.
    func workWasStale(_ fault: String) {
        if !plan.isLite { storeFailed(fault) }
    }

    /// Adds a line to the trace that is not part of the history.
    func tell(_ what: @autoclosure () -> String) {
        if keepsLines { lines.append("\(clock(now))  (\(what()))") }
    }

    func count(_ fault: String) {
        faults[fault, default: 0] += 1
        if fault.hasPrefix("coordinator") || fault.hasPrefix("store") || fault.hasPrefix("stale") {
            pushes?.disturbed()
        }
    }

    /// Counts a push that leaves, and adds the push to the fingerprint.
    func noted(_ push: PushSighting) {
        pushesByKind[push.id.kind, default: 0] += 1
        for byte in "\(now) \(push.id.kind) \(push.id.callID) \(push.device) \(push.token)".utf8 {
            fingerprint = (fingerprint ^ UInt64(byte)) &* 0x100_0000_01b3
        }
    }

    func note(_ content: HistoryEntry.Content) {
        let entry = HistoryEntry(at: now, content)
        let line = "\(entry)"
        for byte in line.utf8 { fingerprint = (fingerprint ^ UInt64(byte)) &* 0x100_0000_01b3 }
        if keepsLines { lines.append(line) }
        checker.observe(entry)
    }
}

/// The result of a world.
struct Verdict {
    let violations: [Violation]
    let summary: Summary
    let fingerprint: UInt64
    let virtualTime: Milliseconds
    let faults: [String: Int]
    let calls: Int
    let pushes: [PushKind: Int]
    let rooms: (deleted: Int, removed: Int)
}
