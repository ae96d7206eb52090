import HTTPServing
import SignalingProtocol

/// The bounds of `StreamLines`. Times are in milliseconds.
enum StreamLineBounds {
    /// The interval of the checks of all times.
    static let tick: Int64 = 500
    /// The first pause before unanswered presence is published again: 1, 2, 4, 8 s.
    static let firstPause: Int64 = 1_000
    /// The pause before a device is announced again after another gateway has announced the same device.
    static let reclaim: ClosedRange<Int64> = 4_000...6_000
    /// The expiry of presence where the service does not name one.
    static let lease: Int64 = 600_000
    /// A number, not a time.
    static let farewells = 16_384
    /// How long the calls of which ended streams have told their clients are remembered for clients without
    /// `Last-Event-ID`: as long as a lost inviter may come back.
    static let memory: Int64 = 10_000
    /// The bound of devices with such a memory, and of devices that have made a call; beyond this bound the oldest
    /// is forgotten.
    static let memories = 16_384
    /// The pause before the service is asked again for missed events.
    static let question: Int64 = 2_000
    /// How long an ack may still be on its way, so that later messages overtake the ack.
    static let ack: Int64 = 1_000
}

/// The devices of users who receive events over HTTP: the gateway acts as their device at the broker
/// (docs/decisions/0022). `StreamLines` belongs to the relay's thread, and returns the messages that the relay sends.
struct StreamLines {
    enum Action: Equatable {
        case subscribe(String)
        case unsubscribe(String)
        case publish(topic: String, payload: [UInt8])
    }

    let topics: Topics
    private let newSession: () -> String
    var lines: [DeviceAddress: StreamLine] = [:]
    /// The devices that listen to a topic.
    var listeners: [String: Set<DeviceAddress>] = [:]
    /// The device of each stream.
    private var places: [Int: DeviceAddress] = [:]
    var isConnected = false
    var actions: [Action] = []
    var nextTick: Int64 = 0
    /// The offline messages of lines that ended while there was no broker connection.
    private var farewells: [Action] = []
    /// The calls of which a device's ended streams have told their clients, kept for the next stream of the device.
    var left = Memory<(told: [CallID: HeardCall], lastAck: Int64?)>()
    /// The latest calls that devices have made. The streams of these devices may be dead, and not know of these calls.
    var made = Memory<(callID: CallID, call: HeardCall)>()

    /// Facts about devices that are forgotten after a while.
    struct Memory<Value> {
        private var values: [DeviceAddress: (value: Value, until: Int64)] = [:]
        var count: Int { values.count }

        func value(_ device: DeviceAddress, now: Int64) -> Value? {
            values[device].flatMap { now < $0.until ? $0.value : nil }
        }

        mutating func keep(_ value: Value, of device: DeviceAddress, until: Int64) {
            values[device] = (value, until)
            guard values.count > StreamLineBounds.memories else { return }
            if let oldest = values.min(by: { $0.value.until < $1.value.until })?.key { values[oldest] = nil }
        }

        mutating func forget(_ now: Int64) { values = values.filter { now < $0.value.until } }
    }

    init(_ topics: Topics, newSession: @escaping () -> String) {
        self.topics = topics
        self.newSession = newSession
    }

    var isEmpty: Bool { lines.isEmpty }

    /// Returns the actions to be performed, in this order.
    mutating func takeActions() -> [Action] {
        defer { actions = [] }
        return actions
    }

    // MARK: Streams

    mutating func opened(_ opened: StreamDesk.Opened, now: Int64) {
        let isNew = lines[opened.device] == nil
        var line = lines[opened.device] ?? StreamLine(opened.device)
        if isNew { line.lastAck = left.value(opened.device, now: now)?.lastAck }
        let told = told(opened, &line, now)
        let stream = StreamLine.Stream(opened, told, now: now)
        line.streams[opened.number] = stream
        places[opened.number] = opened.device
        // Each stream begins with an id, so that a returning client without an id is a client that ignores ids.
        _ = opened.stream.send(Array("retry: 1000\nid: \(stream.lastID.text)\n\n".utf8))
        if isNew {
            for topic in filters(opened.device) { listeners[topic, default: []].insert(opened.device) }
            if isConnected { subscribe(&line) }
        } else if case .away = line.standing {
            // The line will be announced when the broker has answered.
        } else {
            // The stream is new, its line is not: a new session makes the service resend the device's open deliveries,
            // now for the new stream.
            begin(&line, now)
        }
        lines[opened.device] = line
    }

