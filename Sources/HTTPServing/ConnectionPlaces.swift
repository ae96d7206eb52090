/// The bounded places of connections. When all places are taken, a newcomer replaces the connection that has been at
/// rest longest. A connection is at rest when the server owes no response: before its first request is whole, and after
/// each response.
///
/// Streaming connections (with an unfinished response) are counted apart, so that requests get through however many
/// streams there are.
struct ConnectionPlaces {
    enum Place {
        case ordinary
        /// A place for a connection that comes while every ordinary place serves a request. Until an ordinary place can
        /// be had, only requests that the settings call vital are served on such a connection.
        case reserved
        /// The response is a stream that has not ended.
        case streaming
        /// The connection was shut down, and is about to be closed.
        case leaving
    }

    private struct Connection {
        var place: Place
        let address: ClientAddress?
    }

    private struct OfAddress {
        var count = 0
        var resting = ConnectionQueue()
    }

    private let mostConnections: Int
    private let mostReserved: Int
    /// 0 for no bound.
    private let mostPerAddress: Int
    /// The bound of connections that were shut down and are not closed yet; at this bound no further connection gives
    /// way.
    static let mostLeaving = 128

    private var connections: [ConnectionHandle: Connection] = [:]
    private var counts: [Place: Int] = [:]
    private var resting = ConnectionQueue()
    private var restingReserved = ConnectionQueue()
    private var addresses: [ClientAddress: OfAddress] = [:]
    /// The admitted connection until it opens.
    private var admitted = Connection(place: .ordinary, address: nil)

    init(_ settings: HTTPServerSettings) {
        mostConnections = settings.mostConnections
        mostReserved = settings.mostReserved
        mostPerAddress = settings.mostPerAddress
    }

    func place(of connection: ConnectionHandle) -> Place? { connections[connection]?.place }

    /// Admits or refuses a new connection. Returns whether the connection is admitted, and the connections that must be
    /// shut down for this. `opened` follows for an admitted connection.
    mutating func admit(_ address: ClientAddress?) -> (isAdmitted: Bool, givingWay: [ConnectionHandle]) {
        var givingWay: [ConnectionHandle] = []
        func refused() -> (Bool, [ConnectionHandle]) { (false, givingWay) }
        if mostPerAddress > 0, let address, let known = addresses[address], known.count >= mostPerAddress {
            guard let oldest = known.resting.first, leave(oldest) else { return refused() }
            givingWay.append(oldest)
        }
        var place = Place.ordinary
        if counts[.ordinary, default: 0] >= mostConnections {
            if let oldest = resting.first {
                guard leave(oldest) else { return refused() }
                givingWay.append(oldest)
            } else {
                place = .reserved
                if counts[.reserved, default: 0] >= mostReserved {
                    guard let oldest = restingReserved.first, leave(oldest) else { return refused() }
                    givingWay.append(oldest)
                }
            }
        }
        admitted = Connection(place: place, address: address)
        return (true, givingWay)
    }

    mutating func opened(_ connection: ConnectionHandle) {
        connections[connection] = admitted
        counts[admitted.place, default: 0] += 1
        if mostPerAddress > 0, let address = admitted.address { addresses[address, default: OfAddress()].count += 1 }
        rest(connection)
    }

    /// Notes that the server has no work for the connection. Returns the connection that gives way, if this connection
    /// returns from a stream and its ordinary place was taken.
    mutating func rests(_ connection: ConnectionHandle) -> ConnectionHandle? {
        guard let place = place(of: connection), place != .leaving else { return nil }
        var givingWay: ConnectionHandle?
        if place == .streaming {
            if counts[.ordinary, default: 0] >= mostConnections, let oldest = resting.first, leave(oldest) {
                givingWay = oldest
            }
            move(connection, to: .ordinary)
        }
        rest(connection)
        return givingWay
    }

    /// Notes that the connection has a whole request.
    mutating func works(_ connection: ConnectionHandle) { unrest(connection) }

