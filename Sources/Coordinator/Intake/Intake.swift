import CallCore
import SignalingProtocol

/// Decodes inbound messages into queued requests, charges their senders, and returns errors for messages that cannot be
/// served. Each batch of inbound messages has its own intake.
///
/// More than 200 lines: each kind of inbound message has its rules of admission.
struct Intake {
    private let settings: ServiceSettings
    private let encoder: MessageEncoder
    private let budgets: Budgets
    /// The store's time, or nil while the clock cannot be read.
    private let now: Milliseconds?
    /// The users whose devices are not served.
    private let disabled: Set<UserID>
    /// The time at which the messages were read, by the boot clock, in microseconds.
    private let readAt: Int64
    private(set) var contents: [(content: RequestContent, device: DeviceAddress, bytes: Int)] = []
    private(set) var refusals: [OutboundMessage] = []
    private(set) var counts = Counts()
    /// The devices with the brokers from which they were heard, in a deployment with several brokers.
    private(set) var heard: [(device: DeviceAddress, broker: BrokerIndex)] = []

    init(
        _ settings: ServiceSettings, _ budgets: Budgets, now: Milliseconds?, readAt: Int64, disabled: Set<UserID> = []
    ) {
        self.readAt = readAt
        self.disabled = disabled
        self.settings = settings
        self.budgets = budgets
        self.now = now
        encoder = MessageEncoder(topics: settings.topics)
    }

    mutating func read(_ message: InboundMessage) {
        let topic = settings.topics.parse(message.topic)
        switch topic {
        // The loop has noted that the broker delivers messages.
        case .canary: return
        case .relay(let broker): return relay(message, to: broker)
        case .up, .presence, .refused, .foreign: break
        }
        counts.add(.messagesReceived)
        guard !message.isRetained else {
            counts.add(.messagesRefused, "retained")
            return
        }
        switch topic {
        case .canary, .relay: break
        case .foreign: counts.add(.messagesRefused, "foreign")
        case .refused(let mirror):
            refuse(SignalingError(.badRequest, "topic: not in canonical form"), topic: mirror, message)
        case .up(let device) where isDisabled(device): refuseDisabled(message, from: device)
        case .presence(let device) where isDisabled(device):
            // The end of a session counts: the device is then not rung.
            guard let change = readPresence(message, of: device) else { return }
            guard change.status == .online else {
                return contents.append((.presence(change), device, message.payload.count))
            }
            refuse(.disabledUser, topic: settings.topics.down(device), message)
        case .up(let device):
            contents.append((read(message, from: device) ?? .nothing, device, message.payload.count))
            if settings.isRouting { heard.append((device, message.broker)) }
        case .presence(let device):
            if let change = readPresence(message, of: device) {
                contents.append((.presence(change), device, message.payload.count))
            }
        }
    }

    /// Decodes one message of a device. For a message that cannot be served, returns nil and adds an error to
    /// `refusals`.
    private mutating func read(_ message: InboundMessage, from device: DeviceAddress) -> RequestContent? {
        switch decoded(message) {
        case .success(.request(let request)):
            counts.add(.requests, request.body.type)
            let path = path(of: message, type: request.body.type, from: device)
            guard !request.body.isForBackends || device.deviceID == .server else {
                let error = SignalingError(.unknownType, "\(request.body.type): for the app's backend")
                counts.add(.responses, error.code.rawValue)
                refusals.append(encoder.response(request.id, .failure(error), to: device, path))
                return nil
            }
            let received = ReceivedRequest(device: device, request: request, path: path)
            return isAdmitted(received) ? content(of: received) : nil
        case .success(.signal(let signal)):
            counts.add(.requests, Request.Body.signal(signal).type)
            let retryAfter =
                excess(.device(device)) ?? excess(.signals(device.userID))
                ?? budgets.debt(.sentBytes(device.userID), now, &counts)
            if let retryAfter {
                refuse(.rateLimited(retryAfter), topic: settings.topics.down(device), message)
                return nil
            }
            let path = ReplyPath(brokers: brokers(of: message))
            return .call(signal.callID, .signal(ReceivedSignal(device: device, id: nil, signal: signal, path: path)))
        case .success(.heartbeat(let callID)):
            counts.add(.heartbeats)
            guard isQuietlyAdmitted(device) else { return nil }
            return .call(callID, .heartbeat(device))
        case .success(.ackCall(let callID, let revision)):
            counts.add(.acks)
            guard isQuietlyAdmitted(device) else { return nil }
            return .call(callID, .ack(device, revision: revision))
        case .success(.ackMessage(let messageID)):
            counts.add(.acks)
            guard isQuietlyAdmitted(device) else { return nil }
            return .message(.message(messageID, to: device.userID), .ack(device))
        case .failure(var refusal):
            if let retryAfter = excess(.device(device)) { refusal.error = .rateLimited(retryAfter) }
            if let id = refusal.requestID {
                counts.add(.responses, refusal.error.code.rawValue)
                var path = path(of: message, type: "unreadable", from: device)
                if hasLongCorrelationData(message) { path.correlationData = nil }
                refusals.append(encoder.response(id, .failure(refusal.error), to: device, path))
            } else {
                refuse(refusal.error, topic: settings.topics.down(device), message)
            }
            return nil
        }
    }

