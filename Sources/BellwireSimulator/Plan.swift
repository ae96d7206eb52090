import CallCore
import SignalingProtocol

/// An act of a user, or a fault, at a certain time. A plan is drawn from the seed before the world begins, so that acts
/// can be left out to make a failing world smaller.
struct PlannedAct: Sendable {
    enum What: Sendable {
        case invite(Request.Invite)
        /// A request on a call that this user may know; the newest call for 0.
        case accept(CallID), reject(CallID), cancel(CallID), join(CallID), quit(CallID), end(CallID)
        case add(CallID, [UserID])
        case message(Request.Message)
        case signal(CallID)
        case get(CallID)
        case crash(Int), freeze(Int, Milliseconds), stop(Int)
        /// A broker, by its place, is away for a time, stands still for a time, or delivers nothing for a time.
        case brokerRestart(Milliseconds, BrokerIndex), brokerFreeze(Milliseconds, BrokerIndex)
        case brokerSilence(Milliseconds, BrokerIndex)
        /// A coordinator alone cannot reach a broker for a time.
        case cutOff(coordinator: Int, Milliseconds, BrokerIndex)
        case storeOutage(Milliseconds)
        case clockStep(Milliseconds), readOnlyStore(Milliseconds)
        /// The store loses the writes of the given number of milliseconds, at the end of that time.
        case storeLoss(Milliseconds)
        /// A server of the cluster fails over: the server is away for a time, and its replica lacks the writes of the
        /// given time before.
        case failover(server: Int, away: Milliseconds, lost: Milliseconds)
        /// The slots of a server of the cluster are moved, which takes some time.
        case reshard(server: Int, Milliseconds)
        case partition(up: Bool, down: Bool, Milliseconds)
        /// The device changes its network and connects to another broker. The former broker keeps its connection for a
        /// time.
        case roam(Milliseconds)
        case drop(Milliseconds), logOut(Milliseconds), appRestart(Milliseconds)
        /// The device registers for pushes, or ends its registrations.
        case register(PushPlatform, token: String), unregister(PushPlatform?)
        /// The app is killed, and starts again after the given time, or earlier if a push wakes the phone.
        case sleep(Milliseconds)
        /// The app is removed, together with its tokens. Later the app is installed again, with another token.
        case reinstall(Milliseconds, PushPlatform, token: String)
    }

    let number: Int
    let at: Milliseconds
    /// The device that acts; nil for a fault that belongs to no device.
    let device: DeviceAddress?
    let what: What
}

struct Plan: Sendable {
    var seed: UInt64
    /// Whether the world has no faults: time passes, but no part fails.
    var isLite: Bool
    var mix: FaultMix
    /// Whether the store takes the steps of a commit one after the other instead of in one transaction.
    var commitsInSteps: Bool
    /// The servers of the store, a cluster; 0 for a single server.
    var storeServers = 0
    var coordinators: Int
    var brokers = 1
    /// Whether the store loses acknowledged writes.
    var losesWrites: Bool { mix.storeLoss > 0 || mix.failoverLoss }
    /// Whether there is a webhook endpoint, which must be told of every revision of every call.
    var hasWebhooks = false
    /// Whether there is a media server, whose rooms are closed.
    var hasRooms = false
    /// Whether sleeping phones receive pushes.
    var hasPushes = false
    var users: [(user: UserID, devices: [DeviceID])]
    /// How long users and faults act, in milliseconds.
    var duration: Milliseconds
    /// The acts in the order of their time.
    var acts: [PlannedAct]
    /// The chances per mille that a user accepts or rejects a ringing call.
    var acceptance: Int
    var rejection: Int
    /// The longest time until a user answers, in milliseconds.
    var reaction: Milliseconds

