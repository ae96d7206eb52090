import CallCore
import CallStore
import Glibc
import HTTPServing
import SignalingProtocol
import Support

/// The bounds of `Reader`.
enum ReaderBounds {
    /// The bound of waiting questions.
    static let waiting = 1_024
    /// The bound of questions in the store at the same time.
    static let underWay = 64
    /// Milliseconds.
    static let longestWait: Int64 = 1_000
    /// The interval, in milliseconds, of the reads that show whether an idle store still answers.
    static let look: Int64 = 1_000
}

/// A question that waits for its answer.
struct AskedQuestion: Sendable {
    let question: Reader.Question
    let asker: Asker
}

/// Answers requests that only read, from the store. A reader belongs to one thread.
final class Reader {
    enum Question: Sendable {
        case call(CallID)
        case trace(CallID)
        case devices(UserID, isAdmin: Bool)
        /// A ring check that came before the deployment's secret was known.
        case ring(RingQuestion)
        /// An act of an administrator.
        case act(AdminAct, AuditEntry)
        case online(after: String?, count: Int)
        case liveCalls(after: String?, count: Int)
        case webhooks
        case deadLetters(EndpointName, after: String?, count: Int)
        case audit(after: String?, count: Int)
        /// A heartbeat, passed on if the call is still the call of its sender.
        case heartbeat(RelayedRequest, CallID)
    }

    /// A call id that is read to see whether the store answers. The result is ignored, even if such a call exists.
    private static let nobodysCall = CallID("readiness")!

    private let store: Gateway.Store
    private let ring: RingDesk
    private let lease: Milliseconds
    private let inbox: Inbox<AskedQuestion>
    private let relay: Inbox<AskedRequest>
    private let bearers: BearerCheck
    private let status: GatewayStatus
    private let executor = WorkExecutor()
    private var waiting: [AskedQuestion] = []
    private var underWay = 0
    private var nextLook: Int64 = 0
    /// The time of the last act of an administrator.
    private var lastAct: Milliseconds = 0
    private var sightings = SightingsLook()
    private var logLevelWatch = LogLevelWatch()

    init(
        _ store: Gateway.Store, lease: Milliseconds, _ inbox: Inbox<AskedQuestion>, _ relay: Inbox<AskedRequest>,
        _ ring: RingDesk, _ bearers: BearerCheck, _ status: GatewayStatus
    ) {
        self.store = store
        self.bearers = bearers
        self.ring = ring
        self.lease = lease
        self.inbox = inbox
        self.relay = relay
        self.status = status
    }

    /// Runs until the inbox stops.
    func run() {
        while !inbox.isStopping {
            wait()
            for asked in inbox.take() {
                guard waiting.count < ReaderBounds.waiting else {
                    asked.asker.refuse(.overloaded)
                    continue
                }
                waiting.append(asked)
            }
            let now = SystemClock.boot.milliseconds
            if nextLook <= now {
                nextLook = now + ReaderBounds.look
                look()
            }
            while underWay < ReaderBounds.underWay, !waiting.isEmpty { answer(waiting.removeFirst()) }
            executor.run()
        }
        for asked in waiting + inbox.take() { asked.asker.refuse(.unavailable) }
    }

    private func wait() {
        let socket = store.socket
        var descriptors = [
            pollfd(fd: inbox.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: socket?.descriptor ?? -1, events: Int16(POLLIN), revents: 0),
        ]
        if socket?.waitsToSend ?? false { descriptors[1].events |= Int16(POLLOUT) }
        let now = SystemClock.boot.milliseconds
        var limit = min(ReaderBounds.longestWait, max(0, nextLook - now))
        if let deadline = socket?.deadline { limit = min(limit, max(0, deadline - now) + 1) }
        _ = poll(&descriptors, nfds_t(descriptors.count), Int32(limit))
        if descriptors[1].revents != 0 || socket?.deadline != nil { store.receive() }
        // The store has closed its connection: `look` shows at once whether the store still answers.
        if socket != nil, store.socket == nil { nextLook = 0 }
        executor.run()
    }

    /// Checks that the store answers: reads a record of a call that does not exist, since `now()` may be known without
    /// the store. Also reads what administrators have set.
    private func look() {
        start { [self] () async throws(StoreError) in
            _ = try await store.now()
            _ = try await store.load([Self.nobodysCall])
            let settings = try await store.adminSettings()
            bearers.disable(settings.disabledUsers)
            if let level = logLevelWatch.newLevel(in: settings) { status.tell(.logLevel(level)) }
        }
    }

