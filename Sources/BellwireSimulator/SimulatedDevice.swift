import BellwireClientCore
import CallCore
import HistoryChecker
import SignalingProtocol

/// A phone: the real decision code of the SDK, with a user who acts by the plan.
final class SimulatedDevice: BrokerClient {
    private enum Bounds {
        static let reconnectDelay: ClosedRange<Int64> = 125...1_000
        /// How long a broken connection goes unnoticed by the device, and by the broker.
        static let keepalive: Milliseconds = 7_500
    }

    let address: DeviceAddress
    let clientID: String
    private unowned(unsafe) let world: World
    private var machine: ClientMachine
    private var random: SeededRandom
    private var connection: Int?
    /// The brokers in the order in which this device tries them.
    private let order: [BrokerIndex]
    private var attempts = 0
    private var session = ""
    private var timerAt = Milliseconds.max
    private var timerNumber = 0
    private var requests = 0
    private var runs = 0
    private(set) var wantsConnection = false
    private(set) var isWelcome = false
    /// Whether the user declined by the button of a notification, and the response is still missing.
    private var isDeclining = false
    /// The time of the welcome on this connection, by the service's clock.
    private(set) var welcomeSince: Milliseconds = 0
    private var lastWelcome: Milliseconds = 0
    /// Whether the broker keeps messages while this device is away.
    private let isPersistent: Bool
    /// Whether the device connects again with its previous session.
    private let keepsSession: Bool
    /// How fast this device's clock is, in millionths.
    private let drift: Int64
    /// The calls, in the states that the device was told last.
    private(set) var calls: [CallID: CallSnapshot] = [:]
    /// The latest time, by the service's clock, at which the device's knowledge of each call was made.
    private var newest: [CallID: Int64] = [:]
    /// The highest revision of each call that this device, in any run, has acked.
    private(set) var acked: [CallID: Int] = [:]
    /// Peer messages without a receipt.
    private(set) var awaited: Set<MessageID> = []
    private(set) var unanswered = 0
    /// The calls with requests that were given up, so that their outcome is unknown.
    private(set) var unansweredCalls: Set<CallID> = []
    private var asked: [RequestID: CallID] = [:]
    private var isCut: (up: Bool, down: Bool) = (false, false)

    init(_ address: DeviceAddress, in world: World, random: SeededRandom) {
        self.address = address
        self.world = world
        self.random = random
        clientID = Topics.clientID(address)
        isPersistent = self.random.chance(world.mix.persistentSessions)
        // In a world without kept sessions no random number is drawn, so that a seed makes the same world as before
        // this fault existed.
        let kept = world.mix.keptSessions
        let drawn = kept > 0 ? self.random.chance(kept) : false
        // With a persistent session, a welcome that the broker kept would be mistaken for the welcome of the new
        // connection.
        keepsSession = drawn && !isPersistent
        // In a world with a single broker no random number is drawn either.
        let brokers = Array(0..<world.brokers.count)
        order = brokers.count > 1 ? self.random.sample(brokers, brokers.count) : brokers
        drift = self.random.between(-Int64(world.mix.drift), Int64(world.mix.drift))
        machine = ClientMachine(device: address)
        newMachine()
    }

    private func newMachine() {
        runs += 1
        var configuration = ClientMachine.Configuration()
        configuration.signalStream = "run-\(runs)"
        machine = ClientMachine(device: address, configuration: configuration)
        session = ""
        unanswered = 0
        unansweredCalls = []
        asked = [:]
        awaited = []
        calls = [:]
        newest = [:]
    }

    /// The time by the device's own clock, which has its own start and speed.
    private var now: Int64 {
        let elapsed = world.now - world.start
        return 5_000_000 + elapsed + elapsed * drift / 1_000_000
    }

    // MARK: The connection

    func online() {
        wantsConnection = true
        connect()
    }

