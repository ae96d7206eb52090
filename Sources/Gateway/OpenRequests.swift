import HTTPServing
import MQTTClient
import SignalingProtocol

/// The bounds of `OpenRequests`. Times are in milliseconds.
enum OpenRequestBounds {
    /// How long a client waits for a response.
    static let patience: Int64 = 10_000
    /// How long a client waits without a broker connection.
    static let patienceWithoutBroker: Int64 = 2_000
    static let requests = 4_096
    /// How long a broker with an unanswered request may deliver no message at all before a gateway with several brokers
    /// goes to the next. The time doubles with each broker that delivers nothing, as while no coordinator serves.
    static let silence: Int64 = 4_000
    static let longestSilence: Int64 = 64_000
    static let silences = Backoff(first: silence, longest: longestSilence)
    /// How long the broker keeps a request that no coordinator takes, in seconds.
    static let expiry: UInt32 = 10
    /// How long a cancel waits for the call that the cancel may have overtaken; below, the time between two
    /// attempts.
    static let overtaking: Int64 = 1_000
    static let nextLookForCall: Int64 = 150
}

/// The requests that wait for their responses, on the relay's thread.
///
/// The gateway resends a request as a device does, with the same id, until the response comes. A request without a
/// response in time may have been served: the client is told `unavailable`, and may repeat the request with the same
/// key.
struct OpenRequests {
    private struct Pending {
        let asker: Asker
        let request: RelayedRequest
        /// The time at which the client's wait ends, by the boot clock.
        let end: Int64
        var nextSend: Int64
        var attempts = 0
        /// Whether the call of the request did not exist, and may still come.
        var wasMissing = false
    }

    private let topics: Topics
    private let name: String
    private var pending: [UInt64: Pending] = [:]
    private var lastNumber: UInt64 = 0
    /// The prefix of each number in Correlation Data, which makes responses unforgeable: any device may publish to the
    /// topic of the responses (as a Response Topic of its own), but cannot guess this prefix. The prefix also keeps
    /// apart the responses to another process with the same name.
    private let secret = (0..<16).map { _ in UInt8.random(in: 0...255) }
    /// The requests to be sent now.
    private var due: [UInt64] = []
    /// The requests without a response by protocol, by the broker's packet identifier.
    private var awaited: [Int32: UInt64] = [:]
    /// Before this time, no request must be resent, and no client has waited for too long.
    private(set) var nextLook = Int64.max
    /// Whether requests can be sent, and responses come in.
    private var isListening = false
    /// The time at which a request without a response was first sent since the broker's last message.
    private var silentSince: Int64?
    /// The number of brokers that the gateway has left since the last message, because the brokers delivered nothing.
    private var silentBrokers = 0

    /// - Parameter name: the topic level below devices' topics on which responses come.
    init(_ topics: Topics, name: String) {
        self.topics = topics
        self.name = name
    }

    /// The topic filter of the responses.
    var filter: String { "\(topics.root)/down/+/+/\(name)" }

    mutating func take(_ asked: AskedRequest, now: Int64) {
        guard pending.count < OpenRequestBounds.requests else { return asked.asker.refuse(.overloaded) }
        wait(Pending(asker: asked.asker, request: asked.request, end: now + OpenRequestBounds.patience, nextSend: now))
    }

    private mutating func wait(_ waiting: Pending) {
        lastNumber += 1
        pending[lastNumber] = waiting
        if isListening { due.append(lastNumber) }
        nextLook = min(nextLook, end(of: waiting))
    }

    /// Refuses all waiting requests with `unavailable`.
    mutating func stop() {
        for waiting in pending.values { waiting.asker.refuse(.unavailable) }
        pending = [:]
    }

    // MARK: The connection

    mutating func listens(now: Int64) {
        isListening = true
        nextLook = now
    }

    /// When the broker has delivered nothing for too long, although a request waits for its response.
    var silenceEnd: Int64 {
        silentSince.map { $0 + OpenRequestBounds.silences.wait(after: silentBrokers + 1) } ?? .max
    }

    /// Notes that the gateway leaves a broker that delivers nothing.
    mutating func leaveSilentBroker() { silentBrokers += 1 }

    /// Messages that were sent may be lost with the broker connection.
    mutating func lost(now: Int64) {
        isListening = false
        silentSince = nil
        awaited = [:]
        due = []
        for number in pending.keys { pending[number]!.nextSend = now }
        nextLook = now
    }

    /// Collects the requests to be resent, and gives up requests that have waited for too long.
    mutating func look(now: Int64) {
        guard nextLook <= now else { return }
        nextLook = .max
        for (number, waiting) in pending {
            guard end(of: waiting) > now else {
                refuse(number, .unavailable)
                continue
            }
            nextLook = min(nextLook, end(of: waiting))
            guard isListening else { continue }
            if waiting.nextSend <= now { due.append(number) } else { nextLook = min(nextLook, waiting.nextSend) }
        }
    }

