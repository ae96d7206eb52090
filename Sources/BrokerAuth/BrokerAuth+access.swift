import SignalingProtocol

/// What each connection may do.
extension BrokerAuth {
    /// Whether a client may do this. One that was not let in may do nothing. Looked at for each message, twice: the clock is read
    /// only for what is counted.
    package mutating func permits(
        _ access: TopicAccess, _ topic: UnsafeBufferPointer<UInt8>, _ connection: ConnectionID,
        now: @autoclosure () -> Int64
    ) -> Bool {
        guard let session = sessions[connection] else { return false }
        if case .receive = access { return !session.isOver && session.rules.permits(access, topic) }
        if !session.isOver, !isWithinRate(session, now()) { return false }
        guard session.rules.permits(access, topic) else { return false }
        switch access {
        case .publish: return !session.isOver || isPresence(topic, of: session)
        case .subscribe: return !session.isOver && subscribe(connection, session, topic)
        case .unsubscribe: sessions[connection]?.filters.remove(Array(topic))
        case .receive: break
        }
        return true
    }

    /// Counts what is delivered to a client. False when too much waits for it: its session is then over. `socket` says how far its
    /// socket is; it is asked now and then.
    package mutating func delivers(
        _ bytes: Int, to connection: ConnectionID, now: () -> Int64, socket: () -> SocketProgress?
    ) -> Bool {
        guard let limit = sessions[connection]?.maxBacklog else { return true }
        if sessions[connection]!.backlog.add(bytes, limit: limit, now: now, socket: socket) { return true }
        end(connection, .slowReader)
        return false
    }

    /// When the token of a device ends, if this is a presence message of it: the service tells the device (section 1).
    package func tokenExpiry(ofPublisher connection: ConnectionID, topic: UnsafeBufferPointer<UInt8>) -> Int64? {
        guard let session = sessions[connection], isPresence(topic, of: session) else { return nil }
        return session.expiresAt
    }

    private mutating func subscribe(
        _ connection: ConnectionID, _ session: Session, _ filter: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        let bytes = Array(filter)
        guard session.filters.contains(bytes) || session.filters.count < session.maxFilters else { return false }
        sessions[connection]?.filters.insert(bytes)
        // What it is told now reaches it.
        if session.filters.isEmpty { plan(connection) }
        return true
    }

    /// Also what it may not do counts: it costs the broker as much.
    private mutating func isWithinRate(_ session: Session, _ now: Int64) -> Bool {
        guard let limit = limits.publishing, let device = session.device else { return true }
        switch publishing.admit(device.userID, limit, now: now) {
        case nil: return true
        case Self.patience?:
            exclusions.add(device.userID, now: now)
            for connection in (devices[device.userID] ?? []).sorted() { end(connection, .flooding) }
            return false
        default: return false
        }
    }

    private func isPresence(_ topic: UnsafeBufferPointer<UInt8>, of session: Session) -> Bool {
        guard let device = session.device else { return false }
        return topic.elementsEqual(topics.presence(device).utf8)
    }
}
