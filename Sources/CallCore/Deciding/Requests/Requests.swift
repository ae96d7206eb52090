import SignalingProtocol

/// Requests on a call (docs/protocol.md, section 2).
extension SignalingError {
    static func usedID(for type: String) -> SignalingError {
        var error = SignalingError(.badRequest, "id: was used for another request, \(type)")
        error.isIDUsed = true
        return error
    }
}

extension Deciding {
    func decideRequest(
        _ received: ReceivedRequest, _ callID: CallID, _ stored: StoredRecord?, _ decision: inout Decision
    ) throws(Undecided) {
        guard stored?.record != .unreadable else {
            decision.counts.add(.unreadableRecords)
            reply(received, .failure(SignalingError(.internal, "the call's record cannot be read")), &decision)
            return
        }
        if case .ringCheck(let check) = received.request.body {
            decideRingCheck(check, received, stored, &decision)
            return
        }
        heard(received.device, &decision)
        if let alias = decision.subject.alias, alias.origin.device.userID != received.device.userID {
            // For other users, the alias is only an id in use.
            var error = SignalingError.callNotFound
            if case .invite = received.request.body { error = .callExists }
            reply(received, .failure(error), &decision)
            return
        }
        if let outcome = knownOutcome(of: received, decision) {
            reply(received, outcome, &decision)
            return
        }
        let (reserved, rings) = (decision.reserved.count, decision.rings.count)
        do {
            let outcome = try decideOnCall(received, callID, stored, &decision)
            // This second sign of life is needed because the request may have moved the call to this device.
            heard(received.device, &decision)
            if decision.isVisiblyChanged { noteActing(received.device, &decision) }
            reply(received, outcome, &decision)
        } catch let error as SignalingError {
            decision.reserved.removeSubrange(reserved...)
            decision.rings.removeSubrange(rings...)
            reply(received, .failure(error), &decision)
        } catch let error as Undecided {
            throw error
        } catch {
            reply(received, .failure(SignalingError(.internal, "unexpected failure")), &decision)
        }
    }

    /// Returns the outcome of a request that has succeeded before: a resend changes no state. A call remembers its
    /// invite for as long as the call is stored, and of other requests the last 16 of each device, 128 in all.
    private func knownOutcome(of received: ReceivedRequest, _ decision: borrowing Decision) -> Response.Outcome? {
        guard let call = decision.call else { return nil }
        let type = received.request.body.type
        if let known = call.outcome(of: received.key) {
            // A request with other content under the same id is not a resend and must not look successful.
            guard call.isOutcome(known, of: received.request.body) else { return .failure(.usedID(for: known.type)) }
            return success(call, known, isRepeated: tellsOfRepeats(received))
        }
        guard case .invite = received.request.body else {
            return call.origin == received.key ? .failure(.usedID(for: "call.invite")) : nil
        }
        // The request that made the call is always known, even when other requests are forgotten. With an alias, the
        // merge is known by its outcome: without the outcome the alias was written and the merge was not.
        guard decision.subject.alias == nil, call.origin == received.key else { return nil }
        let outcome = RequestOutcome(key: received.key, type: type, offline: [])
        guard call.isOutcome(outcome, of: received.request.body) else { return .failure(.usedID(for: type)) }
        return success(call, outcome, isRepeated: tellsOfRepeats(received))
    }

    /// Whether the response says that the request was repeated. Only a response to a backend says so; for devices, a
    /// repeated request looks like the first.
    private func tellsOfRepeats(_ received: ReceivedRequest) -> Bool { received.path.level != nil }

