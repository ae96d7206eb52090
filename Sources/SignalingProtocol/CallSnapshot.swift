/// The call object (docs/protocol.md, section 4): all that members may see of a call at a revision.
public struct CallSnapshot: Equatable, Sendable {
    public var callID: CallID
    public var revision: Int
    public var mode: CallMode
    public var state: BellwireCallState
    public var media: String?
    public var inviter: UserID
    /// Milliseconds since the Unix epoch by the service's clock, like all times of this object.
    public var createdAt: Int64
    public var acceptedAt: Int64?
    public var endedAt: Int64?
    public var endReason: EndReason?
    public var endedBy: UserID?
    /// The timeout of an invitation, in seconds.
    public var timeout: Int
    public var extendedData: String?
    /// The members in the order of their invitations; the inviter is the first.
    public var members: [MemberSnapshot]

    public init(
        callID: CallID, revision: Int, mode: CallMode, state: BellwireCallState, media: String? = nil, inviter: UserID,
        createdAt: Int64, acceptedAt: Int64? = nil, endedAt: Int64? = nil, endReason: EndReason? = nil,
        endedBy: UserID? = nil, timeout: Int, extendedData: String? = nil, members: [MemberSnapshot]
    ) {
        self.callID = callID
        self.revision = revision
        self.mode = mode
        self.state = state
        self.media = media
        self.inviter = inviter
        self.createdAt = createdAt
        self.acceptedAt = acceptedAt
        self.endedAt = endedAt
        self.endReason = endReason
        self.endedBy = endedBy
        self.timeout = timeout
        self.extendedData = extendedData
        self.members = members
    }

    public func member(_ user: UserID) -> MemberSnapshot? { members.first { $0.userID == user } }
}

/// A member within a call object (section 4).
public struct MemberSnapshot: Equatable, Sendable {
    public var userID: UserID
    public var name: String?
    public var avatarURL: String?
    public var state: MemberState
    /// The user's device that accepted, rejected or joined.
    public var device: DeviceID?
    public var invitedBy: UserID?
    public var expiresAt: Int64?
    public var updatedAt: Int64
    public var reason: String?
    public var extendedData: String?

    public init(
        userID: UserID, name: String? = nil, avatarURL: String? = nil, state: MemberState, device: DeviceID? = nil,
        invitedBy: UserID? = nil, expiresAt: Int64? = nil, updatedAt: Int64, reason: String? = nil,
        extendedData: String? = nil
    ) {
        self.userID = userID
        self.name = name
        self.avatarURL = avatarURL
        self.state = state
        self.device = device
        self.invitedBy = invitedBy
        self.expiresAt = expiresAt
        self.updatedAt = updatedAt
        self.reason = reason
        self.extendedData = extendedData
    }
}

/// An entry of an event's `changes` (section 5): a member's state after the change.
public struct MemberChange: Equatable, Sendable {
    public var userID: UserID
    public var state: MemberState
    public var device: DeviceID?
    public var reason: String?
    public var extendedData: String?

    public init(
        userID: UserID, state: MemberState, device: DeviceID? = nil, reason: String? = nil, extendedData: String? = nil
    ) {
        self.userID = userID
        self.state = state
        self.device = device
        self.reason = reason
        self.extendedData = extendedData
    }
}

extension CallSnapshot {
    /// Writes the fields of this object.
    package func write(to writer: inout JSONWriter) {
        writer.field("callID", callID.string)
        writer.field("revision", revision)
        writer.field("mode", mode.rawValue)
        writer.field("state", state.rawValue)
        writer.field("media", media)
        writer.field("inviter", inviter.string)
        writer.field("createdAt", createdAt)
        writer.field("acceptedAt", acceptedAt)
        writer.field("endedAt", endedAt)
        writer.field("endReason", endReason?.rawValue)
        writer.field("endedBy", endedBy?.string)
        writer.field("timeout", timeout)
        writer.field("extendedData", extendedData)
        writer.array("members") { writer in
            for member in members { writer.object { member.write(to: &$0) } }
        }
    }

    /// Nil when `json` is not a call object of this version.
    package init?(json: JSONObject) {
        guard let callID = json["callID"]?.string.flatMap(CallID.init), let revision = json["revision"]?.integer,
            let mode = json["mode"]?.string.flatMap(CallMode.init),
            let state = json["state"]?.string.flatMap(BellwireCallState.init),
            let inviter = json["inviter"]?.string.flatMap(UserID.init), let createdAt = json["createdAt"]?.integer,
            let timeout = json["timeout"]?.integer, let members = json["members"]?.array
        else { return nil }
        self.init(
            callID: callID, revision: Int(revision), mode: mode, state: state, media: json["media"]?.string,
            inviter: inviter, createdAt: createdAt, acceptedAt: json["acceptedAt"]?.integer,
            endedAt: json["endedAt"]?.integer, endReason: json["endReason"]?.string.flatMap(EndReason.init),
            endedBy: json["endedBy"]?.string.flatMap(UserID.init), timeout: Int(timeout),
            extendedData: json["extendedData"]?.string, members: [])
        for value in members {
            guard let member = value.object.flatMap(MemberSnapshot.init(json:)) else { return nil }
            self.members.append(member)
        }
    }
}

extension MemberSnapshot {
    func write(to writer: inout JSONWriter) {
        writer.field("userID", userID.string)
        writer.field("name", name)
        writer.field("avatarURL", avatarURL)
        writer.field("state", state.rawValue)
        writer.field("device", device?.string)
        writer.field("invitedBy", invitedBy?.string)
        writer.field("expiresAt", expiresAt)
        writer.field("updatedAt", updatedAt)
        writer.field("reason", reason)
        writer.field("extendedData", extendedData)
    }

    init?(json: JSONObject) {
        guard let userID = json["userID"]?.string.flatMap(UserID.init),
            let state = json["state"]?.string.flatMap(MemberState.init), let updatedAt = json["updatedAt"]?.integer
        else { return nil }
        self.init(
            userID: userID, name: json["name"]?.string, avatarURL: json["avatarURL"]?.string, state: state,
            device: json["device"]?.string.flatMap(DeviceID.init),
            invitedBy: json["invitedBy"]?.string.flatMap(UserID.init), expiresAt: json["expiresAt"]?.integer,
            updatedAt: updatedAt, reason: json["reason"]?.string, extendedData: json["extendedData"]?.string)
    }
}

extension MemberChange {
    package func write(to writer: inout JSONWriter) {
        writer.field("userID", userID.string)
        writer.field("state", state.rawValue)
        writer.field("device", device?.string)
        writer.field("reason", reason)
        writer.field("extendedData", extendedData)
    }

    package init?(json: JSONObject) {
        guard let userID = json["userID"]?.string.flatMap(UserID.init),
            let state = json["state"]?.string.flatMap(MemberState.init)
        else { return nil }
        self.init(
            userID: userID, state: state, device: json["device"]?.string.flatMap(DeviceID.init),
            reason: json["reason"]?.string, extendedData: json["extendedData"]?.string)
    }
}