    private func connect() {
        guard wantsConnection, connection == nil, !isDeclining else { return }
        let session = keepsSession && !self.session.isEmpty ? self.session : "\(random.next() % 0xFFFF_FFFF)"
        let will = SimulatedBroker.Will(
            topic: world.topics.presence(address), payload: PresenceMessage(.offline(.lost), session: session).encoded()
        )
        let broker = world.brokers[order[attempts % order.count]]
        attempts += 1
        let connected = broker.connect(self, will: will, isDevice: true, isPersistent: isPersistent)
        guard let connection = connected else {
            perform(machine.disconnected(reason: "the broker cannot be reached", now: now))
            return reconnectLater()
        }
        self.connection = connection
        self.session = session
        isCut = (false, false)
        perform(machine.connected(session: session, now: now))
        // The time of CONNACK, SUBSCRIBE and SUBACK.
        world.at(world.now + 1 + random.between(0, world.hasFaults ? world.mix.delay : 1)) { [self] in
            guard self.connection == connection else { return }
            world.brokers.of(connection).subscribe(
                connection, topics: [world.topics.down(address.userID), world.topics.down(address)])
            world.note(.connected(address, session: session))
            perform(machine.subscribed(now: now))
        }
    }

    private func reconnectLater() {
        let delay = random.between(Bounds.reconnectDelay.lowerBound, Bounds.reconnectDelay.upperBound)
        world.at(world.now + delay) { [self] in connect() }
    }

    func missed(connection: Int) {
        guard connection == self.connection else { return }
        world.note(.lost(address, .down))
    }

    func disconnected(connection: Int) {
        guard connection == self.connection else { return }
        gone("the connection is lost")
        reconnectLater()
    }

    private func gone(_ reason: String) {
        connection = nil
        isWelcome = false
        world.note(.disconnected(address))
        perform(machine.disconnected(reason: reason, now: now))
    }

    /// Connects again at once, without publishing the will, as after a renewed token.
    private func renewSession() {
        guard let connection else { return }
        machine.renewing()
        self.connection = nil
        session = ""
        world.note(.disconnected(address))
        world.brokers.of(connection).disconnect(connection)
        online()
    }

    /// Changes the device's network: the device connects to another broker at once, and stays at the former broker as
    /// well until that broker gives the former connection up and publishes its will.
    func roam(keepingFormerFor duration: Milliseconds) {
        guard let connection, wantsConnection else { return }
        world.count("device at two brokers")
        world.brokers.of(connection).strand(connection, for: duration)
        gone("the device has another network")
        connect()
    }

    /// Breaks the connection; the device comes back after a while.
    func drop(for away: Milliseconds) {
        guard let connection else { return }
        wantsConnection = false
        world.brokers.of(connection).lose(connection)
        world.at(world.now + away) { [self] in online() }
    }

    /// Makes the device notice, after a while, that its broker is frozen; other brokers are ignored.
    func standsStill(_ broker: SimulatedBroker) {
        guard let connection, world.brokers.of(connection) === broker else { return }
        world.at(world.now + Bounds.keepalive) { [self] in
            guard self.connection == connection, broker.isFrozen else { return }
            broker.lose(connection)
        }
    }

    /// Makes the network lose every message, in one direction or both. After a while the broker and the device notice.
    func partition(up: Bool, down: Bool, for duration: Milliseconds) {
        guard let connection, !isCut.up, !isCut.down else { return }
        isCut = (up, down)
        world.brokers.of(connection).cut(connection, down)
        world.at(world.now + min(duration, Bounds.keepalive)) { [self] in
            guard self.connection == connection else { return }
            if duration < Bounds.keepalive {
                // TCP has kept the connection open: the connection goes on, and the lost messages stay lost.
                world.brokers.of(connection).cut(connection, false)
                isCut = (false, false)
            } else {
                world.brokers.of(connection).lose(connection)
            }
        }
    }

