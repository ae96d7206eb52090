import CallCore
import CallStore
import SignalingProtocol

extension CallService {
    /// Judges everything that happened to one call against what is stored of it. What it takes of limits is given back when
    /// nothing comes of it (`giveBack`).
    func decide(_ work: CallWork, _ stored: StoredRecord?) throws(StoreError) -> Decision {
        let decision = Decision()
        do throws(StoreError) {
            try decide(work, stored, decision)
            return decision
        } catch {
            giveBack(decision)
            throw error
        }
    }

    private func decide(_ work: CallWork, _ stored: StoredRecord?, _ decision: Decision) throws(StoreError) {
        decision.version = stored?.version ?? 0
        switch stored?.record {
        case .call(let call): adopt(decision, call, acks: stored?.acks ?? [])
        case .alias(let target, let origin):
            decision.alias = (work.id, origin, decision.version)
            try adoptMerged(decision, target)
        case .message, .cancelled, .void, .unreadable, nil: break
        }
        for event in work.events {
            switch event {
            case .request(let received): try decideRequest(received, work.id, stored, decision)
            case .signal(let received): decideSignal(received, stored, decision)
            case .ack(let device, let revision): try decideAck(device, revision, decision)
            case .heartbeat(let device): heard(device, decision)
            case .cameOnline(let device): try decideOnline(device, decision)
            case .wentOffline(let device, let reason):
                decision.note(presence: reason.rawValue, of: device)
                _ = decision.machine?.wentOffline(device, reason: reason, now: now)
            case .deadline: try decideDeadline(stored, work.id, decision)
            }
        }
        // An alias that stands already is not written again.
        if case .alias(let target, _)? = stored?.record, target == decision.call?.callID { decision.alias = nil }
    }

    func adopt(_ decision: Decision, _ call: Call, acks: [DeviceAck]) {
        decision.before = call
        decision.machine = CallMachine(call: call, settings: settings.calls)
        decision.acks = acks
    }

    private func adoptMerged(_ decision: Decision, _ target: CallID) throws(StoreError) {
        guard let merged = try store.load([target])[0], case .call(let call) = merged.record else { return }
        adopt(decision, call, acks: merged.acks)
        decision.version = merged.version
    }

    // MARK: Requests

    private func decideRequest(
        _ received: ReceivedRequest, _ callID: CallID, _ stored: StoredRecord?, _ decision: Decision
    ) throws(StoreError) {
        guard stored?.record != .unreadable else {
            decision.counts.add(.unreadableRecords)
            reply(received, .failure(SignalingError(.internal, "the call's record cannot be read")), decision)
            return
        }
        heard(received.device, decision)
        if let alias = decision.alias, alias.origin.device.userID != received.device.userID {
            // To others the alias is an id in use and nothing more.
            var error = SignalingError.callNotFound
            if case .invite = received.request.body { error = .callExists }
            reply(received, .failure(error), decision)
            return
        }
        if let outcome = knownOutcome(of: received, decision) {
            reply(received, outcome, decision)
            return
        }
        let reserved = decision.reserved.count
        do {
            let outcome = try judge(received, callID, stored, decision)
            // Once more: the request may have moved the call to this device.
            heard(received.device, decision)
            if decision.isVisiblyChanged { noteActing(received.device, decision) }
            reply(received, outcome, decision)
        } catch let error as SignalingError {
            giveBack(decision, butFor: reserved)
            reply(received, .failure(error), decision)
        } catch let error as StoreError {
            throw error
        } catch {
            reply(received, .failure(SignalingError(.internal, "unexpected failure")), decision)
        }
    }

    /// The outcome of a request that succeeded before: a resend changes nothing, however late it comes.
    private func knownOutcome(of received: ReceivedRequest, _ decision: Decision) -> Response.Outcome? {
        guard let call = decision.call else { return nil }
        if let known = call.outcome(of: received.key) { return success(call, known) }
        guard case .invite = received.request.body else { return nil }
        // The request that made the call is known for ever, beyond the ones that are remembered. An alias without its
        // outcome is one whose merge did not come about.
        guard decision.alias == nil, call.origin == received.key else { return nil }
        return success(call, RequestOutcome(key: received.key, offline: []))
    }

    func success(
        _ call: Call, _ outcome: RequestOutcome, reports: [DeviceReport] = [], timeline: Timeline? = nil
    ) -> Response.Outcome {
        .success(
            Response.Success(
                call: call.snapshot, time: call.updatedAt, offline: outcome.offline, errors: outcome.errors,
                merged: outcome.merged, reports: reports, timeline: timeline))
    }

