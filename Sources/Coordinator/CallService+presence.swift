import CallCore
import CallStore
import SignalingProtocol

/// Devices coming and going (docs/protocol.md, section 1).
extension CallService {
    func servePresence(_ message: InboundMessage, of device: DeviceAddress) {
        switch PresenceMessage.decode(message.payload, maxBytes: settings.maxPayload) {
        case .failure(let error): refuse(error, topic: settings.topics.down(device))
        // A device that flaps learns of it by the welcome that does not come, and asks again.
        case .success where excess(.presence(device)) != nil:
            counters.add(.messagesRefused, ErrorCode.rateLimited.rawValue)
        case .success(let presence):
            do throws(StoreError) {
                if let clockFailure { throw clockFailure }
                switch presence.status {
                case .online:
                    try cameOnline(device, session: presence.session, tokenExpiresAt: message.tokenExpiresAt)
                case .offline(let reason): try wentOffline(device, session: presence.session, reason)
                }
            } catch {
                // The device publishes its presence again until it is welcomed; a lost goodbye is bounded by the
                // invitation's timeout.
                failed(error)
            }
        }
    }

    private func cameOnline(
        _ device: DeviceAddress, session: String, tokenExpiresAt: Int64?
    ) throws(StoreError) {
        let outcome = try store.cameOnline(device, session: session, policy: settings.presence)
        guard outcome == .current else {
            counters.add(.presence, "over")
            return
        }
        counters.add(.presence, "online")
        // The clock is read again: a session that begins now must not lie before the calls that it is owed.
        readClock()
        if let clockFailure { throw clockFailure }
        let live = try store.calls(
            of: device.userID, endedAfter: .max - 1, limit: ServiceBounds.callsPerWelcome + 1)
        let recent = try store.calls(
            of: device.userID, endedAfter: now - settings.calls.endedRetention, limit: ServiceBounds.callsPerWelcome)
        let listed = live.prefix(ServiceBounds.callsPerWelcome)
        let calls = try store.load(Array(listed)).compactMap { stored -> CallSnapshot? in
            // The index may name a call into which the user was about to be invited when somebody died.
            guard case .call(let call)? = stored?.record, call.isLive, call.member(device.userID) != nil else {
                return nil
            }
            return call.snapshot
        }
        let place = outbox.count
        welcome(
            device, session: session, tokenExpiresAt: tokenExpiresAt, calls, omitted: live.count - listed.count)
        let owing = listed + recent.filter { !live.contains($0) }
        let isDone = serve(owing.map { CallWork(callID: $0, events: [.cameOnline(device)]) })
        // Without its welcome the device publishes its presence again, and what could not be served now is served then.
        if !isDone { outbox.remove(at: place) }
        try sendWaitingMessages(to: device)
    }

    /// At the beginning of a session, and not whenever presence is renewed.
    private func sendWaitingMessages(to device: DeviceAddress) throws(StoreError) {
        let messages = try store.messages(for: device.userID, limit: ServiceBounds.messagesPerWelcome)
        guard !messages.isEmpty else { return }
        let known = try presence(of: [device.userID])[device.userID]?.first { $0.device == device }
        guard let known, known.since + ServiceBounds.newSession > now else { return }
        serveMessages(messages.map { MessageWork(id: $0, events: [.cameOnline(device)]) })
    }

    private func wentOffline(
        _ device: DeviceAddress, session: String, _ reason: PresenceMessage.OfflineReason
    ) throws(StoreError) {
        guard try store.wentOffline(device, session: session, policy: settings.presence) else {
            counters.add(.presence, "stale")
            return
        }
        counters.add(.presence, reason.rawValue)
        let callIDs = try store.calls(of: device.userID, endedAfter: .max - 1, limit: ServiceBounds.callsPerWelcome)
        serve(callIDs.map { CallWork(callID: $0, events: [.wentOffline(device, reason)]) })
    }

    /// Tells a device that it is known, with the user's live calls; fewer calls rather than more bytes than allowed.
    private func welcome(
        _ device: DeviceAddress, session: String, tokenExpiresAt: Int64?, _ calls: [CallSnapshot], omitted: Int
    ) {
        func payload(_ listed: [CallSnapshot]) -> [UInt8] {
            DownMessage.welcome(
                Welcome(
                    session: session, serverTime: now, heartbeatInterval: seconds(settings.heartbeatInterval),
                    heartbeatTimeout: seconds(settings.calls.heartbeatTimeout), calls: listed,
                    omittedCalls: omitted + calls.count - listed.count, presenceLease: seconds(settings.presence.lease),
                    tokenExpiresAt: tokenExpiresAt)
            ).encoded()
        }
        var room = CallRoom()
        var bytes = payload(Array(calls.prefix { room.takes($0) }))
        // One call may be too large by itself.
        if bytes.count > Limits.downBytes { bytes = payload([]) }
        outbox.append(
            OutboundMessage(
                topic: settings.topics.down(device), payload: bytes,
                expirySeconds: ServiceBounds.messageExpirySeconds))
    }

    private func seconds(_ milliseconds: Milliseconds) -> Int { Int((milliseconds + 999) / 1000) }
}
