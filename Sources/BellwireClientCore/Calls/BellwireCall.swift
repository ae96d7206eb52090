import SignalingProtocol
import Basics

/// A call of this user: an invitation that rings, an invitation that was sent, or a call of which the user is part.
///
/// A client has one object for each of its live calls. The object changes by itself with the service's events;
/// `changes` reports each change once to each reader. All methods may be called from any task. Each method returns when
/// the service has answered, before `changes` reports the effects, and throws the service's error code, such as
/// `answeredElsewhere`, `callEnded` or `invalidState`, or an error of the SDK's own (`noResponse`, `disconnected`). The
/// app must keep the client: a client that is released disconnects, and its calls end.
public final class BellwireCall: Sendable, Identifiable {
    public let id: CallID
    private let driver: ClientDriver
    private let tracker: Mutex<CallTracker>
    private let hub: EventHub<CallChange>
    private let requests: RequestMaker
    private let session = Mutex<BellwireMediaSession?>(nil)
    private let offline = Mutex<[UserID]>([])

    init(_ snapshot: CallSnapshot, _ driver: ClientDriver) {
        id = snapshot.callID
        self.driver = driver
        requests = driver.requests
        tracker = Mutex(CallTracker(snapshot))
        hub = EventHub(limit: driver.configuration.eventBuffer)
    }

    // MARK: State

    /// The newest state of the call.
    public var snapshot: CallSnapshot { tracker.withLock(\.snapshot) }
    public var state: BellwireCallState { snapshot.state }
    /// The members in the order of their invitations; the inviter is the first.
    public var members: [MemberSnapshot] { snapshot.members }
    /// The user who made the call.
    public var inviter: UserID { snapshot.inviter }
    public var mode: CallMode { snapshot.mode }
    public var media: String? { snapshot.media }
    public var extendedData: String? { snapshot.extendedData }
    /// The reason for the call's end; nil while the call lives, or when the reason is not known.
    public var endReason: EndReason? { snapshot.endReason }
    /// This user as a member of the call.
    public var ownMember: MemberSnapshot? { snapshot.member(driver.device.userID) }
    /// Whether the phone of another member rings: a device of that member has acknowledged the invitation (`received`).
    /// Time for the ringback tone.
    public var isRingingElsewhere: Bool {
        members.contains { $0.userID != driver.device.userID && $0.state == .received }
    }
    /// Whether this user has accepted the call on this device.
    var isHere: Bool { ownMember?.state == .accepted && ownMember?.device == driver.device.deviceID }
    /// Whether this user made the call.
    public var isOutgoing: Bool { inviter == driver.device.userID }

    /// The invitees of this device's `SignalingClient.call` that had no device online then, by the service's response;
    /// the call rings there when a device comes online in time, or by a push. Empty for a call that another device
    /// made.
    public var offlineInvitees: [UserID] { offline.withLock(\.self) }

    /// The newest media session of this device: the media server's address, the room and a token. Nil before the user
    /// is accepted on this device, and for a call without a media server. The token ends at `expiresAt`: an inviter
    /// whose call has rung for long asks for another session with `renewMediaSession`.
    public var mediaSession: BellwireMediaSession? { session.withLock(\.self) }

    /// The changes of the call from now on; the first reader gets the changes from the call's beginning. Ends after
    /// `ended` or `left`. Each reader keeps the newest `Configuration.eventBuffer` changes.
    public var changes: AsyncStream<CallChange> { hub.stream() }
    /// The state of the call for a view: the present state, and then the newest at each change. A slow reader skips
    /// states. Ends after the last state, with the end of the call for this device. Takes no changes from the readers
    /// of `changes`.
    public var snapshots: AsyncStream<CallSnapshot> {
        let changes = changesFromNow
        let (stream, reader) = AsyncStream.makeStream(of: CallSnapshot.self, bufferingPolicy: .bufferingNewest(1))
        reader.yield(snapshot)
        let task = Task {
            for await _ in changes { reader.yield(snapshot) }
            reader.finish()
        }
        reader.onTermination = { _ in task.cancel() }
        return stream
    }

