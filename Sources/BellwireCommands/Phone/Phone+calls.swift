import BellwireClient
import SignalingProtocol

/// Handles the events of the service, and decides when this phone is done.
extension Phone {
    func handle(_ event: ClientEvent) {
        switch event {
        case .online:
            timeline.line("online", isOnline ? "online again" : "online")
            isOnline = true
        case .offline(let reason):
            timeline.line("offline", "connection lost: \(reason); reconnecting") { $0.field("reason", reason) }
        case .event(let event):
            timeline.event(event)
            follow(event.call, missed: event.missed)
        case .snapshot(let call):
            timeline.call("call.snapshot", nil, call)
            follow(call)
        case .invitationExpired(let call):
            timeline.call("call.expired", "no answer in time, and no word from the service", call)
            over(call.callID, .timeout)
        case .gone(let call):
            timeline.call("call.gone", "the call is over; it ended while this phone was away", call)
            let outcome = CallOutcome(outgoing: call)
            over(call.callID, outcome == .answered ? .answered : .error)
        case .signal(let signal):
            timeline.line("signal", "\(signal.from): \(signal.data)") { writer in
                writer.field("callID", signal.callID.string)
                writer.field("from", signal.from.userID.string)
                writer.field("fromDevice", signal.from.deviceID.string)
                writer.field("data", signal.data)
            }
        case .message(let message):
            timeline.line("message", "\(message.from): \(message.data)") { writer in
                writer.field("messageID", message.messageID.string)
                writer.field("from", message.from.userID.string)
                writer.field("fromDevice", message.from.deviceID.string)
                writer.field("data", message.data)
            }
        case .receipt(let receipt):
            timeline.line("receipt", "message to \(receipt.to): \(receipt.state.rawValue)") { writer in
                writer.field("messageID", receipt.messageID.string)
                writer.field("state", receipt.state.rawValue)
            }
        case .connection: break
        case .tokenWillExpire(let seconds):
            timeline.line("tokenWillExpire", "the token ends in \(seconds) s") { $0.field("seconds", seconds) }
        case .error(let error):
            timeline.line("error", "the service: \(error.message) (\(error.code))") { error.write(to: &$0) }
        }
    }

    /// Applies a newer state of a call.
    func follow(_ call: CallSnapshot, missed: Bool = false) {
        let own = call.member(settings.user)
        let index = calls.firstIndex { $0.snapshot.callID == call.callID }
        let old = index.map { calls[$0].snapshot }
        if let old, old.revision > call.revision { return }
        let isHere = own?.state == .accepted && own?.device == settings.device
        let at: Int
        if let index {
            at = index
        } else {
            calls.append(PhoneCall(snapshot: call, isOutgoing: isHere && call.inviter == settings.user))
            at = calls.count - 1
        }
        let rings = own?.state.isPending == true && call.state != .ended
        let startsToRing = rings && old?.member(settings.user)?.state.isPending != true
        calls[at].snapshot = call
        if rings || isHere { calls[at].isOurs = true }
        // The call may be live again: the user was invited again, or this phone gave up the call too early.
        if rings || isHere, call.state != .ended { calls[at].outcome = nil }
        if startsToRing { rang(call) }
        timeline.changes(from: old, to: call)
        if missed { timeline.line("missed", timeline.isJSON ? nil : "missed call from \(call.inviter)") }
        judge(at)
        if call.state == .active, isHere, call.mode == .advanced, let time = settings.hangUpAfter, !calls[at].hangsUp {
            calls[at].hangsUp = true
            after(time, .hangUp(call.callID))
        }
    }

    private func rang(_ call: CallSnapshot) {
        let own = call.member(settings.user)
        let media = call.media.map { "\($0), " } ?? ""
        let data = call.extendedData.map { ", says: \($0)" } ?? ""
        let others = call.members.filter { $0.userID != settings.user && $0.userID != call.inviter }
        let group = others.isEmpty ? "" : " with " + others.map(\.userID.string).joined(separator: ", ")
        let inviter = own?.invitedBy ?? call.inviter
        timeline.line(
            "ringing", "incoming call from \(inviter)\(group) (\(media)\(call.mode.rawValue))\(data)"
        ) { writer in
            writer.field("callID", call.callID.string)
            writer.field("from", inviter.string)
        }
        if settings.auto == nil, PhoneConsole.hasKeys { timeline.note("a accept, r reject, b busy") }
        if settings.auto != nil, settings.auto != .ignore { after(settings.answerAfter, .answer(call.callID)) }
    }

