import SignalingProtocol

/// What is decided about one call, as a value: written first, and then told. What it counts, takes of limits and says in the call's
/// timeline comes about with it, or not at all. It is large, and handed on: nobody copies it.
package struct Decision: ~Copyable {
    /// What stands under the id, or will.
    package struct Subject {
        /// Of the record as it was loaded; 0 when there was none.
        package var version: Int64
        /// The call as it was loaded, and as it is decided; nil while there is none.
        package var before: Call?
        package var machine: CallMachine?
        package var acks: [DeviceAck] = []
        /// What else stands under the id, to be written instead of a call.
        package var record: Record?
        /// The id under which the call is known to its inviter after a glare merge, and that record's version. It is written first.
        package var alias: (callID: CallID, origin: RequestKey, version: Int64)?
        /// Merged into what is kept beside the call.
        package var notes: [Note] = []

        init(version: Int64, machine: CallMachine? = nil) {
            self.version = version
            self.machine = machine
        }
    }

    package var subject: Subject
    package var expectedHolders: [(claim: Claim, holder: ClaimHolder?)] = []
    /// Kept before anything is answered.
    package var firstNotes: [Note] = []
    package private(set) var replies: [Reply] = []
    /// To whom the replies go.
    package private(set) var answered: [UserID] = []
    /// Signals to other members, in the order in which they came.
    package var signals: [PassedSignal] = []
    package var counts = Counts()
    /// What is taken of limits.
    package var reserved: [RateLimiter.Key] = []
    /// Whom a user invites.
    package var rings: [(user: UserID, invitees: [UserID])] = []
    /// What devices reported, once a report changed it.
    package var reports: [DeviceReport]?
    /// Milestones for the metrics, with the role of who reported them.
    package var observed: [(milestone: Milestone, role: String)] = []
    /// What the call's timeline says of this decision, beside the transition and what is sent.
    package var steps: [TraceEntry.Step] = []
    /// Devices that are sent at once what they are owed: they came online, or acked an old revision.
    package var refresh: [DeviceAddress] = []
    /// Those of them that acked an old revision.
    package var stale: [DeviceAddress] = []
    /// Those of them that take themselves for in the call, and are not: whatever they acked before, they have forgotten.
    package var astray: [DeviceAddress] = []
    /// What is resent because its time has come.
    package var resends: [Delivery] = []
    /// What is sent again and what is held back, for the pace of each device.
    package var sentAgain: [(ResendPacing.Candidate, ResendPacing.Target)] = []
    package var heldBack: [(ResendPacing.Candidate, ResendPacing.Target)] = []
    /// Its record is due and nobody can read it: the sweep is to pass over it.
    package var isUnreadable = false
    /// Whatever else has changed, it is to be looked at who is to be woken.
    package var asksForPushes = false

    init(version: Int64) { subject = Subject(version: version) }

    package var call: Call? { subject.machine?.call }

    /// Whose devices are told something, and must be known after the commit.
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

    /// The timeline of a call that lives tells of its members' devices.
    mutating func note(presence state: String, of device: DeviceAddress) {
        guard let call, call.isLive, call.hasMember(device.userID) else { return }
        steps.append(.presence(device, state: state))
    }
}

/// An answer to one device.
package struct Reply {
    package enum Content {
        case response(RequestID, Response.Outcome)
        /// To what had no id.
        case error(SignalingError)
    }

    package let device: DeviceAddress
    package let content: Content
    package let path: ReplyPath
    package var isOfRingCheck = false
}

/// A signal on its way to other devices, which counts with who sent it.
package struct PassedSignal {
    package let signal: Signal
    package let devices: [DeviceAddress]
}

/// One event to one topic.
package struct Delivery {
    package let user: UserID
    /// Nil: to all devices of the user.
    package let device: DeviceID?
    package let owed: OwedEvent
    /// How many of the user's devices are online, for the timeline.
    package let online: Int
    package private(set) var isResend = false
    /// It is sent for the second time, by its schedule.
    package var isFirstResend = false
    /// With which bytes it counts: those of the user whose request or stale ack it follows from, or of one whose device came back; nil for
    /// what a timer caused.
    package private(set) var budget: RateLimiter.Key?

    init(user: UserID, device: DeviceID?, owed: OwedEvent, online: Int) {
        self.user = user
        self.device = device
        self.owed = owed
        self.online = online
    }

    /// The user whose request it follows from; nil for what a timer caused.
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

    /// As a resend. What goes out again to a user without a device tells nothing about the call, and for how long the user has been
    /// away is nobody's business (docs/decisions/0012).
    package var isTraced: Bool { online > 0 }
}
