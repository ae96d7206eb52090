import SignalingProtocol

/// A call with all that is stored of it. `CallMachine` alone changes it: outside this module nothing of it can be set.
package struct Call: Equatable, Sendable {
    /// What never changes, in one place: copies of a call share it.
    private let facts: FixedFacts

    /// Grows by one with every change that anybody can see.
    package internal(set) var revision = 0
    package internal(set) var state = CallState.ringing
    package internal(set) var acceptedAt: Milliseconds?
    package internal(set) var endedAt: Milliseconds?
    package internal(set) var endReason: EndReason?
    package internal(set) var endedBy: UserID?
    /// In the order in which they were invited; the inviter is the first.
    package internal(set) var members: [Member] = []

    /// When the present revision was made, and by whom; nil for a timer.
    package internal(set) var updatedAt: Milliseconds
    package internal(set) var actor: UserID?
    /// The successful requests that are still remembered, oldest first.
    package internal(set) var outcomes: [RequestOutcome] = []
    /// What invitations want the pushes to say that come of them, while somebody may be pushed because of one.
    package internal(set) var pushTexts: [InvitationTexts] = []

    /// When the call is cancelled because its inviter was lost, unless the inviter comes back.
    package internal(set) var callerLostAt: Milliseconds?
    /// When the accepted members are next checked for silence.
    package internal(set) var heartbeatDue: Milliseconds?
    /// Since when nobody is live, in a call without `autoEnd`.
    package internal(set) var emptySince: Milliseconds?
    /// When devices that have not acknowledged are next sent what they are owed.
    package internal(set) var deliveryDue: Milliseconds?
    /// Up to when resends have been served.
    package internal(set) var deliveryServedAt: Milliseconds

    package init(
        callID: CallID, mode: CallMode, media: String?, inviter: UserID, createdAt: Milliseconds, timeout: Int,
        extendedData: String?, joinPolicy: JoinPolicy, autoEnd: Bool, notReceivedAfter: Milliseconds?,
        origin: RequestKey, originDigest: Int64? = nil
    ) {
        facts = FixedFacts(
            callID: callID, mode: mode, media: media, inviter: inviter, createdAt: createdAt, timeout: timeout,
            extendedData: extendedData, joinPolicy: joinPolicy, autoEnd: autoEnd, notReceivedAfter: notReceivedAfter,
            origin: origin, originDigest: originDigest)
        updatedAt = createdAt
        deliveryServedAt = createdAt
    }

    /// As it was stored: what a new call begins with, and what has become of it since.
    package init(
        _ beginning: Call, revision: Int, state: CallState, acceptedAt: Milliseconds?, endedAt: Milliseconds?,
        endReason: EndReason?, endedBy: UserID?, members: [Member], updatedAt: Milliseconds, actor: UserID?,
        outcomes: [RequestOutcome], callerLostAt: Milliseconds?, heartbeatDue: Milliseconds?,
        emptySince: Milliseconds?, deliveryDue: Milliseconds?, deliveryServedAt: Milliseconds,
        pushTexts: [InvitationTexts]
    ) {
        self = beginning
        self.revision = revision
        self.state = state
        self.acceptedAt = acceptedAt
        self.endedAt = endedAt
        self.endReason = endReason
        self.endedBy = endedBy
        self.members = members
        self.updatedAt = updatedAt
        self.actor = actor
        self.outcomes = outcomes
        self.callerLostAt = callerLostAt
        self.heartbeatDue = heartbeatDue
        self.emptySince = emptySince
        self.deliveryDue = deliveryDue
        self.deliveryServedAt = deliveryServedAt
        self.pushTexts = pushTexts
    }

    package var callID: CallID { facts.callID }
    package var mode: CallMode { facts.mode }
    package var media: String? { facts.media }
    package var inviter: UserID { facts.inviter }
    package var createdAt: Milliseconds { facts.createdAt }
    /// Seconds an invitation to this call lasts.
    package var timeout: Int { facts.timeout }
    package var extendedData: String? { facts.extendedData }
    package var joinPolicy: JoinPolicy { facts.joinPolicy }
    package var autoEnd: Bool { facts.autoEnd }
    /// Nil when delivery is not checked.
    package var notReceivedAfter: Milliseconds? { facts.notReceivedAfter }
    /// The device and request that created the call, so that a resent invite is known however late it comes.
    package var origin: RequestKey { facts.origin }
    /// What that request asked for.
    package var originDigest: Int64? { facts.originDigest }

    package var isLive: Bool { state != .ended }

    /// The member as which the user takes part; nil for a stranger, and for who must not know of the invitation.
    package func member(_ user: UserID) -> Member? {
        for place in members.indices where members[place].userID == user {
            return members[place].isWithheld ? nil : members[place]
        }
        return nil
    }

    /// What stands of the user in the call, whether or not the user may know: for what others see.
    package func entry(_ user: UserID) -> Member? {
        // By places: an iterator would copy every member that it passes.
        for place in members.indices where members[place].userID == user { return members[place] }
        return nil
    }

    /// Whether the user takes part, or could: `member` is not nil.
    package func hasMember(_ user: UserID) -> Bool {
        for place in members.indices where members[place].userID == user { return !members[place].isWithheld }
        return false
    }

    /// When the member was last invited; nil for who never was.
    package func invitedAt(_ member: Member) -> Milliseconds? {
        member.ownInvitedAt ?? member.expiresAt.map { $0 - Milliseconds(timeout) * 1000 }
    }

    /// Those who take part, or could: in their lists the call stands.
    package var participants: [UserID] {
        var users: [UserID] = []
        users.reserveCapacity(members.count)
        for place in members.indices where !members[place].isWithheld { users.append(members[place].userID) }
        return users
    }

    /// How many bytes its record takes, by and large: for who counts what is kept, and need not write it to know.
    package var approximateBytes: Int {
        var bytes = 400 + size(media) + size(extendedData)
        // By places, as in `entry`.
        for place in members.indices { bytes += members[place].approximateBytes }
        for place in outcomes.indices { bytes += outcomes[place].approximateBytes }
        for place in pushTexts.indices { bytes += pushTexts[place].approximateBytes }
        return bytes
    }

    package var snapshot: CallSnapshot {
        CallSnapshot(
            callID: callID, revision: revision, mode: mode, state: state, media: media, inviter: inviter,
            createdAt: createdAt, acceptedAt: acceptedAt, endedAt: endedAt, endReason: endReason, endedBy: endedBy,
            timeout: timeout, extendedData: extendedData, members: members.map(\.snapshot))
    }
}