    mutating func streams(_ connection: ConnectionHandle) {
        guard place(of: connection) != .leaving else { return }
        unrest(connection)
        move(connection, to: .streaming)
    }

    /// Whether the connection's request may be served. A connection in a reserved place moves to a free ordinary place,
    /// or takes the place of the ordinary connection that has been at rest longest. This connection is then returned,
    /// and must be shut down.
    mutating func mayServe(
        _ connection: ConnectionHandle, isVital: Bool
    ) -> (mayServe: Bool, givingWay: ConnectionHandle?) {
        guard place(of: connection) == .reserved else { return (true, nil) }
        var givingWay: ConnectionHandle?
        if counts[.ordinary, default: 0] >= mostConnections {
            guard let oldest = resting.first, leave(oldest) else { return (isVital, nil) }
            givingWay = oldest
        }
        let isResting = restingReserved.contains(connection)
        unrest(connection)
        move(connection, to: .ordinary)
        if isResting { rest(connection) }
        return (true, givingWay)
    }

    /// Notes that the connection was, or must now be, shut down. Returns false when too many such connections are not
    /// closed yet.
    @discardableResult
    mutating func leave(_ connection: ConnectionHandle, isBounded: Bool = true) -> Bool {
        guard let place = place(of: connection), place != .leaving else { return true }
        guard !isBounded || counts[.leaving, default: 0] < Self.mostLeaving else { return false }
        unrest(connection)
        move(connection, to: .leaving)
        // The same for the counts of addresses: a newcomer is not refused because of connections that were shut down
        // and are not closed yet.
        forget(connections[connection]?.address)
        return true
    }

    mutating func closed(_ connection: ConnectionHandle) {
        unrest(connection)
        guard let known = connections.removeValue(forKey: connection) else { return }
        counts[known.place, default: 0] -= 1
        if known.place != .leaving { forget(known.address) }
    }

    /// Subtracts one connection of this address.
    private mutating func forget(_ address: ClientAddress?) {
        guard mostPerAddress > 0, let address else { return }
        addresses[address]?.count -= 1
        if addresses[address]?.count == 0 { addresses[address] = nil }
    }

    private mutating func move(_ connection: ConnectionHandle, to place: Place) {
        guard let former = connections[connection]?.place else { return }
        connections[connection]?.place = place
        counts[former, default: 0] -= 1
        counts[place, default: 0] += 1
    }

    private mutating func rest(_ connection: ConnectionHandle) {
        guard let known = connections[connection] else { return }
        if known.place == .reserved { restingReserved.append(connection) } else { resting.append(connection) }
        if mostPerAddress > 0, let address = known.address { addresses[address]?.resting.append(connection) }
    }

    private mutating func unrest(_ connection: ConnectionHandle) {
        resting.remove(connection)
        restingReserved.remove(connection)
        if mostPerAddress > 0, let address = connections[connection]?.address {
            addresses[address]?.resting.remove(connection)
        }
    }
}

/// Connections in the order in which they were appended; each may be removed. All operations take constant time, so
/// that a client at the bound costs no more time than others.
struct ConnectionQueue {
    private struct Link {
        var previous: ConnectionHandle?
        var next: ConnectionHandle?
    }

    private var links: [ConnectionHandle: Link] = [:]
    private(set) var first: ConnectionHandle?
    private var last: ConnectionHandle?

    func contains(_ connection: ConnectionHandle) -> Bool { links[connection] != nil }

    /// Moves or adds the connection to the end.
    mutating func append(_ connection: ConnectionHandle) {
        remove(connection)
        links[connection] = Link(previous: last)
        if let last { links[last]?.next = connection } else { first = connection }
        last = connection
    }

    mutating func remove(_ connection: ConnectionHandle) {
        guard let link = links.removeValue(forKey: connection) else { return }
        if let previous = link.previous { links[previous]?.next = link.next } else { first = link.next }
        if let next = link.next { links[next]?.previous = link.previous } else { last = link.previous }
    }
}
