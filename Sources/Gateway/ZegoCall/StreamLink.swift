import HTTPServing
import MQTTClient
import SignalingProtocol

/// The connection between the streams of users and the relay's broker connection, on the relay's thread.
struct StreamLink {
    /// How long the broker keeps a message without a receiver, in seconds.
    private static let expiry: UInt32 = 10

    private let desk: StreamDesk
    private let bearers: BearerCheck
    private let status: GatewayStatus
    private var lines: StreamLines
    /// The filters that the broker has not answered yet, by packet identifier.
    private var subscriptions: [Int32: String] = [:]

    init(_ desk: StreamDesk, _ bearers: BearerCheck, _ topics: Topics, _ status: GatewayStatus) {
        self.desk = desk
        self.bearers = bearers
        self.status = status
        lines = StreamLines(topics) { RequestHandler.newID().string }
    }

    var descriptor: Int32 { desk.descriptor }
    /// The milliseconds until the next work without an event.
    var longestWait: Int64 { lines.isEmpty ? .max : StreamLineBounds.tick }

    mutating func connected() { lines.connected() }

    mutating func lost() {
        subscriptions = [:]
        lines.disconnected()
    }

    /// - Parameter acknowledged: packet identifiers.
    mutating func advance(_ acknowledged: Set<Int32>, now: Int64) {
        for identifier in acknowledged {
            if let filter = subscriptions.removeValue(forKey: identifier) { lines.granted(filter, now: now) }
        }
    }

    /// Sends a heartbeat on behalf of an inviter.
    mutating func beat(_ caller: DeviceAddress, _ callID: CallID) { lines.beat(caller, callID) }

    /// Notes that a request of the user has succeeded.
    mutating func did(_ device: DeviceAddress, _ call: CallSnapshot, now: Int64) {
        lines.did(device, call, now: now)
    }

    mutating func received(_ message: MQTTMessage, now: Int64) {
        lines.received(message.topic, message.payload, now: now)
    }

    mutating func turn(now: Int64) {
        let (opened, ended) = desk.take()
        for stream in opened { lines.opened(stream, now: now) }
        for number in ended { lines.ended(number, now: now) }
        if !opened.isEmpty || !ended.isEmpty { status.update { $0.streams = desk.count } }
        guard !lines.isEmpty else { return }
        if let notice = bearers.lookAtKeys() { status.tell(notice) }
        lines.tick(now: now, counts: bearers.stillCounts)
    }

    /// Performs the actions of the lines.
    mutating func send(_ connection: MQTTConnection) throws(MQTTError) {
        for action in lines.takeActions() {
            switch action {
            case .subscribe(let filter): subscriptions[try connection.subscribe(filter, qos: .atLeastOnce)] = filter
            case .unsubscribe(let filter): _ = try connection.unsubscribe(filter)
            case .publish(let topic, let payload):
                try connection.publish(MQTTMessage(topic: topic, payload: payload, expirySeconds: Self.expiry))
            }
        }
    }

    /// Ends the streams. The last actions of the lines remain to be sent.
    mutating func stop() {
        for opened in desk.stop() { opened.stream.end() }
        lines.stop()
    }
}
