/// A message that a device publishes on its `up` topic (docs/protocol.md, section 2).
package enum UpMessage: Equatable, Sendable {
    case request(Request)
    /// `call.heartbeat`; heartbeats have no id and get no response.
    case heartbeat(CallID)
    /// An ack: the device has received this revision of the call and all earlier revisions (section 5).
    case ackCall(CallID, revision: Int)
    case ackMessage(MessageID)
    /// `call.signal` without an id; such a signal gets no response.
    case signal(Request.Signal)
}

/// A request; each request gets exactly one response. The bodies of requests that change no call are in
/// `PeerRequests.swift`.
public struct Request: Equatable, Sendable {
    package var id: RequestID
    package var body: Body

    package init(id: RequestID, body: Body) {
        self.id = id
        self.body = body
    }

    package enum Body: Equatable, Sendable {
        case invite(Invite)
        case cancel(Cancel)
        case accept(Accept)
        case reject(Reject)
        case add(Add)
        case join(Join)
        case quit(Quit)
        case end(End)
        case get(Get)
        case signal(Signal)
        case report(Report)
        case trace(Trace)
        /// `call.media`: asks for a media session of the call.
        case media(Media)
        case query(Query)
        case message(Message)
        case userUpdate(UserUpdate)
        case userQuery(UserQuery)
        case userBlock(UserBlock)
        /// `user.blockList`: asks for the users that this user has blocked.
        case userBlockList
        /// `user.signOut`, for backends: ends the session of a device of the user as a logout does.
        case userSignOut(DeviceID?)
        /// `user.delete`, for backends: removes all stored data of the user except the calls, because calls also belong
        /// to other users.
        case userDelete
        case pushRegister(PushRegister)
        case pushUnregister(PushUnregister)
        /// `call.ringCheck`, for backends: asks whether a woken device is still to ring (section 7).
        case ringCheck(RingCheck)
    }

    /// `call.invite`: creates the call.
    public struct Invite: Equatable, Sendable {
        public var invitees: [UserID]
        /// When nil, the service derives the id from user, device and request id, so that a resend names the same call.
        public var callID: CallID?
        public var mode: CallMode
        /// Seconds; nil means the service's default (60).
        public var timeout: Int?
        public var media: String?
        public var extendedData: String?
        public var notReceivedCheck: Bool
        /// Seconds; nil means the service's default (5).
        public var notReceivedAfter: Int?
        public var joinPolicy: JoinPolicy
        public var autoEnd: Bool
        public var ifBusy: BusyPolicy
        public var glare: GlarePolicy
        public var push: Push?

        public init(
            invitees: [UserID], callID: CallID? = nil, mode: CallMode = .common, timeout: Int? = nil,
            media: String? = nil, extendedData: String? = nil, notReceivedCheck: Bool = false,
            notReceivedAfter: Int? = nil, joinPolicy: JoinPolicy = .invited, autoEnd: Bool = true,
            ifBusy: BusyPolicy = .ring, glare: GlarePolicy = .ring, push: Push? = nil
        ) {
            self.invitees = invitees
            self.callID = callID
            self.mode = mode
            self.timeout = timeout
            self.media = media
            self.extendedData = extendedData
            self.notReceivedCheck = notReceivedCheck
            self.notReceivedAfter = notReceivedAfter
            self.joinPolicy = joinPolicy
            self.autoEnd = autoEnd
            self.ifBusy = ifBusy
            self.glare = glare
            self.push = push
        }
    }

    /// The texts of pushes to an offline invitee.
    public struct Push: Equatable, Sendable {
        /// The title of the push while the invitation rings.
        public var title: String?
        /// The text of the push while the invitation rings.
        public var content: String?
        public var payload: String?
        /// The texts of the push about a missed call. The app's own texts replace fields that are nil.
        public var missed: Missed?

        /// The title and the text of the push about a missed call.
        public struct Missed: Equatable, Sendable {
            public var title: String?
            public var content: String?

            public init(title: String? = nil, content: String? = nil) {
                self.title = title
                self.content = content
            }
        }

        public init(title: String? = nil, content: String? = nil, payload: String? = nil, missed: Missed? = nil) {
            self.title = title
            self.content = content
            self.payload = payload
            self.missed = missed
        }
    }