    /// Whether the device belongs to a disabled user. The app's backend may act for such a user, as to end a call.
    private func isDisabled(_ device: DeviceAddress) -> Bool {
        !disabled.isEmpty && device.deviceID != .server && disabled.contains(device.userID)
    }

    /// Refuses a request of a disabled user with a response, and drops what has none.
    private mutating func refuseDisabled(_ message: InboundMessage, from device: DeviceAddress) {
        guard excess(.device(device)) == nil, case .success(.request(let request)) = decoded(message) else {
            return counts.add(.messagesRefused, ErrorCode.userDisabled.rawValue)
        }
        counts.add(.requests, request.body.type)
        counts.add(.responses, ErrorCode.userDisabled.rawValue)
        let path = path(of: message, type: request.body.type, from: device)
        refusals.append(encoder.response(request.id, .failure(.disabledUser), to: device, path))
    }

    private func path(of message: InboundMessage, type: String, from device: DeviceAddress) -> ReplyPath {
        var path = ReplyPath(of: message, to: device, settings.topics, brokers(of: message))
        path.origin = RequestOrigin(type: type, readAt: readAt, parent: message.traceParent)
        return path
    }

    private func decoded(_ message: InboundMessage) -> Result<UpMessage, UpMessageRefusal> {
        let decoded = UpMessage.decode(message.payload, maxBytes: settings.maxPayload)
        return hasLongCorrelationData(message) ? decoded.withLongCorrelationData : decoded
    }

    private func hasLongCorrelationData(_ message: InboundMessage) -> Bool {
        message.correlationData?.count ?? 0 > Limits.correlationDataBytes
    }

    private func content(of received: ReceivedRequest) -> RequestContent {
        let request = received.request
        switch request.body {
        case .signal(let signal):
            return .call(
                signal.callID,
                .signal(
                    ReceivedSignal(
                        device: received.device, id: request.id, signal: signal, path: received.path)))
        case .message(let message):
            // A call id has the form of a message id.
            let messageID = message.messageID ?? MessageID(derivedID(received.key).string)!
            return .message(.message(messageID, to: message.to), .send(received, message))
        case .query, .userUpdate, .userQuery, .userBlock, .userBlockList, .userSignOut, .userDelete, .pushRegister,
            .pushUnregister:
            return .user(received)
        case .invite, .cancel, .accept, .reject, .add, .join, .quit, .end, .get, .report, .trace, .media, .ringCheck:
            return .call(request.body.callID ?? derivedID(received.key), .request(received))
        }
    }

    /// Whether the user's limits admit the request. If not, the error says when to try again (section 2, Rate limits).
    private mutating func isAdmitted(_ received: ReceivedRequest) -> Bool {
        let (user, body) = (received.device.userID, received.request.body)
        let retryAfter =
            switch body {
            // Ring checks and backends' requests do not count towards the user's limits: any holder of an invitation's
            // key may send a ring check, and a user's limits must not stop a backend.
            case .ringCheck: excess(.init(user, body))
            case _ where body.isForBackends: excess(.device(received.device))
            default: excess(.device(received.device)) ?? excess(.init(user, body)) ?? debt(of: user, for: received)
            }
        guard let retryAfter else { return true }
        refuse(received, retryAfter)
        return false
    }

    /// Returns the milliseconds until the user has bytes left for the request, or nil when the request is admitted. A
    /// user without bytes can still answer, cancel and end calls, now and then.
    private mutating func debt(of user: UserID, for received: ReceivedRequest) -> Int? {
        guard let retryAfter = budgets.debt(.sentBytes(user), now, &counts) else { return nil }
        switch received.request.body {
        case .cancel, .accept, .reject, .quit, .end: return excess(.inDebt(user)) == nil ? nil : retryAfter
        default: return retryAfter
        }
    }

    private mutating func refuse(_ received: ReceivedRequest, _ retryAfter: Int) {
        let outcome = Response.Outcome.failure(.rateLimited(retryAfter))
        counts.add(.responses, outcome.name)
        refusals.append(encoder.response(received.request.id, outcome, to: received.device, received.path))
    }

    /// Returns the milliseconds after which to try again, or nil when the request is admitted.
    private mutating func excess(_ key: RateLimiter.Key) -> Int? {
        budgets.admit(key, now, &counts)
    }

    /// Whether a message without a response is admitted. A refused message is dropped: the device gets the event again,
    /// and sends its heartbeat again.
    private mutating func isQuietlyAdmitted(_ device: DeviceAddress) -> Bool {
        guard excess(.device(device)) != nil else { return true }
        counts.add(.messagesRefused, ErrorCode.rateLimited.rawValue)
        return false
    }

