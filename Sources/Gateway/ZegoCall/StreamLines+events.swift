import HTTPServing
import SignalingProtocol

/// The handling of inbound messages, and of time.
extension StreamLines {
    /// Takes a message on the topic of a user or of a device.
    mutating func received(_ topic: String, _ payload: [UInt8], now: Int64) {
        guard let listening = listeners[topic], let message = DownMessage.decode(payload) else { return }
        for device in listening { change(device) { lines, line in lines.received(message, &line, now) } }
    }

    private mutating func received(_ message: DownMessage, _ line: inout StreamLine, _ now: Int64) {
        switch message {
        case .welcome(let welcome): welcomed(welcome, &line, now)
        case .event(let event): tell(event, &line, now)
        case .error(let error):
            guard error.code == .sessionOver, error.session == line.session else { return }
            // Two gateways at different brokers that began anew at once would take the device from each other without
            // end.
            if error.reason == "takenOver" { reclaim(&line, now) } else { begin(&line, now) }
        case .response, .signal, .message, .receipt, .tokenWillExpire: break
        }
    }

    private mutating func welcomed(_ welcome: Welcome, _ line: inout StreamLine, _ now: Int64) {
        guard welcome.session == line.session else { return reclaim(&line, now) }
        let isNews = if case .online = line.standing { false } else { true }
        let lease = welcome.presenceLease.map { Int64($0) * 1_000 } ?? StreamLineBounds.lease
        line.standing = .online(next: now + lease / 2)
        guard isNews else { return }
        askForMissed(line)
        guard line.nextQuestion != nil else { return }
        for stream in line.streams.values { _ = stream.opened.stream.send(Self.online) }
        line.nextQuestion = now + StreamLineBounds.question
    }

    /// Publishes presence again after a pause. Another gateway has streams of this device; neither gateway knows when
    /// the other's streams end.
    private func reclaim(_ line: inout StreamLine, _ now: Int64) {
        guard case .online(let next) = line.standing else { return }
        line.standing = .online(next: min(next, now + Int64.random(in: StreamLineBounds.reclaim)))
    }

    /// Asks the service for the events that ended calls caused while the device was away. In a new session the service
    /// resends only the deliveries of live calls; the later changes of an ended call follow only after an ack of an
    /// earlier revision. The gateway asks twice, because the reply comes only once and may be lost. An ack names no
    /// session: the ack of an event that an earlier stream received, here or on another gateway, may be counted for the
    /// session that begins after the ack. Therefore the second request is made in a new session.
    private mutating func askForMissed(_ line: StreamLine) {
        for (callID, revision) in line.goingOn {
            let ack = UpMessage.ackCall(callID, revision: revision)
            actions.append(.publish(topic: topics.up(line.device), payload: ack.encoded()))
        }
    }

    /// Notes that a request of the user has succeeded; the device gets no event for its own request.
    mutating func did(_ device: DeviceAddress, _ call: CallSnapshot, now: Int64) {
        let own = call.member(device.userID)
        let goesOn = call.state != .ended && own?.state.isLive ?? false
        let isMade = goesOn && call.inviter == device.userID && own?.device == device.deviceID
        let heard = isMade ? HeardCall(madeAs: call) : nil
        if let heard {
            made.keep((call.callID, heard), of: device, until: now + Int64(call.timeout) * 1_000)
        }
        change(device) { _, line in line.did(call.callID, goesOn: goesOn, made: heard, now: now) }
    }

    /// Passes an event to the streams, and acks the event if a stream has taken it. Otherwise the service resends the
    /// event in the next session.
    private mutating func tell(_ event: Event, _ line: inout StreamLine, _ now: Int64) {
        guard line.take(event, now: now) else { return }
        line.lastAck = now
        let ack = UpMessage.ackCall(event.callID, revision: event.revision)
        actions.append(.publish(topic: topics.up(line.device), payload: ack.encoded()))
    }

    /// Sends a heartbeat on behalf of the inviter of a ZEGO Call. Its loss does no harm, because the inviter's own
    /// heartbeats follow.
    mutating func beat(_ caller: DeviceAddress, _ callID: CallID) {
        let payload = UpMessage.heartbeat(callID).encoded()
        if isConnected { actions.append(.publish(topic: topics.up(caller), payload: payload)) }
    }

    // MARK: Time

    /// - Parameter counts: whether a bearer's token is still valid.
    mutating func tick(now: Int64, counts: (Bearer) -> Bool) {
        guard nextTick <= now else { return }
        nextTick = now + StreamLineBounds.tick
        left.forget(now)
        made.forget(now)
        for device in lines.keys {
            change(device) { lines, line in
                lines.renew(&line, now)
                line.showLife(now, Self.sign)
                for stream in line.streams.values where !counts(stream.opened.bearer) { stream.opened.stream.end() }
            }
        }
    }

    private mutating func renew(_ line: inout StreamLine, _ now: Int64) {
        switch line.standing {
        case .announcing(let times, let next) where next <= now: announce(&line, times: times, now)
        case .online(let next) where next <= now:
            line.standing = .online(next: now + StreamLineBounds.firstPause)
            actions.append(presence(.online, line))
        case .online where (line.nextQuestion ?? .max) <= now:
            line.nextQuestion = nil
            if line.mayBeMistaken || !line.goingOn.isEmpty { begin(&line, now, isSecond: true) }
        case .away, .announcing, .online: break
        }
    }
}
