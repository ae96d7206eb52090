import SignalingProtocol

/// What a device published on its presence topic.
package struct PresenceChange {
    package let session: DeviceSession
    package let status: PresenceMessage.Status
    /// When the token of the device ends, as far as the broker tells.
    package let tokenExpiresAt: Int64?

    package init(session: DeviceSession, status: PresenceMessage.Status, tokenExpiresAt: Int64?) {
        self.session = session
        self.status = status
        self.tokenExpiresAt = tokenExpiresAt
    }
}

/// A device that came online, with what it is to be told of (docs/protocol.md, section 1).
package struct Arrival {
    package let change: PresenceChange
    /// Live calls, as many as a welcome looks at.
    package let live: [CallID]
    /// How many more there are.
    package let omitted: Int
    /// All calls of which something may be owed.
    package let owing: [CallID]
    /// Waiting messages, when a session begins.
    package let messages: [RecordID]

    package var device: DeviceAddress { change.session.device }

    /// What has to be known of users whose devices came online, in their order.
    package static func lookup(_ users: [UserID], _ settings: ServiceSettings, now: Milliseconds) -> Lookup {
        let recent = now - settings.calls.endedRetention
        // One more than is told, to know whether there are more.
        let live = users.map { CallList.live(of: $0, limit: ServiceBounds.callsPerWelcome + 1) }
        let ended = users.map { CallList(of: $0, endedAfter: recent, limit: ServiceBounds.callsPerWelcome) }
        return Lookup(
            presence: users, calls: live + ended,
            messages: users.map { MessageList(for: $0, limit: ServiceBounds.messagesPerWelcome) })
    }

    /// Of all that came online together, from what `lookup` found for them.
    package static func all(_ changes: [PresenceChange], _ findings: Findings, now: Milliseconds) -> [Arrival] {
        changes.indices.map { index in
            let change = changes[index]
            let live = findings.calls[index]
            let listed = Array(live.prefix(ServiceBounds.callsPerWelcome))
            // Messages at the beginning of a session, and not whenever presence is renewed.
            let known = findings.presence[index].first { $0.device == change.session.device }
            let isNew = known.map { $0.since + ServiceBounds.newSession > now } ?? false
            return Arrival(
                change: change, live: listed, omitted: live.count - listed.count,
                owing: listed + findings.calls[changes.count + index].filter { !live.contains($0) },
                messages: isNew ? findings.messages[index] : [])
        }
    }

    /// Of those of its calls that live and have the user in them; the index may name a call into which the user was about to be invited
    /// when somebody died.
    package func calls(_ known: [CallID: Call]) -> [Call] {
        live.compactMap { known[$0] }.filter { $0.isLive && $0.hasMember(device.userID) }
    }

    /// Tells the device that it is known, with the user's live calls; fewer calls rather than more bytes than allowed.
    /// `tokenExpiresAt`: by the same clock as `now`.
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
        // One call may be too large by itself.
        return bytes.count > Limits.downBytes ? payload([]) : bytes
    }

    private func seconds(_ milliseconds: Milliseconds) -> Int { Int((milliseconds + 999) / 1000) }
}
