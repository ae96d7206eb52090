/// The rooms that the app has entered, kept for this login: other users are not told.
struct Rooms: Sendable {
    /// The bound on rooms at the same time.
    static let most = 64
    /// The length of a room's id, in bytes.
    static let longestID = 128

    private var entered: Set<String> = []

    mutating func enter(_ roomID: String) throws(Refusal) {
        guard !roomID.isEmpty, roomID.utf8.count <= Self.longestID else {
            throw .badParameter("roomID: 1 to \(Self.longestID) bytes")
        }
        guard entered.count < Self.most || entered.contains(roomID) else {
            throw Refusal(
                code: .roomModuleTheNumberOfJoinedRoomsHasReachedLimit, message: "at most \(Self.most) rooms at once")
        }
        entered.insert(roomID)
    }

    mutating func leave(_ roomID: String) throws(Refusal) {
        guard entered.remove(roomID) != nil else {
            throw Refusal(code: .roomModuleUserIsNotInTheRoom, message: "the room was not entered, or was left")
        }
    }
}
