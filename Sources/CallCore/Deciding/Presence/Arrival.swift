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

    /// Returns the queries for users whose devices came online, in the order of the users.
    package static func lookup(_ users: [UserID], _ settings: ServiceSettings, now: Milliseconds) -> Lookup {
        let recent = now - settings.calls.endedRetention
        // A further call beyond the limit tells whether calls are left out.
        let live = users.map { CallList.live(of: $0, limit: ServiceBounds.callsPerWelcome + 1) }
        let ended = users.map { CallList(of: $0, endedAfter: recent, limit: ServiceBounds.callsPerWelcome) }
        return Lookup(
            presence: users, calls: live + ended,
            messages: users.map { MessageList(for: $0, limit: ServiceBounds.messagesPerWelcome) })
    }

    /// Returns the arrivals of all changes, from the facts that `lookup` asked for.
    package static func all(_ changes: [PresenceChange], _ findings: Findings, now: Milliseconds) -> [Arrival] {
        changes.indices.map { index in
            let change = changes[index]
            let live = findings.calls[index]
            let listed = Array(live.prefix(ServiceBounds.callsPerWelcome))
            // The device gets queued messages at the beginning of a session, not with each renewal of its presence.
            let known = findings.presence[index].first { $0.device == change.session.device }
            let isNew = known.map { $0.since + ServiceBounds.newSession > now } ?? false
            return Arrival(
                change: change, live: listed, omitted: live.count - listed.count,
                undelivered: listed + findings.calls[changes.count + index].filter { !live.contains($0) },
                messages: isNew ? findings.messages[index] : [])
        }
    }

    /// Returns the live calls that have the user as a member. The list may also name a call that was about to invite
    /// the user when a coordinator died.
    package func calls(_ known: [CallID: Call]) -> [Call] {
        live.compactMap { known[$0] }.filter { $0.isLive && $0.hasMember(device.userID) }
    }

    /// Returns the `welcome` for the device, with the user's live calls. The welcome leaves out calls that would exceed
    /// the limit of bytes. `tokenExpiresAt` is by the same clock as `now`.
    package func welcome(
        _ calls: [Call], _ iceServers: [IceServer], _ settings: ServiceSettings, now: Milliseconds,
        tokenExpiresAt: Milliseconds?
    ) -> [UInt8] {
        func payload(_ listed: [CallSnapshot]) -> [UInt8] {
            DownMessage.welcome(
                Welcome(
                    session: change.session.id, serverTime: now,
                    heartbeatInterval: seconds(settings.heartbeatInterval),
                    heartbeatTimeout: seconds(settings.calls.heartbeatTimeout), calls: listed,
                    omittedCalls: omitted + calls.count - listed.count,
                    presenceLease: seconds(settings.presence.lease), tokenExpiresAt: tokenExpiresAt,
                    iceServers: iceServers)
            ).encoded()
        }
        var room = CallRoom()
        let bytes = payload(Array(calls.map(\.snapshot).prefix { room.takes($0) }))
        // A single call may be too large by itself.
        return bytes.count > Limits.downBytes ? payload([]) : bytes
    }

    private func seconds(_ milliseconds: Milliseconds) -> Int { Int((milliseconds + 999) / 1000) }
}
