import HTTPServing
import SignalingProtocol

extension Line {
    /// A comment, so that what stands between takes no silence for an end.
    mutating func showLife(_ now: Int64, _ sign: [UInt8]) {
        for number in streams.keys where streams[number]!.nextSign <= now {
            streams[number]!.nextSign = now + Self.sign
            _ = streams[number]!.opened.stream.send(sign)
        }
    }

    /// Tells each stream what it has not heard. False when none takes it.
    mutating func take(_ event: Event, now: Int64) -> Bool {
        var isTaken = false
        for number in streams.keys where streams[number]!.take(event, as: device.userID, now: now) { isTaken = true }
        return isTaken
    }
}

extension Line.Stream {
    fileprivate mutating func take(_ event: Event, as user: UserID, now: Int64) -> Bool {
        // Left for later: the service sends it again, and there may be room then.
        guard calls[event.callID] != nil || makeRoom(now) else { return false }
        var call = calls[event.callID] ?? HeardCall()
        guard call.isNews(event, to: user) else { return true }
        for notification in call.take(event, as: user, now: now) {
            guard opened.stream.send(notification.serverSent) else { return false }
        }
        calls[event.callID] = call
        return true
    }

    /// For one more call; the oldest goes that does not ring. False when all do.
    private mutating func makeRoom(_ now: Int64) -> Bool {
        guard calls.count >= Line.mostCalls else { return true }
        let oldest = calls.filter { !$0.value.mayRing(now) }.min { $0.value.time < $1.value.time }
        if let oldest { calls[oldest.key] = nil }
        return oldest != nil
    }
}
