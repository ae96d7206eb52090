import SignalingProtocol

/// A call with all its stored data. Only `CallMachine` changes a call: code outside this module cannot set any
/// property.
package struct Call: Equatable, Sendable {
    /// The properties that never change, in one object that all copies of a call share.
    private let facts: FixedFacts

    /// The revision. Every change that a user can see adds 1.
    package internal(set) var revision = 0
    package internal(set) var state = BellwireCallState.ringing
    package internal(set) var acceptedAt: Milliseconds?
    package internal(set) var endedAt: Milliseconds?
    package internal(set) var endReason: EndReason?
    package internal(set) var endedBy: UserID?
    /// The members in the order of their invitations, the inviter first.
    package internal(set) var members: [Member] = []

    /// The time of the present revision. `actor` is the user who made the revision; nil for a timer.
    package internal(set) var updatedAt: Milliseconds
    package internal(set) var actor: UserID?
    /// The successful requests that the call still remembers, the oldest first.
    package internal(set) var outcomes: [RequestOutcome] = []
    /// The push texts of invitations, kept as long as a user may get a push for the invitation.
    package internal(set) var pushTexts: [InvitationTexts] = []

    /// The time when the call is cancelled because its inviter was lost, unless the inviter comes back.
    package internal(set) var callerLostAt: Milliseconds?
    /// The time of the next check for silent accepted members.
    package internal(set) var heartbeatDue: Milliseconds?
    /// The time since when no member is live, in a call without `autoEnd`.
    package internal(set) var emptySince: Milliseconds?
    /// The time of the next resend to devices that have not acknowledged.
    package internal(set) var deliveryDue: Milliseconds?
    /// The time of the last served resends.
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

    /// Restores a stored call from its properties at creation and its later state.
    package init(
        _ beginning: Call, revision: Int, state: BellwireCallState, acceptedAt: Milliseconds?, endedAt: Milliseconds?,
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
    /// The duration of an invitation to this call, in seconds.
    package var timeout: Int { facts.timeout }
    package var extendedData: String? { facts.extendedData }
    package var joinPolicy: JoinPolicy { facts.joinPolicy }
    package var autoEnd: Bool { facts.autoEnd }
    /// The delay after which an invitation counts as not received; nil when the call does not check this.
    package var notReceivedAfter: Milliseconds? { facts.notReceivedAfter }
    /// The device and the request that created the call. These fields identify a resent invite, no matter how late the
    /// resend comes.
    package var origin: RequestKey { facts.origin }
    /// The digest of the content of that request.
    package var originDigest: Int64? { facts.originDigest }

    package var isLive: Bool { state != .ended }

    /// Returns the member for a user who takes part or may know of the invitation; nil for other users and for a user
    /// whose invitation is withheld.
    package func member(_ user: UserID) -> Member? {
        for place in members.indices where members[place].userID == user {
            return members[place].isWithheld ? nil : members[place]
        }
        return nil
    }

    /// Returns the member for a user, including a member whose invitation is withheld: for the view of other members.
    package func entry(_ user: UserID) -> Member? {
        // The loop is over indices, because an iterator would copy every member.
        for place in members.indices where members[place].userID == user { return members[place] }
        return nil
    }

    /// Whether the user takes part or may know of the invitation, so that `member` is not nil.
    package func hasMember(_ user: UserID) -> Bool {
        for place in members.indices where members[place].userID == user { return !members[place].isWithheld }
        return false
    }

    /// Returns the time of the member's last invitation; nil for a member who was never invited.
    package func invitedAt(_ member: Member) -> Milliseconds? {
        member.ownInvitedAt ?? member.expiresAt.map { $0 - Milliseconds(timeout) * 1000 }
    }

    /// The members who take part or may know of the invitation. The call stands in the lists of these users.
    package var participants: [UserID] {
        var users: [UserID] = []
        users.reserveCapacity(members.count)
        for place in members.indices where !members[place].isWithheld { users.append(members[place].userID) }
        return users
    }

    /// The approximate size of the call's record in bytes, computed without encoding the record, for the count of
    /// stored bytes.
    package var approximateBytes: Int {
        var bytes = 400 + size(media) + size(extendedData)
        // The loops are over indices, as in `entry`.
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

/// The identity of a request: its device and its id.
package struct RequestKey: Equatable, Sendable {
    package let device: DeviceAddress
    package let requestID: RequestID

    package init(device: DeviceAddress, requestID: RequestID) {
        self.device = device
        self.requestID = requestID
    }
}

/// A successful request with the part of its response that is not in the call, so that a resend gets the same response
/// (section 2).
package struct RequestOutcome: Equatable, Sendable {
    package let key: RequestKey
    /// The request's `type` on the wire.
    package let type: String
    /// The digest of the request's content; nil for a type without a digest, and for the request that created the call,
    /// because the call keeps that digest with its origin.
    package var digest: Int64?
    /// The invitees without an online device, in the response to `call.invite` and `call.add`.
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

/// Returns the size of a text in JSON, where a control character takes six bytes. For a short text, the difference does
/// not matter.
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
    /// The bound on requests of a device that a call remembers (section 2).
    package static let rememberedPerDevice = 16
    /// The number of requests that a call remembers in all, so that a user with many devices cannot grow the record
    /// without end.
    package static let rememberedInAll = 128

    /// Returns the outcome of a remembered request; nil for another request. The request of a merge is always
    /// remembered; a call has at most a single merge.
    package func outcome(of key: RequestKey) -> RequestOutcome? { outcomes.last { $0.key == key } }

    /// Whether the outcome belongs to a request with this content. For an outcome without a digest, the type decides.
    package func isOutcome(_ outcome: RequestOutcome, of body: Request.Body) -> Bool {
        guard outcome.type == body.type else { return false }
        guard let digest = outcome.digest ?? (outcome.key == origin ? originDigest : nil) else { return true }
        return digest == body.digest
    }

    /// The call with its remembered requests in a fixed order, for comparison of states.
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