    /// The changes from now on; takes no changes from the first reader of `changes`.
    package var changesFromNow: AsyncStream<CallChange> { hub.stream(fromNow: true) }

    /// Returns when an invitee has answered, at once when that has happened. Takes no changes from the readers of
    /// `changes`.
    ///
    /// - Throws: `callEnded` when the call ends before that, `cancelled` when the task is cancelled.
    public func waitUntilActive() async throws(SignalingError) {
        let changes = hub.stream(fromNow: true)
        if isAnswered { return }
        for await _ in changes where isAnswered { return }
        if Task.isCancelled { throw SignalingError(.cancelled, "the task was cancelled") }
        throw SignalingError(.callEnded, "the call ended before an invitee answered", state: state.rawValue)
    }

    private var isAnswered: Bool { state == .active || endReason == .answered }

    // MARK: Requests of this user

    /// `call.accept`: accepts the invitation on this device.
    ///
    /// - Throws: `answeredElsewhere`, `callEnded`, `invalidState`; in advanced mode `alreadyInCall`.
    public func accept(extendedData: String? = nil) async throws(SignalingError) {
        learn(try await requests.perform(.accept(.init(callID: id, extendedData: extendedData))).mediaSession)
    }

    /// `call.reject`: rejects the invitation. The reason is `declined`, `busy` or any text of at most 256 bytes.
    ///
    /// - Throws: `answeredElsewhere`, `callEnded`, `invalidState`.
    public func reject(
        _ reason: String = WellKnownReason.declined, extendedData: String? = nil
    ) async throws(SignalingError) {
        _ = try await requests.perform(.reject(.init(callID: id, reason: reason, extendedData: extendedData)))
    }

    /// `call.cancel`: takes back this user's pending invitations of `invitees`, or all its invitations when nil.
    /// Returns the invitees whose invitations were not cancelled.
    ///
    /// - Throws: `notInviter`, `callEnded`, `invalidState`.
    @discardableResult
    public func cancel(
        _ invitees: [UserID]? = nil, extendedData: String? = nil
    ) async throws(SignalingError) -> [UserError] {
        try await requests.perform(.cancel(.init(callID: id, invitees: invitees, extendedData: extendedData))).errors
    }

    /// `call.add`, advanced mode: invites more users. `timeout` in seconds, 1 to 600; the call's own timeout when nil.
    /// Returns the invitees that could not be added.
    ///
    /// - Throws: `wrongMode`, `invalidState`, `callEnded`, `callFull`, `noInvitees`, `rateLimited`.
    @discardableResult
    public func add(
        _ invitees: [UserID], timeout: Int? = nil, extendedData: String? = nil, push: Request.Push? = nil
    ) async throws(SignalingError) -> [UserError] {
        let add = Request.Add(
            callID: id, invitees: invitees, timeout: timeout, extendedData: extendedData, push: push)
        return try await requests.perform(.add(add)).errors
    }

    /// `call.join`, advanced mode: enters the call, or moves the call to this device.
    ///
    /// - Throws: `wrongMode`, `callEnded`, `alreadyInCall`.
    public func join(extendedData: String? = nil) async throws(SignalingError) {
        learn(try await requests.perform(.join(.init(callID: id, extendedData: extendedData))).mediaSession)
    }

    /// `call.quit`, advanced mode: leaves the call.
    ///
    /// - Throws: `wrongMode`, `invalidState`, `callEnded`.
    public func quit(extendedData: String? = nil) async throws(SignalingError) {
        _ = try await requests.perform(.quit(.init(callID: id, extendedData: extendedData)))
    }

