import HTTPServing
import SignalingProtocol

extension StreamLine {
    /// Sends a comment to idle streams, so that proxies do not take the silence for the end of the connection.
    mutating func showLife(_ now: Int64, _ sign: [UInt8]) {
        for number in streams.keys where streams[number]!.nextSign <= now {
            streams[number]!.nextSign = now + Self.sign
            streams[number]!.noteArrival()
            _ = streams[number]!.opened.stream.send(sign)
        }
    }

    /// Sends an event to each stream that does not know the event yet. Returns false when no stream takes the event.
    mutating func take(_ event: Event, now: Int64) -> Bool {
        var isTaken = false
        for number in streams.keys where streams[number]!.take(event, as: device.userID, now: now) { isTaken = true }
        return isTaken
    }

    /// Notes that the user changed a call by a request, for which no event follows.
    /// - Parameter made: the call, if the user has made the call.
    mutating func did(_ callID: CallID, goesOn: Bool, made: HeardCall?, now: Int64) {
        for number in streams.keys { streams[number]!.did(callID, goesOn: goesOn, made: made, now: now) }
    }

    /// The calls that the device has certainly received on open streams.
    var arrived: [CallID: HeardCall] {
        mutating get {
            var arrived: [CallID: HeardCall] = [:]
            for number in streams.keys {
                streams[number]!.noteArrival()
                arrived.merge(streams[number]!.arrived)
            }
            return arrived
        }
    }

    /// The latest live calls that a stream knows of, each with the revision that all streams know.
    var goingOn: [(callID: CallID, revision: Int)] {
        var known: [CallID: HeardCall] = [:]
        for stream in streams.values { known.merge(stream.calls.filter(\.value.goesOn)) }
        let latest = known.sorted { ($0.value.time, $0.key.string) > ($1.value.time, $1.key.string) }
        return latest.prefix(EventIDBounds.calls).map { callID, _ in
            (callID, streams.values.map { $0.calls[callID]?.revision ?? 0 }.min() ?? 0)
        }
    }
}

extension StreamLine.Stream {
    /// Notes that the client has received all that was sent; called before more is sent.
    mutating func noteArrival() { if opened.stream.hasArrived { arrived = calls } }

    fileprivate mutating func take(_ event: Event, as user: UserID, now: Int64) -> Bool {
        noteArrival()
        // The event is left unacknowledged: the service resends the event, and there may be room then.
        guard calls[event.callID] != nil || makeRoom(now) else { return false }
        var call = calls[event.callID] ?? HeardCall()
        guard call.isNews(event, to: user) else { return true }
        let notifications = call.take(event, as: user, now: now)
        calls[event.callID] = call
        let id = EventID(calls, now: now)
        for (place, notification) in notifications.enumerated() {
            // A client that receives only the first of two notifications gets both notifications again.
            let isLast = place == notifications.count - 1
            guard opened.stream.send(notification.serverSent(isLast ? id : lastID)) else { return false }
        }
        return notifications.isEmpty ? show(id) : shown(id)
    }

    fileprivate mutating func did(_ callID: CallID, goesOn: Bool, made: HeardCall?, now: Int64) {
        if !goesOn {
            calls[callID]?.over(now)
        } else if let made, calls[callID] == nil, makeRoom(now) {
            calls[callID] = made
        }
        _ = show(EventID(calls, now: now))
    }

    /// Sends an id without an event: the client keeps the id, and reports no event to its user.
    private mutating func show(_ id: EventID) -> Bool {
        guard id != lastID else { return true }
        noteArrival()
        return opened.stream.send(Array("id: \(id.text)\n\n".utf8)) && shown(id)
    }

    private mutating func shown(_ id: EventID) -> Bool {
        lastID = id
        return true
    }

    /// Makes room for another call by forgetting the oldest call that does not ring. Returns false when all calls ring.
    private mutating func makeRoom(_ now: Int64) -> Bool {
        guard calls.count >= StreamLine.mostCalls else { return true }
        let oldest = calls.filter { !$0.value.mayRing(now) }.min { $0.value.time < $1.value.time }
        if let oldest { calls[oldest.key] = nil }
        return oldest != nil
    }
}