    /// `callsOnly`: leaves out webhooks, rooms and pushes; everything else in the world of a seed stays the same.
    static func drawn(seed: UInt64, isLite: Bool, callsOnly: Bool = false) -> Plan {
        var random = SeededRandom(seed: seed)
        var mix = isLite ? FaultMix.none : FaultMix.drawn(&random)
        if isLite {
            mix.delay = random.pick([1, 5, 50])
            mix.storeLatency = random.pick([0, 1, 5])
        }
        let names = ["alice", "bob", "carol", "dave", "erin", "frank"].map { UserID($0)! }
        let devices = ["phone", "web", "tablet"].map { DeviceID($0)! }
        let users = random.sample(names, 3 + random.below(4)).map { user in
            (user: user, devices: Array(devices.prefix(1 + random.below(3))))
        }
        var plan = Plan(
            seed: seed, isLite: isLite, mix: mix, commitsInSteps: random.chance(500), coordinators: 1 + random.below(4),
            users: users,
            duration: random.pick([15_000, 30_000, 60_000]), acts: [], acceptance: random.pick([300, 600, 800]),
            rejection: random.pick([100, 200]), reaction: random.pick([0, 50, 1_500]))
        plan.drawPeople(&random, every: random.pick([150, 400, 1_000]))
        plan.drawAccidents(&random)
        plan.drawBrokers()
        if !isLite { plan.drawLaterFaults() }
        if !callsOnly {
            plan.drawWebhooks()
            plan.drawRooms()
            plan.drawPushes()
        }
        plan.acts.sort { ($0.at, $0.number) < ($1.at, $1.number) }
        return plan
    }

    /// Draws from a random generator of its own, so that everything else in the world of a seed stays as before.
    private mutating func drawWebhooks() {
        var random = SeededRandom(seed: seed &* 0xD1B5_4A32 &+ 7)
        hasWebhooks = random.chance(400)
        guard hasWebhooks, !isLite else { return }
        mix.endpointFailure = random.pick([0, 50, 300])
        mix.endpointLostAnswer = random.pick([0, 0, 30])
        mix.endpointLatency = random.pick([0, 20, 400, 6_000])
    }

    /// Draws from a random generator of its own, as `drawWebhooks` does. The faults of a media server are those of the
    /// webhook endpoint.
    private mutating func drawRooms() {
        var random = SeededRandom(seed: seed &* 0xA24B_AED5 &+ 13)
        hasRooms = random.chance(300)
        guard hasRooms, !hasWebhooks, !isLite else { return }
        mix.endpointFailure = random.pick([0, 50, 300])
        mix.endpointLostAnswer = random.pick([0, 0, 30])
        mix.endpointLatency = random.pick([0, 20, 400, 6_000])
    }

    var addresses: [DeviceAddress] {
        users.flatMap { user in user.devices.map { DeviceAddress(userID: user.user, deviceID: $0) } }
    }

    mutating func add(_ at: Milliseconds, _ device: DeviceAddress?, _ what: PlannedAct.What) {
        acts.append(PlannedAct(number: acts.count, at: at, device: device, what: what))
    }

    // MARK: Users

    private mutating func drawPeople(_ random: inout SeededRandom, every pause: Milliseconds) {
        var at: Milliseconds = 0
        var calls: [(id: CallID, isAdvanced: Bool)] = []
        var messages = 0
        while true {
            at += random.between(1, 2 * pause)
            guard at < duration else { return }
            let device = random.pick(addresses)
            switch random.below(20) {
            case 0...7:
                let invite = drawInvite(&random, by: device.userID, number: calls.count)
                calls.append((invite.callID!, invite.mode == .advanced))
                add(at, device, .invite(invite))
                followUp(invite, by: device, at: at, &random)
            case 8...9:
                messages += 1
                let to = random.pick(users).user
                add(
                    at, device,
                    .message(
                        Request.Message(
                            to: to, data: JSONText("{\"n\":\(messages)}")!, ttl: 1 + random.below(10),
                            messageID: MessageID("m\(seed % 1000)-\(messages)")!, seq: Int64(messages))))
            default:
                guard let call = calls.suffix(6).isEmpty ? nil : random.pick(Array(calls.suffix(6))) else { continue }
                add(at, device, drawAct(&random, call.id, call.isAdvanced, by: device.userID))
            }
        }
    }

