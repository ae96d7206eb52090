/// The data with which a device enters the room of its call at a media server (docs/protocol.md, Media sessions).
///
/// The token admits its holder to the room. An app must not log or store the token.
public struct BellwireMediaSession: Equatable, Sendable {
    /// The name of the media server in the operator's settings.
    public var server: String
    /// `livekit`, `jitsi` or `jwt`.
    public var type: String
    public var url: String
    public var room: String
    public var token: String
    /// The time at which the token ends, in milliseconds since the epoch by the service's wall clock. The device must
    /// have joined by then.
    public var expiresAt: Int64

    public init(server: String, type: String, url: String, room: String, token: String, expiresAt: Int64) {
        self.server = server
        self.type = type
        self.url = url
        self.room = room
        self.token = token
        self.expiresAt = expiresAt
    }
}

extension BellwireMediaSession: CustomStringConvertible, CustomReflectable {
    /// The session without its token, so that no log shows the token by accident.
    public var description: String { "room \(room) at \(url)" }
    public var customMirror: Mirror {
        Mirror(self, children: ["server": server, "type": type, "url": url, "room": room])
    }
}

extension BellwireMediaSession {
    package func write(to writer: inout JSONWriter) {
        writer.field("server", server)
        writer.field("type", type)
        writer.field("url", url)
        writer.field("room", room)
        writer.field("token", token)
        writer.field("expiresAt", expiresAt)
    }

    /// Nil when a field is missing.
    package init?(json: JSONObject) {
        guard let server = json["server"]?.string, let type = json["type"]?.string, let url = json["url"]?.string,
            let room = json["room"]?.string, let token = json["token"]?.string,
            let expiresAt = json["expiresAt"]?.integer
        else { return nil }
        self.init(server: server, type: type, url: url, room: room, token: token, expiresAt: expiresAt)
    }
}

/// The media session of one of the live calls in a welcome.
package struct CallMediaSession: Equatable, Sendable {
    package var callID: CallID
    package var session: BellwireMediaSession

    package init(callID: CallID, session: BellwireMediaSession) {
        self.callID = callID
        self.session = session
    }

    package func write(to writer: inout JSONWriter) {
        writer.field("callID", callID.string)
        session.write(to: &writer)
    }

    package init?(json: JSONObject) {
        guard let callID = json["callID"]?.string.flatMap(CallID.init), let session = BellwireMediaSession(json: json)
        else { return nil }
        self.init(callID: callID, session: session)
    }
}
