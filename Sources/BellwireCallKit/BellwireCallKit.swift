#if !os(macOS) && !os(tvOS)
    import AVFoundation
    public import BellwireClient
    public import CallKit
    import CryptoKit
    public import Foundation
    import PushKit

    /// Shows the calls of a `BellwireCallManager` in CallKit, and rings a sleeping iPhone by VoIP pushes
    /// (docs/push.md).
    ///
    /// Make a single object in `application(_:didFinishLaunchingWithOptions:)`, always, and keep it as long as the app
    /// lives: iOS starts the app for a push, and hands over the push at once. The object registers PushKit's token with
    /// each connection. At a push, the object first reports the call to CallKit, then connects and asks by a ring check
    /// whether the call still rings. The ringing ends when the call is answered elsewhere, cancelled or over. Answers
    /// and hang-ups in CallKit become `accept` and `hangUp` of the manager; a call that the app or a glare merge has
    /// accepted is shown as answered. Calls that the user makes appear in CallKit when they are made by
    /// `call(_:media:timeout:extendedData:push:)` of this object. The app needs the capabilities *Push Notifications*
    /// and *Background Modes: Voice over IP*.
    @MainActor
    public final class BellwireCallKit: NSObject {
        /// Asks a ring check; the second argument says whether to reject the call.
        typealias RingCheck = @Sendable (_ check: URL, _ rejects: Bool) async -> RingCheckAnswer?

        private enum Bounds {
            /// How long an answer waits until the connection has brought the call, in milliseconds.
            static let arrival = 10_000
            /// How long an answer or a new call waits until the device has left the call before, in milliseconds.
            static let departure = 5_000
            static let declineAttempts = 3
            static let declinePause = Duration.seconds(1)
        }

        /// Called when CallKit has activated the app's audio session, with `true`, and when CallKit has deactivated it:
        /// media may only sound in between.
        public var onAudio: ((Bool) -> Void)?
        /// Called when the user presses *mute* in CallKit, with whether the microphone is to be off.
        public var onMute: ((Bool) -> Void)?
        /// Called after each attempt to register PushKit's token (docs/protocol.md, section 7), at each connection and
        /// for each new token: with nil after a success, otherwise with the error, as `badRequest` when the deployment
        /// serves no VoIP pushes to this app. Without a registration a sleeping iPhone does not ring.
        public var onPushRegistration: ((SignalingError?) -> Void)?

        /// A call of the user that CallKit is asked to start.
        private struct Outgoing {
            let invite: @MainActor () async -> Result<BellwireCall, SignalingError>
            let waiter: CheckedContinuation<Result<BellwireCall, SignalingError>, Never>
        }

        private let manager: BellwireCallManager
        let client: SignalingClient
        let app: AppName
        private let ask: RingCheck
        let provider: CXProvider
        let registry = PKPushRegistry(queue: .main)
        private let controller = CXCallController()
        private var machine = RingingMachine()
        /// The calls that the connection has brought, until they are over for this device.
        private(set) var known: [UUID: BellwireCall] = [:]
        private var arrivals: [UUID: [CheckedContinuation<Void, Never>]] = [:]
        private var answers: [UUID: CXAnswerCallAction] = [:]
        private var accepting: [UUID: Task<Bool, Never>] = [:]
        private var outgoing: [UUID: Outgoing] = [:]
        private var starts: [UUID: CXStartCallAction] = [:]
        /// The invitations of this user that the service has not answered.
        private var inviting: [UUID: Task<Result<BellwireCall, SignalingError>, Never>] = [:]
        /// The requests under way that leave or reject a call.
        private var departures: Set<Task<Void, Never>> = []
        /// PushKit's token, in hexadecimal.
        var token: String?
        /// Whether `stop` was called.
        var isStopped = false
        /// The tasks that follow the client and the manager.
        private(set) var followers: [Task<Void, Never>] = []
        /// Calls that the user has declined, until the service knows.
        private var declining: Set<UUID> = []
        /// Calls that have ended at the service with the answer, and go on here (mode `common`).
        private var outliving: Set<UUID> = []
        /// Common calls that the user has left before their end by the answer was seen.
        private var left: Set<UUID> = []

        /// Creates the object, which takes over PushKit's registry and a CallKit provider of its own.
        /// - Parameters:
        ///   - configuration: CallKit's configuration; by default calls of one member, with video.
        ///   - app: the app of the deployment's push settings.
        public convenience init(
            _ manager: BellwireCallManager, configuration: CXProviderConfiguration? = nil, app: AppName = .standard
        ) {
            self.init(manager, configuration ?? Self.standardConfiguration, app, ask: ringCheck)
        }

        init(
            _ manager: BellwireCallManager, _ configuration: CXProviderConfiguration, _ app: AppName,
            ask: @escaping RingCheck
        ) {
            self.manager = manager
            client = manager.client
            self.app = app
            self.ask = ask
            provider = CXProvider(configuration: configuration)
            super.init()
            provider.setDelegate(self, queue: .main)
            registry.delegate = self
            registry.desiredPushTypes = [.voIP]
            followClient()
        }

        private static var standardConfiguration: CXProviderConfiguration {
            let configuration = CXProviderConfiguration()
            configuration.supportsVideo = true
            configuration.supportedHandleTypes = [.generic]
            configuration.maximumCallsPerCallGroup = 1
            return configuration
        }

        // MARK: Calls that the user makes

        /// Calls one user or several like `BellwireCallManager.call`, and shows the call in CallKit, which hands over
        /// the audio session. `timeout` in seconds, 1 to 600; 60 when nil.
        ///
        /// - Throws: the errors of `BellwireCallManager.call`; `invalidState` also when CallKit does not start the
        ///   call; `cancelled` when the user hangs up before the invitation is sent.
        @discardableResult
        public func call(
            _ users: [UserID], media: String? = nil, timeout: Int? = nil, extendedData: String? = nil,
            push: Request.Push? = nil
        ) async throws(SignalingError) -> BellwireCall {
            guard !isStopped else { throw SignalingError(.invalidState, "stop() was called") }
            let (manager, callID) = (manager, SignalingClient.makeCallID())
            var content = PushContent(
                callID: callID.string, revision: 0, inviter: client.configuration.user.string, media: media)
            content.name = users.map(\.string).joined(separator: ", ")
            let result = await withCheckedContinuation { waiter in
                let id = UUID(callID: callID.string)
                let invite = { @MainActor @Sendable () async -> Result<BellwireCall, SignalingError> in
                    do throws(SignalingError) {
                        let call = try await manager.call(
                            callID, users, media: media, timeout: timeout, extendedData: extendedData, push: push)
                        return .success(call)
                    } catch {
                        return .failure(error)
                    }
                }
                outgoing[id] = Outgoing(invite: invite, waiter: waiter)
                handle(.call(content, id))
            }
            return try result.get()
        }

        /// Calls the user with the id `user`.
        ///
        /// - Throws: the errors of `call(_:)` for several users; `badRequest` for a text that is not a user id.
        @discardableResult
        public func call(_ user: String, media: String? = nil) async throws(SignalingError) -> BellwireCall {
            try await call([UserID(word: user)], media: media)
        }

        /// Invites the users once CallKit has started the call.
        private func invite(_ id: UUID, _ ring: Int) {
            guard let call = outgoing.removeValue(forKey: id) else { return }
            let attempt = Task { () async -> Result<BellwireCall, SignalingError> in
                await departed()
                guard !Task.isCancelled else { return .failure(SignalingError(.cancelled, "the user has hung up")) }
                return await call.invite()
            }
            inviting[id] = attempt
            Task {
                let result = await attempt.value
                inviting[id] = nil
                switch result {
                case .success(let call):
                    handle(.called(id, ring: ring, as: UUID(callID: call.id.string), Self.content(of: call)))
                    follow(call)
                case .failure: handle(.callFailed(id, ring: ring))
                }
                call.waiter.resume(returning: result)
            }
        }

        private func abandon(_ id: UUID) {
            let error = SignalingError(.invalidState, "CallKit does not start the call")
            outgoing.removeValue(forKey: id)?.waiter.resume(returning: .failure(error))
        }

        // MARK: The app's own buttons

        /// Answers a call that rings, from a button of the app's own: CallKit then shows the call as answered.
        public func answer(_ call: BellwireCall) {
            controller.request(CXTransaction(action: CXAnswerCallAction(call: shownID(of: call)))) { _ in }
        }

        /// Declines or leaves a call, from a button of the app's own.
        public func hangUp(_ call: BellwireCall) {
            controller.request(CXTransaction(action: CXEndCallAction(call: shownID(of: call)))) { _ in }
        }

        private func shownID(of call: BellwireCall) -> UUID { machine.shownID(UUID(callID: call.id.string)) }

        // MARK: News of the connection

        private func followClient() {
            let (calls, events, changes) = (client.incomingCalls, client.eventsFromNow, manager.changesFromNow)
            let ofCalls = Task { [weak self] in
                for await call in calls {
                    guard let self else { return }
                    follow(call)
                }
            }
            let ofConnections = Task { [weak self] in
                for await event in events where event == .online {
                    guard let self else { return }
                    await registerToken()
                }
            }
            let ofTheManager = Task { [weak self] in
                for await change in changes {
                    guard let self else { return }
                    switch change.state {
                    // The app may have accepted the call, or a glare merge may have accepted a call that has not rung
                    // here.
                    case .connecting: if let call = change.call { follow(call) }
                    case .idle: isIdle(after: change.call)
                    case .calling, .ringing, .connected: break
                    }
                }
            }
            followers = [ofCalls, ofConnections, ofTheManager]
        }

        /// Called when the manager has no call any more. The conversation of a common call goes on after the service
        /// has ended the call; this conversation is over now.
        private func isIdle(after call: BellwireCall?) {
            let last = call.map { UUID(callID: $0.id.string) }
            let isOver = manager.callID == nil ? outliving : outliving.filter { $0 == last }
            // The user may hang up a common call before its end by the answer is seen here.
            if let last, !isOver.contains(last), known[last] != nil { left.insert(last) }
            outliving.subtract(isOver)
            for id in isOver {
                let revision = known.removeValue(forKey: id)?.snapshot.revision ?? .max
                handle(.ended(id, revision: revision, .remoteEnded))
            }
        }

        /// Follows a call that rings or runs here, until the call is over for this device.
        private func follow(_ call: BellwireCall) {
            guard !isStopped else { return }
            let id = UUID(callID: call.id.string)
            // The changes are subscribed to before the state is read, so that no end of the call is missed.
            let changes = call.changesFromNow
            let isNew = known[id] !== call
            let isRinging = call.state != .ended && call.ownMember?.state.isPending ?? false
            let isOngoing = isRinging || isRunning(call)
            if isOngoing { known[id] = call }
            for waiter in arrivals.removeValue(forKey: id) ?? [] { waiter.resume() }
            // The call may be over before the main actor comes to it, and CallKit may show it by a push.
            guard isOngoing else {
                let isElsewhere = call.ownMember?.state == .accepted && !isHere(call)
                let end = call.isOutgoing && call.state == .ended ? CallChange.ended(call.endReason) : .left
                return ended(call, id, Self.reason(isElsewhere ? .handledElsewhere(nil) : end, call) ?? .remoteEnded)
            }
            if !isRinging {
                tellRunning(call, id)
            } else if !declining.contains(id) {
                handle(.rings(Self.content(of: call), id))
            } else if isNew {
                // The user has declined before the connection has brought the call.
                Task { try? await call.reject() }
            }
            if call.state == .ended {
                outliving.insert(id)
            } else if isNew {
                Task { [weak self] in
                    for await change in changes {
                        guard let self, !isStopped else { return }
                        if isLast(change, of: call, id) { return }
                    }
                    self?.ended(call, id, .remoteEnded)
                }
            }
        }

        /// Tells the ringing machine of a change of a call. Returns true for the last change of the call at the service
        /// or for this device.
        private func isLast(_ change: CallChange, of call: BellwireCall, _ id: UUID) -> Bool {
            if case .member(let member, _) = change, member.userID == client.configuration.user,
                member.state.isPending, call.ownMember?.state.isPending ?? false, !declining.contains(id)
            {
                handle(.rings(Self.content(of: call), id))
            }
            if change == .ended(.answered), isHere(call), !left.contains(id) {
                outliving.insert(id)
                tellRunning(call, id)
                return true
            }
            guard let reason = Self.reason(change, call) else {
                if isRunning(call) { tellRunning(call, id) }
                return false
            }
            ended(call, id, reason)
            return true
        }

        func tellRunning(_ call: BellwireCall, _ id: UUID) {
            let revision = call.snapshot.revision
            handle(.accepted(id, revision: revision))
            if call.state == .active || call.endReason == .answered { handle(.active(id, revision: revision)) }
        }

        private func ended(_ call: BellwireCall, _ id: UUID, _ reason: RingingMachine.EndReason) {
            if known[id] === call { known[id] = nil }
            left.remove(id)
            handle(.ended(id, revision: call.snapshot.revision, reason))
        }

        /// Whether this device has answered the call.
        private func isHere(_ call: BellwireCall) -> Bool {
            call.ownMember?.state == .accepted && call.ownMember?.device == client.configuration.device
        }

        /// Whether this device is in the call. A common call, which the service ends with the answer, goes on as long
        /// as the manager has the call, or may get the call as the response to its invitation (glare merge).
        func isRunning(_ call: BellwireCall) -> Bool {
            guard isHere(call) else { return false }
            guard call.state == .ended else { return true }
            return call.endReason == .answered && (manager.callID == call.id || manager.state == .calling)
        }

        private static func content(of call: BellwireCall) -> PushContent {
            var content = PushContent(
                callID: call.id.string, revision: call.snapshot.revision, inviter: call.inviter.string,
                media: call.media)
            content.name = call.snapshot.member(call.inviter)?.name
            content.expiresIn = call.snapshot.timeout * 1_000
            return content
        }

        /// Returns the reason for which the change ends the call for this device; nil for other changes.
        private static func reason(_ change: CallChange, _ call: BellwireCall) -> RingingMachine.EndReason? {
            let own = call.ownMember?.state
            switch change {
            case .handledElsewhere: return own == .rejected ? .declinedElsewhere : .answeredElsewhere
            case .invitationExpired: return .unanswered
            case .left: return own == .rejected ? .declinedElsewhere : own == .timeout ? .unanswered : .remoteEnded
            case .ended(let end) where call.isOutgoing: return outgoingReason(end)
            case .ended: return own == .timeout ? .unanswered : .remoteEnded
            case .member, .active, .signal: return nil
            }
        }

        /// Returns CallKit's reason for the end of a call that this user made.
        private static func outgoingReason(_ end: EndReason?) -> RingingMachine.EndReason {
            switch end {
            case .timeout: .unanswered
            case .callerLost, .heartbeatTimeout, nil: .failed
            case .answered, .rejected, .busy, .cancelled, .hangup, .quit: .remoteEnded
            }
        }

        // MARK: Actions

        func handle(_ event: RingingMachine.Event) {
            for action in machine.handle(event) { perform(action) }
        }

        private func perform(_ action: RingingMachine.Action) {
            switch action {
            case .report(let id, let ring, let content):
                report(id, content) { self.handle(.reported(id, ring: ring, isShown: $0)) }
            case .reportAgain(let id, let content): report(id, content) { _ in }
            case .reportNothing(let id): report(id, nil) { _ in self.handle(.reportedNothing(id)) }
            case .end(let id, let reason):
                provider.reportCall(with: id, endedAt: nil, reason: CXCallEndedReason(reason))
            case .connect:
                let client = client
                // A connection may have died unseen while the phone slept.
                client.networkChanged()
                Task { try? await client.connect() }
            case .check(let id, let ring, let url):
                Task { handle(.checked(id, ring: ring, await ask(url, false))) }
            case .wait(let id, let ring, let milliseconds):
                Task {
                    try? await Task.sleep(for: .milliseconds(milliseconds))
                    handle(.expired(id, ring: ring))
                }
            case .accept(let id, let ring, _):
                let attempt = Task { await accept(id) }
                accepting[id] = attempt
                Task {
                    let isAccepted = await attempt.value
                    if accepting[id] == attempt { accepting[id] = nil }
                    handle(.answered(id, ring: ring, isAccepted: isAccepted))
                }
            case .requestAnswer(let id, let ring): request(CXAnswerCallAction(call: id), ring)
            case .fulfillAnswer(let id): answers.removeValue(forKey: id)?.fulfill()
            case .failAnswer(let id): answers.removeValue(forKey: id)?.fail()
            case .decline(let content):
                // At once: the connection may bring the call before the task begins.
                declining.insert(UUID(callID: content.callID))
                depart { await $0.decline(content) }
            case .hangUp(let content): depart { await $0.leave(content) }
            case .requestStart(let id, let ring, let content):
                let action = CXStartCallAction(call: id, handle: CXHandle(type: .generic, value: content.name ?? ""))
                action.isVideo = content.media == "video"
                request(action, ring)
            case .fulfillStart(let id): fulfillStart(id)
            case .failStart(let id): starts.removeValue(forKey: id)?.fail()
            case .call(let id, let ring): invite(id, ring)
            case .abandonCall(let id): abandon(id)
            case .startedConnecting(let id): provider.reportOutgoingCall(with: id, startedConnectingAt: nil)
            case .connected(let id): provider.reportOutgoingCall(with: id, connectedAt: nil)
            }
        }

        /// Leaves the calls that run, and forgets all calls: CallKit shows none any more.
        func leaveCalls() {
            (answers, starts) = ([:], [:])
            handle(.reset)
        }

        private func fulfillStart(_ id: UUID) {
            guard let action = starts.removeValue(forKey: id) else { return }
            action.fulfill()
            let name = action.handle.value
            provider.reportCall(with: id, updated: Self.update(name, name, isVideo: action.isVideo))
        }

        private func request(_ action: CXCallAction, _ ring: Int) {
            let id = action.callUUID
            controller.request(CXTransaction(action: action)) { @Sendable error in
                guard error != nil else { return }
                Task { @MainActor in self.handle(.refused(id, ring: ring)) }
            }
        }

        /// Begins to leave or reject a call. Answers and new calls wait until this is done, at most `Bounds.departure`.
        private func depart(_ leave: @escaping @MainActor (BellwireCallKit) async -> Void) {
            let departure = Task { await leave(self) }
            departures.insert(departure)
            Task {
                await departure.value
                departures.remove(departure)
            }
        }

        /// Returns when this device has left the calls that it is about to leave, or after a time.
        func departed() async {
            let departures = departures
            guard !departures.isEmpty else { return }
            let (ends, end) = AsyncStream.makeStream(of: Void.self)
            Task {
                for departure in departures { await departure.value }
                end.finish()
            }
            let limit = Task {
                try? await Task.sleep(for: .milliseconds(Bounds.departure))
                end.finish()
            }
            for await _ in ends {}
            limit.cancel()
        }

        /// Reports a call to CallKit. `done` gets whether CallKit shows the call.
        private func report(_ id: UUID, _ content: PushContent?, _ done: @escaping @MainActor (Bool) -> Void) {
            let name = content?.name ?? content?.inviter
            let update = Self.update(content?.inviter ?? "unknown", name, isVideo: content?.media == "video")
            provider.reportNewIncomingCall(with: id, update: update) { error in
                // CallKit may show an earlier invitation to the same call: that rings on, for this invitation.
                let isShown = error == nil || (error as? CXErrorCodeIncomingCallError)?.code == .callUUIDAlreadyExists
                Task { @MainActor in done(isShown) }
            }
        }

        private static func update(_ handle: String, _ name: String?, isVideo: Bool) -> CXCallUpdate {
            let update = CXCallUpdate()
            update.remoteHandle = CXHandle(type: .generic, value: handle)
            update.localizedCallerName = name
            update.hasVideo = isVideo
            (update.supportsHolding, update.supportsGrouping) = (false, false)
            (update.supportsUngrouping, update.supportsDTMF) = (false, false)
            return update
        }

        /// Accepts a call. Returns whether the service has accepted.
        private func accept(_ id: UUID) async -> Bool {
            if known[id] == nil { await arrival(of: id) }
            await departed()
            guard let call = known[id], !Task.isCancelled else { return false }
            // The app may have accepted before, or at the same time.
            if isRunning(call) { return true }
            do {
                if manager.call !== call { try manager.take(call) }
                try await manager.accept()
                return true
            } catch {
                if isRunning(call) { return true }
                // The caller must not hear the call ring until its timeout. After a hang-up the call is declined.
                if !Task.isCancelled { depart { await $0.rejectAsBusy(call) } }
                return false
            }
        }

        private func rejectAsBusy(_ call: BellwireCall) async {
            guard call.state != .ended, call.ownMember?.state.isPending ?? false else { return }
            if manager.call === call {
                try? await manager.reject(WellKnownReason.busy)
            } else {
                try? await call.reject(WellKnownReason.busy)
            }
        }

        /// Returns when the connection has brought the call, or after a time.
        private func arrival(of id: UUID) async {
            let limit = Task {
                try? await Task.sleep(for: .milliseconds(Bounds.arrival))
                for waiter in arrivals.removeValue(forKey: id) ?? [] { waiter.resume() }
            }
            await withCheckedContinuation { arrivals[id, default: []].append($0) }
            limit.cancel()
        }

        /// Rejects a call: by the connection, where there is one, else by the ring check.
        private func decline(_ content: PushContent) async {
            let id = UUID(callID: content.callID)
            declining.insert(id)
            if await isDeclined(content, id) {
                declining.remove(id)
                return
            }
            Task {
                // The connection may still bring the call.
                try? await Task.sleep(for: .milliseconds(content.expiresIn ?? RingingMachine.longestRinging))
                declining.remove(id)
            }
        }

        /// Rejects a call. Returns whether the service has learned of the rejection.
        private func isDeclined(_ content: PushContent, _ id: UUID) async -> Bool {
            if let call = known[id] {
                if manager.call === call {
                    if (try? await manager.reject()) != nil { return true }
                } else if (try? await call.reject()) != nil {
                    return true
                }
            }
            guard let check = content.check else { return false }
            for attempt in 1...Bounds.declineAttempts {
                if await ask(check, true) != nil { return true }
                if attempt < Bounds.declineAttempts { try? await Task.sleep(for: Bounds.declinePause) }
            }
            return false
        }

        private func leave(_ content: PushContent) async {
            let id = UUID(callID: content.callID)
            // The user hangs up while the accept is under way. The outcome of the accept decides: an accepted call is
            // left, any other call is declined.
            if let attempt = accepting[id] {
                attempt.cancel()
                // The accept does not go on waiting for the connection to bring the call.
                for waiter in arrivals.removeValue(forKey: id) ?? [] { waiter.resume() }
                guard await attempt.value else { return await decline(content) }
            }
            // The user hangs up while the invitation is under way, which a glare merge may turn into another call.
            if let attempt = inviting[id] {
                attempt.cancel()
                if manager.callID?.string == content.callID { try? await manager.hangUp() }
                if case .success(let call) = await attempt.value { await leave(call) }
                return
            }
            guard let call = known[id] else { return }
            await leave(call)
        }

        private func leave(_ call: BellwireCall) async {
            let id = UUID(callID: call.id.string)
            if outliving.remove(id) != nil, known[id] === call { known[id] = nil }
            if manager.callID == call.id { try? await manager.hangUp() }
            // Does nothing when the manager has left the call.
            try? await call.hangUp()
        }
    }

    extension BellwireCallKit: @preconcurrency CXProviderDelegate {
        public func providerDidReset(_ provider: CXProvider) {
            leaveCalls()
        }

        public func provider(_ provider: CXProvider, perform action: CXAnswerCallAction) {
            guard answers[action.callUUID] == nil else { return action.fail() }
            answers[action.callUUID] = action
            handle(.answer(action.callUUID))
        }

        public func provider(_ provider: CXProvider, perform action: CXStartCallAction) {
            starts[action.callUUID] = action
            handle(.start(action.callUUID))
        }

        public func provider(_ provider: CXProvider, perform action: CXEndCallAction) {
            handle(.hangUp(action.callUUID))
            action.fulfill()
        }

        public func provider(_ provider: CXProvider, perform action: CXSetMutedCallAction) {
            onMute?(action.isMuted)
            action.fulfill()
        }

        public func provider(_ provider: CXProvider, timedOutPerforming action: CXAction) {
            guard let answer = action as? CXAnswerCallAction else { return }
            // CallKit has failed the action.
            answers[answer.callUUID] = nil
            handle(.hangUp(answer.callUUID))
            provider.reportCall(with: answer.callUUID, endedAt: nil, reason: .failed)
        }

        public func provider(_ provider: CXProvider, didActivate audioSession: AVAudioSession) { onAudio?(true) }

        public func provider(_ provider: CXProvider, didDeactivate audioSession: AVAudioSession) { onAudio?(false) }
    }

    extension CXCallEndedReason {
        fileprivate init(_ reason: RingingMachine.EndReason) {
            switch reason {
            case .failed: self = .failed
            case .remoteEnded: self = .remoteEnded
            case .unanswered: self = .unanswered
            case .answeredElsewhere: self = .answeredElsewhere
            case .declinedElsewhere: self = .declinedElsewhere
            }
        }
    }

    extension UUID {
        /// Creates CallKit's UUID of a call: the first 16 bytes of the call id's SHA-256, the same for the push and for
        /// the connection's events, so that CallKit shows the call once.
        public init(callID: String) {
            let bytes = Array(SHA256.hash(data: Data(callID.utf8)))[..<16]
            self = bytes.withUnsafeBytes { UUID(uuid: $0.load(as: uuid_t.self)) }
        }
    }

    /// Asks a ring check, or rejects the call by it. Nil: the phone rings on.
    private func ringCheck(_ check: URL, _ rejects: Bool) async -> RingCheckAnswer? {
        var url = check
        if rejects {
            guard var parts = URLComponents(url: check, resolvingAgainstBaseURL: false) else { return nil }
            parts.percentEncodedPath += "/reject"
            guard let whole = parts.url else { return nil }
            url = whole
        }
        var request = URLRequest(url: url, cachePolicy: .reloadIgnoringLocalCacheData, timeoutInterval: 5)
        request.httpMethod = rejects ? "POST" : "GET"
        guard let (data, response) = try? await URLSession.shared.data(for: request),
            (response as? HTTPURLResponse)?.statusCode == 200
        else { return nil }
        return try? JSONDecoder().decode(RingCheckAnswer.self, from: data)
    }
#endif
