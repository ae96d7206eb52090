import CallCore
import CallStore
import SignalingProtocol

/// Serves requests that concern no single call: a user's history, profiles and blocks (docs/protocol.md, section 2,
/// Queries and Users).
extension BatchService {
    func serveUserRequest(_ received: ReceivedRequest) async {
        let user = received.device.userID
        // `Intake` checked the same limit, but responses to requests of the same batch may have used up the limit
        // since.
        var counts = Counts()
        if !received.request.body.isForBackends,
            let retryAfter = context.budgets.debt(.sentBytes(user), now, &counts)
        {
            context.counters.add(counts)
            _ = answer(received, .failure(.rateLimited(retryAfter)))
            return
        }
        do throws(StoreError) {
            let outcome: Response.Outcome
            var isWrite = false
            switch received.request.body {
            case .query(let query): outcome = try await history(of: user, query)
            case .userUpdate(let update):
                outcome = try await updated(user, update)
                isWrite = true
            case .userQuery(let query): outcome = try await users(query.userIDs, askedBy: user)
            case .userBlock(let body): outcome = try await set(Block(by: user, of: body.userID), body.isBlocked)
            case .userBlockList: outcome = .answer(.blocked(try await store.blockList(of: user)))
            case .userSignOut(let device):
                try await keepOut(user, device.map { [DeviceAddress(userID: user, deviceID: $0)] })
                outcome = .answer(.done(user))
            case .userDelete:
                try await delete(user)
                outcome = .answer(.done(user))
                isWrite = true
            case .pushRegister(let body):
                outcome = try await registerPushes(body, received.device)
                isWrite = true
            case .pushUnregister(let body):
                outcome = try await unregisterPushes(body, received.device)
                isWrite = true
            default: preconditionFailure("served with its call or message")
            }
            context.health.answered(isWrite: isWrite)
            charge(answer(received, outcome), to: user)
        } catch {
            context.failed(error)
            answerUnavailable(received)
        }
    }

    /// Publishes the response. Returns its size in bytes.
    private func answer(_ received: ReceivedRequest, _ outcome: Response.Outcome) -> Int {
        context.counters.add(.responses, outcome.name)
        let answer = context.encoder.response(
            received.request.id, outcome, to: received.device, received.path)
        send(answer)
        return answer.payload.count
    }

    private func history(of user: UserID, _ query: Request.Query) async throws(StoreError) -> Response.Outcome {
        var place: HistoryPlace?
        if let cursor = query.cursor, cursor != Answer.lastCursor {
            guard let known = HistoryPlace(cursor) else {
                return .failure(SignalingError(.badRequest, "cursor: not a cursor of the service"))
            }
            place = known
        }
        let count = query.count ?? ServiceBounds.callsPerPage
        let places = try await store.history(of: user, after: place, limit: count + 1)
        var page = HistoryPage(of: user, after: place, places, count: count)
        while !page.wanted.isEmpty { page.add(try await store.load(page.wanted)) }
        return page.answer
    }

    private func updated(_ user: UserID, _ update: Request.UserUpdate) async throws(StoreError) -> Response.Outcome {
        let profile = try await store.update(user, update)
        let isOnline = answers.isOnline(try await store.devices(of: [user])[0])
        return .answer(.user(profile.snapshot(of: user, isOnline: isOnline)))
    }

    private func set(_ block: Block, _ isBlocked: Bool) async throws(StoreError) -> Response.Outcome {
        guard block.user != block.blocked else {
            return .failure(SignalingError(.badRequest, "userID: is the user's own"))
        }
        guard try await store.set(block, isBlocked) else {
            return .failure(SignalingError(.tooLarge, "at most \(Limits.blockedUsers) users can be blocked"))
        }
        return .answer(.blocked(try await store.blockList(of: block.user)))
    }

    // MARK: For backends

    /// Signs a user out on some devices, or on all, and ends the registrations of these devices for pushes. The
    /// registrations go before the sessions end: a call that rings in between must not wake a device.
    func keepOut(_ user: UserID, _ some: [DeviceAddress]? = nil) async throws(StoreError) {
        var devices = some ?? []
        if some == nil { devices = try await allDevices(of: user) }
        for device in devices { _ = try await store.unregister(device, nil, nil) }
        try await signOut(devices)
    }

    /// The devices of a user that have a session, or are registered for pushes.
    private func allDevices(of user: UserID) async throws(StoreError) -> [DeviceAddress] {
        let known = try await store.devices(of: [user])[0].map(\.device)
        let registered = try await store.registrations(of: [user])[0].map(\.device)
        return Set(known + registered).sorted()
    }

    /// Ends the sessions of these devices, as a logout does. A device without a session is skipped. The calls of a
    /// device are told also after its session has ended, since an earlier attempt may have ended the session and then
    /// failed.
    private func signOut(_ devices: [DeviceAddress]) async throws(StoreError) {
        guard let user = devices.first?.userID else { return }
        let known = try await store.devices(of: [user])[0].filter { devices.contains($0.device) }
        let areAllTold = try await serveDepartures(
            known.map { (session: DeviceSession($0.device, id: $0.session, broker: $0.broker), reason: .logout) },
            isRepeated: true)
        guard areAllTold else { throw StoreError(.unsettled, "the sign-out was not committed to a call") }
    }

    /// Erases the user's data, after signing the user out on all devices and out of every call: the writes that follow
    /// from that come first.
    private func delete(_ user: UserID) async throws(StoreError) {
        try await signOut(try await store.devices(of: [user])[0].map(\.device))
        try await leaveCalls(user)
        await Timelines(context: context).write()
        try await store.erase(user)
    }

    private func leaveCalls(_ user: UserID) async throws(StoreError) {
        let live = try await liveCalls(of: [user], limit: ServiceBounds.callsOfUser)[0]
        for place in stride(from: 0, to: live.count, by: ServiceBounds.callsPerWelcome) {
            try await leave(Array(live[place...].prefix(ServiceBounds.callsPerWelcome)), user)
        }
    }

    private func leave(_ callIDs: [CallID], _ user: UserID) async throws(StoreError) {
        var works = WorkList<CallID, CallEvent>()
        for (id, stored) in zip(callIDs, try await store.load(callIDs)) {
            guard case .call(let call)? = stored?.record, let body = call.leave(of: user) else { continue }
            let request = Request(id: RequestID("deleted")!, body: body)
            let device = DeviceAddress(userID: user, deviceID: .server)
            var path = ReplyPath()
            path.isWanted = false
            works.append(.request(ReceivedRequest(device: device, request: request, path: path)), to: id)
        }
        guard await serveCalls(works.works).isEmpty else {
            throw StoreError(.unsettled, "the user's leaving was not committed to a call")
        }
    }

    private func users(_ users: [UserID], askedBy user: UserID) async throws(StoreError) -> Response.Outcome {
        answers.users(users, try await store.read(answers.queries(users, askedBy: user)))
    }

    private var answers: UserAnswers { UserAnswers(settings: settings, now: now) }
}

extension Call {
    /// Returns the request that makes the member leave the call, or nil when the member cannot leave.
    fileprivate func leave(of user: UserID) -> Request.Body? {
        guard isLive, let member = member(user) else { return nil }
        if member.state.isPending { return .reject(.init(callID: callID)) }
        guard member.state == .accepted else { return nil }
        if mode == .advanced { return .quit(.init(callID: callID)) }
        return user == inviter ? .cancel(.init(callID: callID)) : nil
    }
}
