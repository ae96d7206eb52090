import Glibc
import HTTPServing
import MQTTClient
import SignalingProtocol
import Support

/// A request that waits for its response.
struct AskedRequest: Sendable {
    let request: RelayedRequest
    let asker: Asker
}

/// Passes requests to the coordinators, and responses to the clients, as an MQTT client with the role of a server
/// (docs/protocol.md, section 1, Backends). Also passes events to the streams of users. A relay belongs to one thread.
final class Relay {
    struct Settings: Sendable {
        /// The brokers of the deployment. The relay is connected to a single broker: when the connection is lost, to
        /// the next.
        var brokers: [BrokerAddress]
        var certificateAuthorityFile: String?
        /// The file is read for each broker connection.
        var tokenFile: String?
        /// Nil when the token is in `tokenFile`, or when no token is needed.
        var token: String?
        var topics = Topics.standard
        /// The MQTT client id, and the topic level below devices' topics on which responses come: 1 to 64 of `A-Z a-z
        /// 0-9 _ -`.
        var name: String
    }

    /// Times are in milliseconds.
    private enum RelayBounds {
        static let firstPause: Int64 = 250
        static let longestPause: Int64 = 4_000
        static let longestWait: Int64 = 1_000
    }

    private let settings: Settings
    private let inbox: Inbox<AskedRequest>
    private let status: GatewayStatus
    private var streams: StreamLink
    private var connection: MQTTConnection?
    private var subscription: Int32?
    private var isListening = false { didSet { status.update { $0.isListening = isListening } } }
    private var nextConnect: Int64 = 0
    /// The brokers in a random order that this gateway draws at its start.
    private let brokers: [BrokerAddress]
    private var attempts = 0
    private var pause = RelayBounds.firstPause
    private var requests: OpenRequests
    private var now = SystemClock.boot.milliseconds

    init(
        _ settings: Settings, _ inbox: Inbox<AskedRequest>, _ desk: StreamDesk, _ bearers: BearerCheck,
        _ status: GatewayStatus
    ) {
        self.settings = settings
        brokers = settings.brokers.shuffled()
        self.inbox = inbox
        self.status = status
        streams = StreamLink(desk, bearers, settings.topics, status)
        requests = OpenRequests(settings.topics, name: settings.name)
    }

    /// Runs until the inbox stops.
    func run() {
        while !inbox.isStopping {
            now = SystemClock.boot.milliseconds
            if connection == nil, nextConnect <= now { connect() }
            let messages = wait()
            now = SystemClock.boot.milliseconds
            for message in messages { received(message) }
            leaveSilentBroker()
            // Before new requests are taken, because these are sent anyway.
            requests.look(now: now)
            for asked in inbox.take() { requests.take(asked, now: now) }
            streams.turn(now: now)
            send()
        }
        streams.stop()
        send()
        requests.stop()
        for asked in inbox.take() { asked.asker.refuse(.unavailable) }
        connection?.disconnect()
    }

    // MARK: The connection

    private func connect() {
        var options = MQTTConnection.Configuration(broker: brokers[attempts % brokers.count], clientID: settings.name)
        attempts += 1
        options.certificateAuthorityFile = settings.certificateAuthorityFile
        do throws(MQTTError) {
            if let file = settings.tokenFile {
                try options.readToken(from: file)
            } else if let token = settings.token {
                options.broker.password = token
            }
            let connection = try MQTTConnection(options)
            try connection.connect()
            self.connection = connection
        } catch {
            lost(error)
        }
    }

    /// Goes to the next broker when this broker takes requests and delivers nothing, as coordinators do by their
    /// canaries (docs/decisions/0033). A response is not to be expected here, nor an acknowledgement.
    private func leaveSilentBroker() {
        guard brokers.count > 1, requests.silenceEnd <= now, let connection else { return }
        connection.disconnect(flushingFor: 0)
        requests.leaveSilentBroker()
        lost(MQTTError(kind: .lost, message: "the broker takes requests and delivers nothing"))
    }

    private func lost(_ error: MQTTError) {
        status.lost(error.message)
        connection = nil
        subscription = nil
        streams.lost()
        requests.lost(now: now)
        if isListening { pause = RelayBounds.firstPause }
        isListening = false
        nextConnect = now + Int64.random(in: pause / 2...pause)
        pause = min(2 * pause, RelayBounds.longestPause)
    }

    private func wait() -> [MQTTMessage] {
        var wakeUps = [inbox.descriptor, streams.descriptor].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        let limit = Int32(clamping: max(0, min(nextTurn - now, RelayBounds.longestWait, streams.longestWait)))
        guard let connection else {
            _ = poll(&wakeUps, 2, limit)
            return []
        }
        do throws(MQTTError) {
            let messages = try connection.poll(milliseconds: limit, others: &wakeUps, count: 2)
            try advance(connection)
            return messages
        } catch {
            lost(error)
            return []
        }
    }

    private func advance(_ connection: MQTTConnection) throws(MQTTError) {
        if connection.state == .connected, subscription == nil {
            subscription = try connection.subscribe(requests.filter, qos: .atLeastOnce)
        }
        if let subscription, !isListening, connection.acknowledged.contains(subscription) {
            isListening = true
            pause = RelayBounds.firstPause
            requests.listens(now: now)
            status.listens()
            streams.connected()
        }
        streams.advance(connection.acknowledged, now: now)
        for (identifier, isTaken) in connection.takeAnswered() { requests.answered(identifier, isTaken: isTaken) }
    }

    private var nextTurn: Int64 {
        let change = connection == nil ? nextConnect : brokers.count > 1 ? requests.silenceEnd : .max
        return min(change, requests.nextLook)
    }

    // MARK: Messages

    private func send() {
        guard let connection, isListening else { return }
        do throws(MQTTError) {
            try connection.together { () throws(MQTTError) in
                try requests.send(connection, now: now)
                try streams.send(connection)
            }
        } catch {
            lost(error)
        }
    }

    private func received(_ message: MQTTMessage) {
        switch requests.received(message, now: now) {
        case .foreign: streams.received(message, now: now)
        case .response: break
        case .done(let device, let answer, let outcome):
            // A call has begun, and its inviter sends heartbeats from now on.
            if let (caller, callID) = answer.caller(outcome) { streams.beat(caller, callID) }
            if case .success(let success) = outcome { streams.did(device, success.call, now: now) }
        }
    }
}
