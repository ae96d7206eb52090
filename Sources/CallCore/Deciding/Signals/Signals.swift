import SignalingProtocol

/// Signals between members, and reports of devices. Neither changes the call (docs/protocol.md, section 2, Signals and
/// Reports).
extension Deciding {
    /// Passes a signal on to the accepted devices. A signal causes no write.
    func decideSignal(_ received: ReceivedSignal, _ stored: StoredRecord?, _ decision: inout Decision) {
        do throws(SignalingError) {
            // For other users, an alias is only an id in use.
            let isOwnID = decision.subject.alias.map { $0.origin.device.userID == received.device.userID } ?? true
            guard let call = decision.call, isOwnID else { throw .callNotFound }
            let errors = try call.judge(received.signal, from: received.device.userID)
            let reached = call.recipients(of: received.signal, from: received.device.userID)
            let signal = BellwireSignal(
                callID: call.callID, from: received.device, seq: received.signal.seq, stream: received.signal.stream,
                data: received.signal.data)
            if !reached.isEmpty { decision.signals.append(PassedSignal(signal: signal, devices: reached)) }
            decision.counts.add(.signals, reached.count)
            // A burst of signals notes a single sign of life of its sender, so that not every signal causes a write.
            let lastHeard = stored?.heard.first { $0.userID == received.device.userID }?.at ?? 0
            if lastHeard + settings.heartbeatInterval / 2 < now { heard(received.device, &decision) }
            guard received.id != nil else { return }
            answer(
                received,
                success(
                    call,
                    RequestOutcome(key: received.key, type: Request.Body.signal(received.signal).type, errors: errors)),
                &decision)
        } catch {
            answer(received, .failure(error), &decision)
        }
    }

    private func answer(_ received: ReceivedSignal, _ outcome: Response.Outcome, _ decision: inout Decision) {
        if let id = received.id {
            decision.counts.add(.responses, outcome.name)
            decision.reply(
                Reply(
                    device: received.device, content: .response(id, outcome), path: received.path)
            )
        } else if case .failure(let error) = outcome {
            decision.counts.add(.messagesRefused, error.code.rawValue)
            decision.reply(
                Reply(device: received.device, content: .error(error), path: ReplyPath(brokers: received.path.brokers)))
        }
    }

    /// Keeps the milestones of a device's report beside the call, and counts them.
    func decideReport(
        _ report: Request.Report, _ received: ReceivedRequest, _ stored: StoredRecord?, _ decision: inout Decision
    ) throws(SignalingError) -> Response.Outcome {
        guard let machine = decision.subject.machine else { throw SignalingError.callNotFound }
        try machine.getRequested(by: received.device.userID)
        let known = decision.reports ?? stored?.reports ?? []
        let reports = try merged(known, report.milestones, of: received.device)
        let role = received.device.userID == machine.call.inviter ? "caller" : "callee"
        // The milestones are written first, and not with the acks, which may be lost: a report with the response `ok`
        // is kept.
        decision.firstNotes += report.milestones.map { .milestone(machine.call.callID, received.device, $0) }
        decision.observed += report.milestones.map { ($0, role) }
        decision.reports = reports
        return success(
            machine.call, RequestOutcome(key: received.key, type: received.request.body.type), reports: reports)
    }

    private func merged(
        _ known: [DeviceReport], _ milestones: [Milestone], of device: DeviceAddress
    ) throws(SignalingError) -> [DeviceReport] {
        var reports = known
        let place = reports.firstIndex { $0.device == device } ?? reports.count
        if place == reports.count { reports.append(DeviceReport(device: device, milestones: [])) }
        for milestone in milestones {
            reports[place].milestones.removeAll { $0.name == milestone.name }
            reports[place].milestones.append(milestone)
        }
        reports[place].milestones.sort { $0.name < $1.name }
        let own = reports.reduce(0) { $0 + ($1.device.userID == device.userID ? $1.milestones.count : 0) }
        guard reports[place].milestones.count <= Limits.milestonesPerDevice, own <= Limits.milestonesPerUser else {
            throw SignalingError(
                .badRequest,
                "milestones: a device has at most \(Limits.milestonesPerDevice), a user \(Limits.milestonesPerUser)")
        }
        return reports.sorted { $0.device < $1.device }
    }
}