    private func drawInvite(_ random: inout SeededRandom, by user: UserID, number: Int) -> Request.Invite {
        let others = users.map(\.user).filter { $0 != user }
        let isGroup = random.chance(350)
        var invite = Request.Invite(
            invitees: random.sample(others, isGroup ? 1 + random.below(others.count) : 1),
            callID: CallID("c\(number)")!,
            mode: random.chance(500) ? .advanced : .common)
        invite.timeout = 1 + random.below(12)
        invite.notReceivedCheck = random.chance(300)
        if invite.notReceivedCheck { invite.notReceivedAfter = 1 + random.below(4) }
        invite.autoEnd = random.chance(850)
        invite.ifBusy = random.chance(150) ? .reject : .ring
        invite.glare = random.chance(400) ? .merge : .ring
        invite.joinPolicy = random.chance(200) ? .anyone : .invited
        return invite
    }

    /// Adds acts of the inviter that often follow an invite: a cancel, an end, or a glare.
    private mutating func followUp(
        _ invite: Request.Invite, by device: DeviceAddress, at: Milliseconds, _ random: inout SeededRandom
    ) {
        let callID = invite.callID!
        if random.chance(250) { add(at + random.pick([0, 1, random.between(0, 4_000)]), device, .cancel(callID)) }
        if invite.mode == .advanced, random.chance(600) {
            add(at + random.between(500, 12_000), device, .end(callID))
        }
        // Glare: the invitee invites the inviter at the same moment.
        if invite.invitees.count == 1, random.chance(150),
            let other = users.first(where: { $0.user == invite.invitees[0] })
        {
            var back = invite
            back.callID = CallID("\(callID)-back")!
            back.invitees = [device.userID]
            let device = DeviceAddress(userID: other.user, deviceID: random.pick(other.devices))
            add(at + random.between(0, 20), device, .invite(back))
        }
    }

    private func drawAct(
        _ random: inout SeededRandom, _ call: CallID, _ isAdvanced: Bool, by user: UserID
    ) -> PlannedAct.What {
        let others = users.map(\.user).filter { $0 != user }
        let common: [(Int, PlannedAct.What)] = [
            (4, .accept(call)), (2, .reject(call)), (2, .cancel(call)), (1, .get(call)),
        ]
        guard isAdvanced else { return random.weighted(common) }
        return random.weighted(
            common + [
                (3, .join(call)), (3, .quit(call)), (1, .end(call)), (2, .signal(call)),
                (3, .add(call, random.sample(others, 1 + random.below(2)))),
            ])
    }

    // MARK: Faults

    /// Draws from random generators of its own: the world of a seed without these faults is the same as before these
    /// faults were introduced.
    private mutating func drawLaterFaults() {
        var random = SeededRandom(seed: seed &* 0xD1B5_4A32_D192_ED03 &+ 3)
        var others = random.fork()
        if others.chance(200) { mix.keptSessions = others.pick([300, 1_000]) }
        if mix.lateRelease > 0, commitsInSteps { drawReturns(&others) }
        if commitsInSteps { drawCluster() }
        guard random.chance(300) else { return }
        mix.storeLoss = random.pick([8_000, 20_000])
        var at = random.between(0, 2 * mix.storeLoss)
        while at < duration {
            add(at, nil, .storeLoss(random.pick([20, 200, 1_000, 3_000])))
            at += random.between(4_000, 2 * mix.storeLoss)
        }
    }

    /// Draws from a random generator of its own, as `drawWebhooks` does.
    private mutating func drawBrokers() {
        var random = SeededRandom(seed: seed &* 0x9E6C_63D0 &+ 31)
        guard random.chance(400) else { return }
        brokers = random.pick([2, 3, 3])
        guard !isLite else { return }
        mix.fleetFault = random.pick([0, 4_000, 10_000])
        guard mix.fleetFault > 0 else { return }
        var at = random.between(0, 2 * mix.fleetFault)
        while at < duration {
            let place = random.below(brokers)
            switch random.below(6) {
            case 0: add(at, nil, .brokerRestart(random.between(50, 8_000), place))
            case 1: add(at, nil, .brokerFreeze(random.pick([300, 3_000, 9_000, 20_000]), place))
            case 2: add(at, nil, .brokerSilence(random.pick([300, 3_000, 9_000, 30_000]), place))
            case 3, 4: add(at, random.pick(addresses), .roam(random.pick([10, 1_000, 5_000, 40_000])))
            default:
                let coordinator = random.below(coordinators)
                add(at, nil, .cutOff(coordinator: coordinator, random.pick([500, 5_000, 20_000]), place))
            }
            at += random.between(500, 2 * mix.fleetFault)
        }
    }

