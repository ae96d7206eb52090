internal import BellwireClient
internal import SignalingProtocol

/// The translation of a client's events into notices for the app. Pure: the narration knows no clock.
struct Narration: Sendable {
    /// The bound on calls that are followed at the same time. The SDK knows 256 calls.
    static let mostStories = 512
    /// The number of remembered invitations that were given up without a response.
    static let mostAbandoned = 64

    private let user: UserID
    private let device: DeviceID
    /// Whether the app has passed a token and there is no token provider.
    private let hasLastToken: Bool
    private var stories: [CallID: CallStory] = [:]
    private var asking: [CallID: OpenRequests] = [:]
    private var abandoned: [CallID] = []
    private(set) var connection: (state: ZIMConnectionState, event: ZIMConnectionEvent)?
    /// Whether the app's newest token has ended, by this device's clock; set by the narration's owner.
    var hasEndedToken = false
    private var wasConnected = false

    init(user: UserID, device: DeviceID, hasLastToken: Bool) {
        self.user = user
        self.device = device
        self.hasLastToken = hasLastToken
    }

    mutating func received(_ event: ClientEvent) -> [Notice] {
        switch event {
        case .event(let news): waits(event, news.callID) ? [] : received(news)
        case .snapshot(let call): waits(event, call.callID) ? [] : heard(call)
        case .invitationExpired(let call): waits(event, call.callID) ? [] : expired(call.callID)
        case .connection(let standing): stands(standing)
        case .tokenWillExpire(let seconds): [.tokenWillExpire(seconds: seconds)]
        case .error(let error): [.error(Refusal(error))]
        // `vanished` reports a call that is gone, after a request for its state.
        case .gone, .online, .offline, .signal, .message, .receipt: []
        }
    }

    // MARK: Requests

    mutating func asks(_ callID: CallID) { asking[callID, default: OpenRequests()].begin() }

    /// Ends a request after its callback: returns the notices of the response and of the events that waited meanwhile.
    /// `answer` is nil for a failed request.
    mutating func answered(_ callID: CallID, with answer: Response.Success?, isInvite: Bool = false) -> [Notice] {
        let notices = answer.map { told(of: $0, isInvite: isInvite) } ?? []
        guard var requests = asking.removeValue(forKey: callID) else { return notices }
        requests.end(answer.map { CallVersion(time: $0.time, revision: $0.call.revision) })
        guard requests.isEmpty else {
            asking[callID] = requests
            return notices
        }
        return requests.news.reduce(into: notices) { $0 += received($1) }
    }

    private mutating func told(of answer: Response.Success, isInvite: Bool) -> [Notice] {
        let call = answer.call
        let known = stories[call.callID] ?? (isInvite ? newStory(call) : nil)
        let story = known ?? CallStory(call, user: user, device: device, answeredAt: answer.time)
        let notices = heard(call, by: story, isOwnDoing: true)
        return isInvite ? [.created(call)] + notices : notices
    }

    private mutating func waits(_ event: ClientEvent, _ callID: CallID) -> Bool {
        guard asking[callID] != nil else { return abandoned.contains(callID) }
        asking[callID]?.hold(event)
        return true
    }

    /// Stops following a call that the app takes for not made, or a call of an earlier run of the app that is left.
    mutating func abandon(_ callID: CallID) {
        stories[callID] = nil
        abandoned.append(callID)
        if abandoned.count > Self.mostAbandoned { abandoned.removeFirst() }
    }

    // MARK: Calls

    private mutating func received(_ event: Event) -> [Notice] {
        switch event.name {
        case .created: return [.created(event.call)]
        case .handledElsewhere:
            guard stories[event.callID] != nil else { return [] }
            let notices = heard(event.call)
            stories[event.callID] = nil
            return notices
        case .invited, .userStateChanged, .cancelled, .timeout, .ended: return heard(event.call)
        }
    }

    private mutating func heard(_ call: CallSnapshot) -> [Notice] {
        guard stories[call.callID] != nil || concerns(call) else { return [] }
        return heard(call, by: stories[call.callID] ?? newStory(call))
    }

    private func newStory(_ call: CallSnapshot) -> CallStory { CallStory(call, user: user, device: device) }

    private mutating func heard(_ call: CallSnapshot, by story: CallStory, isOwnDoing: Bool = false) -> [Notice] {
        var story = story
        let notices = story.heard(call, isOwnDoing: isOwnDoing)
        keep(story)
        return notices
    }

    /// Whether the call rings here, or this device is in the call.
    private func concerns(_ call: CallSnapshot) -> Bool {
        guard call.state != .ended, let own = call.member(user) else { return false }
        return own.state.isPending || own.state == .accepted && own.device == device
    }

    private mutating func expired(_ callID: CallID) -> [Notice] {
        guard var story = stories[callID] else { return [] }
        let notices = story.expired()
        keep(story)
        return notices
    }

    func follows(_ callID: CallID) -> Bool { stories[callID] != nil }

    /// Ends a call that the service does not list any more. `call` is the service's answer about the call; nil without
    /// an answer.
    mutating func vanished(_ callID: CallID, _ call: CallSnapshot?) -> [Notice] {
        let told = call.map { follows(callID) ? heard($0) : [] } ?? []
        guard var story = stories[callID] else { return told }
        let notices = told + story.vanished()
        stories[callID] = nil
        return notices
    }

    private mutating func keep(_ story: CallStory) {
        stories[story.call.callID] = story.isOver ? nil : story
        guard stories.count > Self.mostStories,
            let oldest = stories.values.map(\.call).min(by: { $0.createdAt < $1.createdAt })
        else { return }
        stories[oldest.callID] = nil
    }

    // MARK: Connection

    private mutating func stands(_ standing: BellwireConnectionState) -> [Notice] {
        switch standing {
        // After another reported reason, the end of the connection is not news.
        case .disconnected: return connection?.state == .disconnected ? [] : tell(.disconnected, .success)
        case .connecting: return tell(.connecting, .activeLogin)
        case .connected:
            wasConnected = true
            return tell(.connected, .success)
        case .reconnecting: return tell(.reconnecting, .loginInterrupted)
        case .refused(let reason):
            // The callback reports a failed login.
            guard wasConnected else { return [] }
            if hasLastToken { return tell(.disconnected, .tokenExpired) }
            let code: ZIMErrorCode = hasEndedToken ? .networkModuleTokenExpired : .networkModuleTokenInvalid
            return [.error(Refusal(code: code, message: reason))]
        case .tokenExpired: return tell(.disconnected, .tokenExpired)
        case .takenOver: return tell(.disconnected, .kickedOut)
        }
    }

    mutating func loginFailed() -> [Notice] {
        connection?.state == .disconnected ? [] : tell(.disconnected, .loginTimeout)
    }

    private mutating func tell(_ state: ZIMConnectionState, _ event: ZIMConnectionEvent) -> [Notice] {
        // Attempts to reconnect fail for many reasons, and the state stays the same.
        guard connection?.state != state || connection?.event != event else { return [] }
        connection = (state, event)
        return [.connection(state, event)]
    }
}