    /// Decodes a message on a device's presence topic.
    private mutating func readPresence(_ message: InboundMessage, of device: DeviceAddress) -> PresenceChange? {
        switch PresenceMessage.decode(message.payload, maxBytes: settings.maxPayload) {
        case .failure(let error):
            refuse(error, topic: settings.topics.down(device), message)
            return nil
        // A device that changes its presence too often gets no welcome, and therefore publishes its presence again.
        case .success where excess(.presence(device)) != nil:
            counts.add(.messagesRefused, ErrorCode.rateLimited.rawValue)
            return nil
        case .success(let presence) where presence.status == .online && isWelcomedTooMuch(device.userID):
            counts.add(.messagesRefused, ErrorCode.rateLimited.rawValue)
            return nil
        case .success(let presence):
            return PresenceChange(
                session: DeviceSession(
                    device, id: presence.session, broker: settings.isRouting ? settings.brokers[message.broker] : nil,
                    received: now),
                status: presence.status,
                tokenExpiresAt: message.tokenExpiresAt)
        }
    }

    /// Whether the user's devices that came online were sent as many bytes as the limit allows.
    private mutating func isWelcomedTooMuch(_ user: UserID) -> Bool {
        budgets.debt(.welcomeBytes(user), now, &counts) != nil
    }

    private mutating func refuse(_ error: SignalingError, topic: String, _ message: InboundMessage) {
        counts.add(.messagesRefused, error.code.rawValue)
        // A mirrored topic is a little longer than the received topic, which may have had the maximum length already.
        guard topic.utf8.count <= ServiceBounds.topicBytes else { return }
        refusals.append(encoder.refusal(error, topic: topic, brokers(of: message)))
    }
}

extension Intake {
    private func brokers(of message: InboundMessage) -> BrokerSet {
        settings.isRouting ? BrokerSet(message.broker) : .all
    }

    /// Passes on a message of another coordinator, which has no connection to the broker. Such a message leads to
    /// devices only, and is never relayed again.
    private mutating func relay(_ message: InboundMessage, to broker: BrokerName) {
        guard let place = settings.brokers.firstIndex(of: broker), !message.isRetained,
            let topic = message.responseTopic, topic.utf8.starts(with: settings.topics.allDown.utf8)
        else { return counts.add(.messagesRefused, "relay") }
        counts.add(.messagesRelayed)
        refusals.append(
            OutboundMessage(
                topic: topic, payload: message.payload, correlationData: message.correlationData,
                expirySeconds: message.expirySeconds ?? ServiceBounds.messageExpirySeconds,
                brokers: BrokerSet(place), isRelayed: true))
    }
}

extension ReplyPath {
    /// Reads how to send the response. A Response Topic counts only one level below the device's own topic, so that no
    /// response goes where other devices listen.
    fileprivate init(
        of message: InboundMessage, to device: DeviceAddress, _ topics: Topics, _ brokers: BrokerSet
    ) {
        self.init(correlationData: message.correlationData, brokers: brokers)
        guard let topic = message.responseTopic else { return }
        let own = topics.down(device) + "/"
        let level =
            topic.utf8.starts(with: own.utf8)
            ? String(decoding: topic.utf8.dropFirst(own.utf8.count), as: UTF8.self) : ""
        if isToken(level) { self.level = level }
    }
}

extension Result<UpMessage, UpMessageRefusal> {
    /// Returns a refusal for a message that needs a response with its Correlation Data.
    fileprivate var withLongCorrelationData: Self {
        let error = SignalingError(
            .tooLarge, "the Correlation Data may have at most \(Limits.correlationDataBytes) bytes")
        switch self {
        case .success(.request(let request)): return .failure(UpMessageRefusal(requestID: request.id, error: error))
        case .success(.signal): return .failure(UpMessageRefusal(requestID: nil, error: error))
        case .success(.heartbeat), .success(.ackCall), .success(.ackMessage): return self
        case .failure(let refusal): return .failure(UpMessageRefusal(requestID: refusal.requestID, error: error))
        }
    }
}

/// Returns the id of a call or a peer message when its request names no id: the same for every resend of the request,
/// at any coordinator (section 2). The hash is FNV-1a with 128 bits: an even spread is enough, since the user's own id
/// is part of the hashed text.
func derivedID(_ key: RequestKey) -> CallID {
    var hash: UInt128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d
    func mix(_ text: String) {
        for byte in text.utf8 {
            hash ^= UInt128(byte)
            hash &*= 0x0000_0000_0100_0000_0000_0000_0000_013b
        }
        // No identifier contains this byte, so that different splits into parts give different hashes.
        hash ^= 0xFF
        hash &*= 0x0000_0000_0100_0000_0000_0000_0000_013b
    }
    mix(key.device.userID.string)
    mix(key.device.deviceID.string)
    mix(key.requestID.string)
    let hex = String(hash, radix: 16)
    return CallID(String(repeating: "0", count: 32 - hex.count) + hex)!
}

extension SignalingError {
    fileprivate static let disabledUser = SignalingError(.userDisabled, "an administrator has disabled this user")
}
