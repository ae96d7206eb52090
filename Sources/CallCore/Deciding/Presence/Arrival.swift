import SignalingProtocol

/// A presence message of a device.
package struct PresenceChange {
    package let session: DeviceSession
    package let status: PresenceMessage.Status
    /// The time at which the device's token ends, when the broker reports this time.
    package let tokenExpiresAt: Int64?

    package init(session: DeviceSession, status: PresenceMessage.Status, tokenExpiresAt: Int64?) {
        self.session = session
        self.status = status
        self.tokenExpiresAt = tokenExpiresAt
    }
}

/// A device that came online, with the data for its welcome and its deliveries (docs/protocol.md, section 1).
package struct Arrival {
    package let change: PresenceChange
    /// The live calls that a welcome may list.
    package let live: [CallID]
    /// The number of further live calls.
    package let omitted: Int
    /// All calls with a possible delivery to the device.
    package let undelivered: [CallID]
    /// The queued peer messages for the device, when a session begins.
    package let messages: [RecordID]

    package var device: DeviceAddress { change.session.device }

    /// The queries of an arrival, in the order in which `init` takes the answers.
    private static func queries(_ user: UserID, _ settings: ServiceSettings, now: Milliseconds) -> [Query] {
        let recent = now - settings.calls.endedRetention
        return [
            .devices(user),
            // A further call beyond the limit tells whether calls are left out.
            .calls(.live(of: user, limit: ServiceBounds.callsPerWelcome + 1)),
            .calls(CallList(of: user, endedAfter: recent, limit: ServiceBounds.callsPerWelcome)),
            .messages(MessageList(for: user, limit: ServiceBounds.messagesPerWelcome)),
        ]
    }

    /// Returns the queries for these users, whose devices came online.
    package static func queries(_ users: [UserID], _ settings: ServiceSettings, now: Milliseconds) -> [Query] {
        users.flatMap { queries($0, settings, now: now) }
    }

    /// Returns the arrivals of all changes, from the answers to `queries` about their users.
    package static func all(_ changes: [PresenceChange], _ answers: [QueryAnswer], now: Milliseconds) -> [Arrival] {
        let size = answers.count / max(1, changes.count)
        return changes.enumerated().map { place, change in
            Arrival(change, answers[place * size..<(place + 1) * size], now: now)
        }
    }

    private init(_ change: PresenceChange, _ answers: ArraySlice<QueryAnswer>, now: Milliseconds) {
        let first = answers.startIndex
        let (devices, calls) = (answers[first].devices, answers[first + 1].calls)
        let listed = Array(calls.prefix(ServiceBounds.callsPerWelcome))
        // The device gets queued messages at the beginning of a session, not with each renewal of its presence.
        let known = devices.first { $0.device == change.session.device }
        let isNew = known.map { $0.since + ServiceBounds.newSession > now } ?? false
        self.change = change
        live = listed
        omitted = calls.count - listed.count
        undelivered = listed + answers[first + 2].calls.filter { !calls.contains($0) }
        messages = isNew ? answers[first + 3].messages : []
    }

    /// Returns the live calls that have the user as a member. The list may also name a call that was about to invite
    /// the user when a coordinator died.
    package func calls(_ known: [CallID: Call]) -> [Call] {
        live.compactMap { known[$0] }.filter { $0.isLive && $0.hasMember(device.userID) }
    }

    /// Returns the `welcome` for the device, with the user's live calls, and the media sessions in the welcome. The
    /// welcome leaves out calls, and then sessions, that would exceed the limit of bytes. `tokenExpiresAt` is by the
    /// same clock as `now`.
    package func welcome(
        _ calls: [Call], _ iceServers: [BellwireIceServer], _ sessions: [CallMediaSession], _ settings: ServiceSettings,
        now: Milliseconds, tokenExpiresAt: Milliseconds?
    ) -> (payload: [UInt8], sessions: [CallMediaSession]) {
        func payload(_ listed: [CallSnapshot], _ sessions: ArraySlice<CallMediaSession> = []) -> [UInt8] {
            DownMessage.welcome(
                Welcome(
                    session: change.session.id, serverTime: now,
                    heartbeatInterval: seconds(settings.heartbeatInterval),
                    heartbeatTimeout: seconds(settings.calls.heartbeatTimeout), calls: listed,
                    omittedCalls: omitted + calls.count - listed.count,
                    presenceLease: seconds(settings.presence.lease), tokenExpiresAt: tokenExpiresAt,
                    iceServers: iceServers, mediaSessions: Array(sessions))
            ).encoded()
        }
        var room = CallRoom()
        var listed = Array(calls.map(\.snapshot).prefix { room.takes($0) })
        var bytes = payload(listed)
        if bytes.count > Limits.downBytes {
            // A single call may be too large by itself.
            listed = []
            bytes = payload(listed)
        }
        var fitting = sessions[...]
        while !fitting.isEmpty {
            let complete = payload(listed, fitting)
            if complete.count <= Limits.downBytes { return (complete, Array(fitting)) }
            fitting = fitting.dropLast()
        }
        return (bytes, [])
    }

    private func seconds(_ milliseconds: Milliseconds) -> Int { Int((milliseconds + 999) / 1000) }
}