    /// Logs the app out, and comes back after a while.
    func logOut(for away: Milliseconds) {
        guard let connection else { return }
        wantsConnection = false
        perform(machine.loggedOut(now: now))
        self.connection = nil
        isWelcome = false
        world.note(.disconnected(address))
        // The device's last presence was sent over this connection, and needs the link's delay before the connection
        // closes.
        world.at(world.now + 1 + (world.hasFaults ? world.mix.delay : 1)) { [self] in
            world.brokers.of(connection).disconnect(connection)
        }
        newMachine()
        world.at(world.now + max(away, world.mix.delay + 5)) { [self] in online() }
    }

    /// Kills the app, and starts the app again after a while without any memory.
    func restart(after away: Milliseconds) {
        wantsConnection = false
        if let connection {
            self.connection = nil
            isWelcome = false
            world.note(.disconnected(address))
            world.brokers.of(connection).lose(connection)
        }
        newMachine()
        world.at(world.now + away) { [self] in online() }
    }

    // MARK: Sleep

    /// Kills the app, and starts the app again after `away`, or earlier if a push wakes the phone.
    func sleep(for away: Milliseconds) { restart(after: away) }

    /// Removes the app, and installs the app again later.
    func reinstall(after away: Milliseconds, _ platform: PushPlatform, token: String) {
        world.provider?.removed(address)
        restart(after: away)
        world.at(world.now + away + 1) { [self] in register(platform, token: token) }
    }

    func register(_ platform: PushPlatform, token: String) {
        world.provider?.given(token, to: address)
        request(.pushRegister(.init(platform: platform, target: SimulatedPushService.target(platform, token))))
    }

    /// Receives a push. A sleeping phone either starts the app, makes a ring check, declines, or misses the push.
    func pushed(_ push: PushSighting) {
        guard connection == nil, !wantsConnection, let pushes = world.pushes, let gateway = world.gateway else {
            return
        }
        let delay = random.between(10, world.hasFaults ? 1_500 : 100)
        switch random.below(10) {
        case 0...4: world.at(world.now + delay) { [self] in online() }
        case 5...7:
            let isRejected = random.chance(300) && push.id.kind == .ring
            world.at(world.now + delay) { [self] in
                guard connection == nil, !wantsConnection else { return }
                if isRejected { isDeclining = true }
                world.tell("\(address) \(isRejected ? "declines" : "asks whether it is to ring")")
                gateway.ask(push, isRejected: isRejected, secret: pushes.secret) { [self] state in
                    if isRejected { isDeclining = false }
                    if wantsConnection { connect() }
                    if case .ringing? = state { online() }
                }
            }
        default: break
        }
    }

    // MARK: Messages

    func doubled(_ payload: [UInt8]) {
        if case .success(let message) = UpMessage.decode(payload) { world.note(.sent(address, message)) }
    }

    func received(topic: String, payload: [UInt8], connection: Int, delivery: Delivery) {
        guard connection == self.connection, let message = DownMessage.decode(payload) else { return }
        if world.hasFaults, random.chance(world.mix.loss) {
            world.note(.lost(address, .down))
            return
        }
        if !delivery.isSeen {
            delivery.isSeen = true
            world.note(.received(address, message))
        }
        if case .welcome(let welcome) = message { lastWelcome = welcome.serverTime }
        perform(machine.received(message, now: now))
        checkThatItFollows(message)
    }

    /// Checks that the device applies each state of a call that was made later than all states that the device was
    /// told, whatever its revision.
    private func checkThatItFollows(_ message: DownMessage) {
        switch message {
        case .welcome(let welcome):
            for call in welcome.calls { newest[call.callID] = max(newest[call.callID] ?? 0, welcome.serverTime) }
        case .response(let response):
            guard case .success(let success) = response.outcome else { return }
            follow(success.call, madeAt: success.time)
        case .event(let event): follow(event.call, madeAt: event.time)
        default: break
        }
    }

    private func follow(_ call: CallSnapshot, madeAt time: Int64) {
        guard time > newest[call.callID] ?? 0 else { return }
        newest[call.callID] = time
        guard calls[call.callID] != call else { return }
        let known = calls[call.callID].map { "goes by revision \($0.revision)" } ?? "knows nothing"
        world.violated(
            .notFollowed, call.callID, address, "told of revision \(call.revision), made at \(time), it \(known)")
    }

