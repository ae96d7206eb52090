import CallCore

/// A list with a `Work` per id, in the order of their first events.
struct WorkList<ID: Hashable, Event> {
    private(set) var works: [Work<ID, Event>] = []
    private var places: [ID: Int] = [:]

    init() {}

    mutating func append(_ event: Event, to id: ID) {
        if let place = place(of: id) {
            works[place].events.append(event)
        } else {
            works.append(Work(id: id, events: [event]))
            if works.count == Self.few {
                places.reserveCapacity(8 * Self.few)
                for place in works.indices { places[works[place].id] = place }
            } else if works.count > Self.few {
                places[id] = works.count - 1
            }
        }
    }

    /// A list of at least this length uses a dictionary; a shorter list is searched.
    private static var few: Int { 8 }

    private func place(of id: ID) -> Int? {
        guard works.count < Self.few else { return places[id] }
        for place in works.indices where works[place].id == id { return place }
        return nil
    }
}