    private func start(
        _ work: @escaping () async throws(StoreError) -> Void, failed: @escaping () -> Void = {}
    ) {
        underWay += 1
        executor.start { [self] in
            do throws(StoreError) {
                try await work()
                status.store(failure: nil)
            } catch {
                status.store(failure: error.description)
                failed()
            }
            underWay -= 1
        }
    }

    private func answer(_ asked: AskedQuestion) {
        let asker = asked.asker
        start { [self] () async throws(StoreError) in
            switch asked.question {
            case .call(let id): asker.respond(try await call(id, withTimeline: false))
            case .trace(let id): asker.respond(try await call(id, withTimeline: true))
            case .devices(let user, let isAdmin): asker.respond(try await devices(of: user, isAdmin: isAdmin))
            case .ring(let question):
                ring.learn(try await store.pushSecret())
                do throws(Problem) {
                    try ring.take(question, asker, newID: RequestHandler.newID)
                } catch {
                    asker.respond(error.response)
                }
            case .act(let act, let entry): try await perform(act, entry, asker)
            case .online(let place, let count): asker.respond(try await online(after: place, count))
            case .liveCalls(let place, let count): asker.respond(try await liveCalls(after: place, count))
            case .webhooks: asker.respond(try await WebhookDesk(store).endpoints())
            case .deadLetters(let endpoint, let place, let count):
                asker.respond(try await WebhookDesk(store).deadLetters(of: endpoint, after: place, count))
            case .audit(let place, let count):
                let page = try await store.audit(after: place, limit: count)
                asker.respond(
                    .json(200) { writer in
                        writer.array("entries") { writer in
                            for entry in page.entries { writer.object { entry.write(to: &$0) } }
                        }
                        writer.field("cursor", page.next ?? Answer.lastCursor)
                    })
            case .heartbeat(let request, let id):
                guard let refusal = try await refusal(request.device, id) else { return pass(on: request, asker) }
                asker.refuse(Problem(refusal))
            }
        } failed: { [self] in
            // A failing store must not end the call, so the heartbeat is passed on unchecked.
            if case .heartbeat(let request, _) = asked.question { return pass(on: request, asker) }
            asker.refuse(.unavailable)
        }
    }

    private func online(after place: String?, _ count: Int) async throws(StoreError) -> HTTPResponse {
        if sightings.isDue(at: SystemClock.boot.milliseconds) { try await store.readSightings() }
        let page = try await store.online(after: place, limit: count)
        return .json(200) { writer in
            writer.array("devices") { writer in
                for presence in page.devices {
                    writer.object { writer in
                        writer.field("userID", presence.device.userID.string)
                        writer.field("device", presence.device.deviceID.string)
                        writer.field("since", presence.since)
                        writer.field("broker", presence.broker)
                    }
                }
            }
            writer.field("cursor", page.next ?? Answer.lastCursor)
        }
    }

    /// Returns live calls in short: a call itself may have many members with data.
    private func liveCalls(after place: String?, _ count: Int) async throws(StoreError) -> HTTPResponse {
        let page = try await store.callsWithDeadline(after: place, limit: count)
        let calls = try await store.load(page.calls).compactMap { stored -> CallSnapshot? in
            guard case .call(let call)? = stored?.record, call.isLive else { return nil }
            return call.snapshot
        }
        return .json(200) { writer in
            writer.array("calls") { writer in
                for call in calls {
                    writer.object { writer in
                        writer.field("callID", call.callID.string)
                        writer.field("state", call.state.rawValue)
                        writer.field("inviter", call.inviter.string)
                        writer.field("createdAt", call.createdAt)
                        writer.array("members") { writer in
                            for member in call.members { writer.string(member.userID.string) }
                        }
                    }
                }
            }
            writer.field("cursor", page.next ?? Answer.lastCursor)
        }
    }

