import Glibc
import HTTPServing
import MQTTClient
import SignalingProtocol
import SystemClocks
import SystemThreads

/// Hands requests to the coordinators and their responses to who asked: an MQTT client with the role of a server (docs/protocol.md,
/// section 1, Backends). It belongs to one thread.
///
/// A request is sent again like that of any device, with the same id, until it is answered. What is not answered in time may have been
/// done: the backend is told `unavailable`, and may ask again with the same key.
final class Relay {
    struct Settings: Sendable {
        var broker: BrokerAddress
        var certificateAuthorityFile: String?
        /// Read for each connection.
        var tokenFile: String?
        /// Nil: the one in `tokenFile`, or none.
        var token: String?
        var topics = Topics.standard
        /// The MQTT client id, and the level below devices' topics on which responses come: 1 to 64 of `A-Z a-z 0-9 _ -`.
        var name: String
    }

    /// One that waits for its response.
    struct Item: Sendable {
        let request: RelayedRequest
        let asker: Asker
    }

    private struct Pending {
        let item: Item
        /// Milliseconds of the boot clock.
        let end: Int64
        var nextSend: Int64
        var attempts = 0
    }

    /// In milliseconds.
    enum Bounds {
        /// How long a backend waits for its answer.
        static let patience: Int64 = 10_000
        /// The same while there is no broker.
        static let patienceWithoutBroker: Int64 = 2_000
        /// Requests that wait for their responses.
        static let waiting = 4_096
        /// Seconds that the broker keeps a request which no coordinator takes.
        static let expiry: UInt32 = 10
        static let firstPause: Int64 = 250
        static let longestPause: Int64 = 4_000
        static let longestWait: Int64 = 1_000
    }

    private let settings: Settings
    private let inbox: Inbox<Item>
    private let status: GatewayStatus
    private var connection: MQTTConnection?
    private var subscription: Int32?
    private var isListening = false { didSet { status.update { $0.isListening = isListening } } }
    private var nextConnect: Int64 = 0
    private var pause = Bounds.firstPause
    private var pending: [UInt64: Pending] = [:]
    private var lastNumber: UInt64 = 0
    /// Stands before each number in Correlation Data: any device may publish to where responses come (a Response Topic of its own), and none
    /// can guess this. Nor is what another process with the same name asked for taken for an answer to this one.
    private let secret = (0..<16).map { _ in UInt8.random(in: 0...255) }
    /// Those that are to be sent now.
    private var due: [UInt64] = []
    /// Before that nothing is to be sent again, and nobody has waited for too long.
    private var nextLook = Int64.max
    /// Of requests without a response, by the broker's packet identifier.
    private var awaited: [Int32: UInt64] = [:]
    private var now = SystemClock.boot.milliseconds

    init(_ settings: Settings, _ inbox: Inbox<Item>, _ status: GatewayStatus) {
        self.settings = settings
        self.inbox = inbox
        self.status = status
    }

    /// Until the inbox says stop.
    func run() {
        while !inbox.isStopping {
            now = SystemClock.boot.milliseconds
            if connection == nil, nextConnect <= now { connect() }
            let messages = wait()
            now = SystemClock.boot.milliseconds
            for message in messages { received(message) }
            // Before what is new, which is to be sent anyway.
            if nextLook <= now { look() }
            for item in inbox.take() { take(item) }
            send()
        }
        for waiting in pending.values { waiting.item.asker.respond(Problem.unavailable.response) }
        for item in inbox.take() { item.asker.respond(Problem.unavailable.response) }
        connection?.disconnect()
    }

    // MARK: The connection

