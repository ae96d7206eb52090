import SignalingProtocol

/// The rights of each connection.
extension BrokerAuth {
    /// Whether a client has this access. A client that was not admitted has no access. This method is called twice per
    /// message, and therefore reads the clock only for counted access.
    package mutating func permits(
        _ access: TopicAccess, _ topic: UnsafeBufferPointer<UInt8>, _ connection: ConnectionID,
        now: @autoclosure () -> Int64
    ) -> Bool {
        guard let session = sessions[connection] else { return false }
        if case .receive = access { return !session.isOver && session.rules.permits(access, topic) }
        if !session.isOver, !isWithinRate(session, now()) { return false }
        guard session.rules.permits(access, topic) else { return false }
        switch access {
        case .publish: return !session.isOver || isPresence(topic, of: session) || isExamination(topic, of: session)
        case .subscribe: return !session.isOver && subscribe(connection, session, topic)
        case .unsubscribe: sessions[connection]?.filters.remove(Array(topic))
        case .receive: break
        }
        return true
    }

    /// Counts a delivery to a client. Returns false when too many bytes wait for the client: the client's session is
    /// then over. `socket` returns the progress of the client's socket, and is called now and then.
    package mutating func delivers(
        _ bytes: Int, to connection: ConnectionID, now: () -> Int64, socket: () -> SocketProgress?
    ) -> Bool {
        guard let limit = sessions[connection]?.maxBacklog else { return true }
        if sessions[connection]!.backlog.add(bytes, limit: limit, now: now, socket: socket) { return true }
        end(connection, .slowReader)
        return false
    }

    /// Returns the time when a device's token ends if `topic` is the device's presence topic, otherwise nil. The
    /// service tells this time to the device (section 1).
    package func tokenExpiry(ofPublisher connection: ConnectionID, topic: UnsafeBufferPointer<UInt8>) -> Int64? {
        guard let session = sessions[connection], isPresence(topic, of: session) else { return nil }
        return session.expiresAt
    }

    /// Takes the list of disabled users, which a coordinator publishes, and ends the sessions of these users. Other
    /// messages, and lists that cannot be read, change nothing.
    package mutating func published(
        _ topic: UnsafeBufferPointer<UInt8>, _ payload: UnsafeBufferPointer<UInt8>, by connection: ConnectionID
    ) {
        guard case .coordinator? = sessions[connection]?.identity, topic.elementsEqual(topics.disabledUsers.utf8),
            let list = DisabledUsers(payload: Array(payload))
        else { return }
        disabledUsers = list.users
        for user in list.users {
            for connection in (devices[user] ?? []).sorted() { end(connection, .userDisabled) }
        }
    }

    private mutating func subscribe(
        _ connection: ConnectionID, _ session: Session, _ filter: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        let bytes = Array(filter)
        guard session.filters.contains(bytes) || session.filters.count < session.maxFilters else { return false }
        sessions[connection]?.filters.insert(bytes)
        // From now on messages reach the client, so that a warning can reach the client too.
        if session.filters.isEmpty { plan(connection) }
        return true
    }

    /// Counts a client's request, also a request that is not allowed, since a refused request costs the broker as much.
    /// Returns whether the user is within the limit.
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

    /// Whether the topic may be the will topic of a server or coordinator that has tried the broker by `bellwire
    /// doctor` and has left.
    private func isExamination(_ topic: UnsafeBufferPointer<UInt8>, of session: Session) -> Bool {
        session.hasLeft && session.device == nil && topic.starts(with: "\(topics.root)/doctor/".utf8)
    }

    private func isPresence(_ topic: UnsafeBufferPointer<UInt8>, of session: Session) -> Bool {
        guard let device = session.device else { return false }
        return topic.elementsEqual(topics.presence(device).utf8)
    }
}