    /// `call.end`, advanced mode: ends the call for all members. The reason has at most 256 bytes.
    ///
    /// - Throws: `wrongMode`, `invalidState`, `callEnded`.
    public func end(_ reason: String? = nil, extendedData: String? = nil) async throws(SignalingError) {
        _ = try await requests.perform(.end(.init(callID: id, reason: reason, extendedData: extendedData)))
    }

    /// Leaves the call, whatever this user's state: rejects an invitation that rings here, cancels the invitations of
    /// this user, ends a call of two members, and quits a call of more than two members. Does nothing when the call has
    /// ended, or for a common call that was answered: the service has ended such a call with the answer.
    public func hangUp() async throws(SignalingError) {
        guard let step = leaving else { return }
        do throws(SignalingError) {
            try await take(step)
        } catch {
            if error.code.isOfCallThatIsOver { return }
            // An invitee may have answered in the same moment, and the response may tell of the answer before the event
            // comes.
            if error.code == .invalidState, leaving == step { _ = try await requests.perform(.get(.init(callID: id))) }
            guard leaving != step else { throw error }
        }
        // An invitee may have answered during the cancel.
        if let next = leaving, next != step { try await take(next) }
    }

    private var leaving: CallTracker.Leaving? { tracker.withLock { $0.leaving(driver.device.userID) } }

    private func take(_ step: CallTracker.Leaving) async throws(SignalingError) {
        switch step {
        case .reject: try await reject()
        case .cancel: try await cancel()
        case .quit: try await quit()
        case .end: try await end()
        }
    }

    /// `call.signal`: sends data to the other accepted members, or only to `users`. See `SignalingClient.signal`.
    @discardableResult
    public func signal(_ data: JSONText, to users: [UserID]? = nil) -> Bool {
        driver.send(Request.Signal(callID: id, to: users, data: data))
    }

    /// `call.media`: asks for another media session, which is then also `mediaSession`.
    ///
    /// - Throws: `noMedia` for a call without a media server; `callEnded`, `invalidState` unless the user is accepted
    ///   on this device.
    @discardableResult
    public func renewMediaSession() async throws(SignalingError) -> BellwireMediaSession {
        guard let session = try await requests.perform(.media(.init(callID: id))).mediaSession else {
            throw RequestMaker.unexpected
        }
        learn(session)
        return session
    }

    func learn(offline users: [UserID]?) {
        if let users { offline.withLock { $0 = users } }
    }

    /// Takes the media session of a response or a welcome; nil changes nothing.
    func learn(_ session: BellwireMediaSession?) {
        if let session { self.session.withLock { $0 = session } }
    }

    /// `call.heartbeat`, for an app that sends the heartbeats itself (`Configuration.sendsHeartbeats`).
    public func heartbeat() { driver.heartbeat(id) }

    // MARK: Events of the service

    /// Whether the invitation's countdown has passed without later news of the call.
    var isExpired: Bool { tracker.withLock(\.isExpired) }

    /// Applies `change` to the tracker, and returns the effects that report the news to the readers, in the driver's
    /// order.
    func update(_ change: (inout CallTracker) -> [CallChange]) -> [ClientDriver.Effect] {
        let changes = tracker.withLock { change(&$0) }
        guard !changes.isEmpty else { return [] }
        return [
            { [hub] in
                for change in changes {
                    hub.tell(change)
                    if change.isFinal { hub.finish() }
                }
            }
        ]
    }
}

extension BellwireCall: Hashable {
    public static func == (one: BellwireCall, other: BellwireCall) -> Bool { one === other }
    public func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

extension ErrorCode {
    /// Whether the error says that the call has ended: a user who wanted to leave has left.
    var isOfCallThatIsOver: Bool { [.callEnded, .callNotFound].contains(self) }
}

extension CallChange {
    fileprivate var isFinal: Bool {
        switch self {
        case .ended, .left: true
        case .member, .active, .handledElsewhere, .invitationExpired, .signal: false
        }
    }
}
