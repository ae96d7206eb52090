import SignalingProtocol

/// The id under which a store keeps a record.
package enum RecordID: Hashable, Comparable, Sendable {
    case call(CallID)
    /// A peer message, identified within its recipient (docs/protocol.md, section 2, Peer messages).
    case message(MessageID, to: UserID)

    /// The id as text. Each id has its own text, because no call id holds a colon.
    package var string: String {
        switch self {
        case .call(let callID): callID.string
        case .message(let messageID, let user): ":\(messageID):\(user)"
        }
    }

    /// Returns nil when `string` is not the text of an id.
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

/// The content of a record.
package enum Record: Equatable, Sendable {
    indirect case call(Call)
    indirect case message(PeerMessage)
    /// The inviter's own id of an invitation that was merged into the other user's call (section 3, Glare), with the
    /// request that made the invitation.
    case alias(of: CallID, origin: RequestKey)
    /// A cancel that came before its invite (section 2).
    case cancelled(by: UserID, at: Milliseconds)
    /// An empty record. A writer that takes a claim over from a call without a record yet writes this record, so that
    /// the commit of a delayed first holder loses.
    case void
    /// A damaged record or a record of a later version. The requests on this call fail, and other calls are not
    /// affected. A coordinator never writes this record.
    case unreadable
}

extension Record {
    /// The owner of the record: the inviter of the call, or the sender of the message.
    package var owner: UserID? {
        switch self {
        case .call(let call): call.inviter
        case .message(let message): message.origin.device.userID
        case .alias, .cancelled, .void, .unreadable: nil
        }
    }

    /// The approximate size of an encoded call or message, in bytes.
    package var approximateBytes: Int {
        switch self {
        case .call(let call): call.approximateBytes
        case .message(let message): message.approximateBytes
        case .alias, .cancelled, .void, .unreadable: 0
        }
    }
}

/// A stored record with the data beside the record.
package struct StoredRecord: Equatable, Sendable {
    package let id: RecordID
    package let version: Int64
    package let record: Record
    package let acks: [DeviceAck]
    package let heard: [UserHeard]
    /// The reports in the order of the devices, each with its milestones in the order of their names.
    package let reports: [DeviceReport]
    /// The states of pushes in the order of their keys.
    package let pushes: [PushState]
    /// The ring checks in the order of their devices.
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
    /// Whether the record is a call, and not an alias, an early cancel or a void record.
    package var isCall: Bool {
        if case .call = record { true } else { false }
    }
}

/// The last revision that a device acknowledged, with the session of the ack.
package struct DeviceAck: Equatable, Sendable {
    package let device: DeviceAddress
    package let session: String
    package let revision: Int

    /// Whether the ack came in this session. Names are compared as bytes, as in every store.
    package func isSession(_ other: String) -> Bool { session.utf8.elementsEqual(other.utf8) }

    package init(device: DeviceAddress, session: String, revision: Int) {
        self.device = device
        self.session = session
        self.revision = revision
    }
}

/// The time of a member's last sign of life.
package struct UserHeard: Equatable, Sendable {
    package let userID: UserID
    package let at: Milliseconds

    package init(userID: UserID, at: Milliseconds) {
        self.userID = userID
        self.at = at
    }
}

/// Data that is merged beside a call. Between acks of the same session, the higher revision wins; between signs of
/// life, the later time. A milestone replaces the milestone of the same device and name. The state of a push replaces
/// the state of the same registration unless that belongs to a later invitation. A ring check replaces a check of an
/// earlier invitation.
package enum Note: Equatable, Sendable {
    case ack(CallID, DeviceAck)
    case heard(CallID, UserHeard)
    case milestone(CallID, DeviceAddress, Milestone)
    /// The state of a push. A note with a worker is written only while the worker has claimed the call and, by the
    /// store's clock, its lease lasts. Otherwise a worker that was stopped could undo the writes of the next worker. A
    /// commit does not check this.
    case push(CallID, PushState, by: WorkerID? = nil)
    case ringCheck(CallID, RingCheck)
}

extension Note {
    /// The call beside which the note is kept.
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