    /// `call.cancel`: cancels invitations that this user made. Nil `invitees` stands for all pending invitees.
    package struct Cancel: Equatable, Sendable {
        package var callID: CallID
        package var invitees: [UserID]?
        package var extendedData: String?

        package init(callID: CallID, invitees: [UserID]? = nil, extendedData: String? = nil) {
            self.callID = callID
            self.invitees = invitees
            self.extendedData = extendedData
        }
    }

    /// `call.accept`: accepts on this device.
    package struct Accept: Equatable, Sendable {
        package var callID: CallID
        package var extendedData: String?

        package init(callID: CallID, extendedData: String? = nil) {
            self.callID = callID
            self.extendedData = extendedData
        }
    }

    /// `call.reject`: rejects the invitation.
    package struct Reject: Equatable, Sendable {
        package var callID: CallID
        package var reason: String
        package var extendedData: String?

        package init(callID: CallID, reason: String = WellKnownReason.declined, extendedData: String? = nil) {
            self.callID = callID
            self.reason = reason
            self.extendedData = extendedData
        }
    }

    /// `call.add`: invites more users into an advanced call.
    package struct Add: Equatable, Sendable {
        package var callID: CallID
        package var invitees: [UserID]
        /// Seconds; nil means the call's own timeout.
        package var timeout: Int?
        package var extendedData: String?
        package var push: Push?

        package init(
            callID: CallID, invitees: [UserID], timeout: Int? = nil, extendedData: String? = nil, push: Push? = nil
        ) {
            self.callID = callID
            self.invitees = invitees
            self.timeout = timeout
            self.extendedData = extendedData
            self.push = push
        }
    }

    /// `call.join`: enters an advanced call, or moves an accepted user's part in the call to this device.
    package struct Join: Equatable, Sendable {
        package var callID: CallID
        package var extendedData: String?

        package init(callID: CallID, extendedData: String? = nil) {
            self.callID = callID
            self.extendedData = extendedData
        }
    }

    /// `call.quit`: leaves an advanced call.
    package struct Quit: Equatable, Sendable {
        package var callID: CallID
        package var extendedData: String?

        package init(callID: CallID, extendedData: String? = nil) {
            self.callID = callID
            self.extendedData = extendedData
        }
    }

    /// `call.end`: ends an advanced call for all.
    package struct End: Equatable, Sendable {
        package var callID: CallID
        package var reason: String?
        package var extendedData: String?

        package init(callID: CallID, reason: String? = nil, extendedData: String? = nil) {
            self.callID = callID
            self.reason = reason
            self.extendedData = extendedData
        }
    }

    /// `call.get`: asks for the call's current state.
    package struct Get: Equatable, Sendable {
        package var callID: CallID

        package init(callID: CallID) { self.callID = callID }
    }

    /// `call.media`: asks for another media session.
    package struct Media: Equatable, Sendable {
        package var callID: CallID

        package init(callID: CallID) { self.callID = callID }
    }
}

extension Request.Body {
    /// The call that the request names; nil for an invite without `callID`, and for requests that are not about a call.
    package var callID: CallID? {
        switch self {
        case .invite(let body): body.callID
        case .cancel(let body): body.callID
        case .accept(let body): body.callID
        case .reject(let body): body.callID
        case .add(let body): body.callID
        case .join(let body): body.callID
        case .quit(let body): body.callID
        case .end(let body): body.callID
        case .get(let body): body.callID
        case .signal(let body): body.callID
        case .report(let body): body.callID
        case .trace(let body): body.callID
        case .media(let body): body.callID
        case .ringCheck(let body): body.callID
        case .query, .message, .userUpdate, .userQuery, .userBlock, .userBlockList, .userSignOut, .userDelete,
            .pushRegister, .pushUnregister:
            nil
        }
    }

    /// Whether only a backend may send this request (section 1, Backends).
    package var isForBackends: Bool {
        switch self {
        case .userSignOut, .userDelete, .ringCheck: true
        default: false
        }
    }

    /// Whether the request may change its call. A device waits for the response to such a request before the device
    /// sends the next such request on that call (section 2).
    package var changesCall: Bool {
        switch self {
        case .invite, .cancel, .accept, .reject, .add, .join, .quit, .end: true
        case .get, .signal, .report, .trace, .media, .query, .message, .userUpdate, .userQuery, .userBlock,
            .userBlockList,
            .userSignOut, .userDelete, .pushRegister, .pushUnregister, .ringCheck:
            false
        }
    }
}