    /// Returns the calls that the client of a new stream knows, according to its last id. A client without an id either
    /// ignores ids, and would take a repeated invitation for a second call; or has just started and knows no calls. A
    /// client that has just started does not come back at once.
    private mutating func told(
        _ opened: StreamDesk.Opened, _ line: inout StreamLine, _ now: Int64
    ) -> [CallID: HeardCall] {
        let goesOn = !line.streams.isEmpty
        var told = line.arrived
        if let id = opened.lastEventID {
            guard let named = EventID.calls(id, now: now) else { return [:] }
            told = named
        } else if let before = left.value(opened.device, now: now) {
            told.merge(before.told)
        } else if !goesOn {
            return [:]
        }
        if let made = made.value(opened.device, now: now), told[made.callID] == nil { told[made.callID] = made.call }
        return told
    }

    private func filters(_ device: DeviceAddress) -> [String] { [topics.down(device.userID), topics.down(device)] }

    mutating func ended(_ number: Int, now: Int64) {
        guard let device = places.removeValue(forKey: number), var line = lines.removeValue(forKey: device) else {
            return
        }
        if var stream = line.streams.removeValue(forKey: number) {
            stream.noteArrival()
            remember(stream.arrived, line, now)
        }
        if line.streams.isEmpty { leave(line) } else { lines[device] = line }
    }

    private mutating func remember(_ arrived: [CallID: HeardCall], _ line: StreamLine, _ now: Int64) {
        var told = arrived
        if let before = left.value(line.device, now: now) { told.merge(before.told) }
        left.keep(
            (told.filter { $0.value.matters(now) }, line.lastAck), of: line.device, until: now + StreamLineBounds.memory
        )
    }

    /// Ends all streams, because the gateway stops.
    mutating func stop() {
        for line in lines.values {
            for stream in line.streams.values { stream.opened.stream.end() }
            leave(line)
        }
        lines = [:]
        places = [:]
    }

    /// Ends a line without streams: the device is reported as lost, like a phone that lost its connection.
    private mutating func leave(_ line: StreamLine) {
        if line.isAnnounced { sayFarewell(line) }
        for filter in filters(line.device) {
            listeners[filter]?.remove(line.device)
            // Another of the user's devices may still listen to this topic.
            guard listeners[filter]?.isEmpty ?? true else { continue }
            listeners[filter] = nil
            if isConnected { actions.append(.unsubscribe(filter)) }
        }
    }

    private mutating func sayFarewell(_ line: StreamLine) {
        let farewell = presence(.offline(.lost), line)
        if isConnected { return actions.append(farewell) }
        // A device without this message goes offline when its presence expires.
        if farewells.count < StreamLineBounds.farewells { farewells.append(farewell) }
    }

    static let online = Array(": online\n\n".utf8)
    static let sign = Array(":\n\n".utf8)

    // MARK: The broker

    mutating func connected() {
        isConnected = true
        actions += farewells
        farewells = []
        for device in lines.keys { change(device) { lines, line in lines.subscribe(&line) } }
    }

    mutating func disconnected() {
        isConnected = false
        actions = []
        for device in lines.keys { lines[device]?.standing = .away(waitingFor: []) }
    }

    private mutating func subscribe(_ line: inout StreamLine) {
        let filters = filters(line.device)
        line.standing = .away(waitingFor: Set(filters))
        actions += filters.map(Action.subscribe)
    }

    /// Notes that the broker has accepted the filter.
    mutating func granted(_ filter: String, now: Int64) {
        for device in listeners[filter] ?? [] {
            guard case .away(var waiting)? = lines[device]?.standing, waiting.remove(filter) != nil else { continue }
            lines[device]?.standing = .away(waitingFor: waiting)
            if waiting.isEmpty { change(device) { lines, line in lines.begin(&line, now) } }
        }
    }

    /// Begins a new session, in which the service resends its deliveries.
    mutating func begin(_ line: inout StreamLine, _ now: Int64, isSecond: Bool = false) {
        line.session = newSession()
        line.mayBeMistaken = line.lastAck.map { now < $0 + StreamLineBounds.ack } ?? false
        line.nextQuestion = isSecond ? nil : .max
        announce(&line, times: 0, now)
    }

    mutating func announce(_ line: inout StreamLine, times: Int, _ now: Int64) {
        line.standing = .announcing(times: times + 1, next: now + StreamLineBounds.firstPause << Int64(min(times, 3)))
        line.isAnnounced = true
        actions.append(presence(.online, line))
    }

    func presence(_ status: PresenceMessage.Status, _ line: StreamLine) -> Action {
        let message = PresenceMessage(status, session: line.session)
        return .publish(topic: topics.presence(line.device), payload: message.encoded())
    }

    mutating func change(_ device: DeviceAddress, _ change: (inout StreamLines, inout StreamLine) -> Void) {
        guard var line = lines.removeValue(forKey: device) else { return }
        change(&self, &line)
        lines[device] = line
    }
}