    /// Writes the act into the audit log and passes its request on.
    private func perform(_ act: AdminAct, _ entry: AuditEntry, _ asker: Asker) async throws(StoreError) {
        let request: RelayedRequest
        switch act {
        case .signOut(let signOut): request = signOut
        case .disable(let user, let signOut):
            try await note(entry)
            guard try await store.set(user, isDisabled: true) else {
                let full = "too many users are disabled: enable others first"
                return asker.refuse(Problem(SignalingError(.tooLarge, full)))
            }
            return pass(on: signOut, asker)
        case .logLevel(let level):
            let time = try await note(entry)
            try await store.set(LogLevelOrder(time: time, level: level))
            return asker.respond(HTTPResponse(204))
        case .replay(let name, let webhookID, let since):
            let desk = WebhookDesk(store)
            guard let endpoint = try await desk.endpoint(name) else { return asker.refuse(.unknownEndpoint) }
            guard try await desk.isReadable(name) else { return asker.refuse(.tooManyLetters) }
            try await note(entry)
            return asker.respond(try await desk.replay(endpoint, webhookID: webhookID, since: since))
        case .enable(let user):
            try await note(entry)
            _ = try await store.set(user, isDisabled: false)
            return asker.respond(HTTPResponse(204))
        case .end(let id, let reason, let requestID):
            var stored = try await store.load([id])[0]
            if case .alias(let target, _)? = stored?.record { stored = try await store.load([target])[0] }
            guard case .call(let call)? = stored?.record else {
                return asker.refuse(Problem(SignalingError(.callNotFound, "no such call")))
            }
            let state = call.snapshot.member(call.inviter)?.state.rawValue
            guard call.isLive else {
                return asker.refuse(Problem(SignalingError(.callEnded, "the call has ended", state: state)))
            }
            guard let end = AdminAct.request(toEnd: call.snapshot, reason, requestID) else {
                let nobody = "nobody is in the call; it ends by itself within a minute"
                return asker.refuse(Problem(SignalingError(.invalidState, nobody, state: state)))
            }
            request = end
        }
        try await note(entry)
        pass(on: request, asker)
    }

    /// Writes an act into the audit log. Returns the time of the act.
    @discardableResult
    private func note(_ entry: AuditEntry) async throws(StoreError) -> Milliseconds {
        // Acts of the same millisecond would have no order in the store.
        lastAct = max(try await store.now(), lastAct + 1)
        var entry = entry
        entry.time = lastAct
        try await store.add(entry)
        return entry.time
    }

    private func pass(on request: RelayedRequest, _ asker: Asker) {
        if !relay.post(AskedRequest(request: request, asker: asker)) { asker.refuse(.overloaded) }
    }

    /// Returns the reason why a device has no part in a call; nil when the device has a part in the call.
    private func refusal(_ device: DeviceAddress, _ id: CallID) async throws(StoreError) -> SignalingError? {
        guard case .call(let call)? = try await store.load([id])[0]?.record,
            let member = call.snapshot.member(device.userID)
        else { return SignalingError(.callNotFound, "no such call") }
        guard call.isLive else { return SignalingError(.callEnded, "the call has ended") }
        guard member.state == .accepted else {
            return SignalingError(.invalidState, "the user is not in the call", state: member.state.rawValue)
        }
        return member.device == device.deviceID ? nil : SignalingError(.answeredElsewhere, "on another device")
    }

    /// Returns the same fields as the responses to `call.get` and `call.trace`.
    private func call(_ id: CallID, withTimeline: Bool) async throws(StoreError) -> HTTPResponse {
        var stored = try await store.load([id])[0]
        if case .alias(let target, _)? = stored?.record { stored = try await store.load([target])[0] }
        guard let stored, case .call(let call) = stored.record else {
            return Problem(SignalingError(.callNotFound, "no such call")).response
        }
        let timeline = withTimeline ? try await store.timeline(of: call.callID) : nil
        let success = Response.Success(
            call: call.snapshot, time: call.updatedAt, reports: stored.reports, timeline: timeline)
        let response = Response(id: RequestID("-")!, outcome: .success(success))
        return RelayedRequest.Answer.passed(on: DownMessage.response(response).encoded(), 200)
    }

    /// Returns the user's devices that are online, were online, or are registered for pushes.
    private func devices(of user: UserID, isAdmin: Bool) async throws(StoreError) -> HTTPResponse {
        let now = try await store.now()
        if sightings.isDue(at: now) { try await store.readSightings() }
        let known = try await store.devices(of: [user])[0]
        let registrations = try await store.registrations(of: [user])[0]
        let devices = Set(known.map(\.device) + registrations.map(\.device)).sorted()
        let isDisabled = isAdmin ? try await store.adminSettings().disabledUsers.contains(user) : nil
        return .json(200) { writer in
            writer.field("disabled", isDisabled)
            writer.array("devices") { writer in
                for device in devices {
                    let online = known.first { $0.device == device && $0.isReachable(at: now, lease: lease) }
                    writer.object { writer in
                        writer.field("device", device.deviceID.string)
                        writer.field("online", online != nil)
                        writer.field("since", online?.since)
                        writer.array("push") { writer in
                            for registration in registrations where registration.device == device {
                                writer.object { writer in
                                    writer.field("platform", registration.key.platform.rawValue)
                                    writer.field("app", registration.key.app.string)
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
