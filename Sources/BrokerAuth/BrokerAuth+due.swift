import SignalingProtocol
import Tokens

/// The due work: tokens that end, and clients that must be disconnected.
extension BrokerAuth {
    /// The time between the warning of a device and the end of its token, in milliseconds.
    static let notice: Int64 = 60_000
    /// The time between telling a client that the session is over and disconnecting the client, in milliseconds. When
    /// the client still sends after that, the kernel resets the connection, and bytes that the client has not read are
    /// lost.
    static let farewell: Int64 = 200

    /// Returns the work that is due at `now`. No work is returned twice. A client is disconnected some time after the
    /// client was told why the session is over.
    package mutating func takeDue(now: Int64) -> [Due] {
        for connection in parting where sessions[connection]?.hasLeft ?? false { remove(connection) }
        parting.removeAll(keepingCapacity: true)
        var due: [Due] = []
        while let entry = schedule.take(dueBy: now) {
            looks += 1
            guard let session = sessions[entry.connection], session.next <= now else { continue }
            if let expiresAt = session.expiresAt, expiresAt <= now {
                end(entry.connection, .tokenExpired)
            } else if let warning = warn(entry.connection, session) {
                due.append(warning)
            }
        }
        let told = leaving.prefix { $0.at <= now }
        leaving.removeFirst(told.count)
        leaving += ended.map { (now + Self.farewell, $0) }
        defer { ended = [] }
        return due + told.compactMap { disconnection($0.ending) } + ended.compactMap { notice($0) }
    }

    /// Replaces the keys. Ends the sessions of clients with a token of a removed key, and returns their number.
    package mutating func replaceKeys(_ keys: KeySet) -> Int {
        verifier.keys = keys
        let orphans = sessions.filter { _, session in
            !session.isOver && session.key.map { !keys.contains($0) } ?? false
        }
        for connection in orphans.keys.sorted() { end(connection, .tokenRevoked) }
        return orphans.count
    }

    /// Ends the session: from now on the connection has no rights.
    mutating func end(_ connection: ConnectionID, _ reason: DisconnectReason) {
        guard let session = sessions[connection], !session.isOver else { return }
        revoke(connection)
        ended.append((connection, reason))
    }

    /// Schedules the next work for the connection.
    mutating func plan(_ connection: ConnectionID) {
        if schedule.isCrowded(connections: sessions.count) {
            schedule.removeAll()
            for (connection, session) in sessions { schedule.add(session.next, connection) }
        } else if let session = sessions[connection] {
            schedule.add(session.next, connection)
        }
    }

    private mutating func warn(_ connection: ConnectionID, _ session: Session) -> Due? {
        guard let device = session.device, let expiresAt = session.expiresAt else { return nil }
        sessions[connection]?.isTold = true
        plan(connection)
        return .tokenWillExpire(
            clientID: session.clientID.string, topic: topics.down(device), expiresAt: expiresAt)
    }

    private func notice(_ ending: Ending) -> Due? {
        guard let session = sessions[ending.connection], isThere(ending.connection, session) else { return nil }
        return .ended(clientID: session.clientID.string, topic: session.device.map(topics.down), ending.reason)
    }

    private func disconnection(_ ending: Ending) -> Due? {
        guard let session = sessions[ending.connection], isThere(ending.connection, session) else { return nil }
        return .disconnect(clientID: session.clientID.string, ending.connection, ending.reason)
    }

    /// Whether the connection still exists and has not been replaced: a disconnect by client id would hit its successor
    /// instead.
    private func isThere(_ connection: ConnectionID, _ session: Session) -> Bool {
        session.isOver && !session.hasLeft && latest[session.clientID] == connection
    }
}