    mutating func send(_ connection: MQTTConnection, now: Int64) throws(MQTTError) {
        let numbers = due
        due = []
        for number in numbers { try send(number, connection, now) }
    }

    private mutating func send(_ number: UInt64, _ connection: MQTTConnection, _ now: Int64) throws(MQTTError) {
        guard let waiting = pending[number] else { return }
        let request = waiting.request
        // The resends follow after 1, 2 and 4 s, as the resends of devices; a client waits no longer than 10 s.
        pending[number]!.nextSend = now + 1_000 << Int64(min(pending[number]!.attempts, 3))
        pending[number]!.attempts += 1
        nextLook = min(nextLook, pending[number]!.nextSend)
        do throws(MQTTError) {
            let isAwaited = request.answer.isUnanswered
            let identifier = try connection.publish(message(waiting, number), isAwaited: isAwaited)
            if isAwaited { awaited[identifier] = number } else if silentSince == nil { silentSince = now }
        } catch {
            // The broker will never accept this message, but the broker connection is still good.
            guard error.kind == .invalid else { throw error }
            refuse(number, Problem(SignalingError(.tooLarge, "the broker refuses the request: \(error.message)")))
        }
    }

    private func message(_ waiting: Pending, _ number: UInt64) -> MQTTMessage {
        let request = waiting.request
        var message = MQTTMessage(
            topic: topics.up(request.device), payload: request.payload, expirySeconds: OpenRequestBounds.expiry)
        if let parent = waiting.asker.traceParent { message.userProperties[UserProperty.traceParent] = parent.text }
        guard !request.answer.isUnanswered else { return message }
        message.correlationData = secret + withUnsafeBytes(of: number.bigEndian, Array.init)
        message.responseTopic = responseTopic(request)
        return message
    }

    private func responseTopic(_ request: RelayedRequest) -> String { topics.down(request.device) + "/" + name }

    // MARK: Answers

    /// Handles the broker's acknowledgement of a message: the broker has accepted or refused the message.
    mutating func answered(_ identifier: Int32, isTaken: Bool) {
        guard let number = awaited.removeValue(forKey: identifier), isTaken, let waiting = pending[number] else {
            return
        }
        respond(number, waiting.request.answer.taken)
    }

    /// The kind of an inbound message.
    enum Taken {
        /// The message is no response to a request of this gateway.
        case foreign
        case response
        /// The request of a user has been served.
        case done(DeviceAddress, ZegoAnswer, Response.Outcome)
    }

    mutating func received(_ message: MQTTMessage, now: Int64) -> Taken {
        (silentSince, silentBrokers) = (nil, 0)
        guard let data = message.correlationData, data.count == secret.count + 8, data.starts(with: secret) else {
            return .foreign
        }
        let number = data.dropFirst(secret.count).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        guard let waiting = pending[number], message.topic == responseTopic(waiting.request) else {
            return .response
        }
        let answer = waiting.request.answer
        if case .zegoCall(let asked) = answer { return received(message, asked, number, now) }
        if let response = answer.response(message.payload, isFirst: waiting.attempts == 1) { respond(number, response) }
        return .response
    }

    private mutating func received(
        _ message: MQTTMessage, _ asked: ZegoAnswer, _ number: UInt64, _ now: Int64
    ) -> Taken {
        guard case .response(let response)? = DownMessage.decode(message.payload), let waiting = pending[number]
        else { return .response }
        if asked.isMissing(response.outcome),
            now < waiting.end - OpenRequestBounds.patience + OpenRequestBounds.overtaking
        {
            askAgain(number, now)
            return .response
        }
        if let next = waiting.request.next(after: response.outcome) {
            pending[number] = nil
            // The next request has a new number, because the preceding response may come a second time.
            wait(Pending(asker: waiting.asker, request: next, end: waiting.end, nextSend: now))
            return .response
        }
        respond(number, asked.response(response.outcome, wasMissing: waiting.wasMissing))
        return .done(waiting.request.device, asked, response.outcome)
    }

    private mutating func askAgain(_ number: UInt64, _ now: Int64) {
        pending[number]!.wasMissing = true
        pending[number]!.nextSend = now + OpenRequestBounds.nextLookForCall
        nextLook = min(nextLook, now + OpenRequestBounds.nextLookForCall)
    }

    private mutating func refuse(_ number: UInt64, _ problem: Problem) {
        pending.removeValue(forKey: number)?.asker.refuse(problem)
        if pending.isEmpty { silentSince = nil }
    }

    private mutating func respond(_ number: UInt64, _ response: HTTPResponse) {
        pending.removeValue(forKey: number)?.asker.respond(response)
    }

    /// A request that was never sent was not served, so its client need not wait for long.
    private func end(of waiting: Pending) -> Int64 {
        guard !isListening, waiting.attempts == 0 else { return waiting.end }
        return waiting.end - OpenRequestBounds.patience + OpenRequestBounds.patienceWithoutBroker
    }
}