    /// Draws from a random generator of its own, as `drawWebhooks` does.
    private mutating func drawCluster() {
        var random = SeededRandom(seed: seed &* 0xC2B2_AE3D &+ 29)
        guard random.chance(400) else { return }
        storeServers = random.pick([2, 3, 6])
        mix.serverSlowness = random.pick([0, 2, 20, 100])
        mix.failover = random.chance(500) ? random.pick([5_000, 15_000]) : 0
        mix.reshard = random.chance(500) ? random.pick([2_000, 8_000]) : 0
        let losses = random.chance(300)
        mix.failoverLoss = mix.failover > 0 && losses
        if mix.failover > 0 {
            var at = random.between(0, 2 * mix.failover)
            while at < duration {
                let lost: Milliseconds = losses ? random.pick([0, 5, 200, 1_000]) : 0
                let server = random.below(storeServers)
                add(at, nil, .failover(server: server, away: random.between(50, 3_000), lost: lost))
                at += random.between(1_000, 2 * mix.failover)
            }
        }
        if mix.reshard > 0 {
            var at = random.between(0, 2 * mix.reshard)
            while at < duration {
                add(at, nil, .reshard(server: random.below(storeServers), random.pick([5, 60, 400, 1_500])))
                at += random.between(500, 2 * mix.reshard)
            }
        }
    }

    /// A user leaves a call, comes back at once, and then makes another call. The late release of the first claim must
    /// not release the later claim.
    private mutating func drawReturns(_ random: inout SeededRandom) {
        var at = random.between(0, 4_000)
        var number = 0
        while at < duration {
            let device = random.pick(addresses)
            let others = users.map(\.user).filter { $0 != device.userID }
            func invite(_ name: String) -> Request.Invite {
                var invite = Request.Invite(
                    invitees: [random.pick(others)], callID: CallID("\(name)\(number)")!, mode: .advanced)
                invite.autoEnd = false
                return invite
            }
            let left = invite("left")
            add(at, device, .invite(left))
            add(at + 200, device, .quit(left.callID!))
            add(at + 201, device, .join(left.callID!))
            add(at + 200 + random.between(2, mix.lateRelease + 20), device, .invite(invite("next")))
            number += 1
            at += random.between(1_000, 8_000)
        }
    }

    private mutating func drawAccidents(_ random: inout SeededRandom) {
        func times(_ distance: Milliseconds) -> [Milliseconds] {
            guard distance > 0 else { return [] }
            var times: [Milliseconds] = []
            var at = random.between(0, 2 * distance)
            while at < duration {
                times.append(at)
                at += random.between(1, 2 * distance)
            }
            return times
        }
        for at in times(mix.coordinatorCrash) { add(at, nil, .crash(random.below(coordinators))) }
        for at in times(mix.coordinatorFreeze) {
            add(at, nil, .freeze(random.below(coordinators), random.pick([100, 700, 3_000, 10_000])))
        }
        for at in times(mix.coordinatorStop) { add(at, nil, .stop(random.below(coordinators))) }
        for at in times(mix.brokerRestart) { add(at, nil, .brokerRestart(random.between(50, 2_000), 0)) }
        for at in times(mix.storeOutage) { add(at, nil, .storeOutage(random.between(50, 4_000))) }
        for at in times(mix.clockStep) {
            add(at, nil, .clockStep(random.pick([70_000, -70_000, 5_000, -5_000, 86_400_000, -3_600_000])))
        }
        for at in times(mix.readOnlyStore) { add(at, nil, .readOnlyStore(random.between(50, 4_000))) }
        for at in times(mix.partition) {
            let (up, down) = random.pick([(true, true), (true, false), (false, true)])
            add(at, random.pick(addresses), .partition(up: up, down: down, random.pick([500, 3_000, 20_000])))
        }
        for at in times(mix.connectionDrop) {
            add(at, random.pick(addresses), .drop(random.pick([10, 300, random.between(1_000, 15_000)])))
        }
        for at in times(mix.appRestart) {
            let away = random.pick([100, 1_000, random.between(1_000, 12_000)])
            add(at, random.pick(addresses), random.chance(500) ? .appRestart(away) : .logOut(away))
        }
    }
}
