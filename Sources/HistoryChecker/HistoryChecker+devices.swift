import SignalingProtocol

/// A device: its connections, the revisions that the device knows, and the calls for which the phone rings.
struct DeviceHistory {
    struct Ring {
        let revision: Int
        let since: Int64
        /// The time at which the phone's own countdown stops the ringing.
        let until: Int64
    }

    struct Known {
        var revision: Int
        var call: CallSnapshot
    }

    private(set) var isConnected = false
    private(set) var session = ""
    /// Whether the device reconnected to its previous broker session. Messages that the broker kept may then
    /// be older than the device's presence.
    private(set) var isKept = false
    /// The time at which the device first published `online:true` in this session.
    var presentedAt: Int64?
    /// The time of the device's welcome in this session.
    var onlineSince: Int64?
    /// The highest revision of each call that the device received in this session, by an event or a response.
    var known: [CallID: Known] = [:]
    /// The highest revision of each call that the device received in earlier sessions.
    private var knownBefore: [CallID: Known] = [:]
    var rings: [CallID: Ring] = [:]
    /// The times at which the device disconnected, for any reason.
    private(set) var departures: [Int64] = []
    private(set) var connectedAt: Int64 = 0

    /// Sessions are compared as bytes, as in every store.
    func isSession(_ other: String) -> Bool { session.hasSameBytes(as: other) }

    mutating func connect(_ session: String, at: Int64) {
        isConnected = true
        let isNew = !isSession(session)
        isKept = !isNew
        self.session = session
        connectedAt = at
        onlineSince = nil
        guard isNew else { return }
        presentedAt = nil
        // A new session starts with no known revisions (section 5). A phone that rings goes on until a message stops
        // the ringing.
        knownBefore.merge(known) { $1 }
        known.removeAll()
    }

    /// Records an ack. A revision that the device acks in this session need not be sent again, even if the device
    /// received the revision in an earlier session.
    mutating func acked(_ callID: CallID, _ revision: Int) {
        guard let before = knownBefore[callID], before.revision >= revision,
            known[callID]?.revision ?? 0 < before.revision
        else { return }
        known[callID] = before
    }

    mutating func disconnect(at: Int64) {
        isConnected = false
        onlineSince = nil
        departures.append(at)
    }

    func wasConnected(from: Int64, to: Int64) -> Bool {
        isConnected && connectedAt <= from && !departed(from: from, to: to)
    }

    func departed(from: Int64, to: Int64) -> Bool { departures.contains { $0 >= from && $0 <= to } }

    mutating func forget(before moment: Int64, _ isOpen: (CallID) -> Bool) {
        // The last departure is kept as evidence that the device has disconnected at some time.
        while departures.count > 1, departures[0] < moment { departures.removeFirst() }
        known = known.filter { isOpen($0.key) }
        knownBefore = knownBefore.filter { isOpen($0.key) }
        rings = rings.filter { isOpen($0.key) }
    }
}

extension HistoryChecker {
    mutating func connected(_ device: DeviceAddress, session: String) {
        devices[device, default: DeviceHistory()].connect(session, at: now)
    }

    mutating func disconnected(_ device: DeviceAddress) {
        stopExpiredRings(of: device)
        for (callID, ring) in devices[device]?.rings ?? [:] { ringingEnded(callID, device, ring, at: now) }
        devices[device]?.disconnect(at: now)
    }

    mutating func presented(_ device: DeviceAddress, _ presence: PresenceMessage) {
        guard presence.status == .online, devices[device]?.presentedAt == nil else { return }
        devices[device, default: DeviceHistory()].presentedAt = now
    }

    mutating func received(_ message: DownMessage, by device: DeviceAddress, _ entry: HistoryEntry) {
        stopExpiredRings(of: device)
        switch message {
        case .response(let response):
            answered(response, to: device, entry)
            if case .success(let success) = response.outcome { learn(success.call, device, isEvent: nil) }
        case .event(let event):
            see(event.call, time: event.time, by: device, entry)
            checkEvent(event, device, entry)
            learn(event.call, device, isEvent: event)
        case .welcome(let welcome): welcomed(welcome, device, entry)
        case .signal, .tokenWillExpire: break
        case .message(let message): received(message, by: device, entry)
        case .receipt(let receipt): received(receipt, by: device, entry)
        case .error(let error) where !error.code.isMalformed: break  // A signal without an id was refused.
        case .error(let error):
            report(.unanswered, nil, device, "a message was refused as a whole: \(error)", entry: entry)
        }
    }