    /// Applies one request to the decision. Throws `SignalingError` for a refusal.
    private func judge(
        _ received: ReceivedRequest, _ callID: CallID, _ stored: StoredRecord?, _ decision: Decision
    ) throws -> Response.Outcome {
        if case .invite(let invite) = received.request.body {
            return try judgeInvite(invite, received, callID, stored, decision)
        }
        guard var machine = decision.machine else {
            if case .cancel = received.request.body { rememberCancel(received, stored, decision) }
            throw SignalingError.callNotFound
        }
        var context = CallMachine.Context(key: received.key, now: now)
        var outcome = RequestOutcome(key: received.key)
        let user = received.device.userID
        switch received.request.body {
        case .get:
            try machine.getRequested(by: user)
            return success(machine.call, outcome, reports: decision.reports ?? stored?.reports ?? [])
        case .report(let report): return try judgeReport(report, received, stored, decision)
        case .trace:
            try machine.getRequested(by: user)
            return success(
                machine.call, outcome, reports: decision.reports ?? stored?.reports ?? [],
                timeline: try timeline(of: machine.call.callID))
        case .accept(let accept):
            // A common call ends with its answer, so accepting one takes nobody out of another call.
            if machine.call.mode == .advanced {
                context.activeElsewhere = try activeCall(of: user, besides: [machine.call.callID], decision)
            }
            try machine.acceptRequested(accept, context)
        case .join(let join):
            context.activeElsewhere = try activeCall(of: user, besides: [machine.call.callID], decision)
            if machine.call.member(user) == nil { try lookUp([user], inviting: [], &context) }
            try machine.joinRequested(join, context)
        case .reject(let reject): try machine.rejectRequested(reject, context)
        case .cancel(let cancel) where decision.alias != nil:
            guard isMerged(decision) || machine.call.member(user)?.state.isPending ?? false else {
                forgetAlias(decision)
                rememberCancel(received, stored, decision)
                throw SignalingError.callNotFound
            }
            try machine.mergedCancelRequested(cancel, context)
        case .cancel(let cancel): outcome.errors = try machine.cancelRequested(cancel, context)
        case .add(let add):
            // A stranger learns nothing, and uses up nothing.
            try machine.getRequested(by: user)
            context.withheld = try blocking(user, among: add.invitees)
            let reserved = decision.reserved.count
            try limit(add.invitees, by: user, &context, decision)
            try checkQuotas(of: user, inviting: add.invitees.count - context.limited.count, decision)
            try lookUp(add.invitees, inviting: add.invitees, &context)
            outcome.errors = try machine.addRequested(add, context)
            giveBack(decision, butFor: reserved, invitees: outcome.errors.map(\.userID))
            outcome.offline = try offline(
                add.invitees.filter { user in !outcome.errors.contains { $0.userID == user } },
                withheld: context.withheld)
        case .quit(let quit): try machine.quitRequested(quit, context)
        case .end(let end): try machine.endRequested(end, context)
        case .invite, .signal, .query, .message, .userUpdate, .userQuery, .userBlock, .userBlockList:
            preconditionFailure("served elsewhere")
        }
        machine.remember(outcome)
        decision.machine = machine
        return success(machine.call, outcome)
    }

    /// Whether the invite that left the alias became the acceptance of the call to which it points. Between the two
    /// commits somebody else may have been faster: then the invite makes a call of its own.
    private func isMerged(_ decision: Decision) -> Bool {
        guard let call = decision.call, let alias = decision.alias else { return false }
        return call.outcome(of: alias.origin) != nil
    }

    /// What stands under the id is not, and will not be, the call to which the alias points.
    private func forgetAlias(_ decision: Decision) {
        guard let alias = decision.alias else { return }
        decision.version = alias.version
        decision.alias = nil
        decision.before = nil
        decision.machine = nil
        decision.notes = []
    }

    /// A cancel of a call that does not exist yet: an invite that comes later rings nobody (section 2).
    private func rememberCancel(_ received: ReceivedRequest, _ stored: StoredRecord?, _ decision: Decision) {
        if case .cancelled(let user, let at)? = stored?.record, user != received.device.userID,
            at + settings.cancelMemory > now
        {
            return  // The first one to name an id keeps it; call ids are random, so this is no accident.
        }
        decision.record = .cancelled(by: received.device.userID, at: now)
    }

    private func reply(_ received: ReceivedRequest, _ outcome: Response.Outcome, _ decision: Decision) {
        decision.counts.add(.responses, outcome.name)
        // A stranger's attempts are nobody's business, and there may be many; nor is a look at the timeline part of it.
        if decision.call?.member(received.device.userID) != nil, !received.request.body.isTrace {
            decision.steps.append(
                .request(received.device, type: received.request.body.type, outcome: outcome.name))
        }
        decision.reply(
            response(received.request.id, outcome, to: received.device, received.correlationData),
            to: received.device.userID)
    }

