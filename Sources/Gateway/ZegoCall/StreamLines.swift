import HTTPServing
import SignalingProtocol

/// What the gateway does for users who hear over HTTP: it is their device on the broker (docs/decisions/0022). It belongs to the relay's
/// thread, and tells it what to send.
struct StreamLines {
    enum Action: Equatable {
        case subscribe(String)
        case unsubscribe(String)
        case publish(topic: String, payload: [UInt8])
    }

    /// In milliseconds.
    enum Bounds {
        /// How often it is looked what time has brought.
        static let tick: Int64 = 500
        /// Before presence is published again that nobody has answered: 1, 2, 4, 8 s.
        static let firstPause: Int64 = 1_000
        /// Before a device is announced again whose streams another gateway has announced, too.
        static let reclaim: ClosedRange<Int64> = 4_000...6_000
        /// Where the service does not say how long presence lasts.
        static let lease: Int64 = 600_000
        /// A number.
        static let farewells = 16_384
        /// For how long it is known what a device has been told whose streams have ended, where the client does not say: as long as a caller
        /// who is lost may come back.
        static let memory: Int64 = 10_000
        /// Devices of which that is known, and devices that have made a call; the oldest of them is forgotten.
        static let memories = 16_384
        /// Before the service is asked once more for what streams have missed.
        static let question: Int64 = 2_000
        /// For so long after it was sent, an ack may be behind what was sent later.
        static let ack: Int64 = 1_000
    }

    let topics: Topics
    private let newSession: () -> String
    var lines: [DeviceAddress: Line] = [:]
    /// Who listens to a topic.
    var listeners: [String: Set<DeviceAddress>] = [:]
    /// Where a stream is.
    private var places: [Int: DeviceAddress] = [:]
    var isConnected = false
    var actions: [Action] = []
    var nextTick: Int64 = 0
    /// What was to be said of lines that ended while there was no broker.
    private var farewells: [Action] = []
    /// What devices have been told whose streams have ended.
    var left = Memory<(told: [CallID: HeardCall], lastAck: Int64?)>()
    /// The latest calls that devices have made. Their streams, which may be dead, need not have heard of them.
    var made = Memory<(callID: CallID, call: HeardCall)>()

    /// What is known of devices for a while.
    struct Memory<Value> {
        private var values: [DeviceAddress: (value: Value, until: Int64)] = [:]
        var count: Int { values.count }

        func value(_ device: DeviceAddress, now: Int64) -> Value? {
            values[device].flatMap { now < $0.until ? $0.value : nil }
        }

        mutating func keep(_ value: Value, of device: DeviceAddress, until: Int64) {
            values[device] = (value, until)
            guard values.count > Bounds.memories else { return }
            if let oldest = values.min(by: { $0.value.until < $1.value.until })?.key { values[oldest] = nil }
        }

        mutating func forget(_ now: Int64) { values = values.filter { now < $0.value.until } }
    }

    init(_ topics: Topics, newSession: @escaping () -> String) {
        self.topics = topics
        self.newSession = newSession
    }

    var isEmpty: Bool { lines.isEmpty }

    /// What is to be sent, in this order.
    mutating func takeActions() -> [Action] {
        defer { actions = [] }
        return actions
    }

    // MARK: Streams

    mutating func opened(_ opened: StreamDesk.Opened, now: Int64) {
        let isNew = lines[opened.device] == nil
        var line = lines[opened.device] ?? Line(opened.device)
        if isNew { line.lastAck = left.value(opened.device, now: now)?.lastAck }
        let told = told(opened, &line, now)
        let stream = Line.Stream(opened, told, now: now)
        line.streams[opened.number] = stream
        places[opened.number] = opened.device
        // With an id from the beginning, a client that shows none when it comes again is one that never had any.
        _ = opened.stream.send(Array("retry: 1000\nid: \(stream.lastID.text)\n\n".utf8))
        if isNew {
            for topic in filters(opened.device) { listeners[topic, default: []].insert(opened.device) }
            if isConnected { subscribe(&line) }
        } else if case .away = line.standing {
            // It will be announced.
        } else {
            // What is owed comes anew, for the stream that has heard none of it.
            begin(&line, now)
        }
        lines[opened.device] = line
    }

    /// What the client of a new stream has been told. It says so by the id that it had last. A client that says nothing may be one that ignores
    /// ids, and would take an invitation that comes again for a second call; or it has just been started, and knows nothing. The latter does
    /// not come at once.
    private mutating func told(
        _ opened: StreamDesk.Opened, _ line: inout Line, _ now: Int64
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

    private mutating func remember(_ arrived: [CallID: HeardCall], _ line: Line, _ now: Int64) {
        var told = arrived
        if let before = left.value(line.device, now: now) { told.merge(before.told) }
        left.keep(
            (told.filter { $0.value.matters(now) }, line.lastAck), of: line.device, until: now + Bounds.memory)
    }

    /// Ends all streams: the gateway stops.
    mutating func stop() {
        for line in lines.values {
            for stream in line.streams.values { stream.opened.stream.end() }
            leave(line)
        }
        lines = [:]
        places = [:]
    }

    /// The line has no streams any more: the device is lost, as a phone that lost its connection.
    private mutating func leave(_ line: Line) {
        if line.isAnnounced { sayFarewell(line) }
        for filter in filters(line.device) {
            listeners[filter]?.remove(line.device)
            // Another of the user's devices may still hear it.
            guard listeners[filter]?.isEmpty ?? true else { continue }
            listeners[filter] = nil
            if isConnected { actions.append(.unsubscribe(filter)) }
        }
    }

    private mutating func sayFarewell(_ line: Line) {
        let farewell = presence(.offline(.lost), line)
        if isConnected { return actions.append(farewell) }
        // What is dropped ends with its lease.
        if farewells.count < Bounds.farewells { farewells.append(farewell) }
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

    private mutating func subscribe(_ line: inout Line) {
        let filters = filters(line.device)
        line.standing = .away(waitingFor: Set(filters))
        actions += filters.map(Action.subscribe)
    }

    /// The broker has taken the filter.
    mutating func granted(_ filter: String, now: Int64) {
        for device in listeners[filter] ?? [] {
            guard case .away(var waiting)? = lines[device]?.standing, waiting.remove(filter) != nil else { continue }
            lines[device]?.standing = .away(waitingFor: waiting)
            if waiting.isEmpty { change(device) { lines, line in lines.begin(&line, now) } }
        }
    }

    /// A session of its own, by which what is owed comes anew.
    mutating func begin(_ line: inout Line, _ now: Int64, isSecond: Bool = false) {
        line.session = newSession()
        line.mayBeMistaken = line.lastAck.map { now < $0 + Bounds.ack } ?? false
        line.nextQuestion = isSecond ? nil : .max
        announce(&line, times: 0, now)
    }

    mutating func announce(_ line: inout Line, times: Int, _ now: Int64) {
        line.standing = .announcing(times: times + 1, next: now + Bounds.firstPause << Int64(min(times, 3)))
        line.isAnnounced = true
        actions.append(presence(.online, line))
    }

    func presence(_ status: PresenceMessage.Status, _ line: Line) -> Action {
        let message = PresenceMessage(status, session: line.session)
        return .publish(topic: topics.presence(line.device), payload: message.encoded())
    }

    mutating func change(_ device: DeviceAddress, _ change: (inout StreamLines, inout Line) -> Void) {
        guard var line = lines.removeValue(forKey: device) else { return }
        change(&self, &line)
        lines[device] = line
    }
}
