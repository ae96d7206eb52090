import SignalingProtocol

/// A request of a device, with all copies and responses.
struct RequestHistory {
    let request: Request
    let firstSent: Int64
    var lastSent: Int64
    var copies = 1
    var responses = 0
    /// The first `ok` response, and its arrival.
    var success: (outcome: Response.Success, at: Int64)?
    /// The times at which responses arrived, including refusals.
    var answers: [Int64] = []
    /// Whether the latest response was final, or an earlier response was `ok` with a call. Temporary errors are not
    /// final.
    var isAnswered = false
}

extension ErrorCode {
    /// Whether the service could not read the message.
    var isMalformed: Bool { [.badRequest, .tooLarge, .unknownType].contains(self) }

    /// Whether the service asks the device to send the request again.
    var isTemporary: Bool { [.unavailable, .rateLimited, .internal].contains(self) }
}

extension HistoryChecker {
    mutating func sent(_ message: UpMessage, by device: DeviceAddress, _ entry: HistoryEntry) {
        switch message {
        case .request(let request): sent(request, by: device, entry)
        case .ackCall(let callID, let revision):
            mention(callID, entry, creating: false)
            devices[device]?.acked(callID, revision)
        case .ackMessage(let messageID): acked(messageID, by: device)
        case .heartbeat, .signal: break
        }
    }

    private mutating func sent(_ request: Request, by device: DeviceAddress, _ entry: HistoryEntry) {
        let key = RequestKey(device: device, id: request.id)
        if let callID = request.body.callID { mention(callID, entry, creating: true) }
        if case .message(let message) = request.body { sentMessage(message, key) }
        if requests[key] != nil {
            requests[key]?.copies += 1
            requests[key]?.lastSent = entry.at
        } else {
            summary.requests += 1
            requests[key] = RequestHistory(request: request, firstSent: entry.at, lastSent: entry.at)
            noteIntent(request.body, by: device)
        }
        later(.copy(key, sentAt: entry.at), after: tolerances.response)
    }

    /// Records the effects that a request may have on the call even if no response arrives.
    private mutating func noteIntent(_ body: Request.Body, by device: DeviceAddress) {
        guard let callID = body.callID else { return }
        switch body {
        case .invite(let invite): if calls[callID]?.invite == nil { calls[callID]?.invite = (device, invite) }
        case .add(let add): for user in add.invitees { calls[callID]?.additions[user, default: 0] += 1 }
        case .join: calls[callID]?.joiners.insert(device.userID)
        case .cancel, .accept, .reject, .quit, .end, .get, .signal, .report, .trace, .media, .query, .message,
            .userUpdate,
            .userQuery, .userBlock, .userBlockList, .userSignOut, .userDelete, .pushRegister, .pushUnregister,
            .ringCheck:
            break
        }
    }

    mutating func answered(_ response: Response, to device: DeviceAddress, _ entry: HistoryEntry) {
        let key = RequestKey(device: device, id: response.id)
        let named = requests[key]?.request.body.callID
        if let named { mention(named, entry, creating: false) }
        guard var history = requests[key] else {
            report(.answeredTwice, nil, device, "a response to no request: \(response.id)", entry: entry)
            return
        }
        history.responses += 1
        history.answers.append(entry.at)
        if history.responses > history.copies {
            report(
                .answeredTwice, named, device,
                "request \(response.id) was sent \(history.copies) times and answered \(history.responses) times",
                entry: entry)
        }
        switch response.outcome {
        case .success(let success):
            summary.answers["ok", default: 0] += 1
            history.isAnswered = true
            succeeded(success, &history, device, entry)
        case .answer(let answer):
            summary.answers["ok", default: 0] += 1
            history.isAnswered = true
            if case .message(let messageID, let time, let state) = answer {
                answered(messageID, time: time, state: state, to: key, entry)
            }
        case .failure(let error):
            summary.answers[error.code.rawValue, default: 0] += 1
            // A final refusal of an earlier copy does not answer a copy that is refused with a temporary error.
            history.isAnswered = !error.code.isTemporary || history.success != nil
            failed(error, history, device, entry)
            noteRefusal(error, history, device)
        }
        requests[key] = history
    }

