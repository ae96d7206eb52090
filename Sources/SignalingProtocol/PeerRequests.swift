/// The requests that change no call (docs/protocol.md, section 2).
extension Request {
    /// `call.signal`: data for the other accepted members, such as a session description. The service does not store
    /// signals.
    package struct Signal: Equatable, Sendable {
        package var callID: CallID
        /// Nil means all other accepted members.
        package var to: [UserID]?
        /// The place in the sender's stream, from 1.
        package var seq: Int64?
        /// The name of the stream: a sequence of signals with rising `seq`. A sender that counts from 1 again chooses a
        /// new name.
        package var stream: String?
        package var data: JSONText

        package init(
            callID: CallID, to: [UserID]? = nil, seq: Int64? = nil, stream: String? = nil, data: JSONText
        ) {
            self.callID = callID
            self.to = to
            self.seq = seq
            self.stream = stream
            self.data = data
        }
    }

    /// `call.report`: how long the call took to reach its milestones, in milliseconds from this member's own start.
    package struct Report: Equatable, Sendable {
        package var callID: CallID
        /// The milestones in the order of the request.
        package var milestones: [Milestone]

        package init(callID: CallID, milestones: [Milestone]) {
            self.callID = callID
            self.milestones = milestones
        }
    }

    /// `call.trace`: the call's timeline (section 6).
    package struct Trace: Equatable, Sendable {
        package var callID: CallID

        package init(callID: CallID) { self.callID = callID }
    }

    /// `call.query`: the user's own calls, the newest first.
    package struct Query: Equatable, Sendable {
        /// Nil means the service's default (20); more than 100 is treated as 100.
        package var count: Int?
        /// The cursor that came with the previous page; nil for the first page.
        package var cursor: String?

        package init(count: Int? = nil, cursor: String? = nil) {
            self.count = count
            self.cursor = cursor
        }
    }

    /// `message.send`: a peer message to a user.
    package struct Message: Equatable, Sendable {
        package var to: UserID
        package var data: JSONText
        /// Seconds; nil means the service's default (30).
        package var ttl: Int?
        /// When nil, the service derives the id from user, device and request id.
        package var messageID: MessageID?
        /// The place in the stream, from 1. Without a stream the service only passes the place on, and receivers do not
        /// order the messages.
        package var seq: Int64?
        /// The name of the stream: a sequence of messages to this recipient with rising `seq`. A sender that counts
        /// from 1 again chooses a new name.
        package var stream: String?

        package init(
            to: UserID, data: JSONText, ttl: Int? = nil, messageID: MessageID? = nil, seq: Int64? = nil,
            stream: String? = nil
        ) {
            self.to = to
            self.data = data
            self.ttl = ttl
            self.messageID = messageID
            self.seq = seq
            self.stream = stream
        }
    }

    /// `user.update`: nil leaves a field unchanged; the empty string removes the field.
    package struct UserUpdate: Equatable, Sendable {
        package var name: String?
        package var avatarURL: String?
        package var extendedData: String?

        package init(name: String? = nil, avatarURL: String? = nil, extendedData: String? = nil) {
            self.name = name
            self.avatarURL = avatarURL
            self.extendedData = extendedData
        }
    }

    /// `user.block`, `user.unblock`: whether another user's invitations and peer messages reach this user.
    package struct UserBlock: Equatable, Sendable {
        package var userID: UserID
        package var isBlocked: Bool

        package init(userID: UserID, isBlocked: Bool) {
            self.userID = userID
            self.isBlocked = isBlocked
        }
    }

    /// `user.query`: profiles of 1 to 100 users.
    package struct UserQuery: Equatable, Sendable {
        package var userIDs: [UserID]

        package init(userIDs: [UserID]) { self.userIDs = userIDs }
    }
}

/// The time that a member took to reach a point of the call (section 2, `call.report`).
public struct Milestone: Equatable, Sendable {
    /// 1–64 of `A-Z a-z 0-9 _ -`.
    public var name: String
    /// Milliseconds from the member's own start, 0–86,400,000.
    public var milliseconds: Int64

    public init(name: String, milliseconds: Int64) {
        self.name = name
        self.milliseconds = milliseconds
    }

    /// The names that metrics count separately; metrics count all others as `other`.
    public static let wellKnown = [
        "remoteReceived", "accepted", "joinedChannel", "remoteJoinedChannel", "firstFrameCaptured",
        "firstFramePublished", "firstFrame",
    ]
}

/// The milestones that a device has reported of a call.
public struct DeviceReport: Equatable, Sendable {
    public var device: DeviceAddress
    public var milestones: [Milestone]

    public init(device: DeviceAddress, milestones: [Milestone]) {
        self.device = device
        self.milestones = milestones
    }
}

extension DeviceReport {
    func write(to writer: inout JSONWriter) {
        writer.field("userID", device.userID.string)
        writer.field("device", device.deviceID.string)
        writer.object("milestones") { writer in
            for milestone in milestones { writer.field(named: milestone.name, milestone.milliseconds) }
        }
    }

    init?(json: JSONObject) {
        guard let user = json["userID"]?.string.flatMap(UserID.init),
            let device = json["device"]?.string.flatMap(DeviceID.init), let milestones = json["milestones"]?.object
        else { return nil }
        self.init(
            device: DeviceAddress(userID: user, deviceID: device),
            milestones: milestones.fields.compactMap { field in
                field.value.integer.map { Milestone(name: field.key, milliseconds: $0) }
            })
    }
}
