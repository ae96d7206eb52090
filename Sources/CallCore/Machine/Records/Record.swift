import SignalingProtocol

/// What a record is found by.
package enum RecordID: Hashable, Comparable, Sendable {
    case call(CallID)
    /// A message is at home with its recipient (docs/protocol.md, section 2, Peer messages).
    case message(MessageID, to: UserID)

    /// One text for each: no call id holds a colon.
    package var string: String {
        switch self {
        case .call(let callID): callID.string
        case .message(let messageID, let user): ":\(messageID):\(user)"
        }
    }

    /// Nil when `string` is none of these texts.
    package init?(_ string: String) {
        guard string.utf8.first == UInt8(ascii: ":") else {
            guard let callID = CallID(string) else { return nil }
            self = .call(callID)
            return
        }
        let parts = string.utf8.dropFirst().split(
            separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let messageID = String(parts[0]).flatMap(MessageID.init),
            let user = String(parts[1]).flatMap(UserID.init)
        else { return nil }
        self = .message(messageID, to: user)
    }

    package var callID: CallID? {
        if case .call(let callID) = self { callID } else { nil }
    }

    package static func < (lhs: RecordID, rhs: RecordID) -> Bool {
        lhs.string.utf8.lexicographicallyPrecedes(rhs.string.utf8)
    }
}

/// What stands under an id.
package enum Record: Equatable, Sendable {
    indirect case call(Call)
    indirect case message(PeerMessage)
    /// The inviter's own id of an invitation that was merged into the other user's call (section 3, Glare), with the
    /// request that made it.
    case alias(of: CallID, origin: RequestKey)
    /// A cancel that came before its invite (section 2, the fast cancel).
    case cancelled(by: UserID, at: Milliseconds)
    /// Nothing: written by who took a claim over from a call that did not exist yet, so that its first owner, waking
    /// late, loses its commit.
    case void
    /// Something damaged, or of a later version. It fails the requests on this call alone. Never written.
    case unreadable
}

extension Record {
    /// The user because of whom it is kept: who made the call, or sent the message.
    package var owner: UserID? {
        switch self {
        case .call(let call): call.inviter
        case .message(let message): message.origin.device.userID
        case .alias, .cancelled, .void, .unreadable: nil
        }
    }

    /// How many bytes an encoded call or message takes, about.
    package var approximateBytes: Int {
        switch self {
        case .call(let call): call.approximateBytes
        case .message(let message): message.approximateBytes
        case .alias, .cancelled, .void, .unreadable: 0
        }
    }
}

/// A record as stored, with what is kept beside it.
package struct StoredRecord: Equatable, Sendable {
    package let id: RecordID
    package let version: Int64
    package let record: Record
    package let acks: [DeviceAck]
    package let heard: [UserHeard]
    /// By device, each with its milestones by name.
    package let reports: [DeviceReport]
    /// In the order of their keys.
    package let pushes: [PushState]
    /// In the order of their devices.
    package let checks: [RingCheck]

    package init(
        _ id: RecordID, version: Int64, record: Record, acks: [DeviceAck] = [], heard: [UserHeard] = [],
        reports: [DeviceReport] = [], pushes: [PushState] = [], checks: [RingCheck] = []
    ) {
        self.id = id
        self.version = version
        self.record = record
        self.acks = acks
        self.heard = heard
        self.reports = reports
        self.pushes = pushes
        self.checks = checks
    }
}

extension StoredRecord {
    /// There is a call under the id, and no alias, forgotten cancel or void record.
    package var isCall: Bool {
        if case .call = record { true } else { false }
    }
}

/// The last revision that a device acknowledged, in the session in which it did.
package struct DeviceAck: Equatable, Sendable {
    package let device: DeviceAddress
    package let session: String
    package let revision: Int

    /// Sessions are compared as bytes, as every store does.
    package func isSession(_ other: String) -> Bool { session.utf8.elementsEqual(other.utf8) }

    package init(device: DeviceAddress, session: String, revision: Int) {
        self.device = device
        self.session = session
        self.revision = revision
    }
}

/// When a member was last heard of.
package struct UserHeard: Equatable, Sendable {
    package let userID: UserID
    package let at: Milliseconds

    package init(userID: UserID, at: Milliseconds) {
        self.userID = userID
        self.at = at
    }
}

/// Something that is merged beside a call: the higher revision of the same session wins, the later time wins, a
/// milestone replaces the one of the same device and name, the state of a push that of the same registration but not one of a later
/// invitation, and a ring check one of an earlier invitation.
package enum Note: Equatable, Sendable {
    case ack(CallID, DeviceAck)
    case heard(CallID, UserHeard)
    case milestone(CallID, DeviceAddress, Milestone)
    /// Of a worker: written while it holds the call, and by the store's clock its lease lasts. What it made of a reading before it stood still
    /// would else undo what whoever has taken the call since has written. Not looked at beside a commit.
    case push(CallID, PushState, by: WorkerID? = nil)
    case ringCheck(CallID, RingCheck)
}

extension Note {
    /// The call beside which it is kept.
    package var callID: CallID {
        switch self {
        case .ack(let callID, _): callID
        case .heard(let callID, _): callID
        case .milestone(let callID, _, _): callID
        case .push(let callID, _, _): callID
        case .ringCheck(let callID, _): callID
        }
    }
}