    private mutating func succeeded(
        _ success: Response.Success, _ history: inout RequestHistory, _ device: DeviceAddress, _ entry: HistoryEntry
    ) {
        let call = success.call
        mention(call.callID, entry, creating: true)
        checkAge(of: call, askedAt: history.firstSent, device, entry)
        see(call, time: success.time, by: device, entry)
        if let first = history.success {
            let same =
                first.outcome.offline == success.offline && first.outcome.errors == success.errors
                && first.outcome.merged == success.merged
            if !same {
                report(
                    .answeredTwice, call.callID, device,
                    "request \(history.request.id) got two different outcomes", entry: entry)
            }
            return
        }
        history.success = (success, entry.at)
        for fact in Fact.facts(of: history.request, from: device, success) { promise(fact, call.callID, entry) }
    }

    private mutating func failed(
        _ error: SignalingError, _ history: RequestHistory, _ device: DeviceAddress, _ entry: HistoryEntry
    ) {
        if let first = history.success, !error.code.isTemporary, entry.at > first.at + tolerances.response,
            !disturbances.touch(first.at, entry.at)
        {
            report(
                .answeredTwice, first.outcome.call.callID, device,
                "request \(history.request.id) was answered ok, and \(error.code) when it was sent again", entry: entry)
        }
        guard error.code == .callNotFound, let callID = history.request.body.callID,
            let seen = calls[callID]?.seen(before: history.firstSent), seen.call.member(device.userID) != nil
        else { return }
        report(
            .lostCall, callID, device,
            "it is unknown, but revision \(seen.call.revision) had been seen by \(seen.seenBy) before", entry: entry)
    }

    /// Checks that a response is not older than a revision that any device had seen before the request.
    mutating func checkAge(of call: CallSnapshot, askedAt: Int64, _ device: DeviceAddress, _ entry: HistoryEntry) {
        guard let seen = calls[call.callID]?.seen(before: askedAt), seen.call.revision > call.revision else { return }
        report(
            .staleView, call.callID, device,
            "asked at \(clock(askedAt)), answered with revision \(call.revision), but \(seen.seenBy) had seen "
                + "revision \(seen.call.revision) at \(clock(seen.seenAt))", entry: entry)
    }

    private mutating func promise(_ fact: Fact, _ callID: CallID, _ entry: HistoryEntry) {
        guard let call = calls[callID], !call.facts.contains(fact) else { return }
        calls[callID]?.facts.append(fact)
        for view in call.views where view.call.revision >= fact.revision { hold(fact, against: view, call) }
        guard let snapshot = call.view(fact.revision)?.call, let user = fact.decides(in: snapshot) else { return }
        let winners = (calls[callID]?.facts ?? []).filter { $0.decides(in: snapshot) == user }
        let invitations = 1 + (withAliases(call).additions[user] ?? 0)
        if winners.count > invitations {
            let names = winners.map { "\($0.device) (request \($0.requestID))" }.joined(separator: " and ")
            report(
                .twoWinners, callID, nil, "\(user) was invited \(invitations) times, but \(names) all won", entry: entry
            )
        }
    }

    mutating func hold(_ fact: Fact, against view: CallHistory.View, _ call: CallHistory) {
        guard fact.contradiction(in: view.call, call) != nil,
            let what = fact.contradiction(in: view.call, withAliases(call))
        else { return }
        report(
            .okNotReflected, call.callID, nil,
            "request \(fact.requestID) of \(fact.device) was answered ok at revision \(fact.revision), but at revision "
                + "\(view.call.revision) \(what)")
    }

    /// Returns the call with the additions and joiners of the calls that may be aliases of this call. The inviter's own
    /// id of a merged call is an alias (section 2): a request that names the alias is a request on this call, whichever
    /// user sends it. The merge may have happened before any device was told.
    private func withAliases(_ call: CallHistory) -> CallHistory {
        guard let latest = call.latest?.call else { return call }
        var call = call
        for other in calls.values where other.callID != call.callID && other.mayBeAlias(of: latest) {
            call.additions.merge(other.additions) { $0 + $1 }
            call.joiners.formUnion(other.joiners)
        }
        return call
    }
}