    /// Decides whether the call has ended for this phone, and with which outcome.
    private func judge(_ index: Int) {
        let call = calls[index].snapshot
        let own = call.member(settings.user)
        let isElsewhere = own?.state == .accepted && own?.device != settings.device
        guard call.state == .ended || own?.state.isLive != true || isElsewhere else { return }
        let isOutgoing = calls[index].isOutgoing || call.callID == outgoing
        calls[index].outcome =
            isOutgoing ? CallOutcome(outgoing: call) : CallOutcome(incoming: call, user: settings.user)
    }

    private func over(_ callID: CallID, _ outcome: CallOutcome) {
        guard let index = calls.firstIndex(where: { $0.snapshot.callID == callID }) else { return }
        calls[index].outcome = outcome
    }

    /// Handles the response to a request.
    func answered(_ request: String, _ callID: CallID, _ outcome: Result<Response.Success, SignalingError>) {
        unanswered -= 1
        timeline.response(request, outcome)
        switch outcome {
        case .success(let success):
            // After a glare merge the response names the call that lives on.
            if request == "call.invite" { outgoing = success.call.callID }
            follow(success.call)
        case .failure(let error):
            guard request == "call.invite", callID == outgoing, !isLeaving else { return }
            if timeline.isJSON { writeError("bellwire call: \(error.message) (\(error.code))") }
            end(error.code == .busy ? .busy : .error)
        }
    }

    // MARK: The end

    /// Checks after each input whether this phone has done its task.
    func settle() {
        guard status == nil else { return }
        if isLeaving {
            if unanswered == 0 { finish() }
            return
        }
        switch settings.role {
        case .call:
            let call = calls.first { $0.snapshot.callID == outgoing }
            if let outcome = call?.outcome { end(outcome) }
        case .listen:
            guard settings.once, let outcome = calls.first(where: { $0.isOurs && $0.outcome != nil })?.outcome else {
                return
            }
            end(outcome)
        }
    }

    private func end(_ outcome: CallOutcome) {
        timeline.line("exit", nil) { writer in
            writer.field("outcome", outcome.rawValue)
            writer.field("status", Int(outcome.exitStatus))
        }
        status = outcome.exitStatus
    }

    /// Leaves at the wish of the user or on a signal: cancels an outgoing call that rings, quits a live call, and then
    /// disconnects. A second call of this function does not wait.
    func leave() {
        guard !isLeaving else { return finish() }
        isLeaving = true
        timeline.line("leaving", "leaving")
        if let outgoing, calls.first(where: { $0.snapshot.callID == outgoing }) == nil {
            // The invite has no response yet: the cancel is an early cancel, so that no phone rings.
            request("call.cancel", outgoing) { client throws(SignalingError) in try await client.cancel(outgoing) }
        }
        for call in calls where call.outcome == nil && isHeld(call) {
            let callID = call.snapshot.callID
            if call.isOutgoing && call.snapshot.state == .ringing {
                request("call.cancel", callID) { client throws(SignalingError) in try await client.cancel(callID) }
            } else if call.snapshot.mode == .advanced {
                request("call.quit", callID) { client throws(SignalingError) in try await client.quit(callID) }
            }
        }
        after(Self.goodbyeLimit, .leaving)
    }

    /// Whether this user is in the call on this device.
    func isHeld(_ call: PhoneCall) -> Bool {
        guard let own = call.snapshot.member(settings.user), call.snapshot.state != .ended else { return false }
        return own.state == .accepted && own.device == settings.device
    }

    /// Ends the phone with the outcome known so far.
    func finish() {
        guard status == nil else { return }
        switch settings.role {
        case .call:
            let call = calls.first { $0.snapshot.callID == outgoing }
            let known = call.map { $0.outcome ?? CallOutcome(outgoing: $0.snapshot) }
            // The phone left before the outcome was known, or before the service confirmed the outcome: the inviter
            // gave up.
            end(known == nil || known == .error ? .cancelled : known ?? .cancelled)
        case .listen:
            guard settings.once else {
                timeline.line("exit", nil) { $0.field("status", 0) }
                status = 0
                return
            }
            end(calls.first { $0.isOurs && $0.outcome != nil }?.outcome ?? .cancelled)
        }
    }
}