/// Which request of which device.
package struct RequestKey: Equatable, Sendable {
    package let device: DeviceAddress
    package let requestID: RequestID

    package init(device: DeviceAddress, requestID: RequestID) {
        self.device = device
        self.requestID = requestID
    }
}

/// A successful request and what its response said beyond the call, so that a resend gets the same (section 2).
package struct RequestOutcome: Equatable, Sendable {
    package let key: RequestKey
    /// What was asked for, as on the wire.
    package let type: String
    /// The digest of what was asked for; nil for a type without one, and for the request that made the call, whose digest the call keeps
    /// with its origin.
    package var digest: Int64?
    /// To `call.invite` and `call.add`: the invitees without an online device.
    package var offline: [UserID]?
    package var errors: [UserError]
    package var merged: Bool

    package init(
        key: RequestKey, type: String, digest: Int64? = nil, offline: [UserID]? = nil, errors: [UserError] = [],
        merged: Bool = false
    ) {
        self.key = key
        self.type = type
        self.digest = digest
        self.offline = offline
        self.errors = errors
        self.merged = merged
    }
}

/// As JSON: a control character takes six bytes. Of what is short the difference does not matter.
private func size(_ text: String?) -> Int {
    guard let text else { return 0 }
    guard text.utf8.count > 64 else { return text.utf8.count }
    return text.utf8.reduce(0) { $0 + ($1 < 0x20 ? 6 : $1 == UInt8(ascii: "\"") || $1 == UInt8(ascii: "\\") ? 2 : 1) }
}

