import SignalingProtocol

/// The decision about a call, as a value. The coordinator writes the decision first and then sends its messages. Its
/// counts, its use of limits and its timeline entries take effect together with the commit, or not at all. A decision
/// is large, so the type cannot be copied.
package struct Decision: ~Copyable {
    /// The record under the id before and after the decision.
    package struct Subject {
        /// The version of the loaded record; 0 when the record did not exist.
        package var version: Int64
        /// The loaded call, nil when the record is no call. `machine` holds the call after the decision, nil while no
        /// call exists.
        package var before: Call?
        package var machine: CallMachine?
        package var acks: [DeviceAck] = []
        /// Another record to write under the id instead of a call.
        package var record: Record?
        /// The alias under which the inviter knows the call after a glare merge, with the version of the alias record.
        /// The alias is written before the call.
        package var alias: (callID: CallID, origin: RequestKey, version: Int64)?
        /// Notes to merge into the data beside the call.
        package var notes: [Note] = []

        init(version: Int64, machine: CallMachine? = nil) {
            self.version = version
            self.machine = machine
        }
    }

    package var subject: Subject
    package var expectedHolders: [(claim: Claim, holder: ClaimHolder?)] = []
    /// Notes that must be written before any response is sent.
    package var firstNotes: [Note] = []
    package private(set) var replies: [Reply] = []
    /// The users who get responses.
    package private(set) var answered: [UserID] = []
    /// Signals to other members, in the order of their arrival.
    package var signals: [PassedSignal] = []
    package var counts = Counts()
    /// The tokens that the decision takes from limits.
    package var reserved: [RateLimiter.Key] = []
    /// The users whom a user invites.
    package var rings: [(user: UserID, invitees: [UserID])] = []
    /// The reports of devices after the last report of this decision; nil without a report.
    package var reports: [DeviceReport]?
    /// Milestones for the metrics, with the role of the reporting user.
    package var observed: [(milestone: Milestone, role: String)] = []
    /// The first acks of ringing devices, for the metrics.
    package var ringAcks: [RingAck] = []
    /// The timeline entries of this decision, without the transition and the sends.
    package var steps: [TraceEntry.Step] = []
    /// Devices that get their delivery at once, because they came online or sent a stale ack.
    package var refresh: [DeviceAddress] = []
    /// The devices in `refresh` that sent a stale ack.
    package var stale: [DeviceAddress] = []
    /// The devices in `refresh` that assume to be in the call and are not. These devices have forgotten all events that
    /// they acknowledged before.
    package var astray: [DeviceAddress] = []
    /// The due resends.
    package var resends: [Delivery] = []
    /// The candidates that are resent and the candidates that are held back, for the pacing of each device.
    package var sentAgain: [(ResendPacing.Candidate, ResendPacing.Target)] = []
    package var heldBack: [(ResendPacing.Candidate, ResendPacing.Target)] = []
    /// Whether a response says that a change was made, by this request or by an earlier one.
    package var tellsOfChange = false
    /// Whether the record is due and cannot be read, so that the sweep must set the record aside.
    package var isUnreadable = false
    /// Whether the call must enter the queue of pushes, even without another change.
    package var asksForPushes = false

    init(version: Int64) { subject = Subject(version: version) }

    package var call: Call? { subject.machine?.call }

    /// The users whose devices get messages. The presence of these users must be known after the commit.
    package var told: [UserID] {
        (isVisiblyChanged ? subject.machine?.call.members.map(\.userID) ?? [] : []) + refresh.map(\.userID)
    }

    package var isVisiblyChanged: Bool {
        guard let revision = subject.machine?.call.revision else { return false }
        return revision != subject.before?.revision ?? 0
    }

    mutating func adopt(_ call: Call, acks: [DeviceAck], version: Int64, settings: CallSettings) {
        subject.before = call
        subject.machine = CallMachine(call: call, settings: settings)
        subject.acks = acks
        subject.version = version
    }

    mutating func reply(_ reply: Reply) {
        if reply.path.isWanted { replies.append(reply) }
        if !answered.contains(reply.device.userID) { answered.append(reply.device.userID) }
    }

    /// Adds an entry about a member's device to the timeline of a live call.
    mutating func note(presence state: String, of device: DeviceAddress) {
        guard let call, call.isLive, call.hasMember(device.userID) else { return }
        steps.append(.presence(device, state: state))
    }
}

/// A response to a device, or the error for a message without an id.
package struct Reply {
    package enum Content {
        case response(RequestID, Response.Outcome)
        /// The error for a message without an id.
        case error(SignalingError)
    }

    /// Whether the response carries a media session.
    package enum MediaPart: Equatable {
        case none
        /// The response carries a session if the device may have a session.
        case optional
        /// The request has asked for a session.
        case required
    }

    package let device: DeviceAddress
    package var content: Content
    package let path: ReplyPath
    package var isOfRingCheck = false
    package var media = MediaPart.none
}

/// The first ack of a device for a call that rings its user.
package struct RingAck: Equatable {
    /// The time since the invitation, in milliseconds.
    package let after: Milliseconds
    /// Whether a push had been sent to the device.
    package let isAfterPush: Bool
}

/// A signal on its way to other devices. The signal counts towards the limits of its sender.
package struct PassedSignal {
    package let signal: BellwireSignal
    package let devices: [DeviceAddress]
}

/// An event to a topic.
package struct Delivery {
    package let user: UserID
    /// The device; nil for all devices of the user.
    package let device: DeviceID?
    package let event: UnackedEvent
    /// The number of the user's online devices, for the timeline.
    package let online: Int
    package private(set) var isResend = false
    /// Whether the delivery is sent for the second time, by its resend schedule.
    package var isFirstResend = false
    /// The limit to which the bytes count: the bytes of the user whose request or stale ack caused the delivery, or the
    /// welcome bytes of the user whose device came back; nil for a delivery that a timer caused.
    package private(set) var budget: RateLimiter.Key?

    init(user: UserID, device: DeviceID?, event: UnackedEvent, online: Int) {
        self.user = user
        self.device = device
        self.event = event
        self.online = online
    }

    /// The user whose request caused the delivery; nil for a delivery that a timer caused.
    package var cause: UserID? { if case .sentBytes(let user) = budget { user } else { nil } }

    mutating func count(with user: UserID?) { budget = user.map(RateLimiter.Key.sentBytes) }

    var asWelcome: Delivery {
        var copy = self
        copy.budget = .welcomeBytes(user)
        return copy
    }

    var again: Delivery {
        var copy = self
        copy.isResend = true
        return copy
    }

    /// Whether the timeline shows this resend. A resend to a user without an online device says nothing about the call,
    /// and the time of a user's absence must stay private (docs/decisions/0012).
    package var isTraced: Bool { online > 0 }
}