    private mutating func welcomed(_ welcome: Welcome, _ device: DeviceAddress, _ entry: HistoryEntry) {
        for call in welcome.calls where !lost.has(call.callID) {
            if let history = devices[device], let asked = history.presentedAt, history.isSession(welcome.session) {
                checkAge(of: call, askedAt: asked, device, entry)
            }
            see(call, time: nil, by: device, entry)
        }
        guard let history = devices[device], history.isSession(welcome.session) else { return }
        // The device is not online if its presence was lost, whatever the device was told before. Nor is the device
        // online if the will of its previous connection, which names the same session, was served after the presence.
        if history.isKept, disturbances.hadLoss(device, history.connectedAt, entry.at) { return }
        if history.isKept, history.departed(from: history.connectedAt - tolerances.response, to: history.connectedAt) {
            return
        }
        devices[device]?.onlineSince = history.onlineSince ?? entry.at
        for (callID, ring) in history.rings {
            let call = welcome.calls.first { $0.callID == callID }
            guard welcome.omittedCalls == 0 || call != nil,
                !(call?.member(device.userID)?.state.isPending ?? false)
            else { continue }
            devices[device]?.rings[callID] = nil
            ringingEnded(callID, device, ring, at: entry.at)
        }
    }

    /// Records a revision higher than the device's known revision, as devices treat events and responses
    /// (section 5).
    private mutating func learn(_ call: CallSnapshot, _ device: DeviceAddress, isEvent event: Event?) {
        guard let history = devices[device] else { return }
        if let known = history.known[call.callID], known.revision >= call.revision { return }
        devices[device]?.known[call.callID] = .init(revision: call.revision, call: call)
        let isPending = call.state != .ended && call.member(device.userID)?.state.isPending ?? false
        if let ring = history.rings[call.callID], !isPending {
            devices[device]?.rings[call.callID] = nil
            ringingEnded(call.callID, device, ring, at: now)
        } else if isPending, let event, event.name == .invited, let left = event.expiresIn {
            let since = history.rings[call.callID]?.since ?? now
            devices[device]?.rings[call.callID] = .init(
                revision: call.revision, since: since, until: now + Int64(left))
        }
    }

    private mutating func stopExpiredRings(of device: DeviceAddress) {
        for (callID, ring) in devices[device]?.rings ?? [:] where ring.until < now {
            devices[device]?.rings[callID] = nil
            ringingEnded(callID, device, ring, at: ring.until)
        }
    }

    /// Checks that an event fits the receiver's state (section 5).
    private mutating func checkEvent(_ event: Event, _ device: DeviceAddress, _ entry: HistoryEntry) {
        guard let member = event.call.member(device.userID) else {
            report(.wrongEvent, event.callID, device, "the receiver is no member", entry: entry)
            return
        }
        let state = member.state
        let isOver = event.call.state == .ended
        let fits =
            switch event.name {
            case .created: device.userID == event.call.inviter
            case .invited: state.isPending && !isOver
            case .userStateChanged: state.isLive || state == .quit
            case .cancelled: state == .cancelled
            case .timeout: state == .timeout
            case .ended: isOver && event.call.mode == .advanced
            // An invitee who rejected by a ring check may have a connected app that does not know of the rejection.
            case .handledElsewhere: !state.isPending && (member.device != device.deviceID || state == .rejected)
            }
        if !fits {
            let what =
                "\(event.name.rawValue) to a user who is \(state.rawValue) in a call that is "
                + "\(event.call.state.rawValue)"
            report(.wrongEvent, event.callID, device, what, entry: entry)
        }
        for change in event.changes where event.call.member(change.userID)?.state != change.state {
            report(
                .wrongEvent, event.callID, device, "the change of \(change.userID) is not in the call", entry: entry)
        }
    }
}