    /// The calls that ring here or that this device takes part in, as far as the device knows. A call that another
    /// device of the user has joined does not count, since this device receives no more events of that call.
    var ownCalls: [CallID] {
        machine.liveCalls.filter { callID in
            guard let own = machine.snapshot(of: callID)?.member(address.userID) else { return false }
            return own.state.isPending || own.device == address.deviceID
        }
    }

    private func publish(_ message: UpMessage) {
        guard let connection else { return }
        if case .ackCall(let callID, let revision) = message { acked[callID] = max(acked[callID] ?? 0, revision) }
        if isCut.up || world.hasFaults && random.chance(world.mix.loss) {
            world.note(.lost(address, .up))
            return
        }
        world.note(.sent(address, message))
        world.brokers.of(connection).publish(connection, topic: world.topics.up(address), payload: message.encoded())
    }

    private func publish(_ presence: PresenceMessage) {
        guard let connection else { return }
        if isCut.up || world.hasFaults && random.chance(world.mix.loss) {
            world.note(.lost(address, .up))
            return
        }
        world.note(.presented(address, presence))
        world.brokers.of(connection).publish(
            connection, topic: world.topics.presence(address), payload: presence.encoded(),
            isRetained: world.hasFaults && random.chance(world.mix.retainedPresence))
    }

    /// Sends a request of the user.
    func request(_ body: Request.Body, ordered: Bool = false) {
        requests += 1
        unanswered += 1
        let id = RequestID("r\(runs)-\(requests)")!
        asked[id] = body.callID
        perform(machine.send(Request(id: id, body: body), ordered: ordered, now: now))
    }

    func signal(_ callID: CallID, _ data: JSONText) {
        perform(machine.send(Request.Signal(callID: callID, data: data), now: now))
    }

    private func perform(_ actions: [ClientMachine.Action]) {
        for action in actions {
            switch action {
            case .publish(let message): publish(message)
            case .publishPresence(let presence): publish(presence)
            case .deliver(let event): told(event)
            case .succeed(_, let success):
                unanswered -= 1
                learn(success.call)
            case .answer(_, let answer):
                unanswered -= 1
                if case .message(let messageID, _, .sent) = answer { awaited.insert(messageID) }
            case .fail(let id, let error):
                unanswered -= 1
                if error.code == .noResponse || error.code == .unavailable, let callID = asked[id] {
                    unansweredCalls.insert(callID)
                }
            // The simulated broker does not check tokens.
            case .renewToken: break
            // The machine refuses a call only when too many calls ring, and no world has so many calls.
            case .refuse: break
            case .renewSession: renewSession()
            // A device that moves to another broker has left its former connection before.
            case .endTakenOver: break
            }
        }
        setTimer()
    }

    private func setTimer() {
        guard let deadline = machine.nextDeadline else { return }
        // Converts from the device's clock to the world's, rounding up: an early timer would only be set again.
        let wait = max(0, deadline - now)
        let at = world.now + (wait == 0 ? 0 : wait * 1_000_000 / (1_000_000 + drift) + 1)
        guard at < timerAt || timerAt <= world.now else { return }
        timerAt = at
        timerNumber += 1
        let number = timerNumber
        world.at(at) { [self] in
            guard number == timerNumber else { return }
            timerAt = .max
            perform(machine.timerFired(now: now))
        }
    }

    // MARK: The user

    private func told(_ event: ClientEvent) {
        switch event {
        case .online:
            isWelcome = true
            welcomeSince = lastWelcome
        case .offline: isWelcome = false
        case .event(let event):
            learn(event.call)
            if event.name == .invited { world.rang(self, event.call) }
        case .snapshot(let call): learn(call)
        case .receipt(let receipt): awaited.remove(receipt.messageID)
        case .invitationExpired, .gone, .signal, .message, .connection, .tokenWillExpire, .error: break
        }
    }

    private func learn(_ call: CallSnapshot) {
        calls[call.callID] = call
        world.saw(call)
    }
}