    /// The acting device knows the revision from its response: that counts as its acknowledgment.
    private func noteActing(_ device: DeviceAddress, _ decision: Decision) {
        guard let call = decision.call else { return }
        let ack = DeviceAck(device: device, session: session(of: device), revision: call.revision)
        acknowledged(ack, call.callID, decision)
    }

    // MARK: Acks and heartbeats

    private func decideAck(
        _ device: DeviceAddress, _ revision: Int, _ decision: Decision
    ) throws(StoreError) {
        guard let call = decision.call, call.member(device.userID) != nil else { return }
        let revision = min(revision, call.revision)
        let ack = DeviceAck(device: device, session: session(of: device), revision: revision)
        let known = decision.acks.first { $0.device == device }
        if known.map({ !$0.isSession(ack.session) || $0.revision < revision }) ?? true {
            decision.steps.append(.ack(device, revision: revision))
        }
        acknowledged(ack, call.callID, decision)
        if revision < call.revision {
            decision.counts.add(.staleAcks)
            if !decision.stale.contains(device), isAnswered(device, staleOn: call.callID, decision) {
                decision.refresh.append(device)
                decision.stale.append(device)
            }
        }
        _ = decision.machine?.acknowledged(by: device.userID, revision: revision, now: now)
        heard(device, decision)
        if call.isOver { decideRest(try presence(of: call.members.map(\.userID)), decision) }
    }

    /// Keeps the ack for the store, and in what delivery is about to look at.
    private func acknowledged(_ ack: DeviceAck, _ callID: CallID, _ decision: Decision) {
        let own = decision.acks.filter { $0.device.userID == ack.device.userID }
        guard own.count < ServiceBounds.acksPerUser || own.contains(where: { $0.device == ack.device }) else { return }
        decision.notes.append(.ack(callID, ack))
        if let place = decision.acks.firstIndex(where: { $0.device == ack.device }) {
            let known = decision.acks[place]
            if !known.isSession(ack.session) || known.revision < ack.revision { decision.acks[place] = ack }
        } else {
            decision.acks.append(ack)
        }
    }

    /// Any message about the call from the device that is in it shows that the member is alive.
    func heard(_ device: DeviceAddress, _ decision: Decision) {
        guard let call = decision.call, call.mode == .advanced, call.isLive,
            let member = call.member(device.userID), member.state == .accepted, member.device == device.deviceID
        else { return }
        decision.notes.append(.heard(call.callID, UserHeard(userID: device.userID, at: now)))
    }

    // MARK: Presence and deadlines

    private func decideOnline(_ device: DeviceAddress, _ decision: Decision) throws(StoreError) {
        if let call = decision.call, call.member(device.userID) == nil { return }
        decision.note(presence: "online", of: device)
        _ = decision.machine?.cameOnline(device)
        decision.refresh.append(device)
        guard let call = decision.call else { return }
        let presence = try presence(of: [device.userID])
        let views = views(of: device.userID, decision.acks, presence)
        guard let view = views.first(where: { $0.address == device }),
            call.owed(to: view, now: now, settings: settings.calls) != nil
        else { return }
        if let known = presence[device.userID]?.first(where: { $0.device == device }) {
            // Written before the device is told: somebody may be ending the call, as of a time before this session began.
            acknowledged(DeviceAck(device: device, session: known.session, revision: 0), call.callID, decision)
        }
        decision.machine?.scheduleDelivery(at: now + ResendSchedule.firstDelay)
    }

    private func decideDeadline(
        _ stored: StoredRecord?, _ callID: CallID, _ decision: Decision
    ) throws(StoreError) {
        if stored?.record == .unreadable {
            counters.add(.unreadableRecords)
            setAside.insert(.call(callID), now: now)
        }
        guard let machine = decision.machine, let due = machine.nextDeadline, due <= now else { return }
        decision.counts.add(.deadlines)
        var context = CallMachine.DeadlineContext(now: now)
        context.listeningSince = listeningSince
        for heard in stored?.heard ?? [] { context.heard[heard.userID] = heard.at }
        let presence = try presence(of: machine.call.members.map(\.userID))
        if let device = machine.call.members[0].device {
            let inviter = DeviceAddress(userID: machine.call.inviter, deviceID: device)
            context.isInviterOnline =
                presence[inviter.userID]?.contains {
                    $0.device == inviter && $0.isReachable(at: now, lease: settings.presence.lease)
                } ?? false
        }
        decision.machine?.deadlineReached(context)
        decideResends(presence, decision)
        // One of which nothing came is no part of the story.
        if decision.isVisiblyChanged || decision.resends.contains(where: \.isTraced) {
            decision.steps.append(.deadline(late: now - due))
        }
    }
}

extension Request.Body {
    fileprivate var isTrace: Bool {
        if case .trace = self { true } else { false }
    }
}