    private func connect() {
        var options = MQTTConnection.Configuration(broker: settings.broker, clientID: settings.name)
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

    private func lost(_ error: MQTTError) {
        status.lost(error.message)
        connection = nil
        subscription = nil
        awaited = [:]
        due = []
        if isListening { pause = Bounds.firstPause }
        isListening = false
        nextConnect = now + Int64.random(in: pause / 2...pause)
        pause = min(2 * pause, Bounds.longestPause)
        // What was sent may be lost with the connection.
        for number in pending.keys { pending[number]!.nextSend = now }
        nextLook = now
    }

    private func wait() -> [MQTTMessage] {
        var wakeUp = pollfd(fd: inbox.descriptor, events: Int16(POLLIN), revents: 0)
        let limit = Int32(clamping: max(0, min(nextTurn - now, Bounds.longestWait)))
        guard let connection else {
            _ = poll(&wakeUp, 1, limit)
            return []
        }
        do throws(MQTTError) {
            let messages = try connection.poll(milliseconds: limit, others: &wakeUp)
            try advance(connection)
            return messages
        } catch {
            lost(error)
            return []
        }
    }

    private func advance(_ connection: MQTTConnection) throws(MQTTError) {
        if connection.state == .connected, subscription == nil {
            subscription = try connection.subscribe(
                "\(settings.topics.root)/down/+/+/\(settings.name)", qos: .atLeastOnce)
        }
        if let subscription, !isListening, connection.acknowledged.contains(subscription) {
            isListening = true
            pause = Bounds.firstPause
            nextLook = now
            status.listens()
        }
        for (identifier, isTaken) in connection.takeAnswered() {
            guard let number = awaited.removeValue(forKey: identifier), isTaken else { continue }
            respond(number, HTTPResponse(204))
        }
    }

    private var nextTurn: Int64 { connection == nil ? min(nextConnect, nextLook) : nextLook }

    // MARK: Requests

    private func take(_ item: Item) {
        guard pending.count < Bounds.waiting else { return item.asker.respond(Problem.overloaded.response) }
        lastNumber += 1
        let waiting = Pending(item: item, end: now + Bounds.patience, nextSend: now)
        pending[lastNumber] = waiting
        if isListening { due.append(lastNumber) }
        nextLook = min(nextLook, end(of: waiting))
    }

    /// Finds what is to be sent again, and gives up what has waited for too long.
    private func look() {
        nextLook = .max
        for (number, waiting) in pending {
            guard end(of: waiting) > now else {
                respond(number, Problem.unavailable.response)
                continue
            }
            nextLook = min(nextLook, end(of: waiting))
            guard isListening else { continue }
            if waiting.nextSend <= now { due.append(number) } else { nextLook = min(nextLook, waiting.nextSend) }
        }
    }

    private func send() {
        guard let connection, isListening, !due.isEmpty else { return }
        let numbers = due
        due = []
        do throws(MQTTError) {
            try connection.together { () throws(MQTTError) in
                for number in numbers { try send(number, connection) }
            }
        } catch {
            lost(error)
        }
    }

    private func send(_ number: UInt64, _ connection: MQTTConnection) throws(MQTTError) {
        guard let request = pending[number]?.item.request else { return }
        // As devices do: after 1, 2, 4 s.
        pending[number]!.nextSend = now + 1_000 << Int64(min(pending[number]!.attempts, 3))
        pending[number]!.attempts += 1
        nextLook = min(nextLook, pending[number]!.nextSend)
        var message = MQTTMessage(
            topic: settings.topics.up(request.device), payload: request.payload, expirySeconds: Bounds.expiry)
        let isAwaited = request.answer == .unanswered
        if !isAwaited {
            message.correlationData = secret + withUnsafeBytes(of: number.bigEndian, Array.init)
            message.responseTopic = responseTopic(request)
        }
        do throws(MQTTError) {
            let identifier = try connection.publish(message, isAwaited: isAwaited)
            if isAwaited { awaited[identifier] = number }
        } catch {
            // What this broker cannot take, it never will; the connection is as good as before.
            guard error.kind == .invalid else { throw error }
            respond(
                number, Problem(SignalingError(.tooLarge, "the broker does not take it: \(error.message)")).response)
        }
    }

    private func responseTopic(_ request: RelayedRequest) -> String {
        settings.topics.down(request.device) + "/" + settings.name
    }

    private func received(_ message: MQTTMessage) {
        guard let data = message.correlationData, data.count == secret.count + 8, data.starts(with: secret) else {
            return
        }
        let number = data.dropFirst(secret.count).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        guard let waiting = pending[number], message.topic == responseTopic(waiting.item.request),
            let response = waiting.item.request.answer.response(message.payload, isFirst: waiting.attempts == 1)
        else { return }
        respond(number, response)
    }

    private func respond(_ number: UInt64, _ response: HTTPResponse) {
        pending.removeValue(forKey: number)?.item.asker.respond(response)
    }

    /// What was never sent was not done: nobody needs to wait for long.
    private func end(of waiting: Pending) -> Int64 {
        guard !isListening, waiting.attempts == 0 else { return waiting.end }
        return waiting.end - Bounds.patience + Bounds.patienceWithoutBroker
    }
}
