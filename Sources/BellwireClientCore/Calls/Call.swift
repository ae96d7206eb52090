import SignalingProtocol
import Synchronization

/// A call of this user: an invitation that rings, one that was sent, or a call in which the user is.
///
/// There is one object for each live call of a client. It changes by itself as the service tells; `changes` tells each change once, to each of
/// its readers. All methods may be called from any task; each returns when the service has answered, before `changes` tells what came of it,
/// and throws what the service refuses, such as `answeredElsewhere`, `callEnded` or `invalidState`, or one of the SDK's own errors
/// (`noResponse`, `disconnected`). The client must be kept: one that is let go disconnects, and its calls end.
public final class Call: Sendable, Identifiable {
    public let id: CallID
    private let driver: ClientDriver
    private let tracker: Mutex<CallTracker>
    private let hub: EventHub<CallChange>
    private let requests: RequestMaker

    init(_ snapshot: CallSnapshot, _ driver: ClientDriver) {
        id = snapshot.callID
        self.driver = driver
        requests = driver.requests
        tracker = Mutex(CallTracker(snapshot))
        hub = EventHub(limit: driver.configuration.eventBuffer)
    }

    // MARK: What is known

    /// The newest state of the call.
    public var snapshot: CallSnapshot { tracker.withLock(\.snapshot) }
    public var state: CallState { snapshot.state }
    /// In the order in which they were invited; the inviter is the first.
    public var members: [MemberSnapshot] { snapshot.members }
    /// Who made the call.
    public var inviter: UserID { snapshot.inviter }
    public var mode: CallMode { snapshot.mode }
    public var media: String? { snapshot.media }
    public var extendedData: String? { snapshot.extendedData }
    /// Why the call ended; nil while it lives, or when that is not known.
    public var endReason: EndReason? { snapshot.endReason }
    /// This user in the call.
    public var ownMember: MemberSnapshot? { snapshot.member(driver.device.userID) }
    /// Somebody's phone rings: the service has heard so of a device of one who is invited. Time for the ringback tone.
    public var isRingingElsewhere: Bool {
        members.contains { $0.userID != driver.device.userID && $0.state == .received }
    }
    /// This user is in the call on this device.
    var isHere: Bool { ownMember?.state == .accepted && ownMember?.device == driver.device.deviceID }
    /// This user made the call.
    public var isOutgoing: Bool { inviter == driver.device.userID }

    /// What becomes of the call from now on; the first reader is told from its beginning. Ends after `ended`. For each reader the newest
    /// `Configuration.eventBuffer` changes are kept.
    public var changes: AsyncStream<CallChange> { hub.stream() }

    /// Returns when somebody has answered, at once when somebody has. It takes nothing from the readers of `changes`.
    ///
    /// - Throws: `callEnded` when the call is over before that, `cancelled` when the task is.
    public func waitUntilActive() async throws(SignalingError) {
        let changes = hub.stream(fromNow: true)
        if isAnswered { return }
        for await _ in changes where isAnswered { return }
        if Task.isCancelled { throw SignalingError(.cancelled, "the task was cancelled") }
        throw SignalingError(.callEnded, "the call is over before anybody has answered", state: state.rawValue)
    }

    private var isAnswered: Bool { state == .active || endReason == .answered }

    // MARK: What this user does

    /// `call.accept`, on this device.
    public func accept(extendedData: String? = nil) async throws(SignalingError) {
        _ = try await requests.perform(.accept(.init(callID: id, extendedData: extendedData)))
    }

    /// `call.reject`. The reason is `declined`, `busy` or any text of at most 256 bytes.
    public func reject(
        _ reason: String = WellKnownReason.declined, extendedData: String? = nil
    ) async throws(SignalingError) {
        _ = try await requests.perform(.reject(.init(callID: id, reason: reason, extendedData: extendedData)))
    }

    /// `call.cancel`: takes back this user's pending invitations of `invitees`, or all of them. Returns for whom that failed.
    @discardableResult
    public func cancel(
        _ invitees: [UserID]? = nil, extendedData: String? = nil
    ) async throws(SignalingError) -> [UserError] {
        try await requests.perform(.cancel(.init(callID: id, invitees: invitees, extendedData: extendedData))).errors
    }

    /// `call.add`, advanced mode: invites more users. `timeout` in seconds; the call's own when nil. Returns for whom that failed.
    @discardableResult
    public func add(
        _ invitees: [UserID], timeout: Int? = nil, extendedData: String? = nil, push: Request.Push? = nil
    ) async throws(SignalingError) -> [UserError] {
        let add = Request.Add(
            callID: id, invitees: invitees, timeout: timeout, extendedData: extendedData, push: push)
        return try await requests.perform(.add(add)).errors
    }

    /// `call.join`, advanced mode: enters the call, or moves it to this device.
    public func join(extendedData: String? = nil) async throws(SignalingError) {
        _ = try await requests.perform(.join(.init(callID: id, extendedData: extendedData)))
    }

    /// `call.quit`, advanced mode: leaves the call.
    public func quit(extendedData: String? = nil) async throws(SignalingError) {
        _ = try await requests.perform(.quit(.init(callID: id, extendedData: extendedData)))
    }

    /// `call.end`, advanced mode: ends the call for all.
    public func end(_ reason: String? = nil, extendedData: String? = nil) async throws(SignalingError) {
        _ = try await requests.perform(.end(.init(callID: id, reason: reason, extendedData: extendedData)))
    }

    /// Leaves the call, whatever this user is in it: an invitation that rings here is rejected, those that this user sent are taken back, a call
    /// between two is ended and one of several is left. Nothing to do when it is over, or for a common call that was answered: that one is
    /// over for the service.
    public func hangUp() async throws(SignalingError) {
        guard let step = leaving else { return }
        do throws(SignalingError) {
            try await take(step)
        } catch {
            if error.code.isOfCallThatIsOver { return }
            // Answered in the same moment, of which the response may tell before the event does.
            if error.code == .invalidState, leaving == step { _ = try await requests.perform(.get(.init(callID: id))) }
            guard leaving != step else { throw error }
        }
        // Of those who were called one may have answered meanwhile.
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

    /// `call.signal`: see `SignalingClient.signal`.
    @discardableResult
    public func signal(_ data: JSONText, to users: [UserID]? = nil) -> Bool {
        driver.send(Request.Signal(callID: id, to: users, data: data))
    }

    /// `call.heartbeat`, for an app that beats by itself (`Configuration.sendsHeartbeats`).
    public func heartbeat() { driver.heartbeat(id) }

    // MARK: What the service tells

    /// Its time has passed, and nothing was heard since.
    var isExpired: Bool { tracker.withLock(\.isExpired) }

    /// What is news in what `change` does to what was told; the readers hear of it afterwards, in the one order.
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

extension Call: Hashable {
    public static func == (one: Call, other: Call) -> Bool { one === other }
    public func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

extension ErrorCode {
    /// Who wanted to leave has nothing left to do.
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