extension Member {
    fileprivate var approximateBytes: Int {
        200 + size(name) + size(avatarURL) + size(reason) + size(extendedData) + size(userID.string)
            + size(invitedBy?.string)
    }
}

extension RequestOutcome {
    fileprivate var approximateBytes: Int {
        var bytes = 110 + size(key.device.userID.string) + size(key.device.deviceID.string) + size(key.requestID.string)
        for user in offline ?? [] { bytes += size(user.string) + 3 }
        return bytes + errors.count * 60
    }
}

extension Call {
    /// How many requests of one device are remembered per call (section 2).
    package static let rememberedPerDevice = 16
    /// How many are remembered in all, so that a user with many devices cannot grow the record without end.
    package static let rememberedInAll = 128

    /// Nil when the request is not remembered; that of a merge, of which there is one, always is.
    package func outcome(of key: RequestKey) -> RequestOutcome? { outcomes.last { $0.key == key } }

    /// Whether the outcome is that of a request with this content: of one without a digest it is that by the type.
    package func isOutcome(_ outcome: RequestOutcome, of body: Request.Body) -> Bool {
        guard outcome.type == body.type else { return false }
        guard let digest = outcome.digest ?? (outcome.key == origin ? originDigest : nil) else { return true }
        return digest == body.digest
    }

    /// The same, whichever of its requests came first: for who compares situations.
    package var withRequestsSorted: Call {
        var call = self
        call.outcomes.sort { ($0.key.device, $0.key.requestID.string) < ($1.key.device, $1.key.requestID.string) }
        return call
    }

    mutating func remember(_ outcome: RequestOutcome) {
        let device = outcome.key.device
        if outcomes.count(where: { $0.key.device == device }) >= Self.rememberedPerDevice,
            let oldest = outcomes.firstIndex(where: { $0.key.device == device && !$0.merged })
        {
            outcomes.remove(at: oldest)
        }
        if outcomes.count >= Self.rememberedInAll, let oldest = outcomes.firstIndex(where: { !$0.merged }) {
            outcomes.remove(at: oldest)
        }
        outcomes.append(outcome)
    }
}

private final class FixedFacts: Equatable, Sendable {
    let callID: CallID
    let mode: CallMode
    let media: String?
    let inviter: UserID
    let createdAt: Milliseconds
    let timeout: Int
    let extendedData: String?
    let joinPolicy: JoinPolicy
    let autoEnd: Bool
    let notReceivedAfter: Milliseconds?
    let origin: RequestKey
    let originDigest: Int64?

    init(
        callID: CallID, mode: CallMode, media: String?, inviter: UserID, createdAt: Milliseconds, timeout: Int,
        extendedData: String?, joinPolicy: JoinPolicy, autoEnd: Bool, notReceivedAfter: Milliseconds?,
        origin: RequestKey, originDigest: Int64?
    ) {
        self.callID = callID
        self.mode = mode
        self.media = media
        self.inviter = inviter
        self.createdAt = createdAt
        self.timeout = timeout
        self.extendedData = extendedData
        self.joinPolicy = joinPolicy
        self.autoEnd = autoEnd
        self.notReceivedAfter = notReceivedAfter
        self.origin = origin
        self.originDigest = originDigest
    }

    static func == (lhs: FixedFacts, rhs: FixedFacts) -> Bool {
        if lhs === rhs { return true }
        return lhs.callID == rhs.callID && lhs.mode == rhs.mode && lhs.media == rhs.media && lhs.inviter == rhs.inviter
            && lhs.createdAt == rhs.createdAt && lhs.timeout == rhs.timeout && lhs.extendedData == rhs.extendedData
            && lhs.joinPolicy == rhs.joinPolicy && lhs.autoEnd == rhs.autoEnd
            && lhs.notReceivedAfter == rhs.notReceivedAfter && lhs.origin == rhs.origin
            && lhs.originDigest == rhs.originDigest
    }
}
