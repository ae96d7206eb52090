import CallCore
import HTTPSending
import SignalingProtocol
import Support
import Tokens

/// A change of a room at a LiveKit server that follows from a revision of its call.
enum RoomDuty: Equatable {
    /// The call has ended.
    case delete
    /// The user has left the call at `leftAt`, by the store's time.
    case remove(UserID, leftAt: Milliseconds)

    /// Returns the duties of the present revision of `call`. The end of the call includes all members who left with the
    /// same revision.
    static func duties(of call: Call) -> [RoomDuty] {
        guard call.mode == .advanced else { return [] }
        guard call.isLive else { return [.delete] }
        return call.members.filter { $0.state == .quit && $0.changedRevision == call.revision }
            .map { .remove($0.userID, leftAt: $0.updatedAt) }
    }

    /// Whether the duty still stands, by the present state of the call: a member who has joined again stays.
    func stands(in call: Call) -> Bool {
        switch self {
        case .delete: !call.isLive
        case .remove(let user, _): call.entry(user)?.state != .accepted
        }
    }

    private var method: String {
        switch self {
        case .delete: "DeleteRoom"
        case .remove: "RemoveParticipant"
        }
    }

    /// Returns the request to the API at `apiURL`; nil when no token can be made.
    /// - Parameters:
    ///   - id: the id of the request.
    ///   - storeTime: the store's time at `wall`.
    func request(
        _ id: UInt64, _ server: MediaServer, room: String, wall: WallTime, storeTime: Milliseconds
    ) -> HTTPRequest? {
        guard let apiURL = server.apiURL, let token = Self.token(server, room, wall.seconds) else { return nil }
        let body = JSONWriter.object { writer in
            writer.field("room", room)
            guard case .remove(let user, let leftAt) = self else { return }
            writer.field("identity", user.string)
            // The server compares with the beginning of tokens, by the wall clock.
            let left = wall + (leftAt - storeTime)
            writer.field("revoke_token_ts", left.seconds - MediaServer.headStart)
        }
        var request = HTTPRequest(
            id: id, url: "\(apiURL)/twirp/livekit.RoomService/\(method)",
            headers: [("content-type", "application/json"), ("authorization", "Bearer \(token)")], body: body)
        request.isToProvider = true
        request.allowsPlainHTTP = true
        return request
    }

    /// The life of the token of a request, in seconds.
    private static let tokenLife: Int64 = 60

    private static func token(_ server: MediaServer, _ room: String, _ now: Int64) -> String? {
        guard case .named(let name, let key) = server.key.key else { return nil }
        return try? JSONWebToken.signed(by: key, id: nil) { writer in
            writer.field("iss", name)
            writer.field("nbf", now - MediaServer.headStart)
            writer.field("exp", now + tokenLife)
            writer.object("video") { writer in
                writer.field("room", room)
                writer.field("roomAdmin", true)
                writer.field("roomCreate", true)
            }
        }
    }
}

extension MediaServer {
    /// Returns a request that deletes a room that no call has: the server examines the key, and has nothing to delete.
    /// Nil when the rooms of this server are not closed, or no token can be made.
    package func examination(_ id: UInt64, at wall: WallTime) -> HTTPRequest? {
        // The rooms of calls have shorter names.
        let room = "bellwire-doctor-" + String(repeating: "x", count: Self.mostRoomBytes)
        return RoomDuty.delete.request(id, self, room: room, wall: wall, storeTime: 0)
    }

    /// Whether the response to `examination` is that of a media server that takes the key.
    package static func takesKey(_ response: HTTPAnswer.Response) -> Bool {
        switch RoomVerdict(response) {
        case .gone: true
        // Some versions do not say that the room is missing. Other servers answer with a page.
        case .done: (try? JSONParser.parse(response.body))?.object != nil
        case .again: false
        }
    }
}

/// The consequence of a response of the API.
enum RoomVerdict: Equatable {
    case done
    /// The room, or the participant, does not exist.
    case gone
    case again

    init(_ response: HTTPAnswer.Response) {
        switch response.status {
        case 200...299: self = .done
        case 404 where Self.isNotFound(response.body): self = .gone
        default: self = .again
        }
    }

    /// Whether the 404 is the API's own, and not the answer of another server at this address.
    private static func isNotFound(_ body: [UInt8]) -> Bool {
        (try? JSONParser.parse(body))?.object?["code"]?.string == "not_found"
    }
}