    /// Applies a request to the decision. Throws `SignalingError` for a refusal.
    private func decideOnCall(
        _ received: ReceivedRequest, _ callID: CallID, _ stored: StoredRecord?, _ decision: inout Decision
    ) throws -> Response.Outcome {
        if case .invite(let invite) = received.request.body {
            return try decideInvite(invite, received, callID, stored, &decision)
        }
        guard var machine = decision.subject.machine else {
            if case .cancel = received.request.body { rememberCancel(received, stored, &decision) }
            throw SignalingError.callNotFound
        }
        let acting = acting(received)
        var outcome = RequestOutcome(
            key: received.key, type: received.request.body.type, digest: received.request.body.digest)
        let user = received.device.userID
        switch received.request.body {
        case .get:
            try machine.getRequested(by: user)
            return success(machine.call, outcome, reports: decision.reports ?? stored?.reports ?? [])
        case .report(let report): return try decideReport(report, received, stored, &decision)
        case .media:
            try decideMedia(received.device, machine)
            return success(machine.call, outcome)
        case .trace:
            try machine.getRequested(by: user)
            guard let timeline = facts.timelines[machine.call.callID] else {
                throw Undecided.timeline(machine.call.callID)
            }
            return success(
                machine.call, outcome, reports: decision.reports ?? stored?.reports ?? [],
                timeline: received.device.deviceID == .server ? timeline : timeline.told(to: user))
        case .accept(let accept):
            // A common call ends with its answer, so accepting such a call takes no user out of another call.
            let active =
                machine.call.mode == .advanced
                ? try activeCall(of: user, besides: [machine.call.callID], &decision) : nil
            try machine.acceptRequested(accept, acting, activeElsewhere: active)
        case .join(let join):
            let active = try activeCall(of: user, besides: [machine.call.callID], &decision)
            try checkBytes(of: user, in: machine.call, &decision)
            let profile = !machine.call.hasMember(user) ? try facts.profiles(of: [user])[user] : nil
            try machine.joinRequested(join, acting, activeElsewhere: active, profile: profile)
        case .reject(let reject): try machine.rejectRequested(reject, acting, isCheck: false)
        case .cancel(let cancel) where decision.subject.alias != nil:
            guard isMerged(decision) || machine.call.member(user)?.state.isPending ?? false else {
                // The record under this id is not, and will not be, the call to which the alias points.
                decision.subject = Decision.Subject(version: decision.subject.alias?.version ?? 0)
                rememberCancel(received, stored, &decision)
                throw SignalingError.callNotFound
            }
            try machine.mergedCancelRequested(cancel, acting)
        case .cancel(let cancel): outcome.errors = try machine.cancelRequested(cancel, acting)
        case .add(let add):
            // A user outside of the call learns no facts and uses up no limits.
            try machine.getRequested(by: user)
            try checkBytes(of: user, in: machine.call, &decision)
            let withheld = try facts.blocking(user, among: add.invitees)
            let reserved = decision.reserved.count
            let limited = try limit(
                add.invitees, by: user,
                bytes: machine.call.approximateBytes + jsonBytes(of: add.extendedData), withheld: withheld, &decision)
            try checkQuotas(of: user, inviting: add.invitees.filter { !limited.contains($0) }, &decision)
            let known = try invitees(add.invitees, members: add.invitees, limited: limited, withheld: withheld)
            outcome.errors = try machine.addRequested(add, acting, known)
            decision.giveBack(butFor: reserved, invitees: outcome.errors.map(\.userID))
            outcome.offline = try offline(
                add.invitees.filter { user in !outcome.errors.contains { $0.userID == user } },
                withheld: withheld)
        case .quit(let quit): try machine.quitRequested(quit, acting)
        case .end(let end): try machine.endRequested(end, acting)
        case .invite, .signal, .query, .message, .userUpdate, .userQuery, .userBlock, .userBlockList, .userSignOut,
            .userDelete, .pushRegister, .pushUnregister, .ringCheck:
            preconditionFailure("other code serves this request")
        }
        machine.remember(outcome)
        decision.subject.machine = machine
        return success(machine.call, outcome)
    }

    func acting(_ received: ReceivedRequest) -> CallMachine.Acting {
        CallMachine.Acting(key: received.key, now: now)
    }

    /// Whether the invite that left the alias became the acceptance of the call to which the alias points. Between the
    /// two commits, another request may have been faster, and the invite then makes a call of its own.
    private func isMerged(_ decision: borrowing Decision) -> Bool {
        guard let call = decision.call, let alias = decision.subject.alias else { return false }
        return call.outcome(of: alias.origin) != nil
    }

    /// Stores an early cancel for `cancelMemory` (30 s by default): an invite with this id in that time makes a call
    /// that has ended as `cancelled`, and rings no device (section 2). The cancel is answered `callNotFound`.
    private func rememberCancel(_ received: ReceivedRequest, _ stored: StoredRecord?, _ decision: inout Decision) {
        if case .cancelled(let user, let at)? = stored?.record, user != received.device.userID,
            at + settings.cancelMemory > now
        {
            return  // The first user of an id keeps the id. Call ids are random, so this is no accident.
        }
        decision.subject.record = .cancelled(by: received.device.userID, at: now)
    }

    private func reply(_ received: ReceivedRequest, _ outcome: Response.Outcome, _ decision: inout Decision) {
        decision.counts.add(.responses, outcome.name)
        // The timeline leaves out requests of users outside of the call, which may be many, and queries for the
        // timeline.
        if decision.call?.hasMember(received.device.userID) ?? false, !received.request.body.isTrace {
            decision.steps.append(
                .request(received.device, type: received.request.body.type, outcome: outcome.name))
        }
        if case .success = outcome, received.request.body.changesCall { decision.tellsOfChange = true }
        decision.reply(
            Reply(
                device: received.device, content: .response(received.request.id, outcome), path: received.path,
                media: received.request.body.mediaPart))
    }

    /// Notes an ack of the acting device, because its response tells the device the revision.
    private func noteActing(_ device: DeviceAddress, _ decision: inout Decision) {
        guard let call = decision.call, device.deviceID != .server else { return }
        let ack = DeviceAck(device: device, session: facts.session(of: device), revision: call.revision)
        keep(ack, call.callID, &decision)
    }
}

extension Request.Body {
    fileprivate var isTrace: Bool {
        if case .trace = self { true } else { false }
    }
}

extension Response.Outcome {
    /// The outcome as text: `ok` or the error's code.
    package var name: String {
        switch self {
        case .success, .answer: "ok"
        case .failure(let error): error.code.rawValue
        }
    }
}
