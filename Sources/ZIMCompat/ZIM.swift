internal import BellwireClient
internal import DropInSupport
public import Foundation
internal import SignalingProtocol
internal import Basics

/// Call invitations with the interface of ZEGOCLOUD's ZIM, served by a Bellwire deployment (docs/migrate/zim.md).
///
/// All methods may be called on any thread. Callbacks and events come on the main queue, in order.
///
/// Sendable: all variable properties are in `state`.
public final class ZIM: NSObject, @unchecked Sendable {
    private struct State {
        var handler = WeakOnMain(nil)
        var session: Session?
        /// The logout of the previous session, which a new session of the same device waits for.
        var goodbye: Task<Void, Never>?
    }

    private struct Common {
        var configuration: BellwireConfiguration?
        /// The transport to use in place of MQTT, for tests.
        var transport: (any BellwireTransport)?
        var requestTime = Session.requestTime
        var shared: ZIM?
    }

    private static let common = Mutex(Common())
    private let state = Mutex(State())

    // MARK: The instance

    /// Sets the deployment. Call this method before `create`; a present login stays unchanged.
    public static func configure(_ configuration: BellwireConfiguration) {
        common.withLock { $0.configuration = configuration }
    }

    #if canImport(ObjectiveC)
        /// For Objective-C: sets the deployment by the address of its broker. An app with further settings calls
        /// `configure` in Swift.
        @available(swift, obsoleted: 1)
        @objc(configureWithBroker:)
        public static func configure(broker: String) { configure(BellwireConfiguration(broker: broker)) }
    #endif

    static func configure(
        _ configuration: BellwireConfiguration, transport: any BellwireTransport, requestTime: Duration
    ) {
        common.withLock { common in
            (common.configuration, common.transport, common.requestTime) = (configuration, transport, requestTime)
        }
    }

    /// Returns the present instance; nil when there is no instance.
    #if canImport(ObjectiveC)
        @objc(getInstance)
    #endif
    public static func shared() -> ZIM? { common.withLock(\.shared) }

    /// Creates the single instance; returns nil when there is an instance already. `config` is not used.
    #if canImport(ObjectiveC)
        @objc(createWithAppConfig:)
    #endif
    public static func create(with config: ZIMAppConfig) -> ZIM? {
        common.withLock { common in
            guard common.shared == nil else { return nil }
            common.shared = ZIM()
            return common.shared
        }
    }

    /// Returns the version of this SDK.
    #if canImport(ObjectiveC)
        @objc(getVersion)
    #endif
    public static func getVersion() -> String { "0.2.0" }

    /// Logs out. The handler gets no more events, and another instance can be created.
    #if canImport(ObjectiveC)
        @objc(destroy)
    #endif
    public func destroy() {
        setEventHandler(nil)
        logout()
        Self.common.withLock { common in
            if common.shared === self { common.shared = nil }
        }
    }

    /// Sets the handler of events, and holds the handler weakly; nil removes the handler.
    #if canImport(ObjectiveC)
        @objc(setEventHandler:)
    #endif
    public func setEventHandler(_ handler: (any ZIMEventHandler)?) {
        state.withLock { $0.handler = WeakOnMain(handler) }
    }

    // MARK: Logging in

    /// Logs in with a token, which may be empty, and stores the name and avatar of `userInfo` unless these are empty.
    /// The callback has 6000103 or 6000106 when the broker refuses the token, 6000104 when the service cannot be
    /// reached.
    #if canImport(ObjectiveC)
        @objc(loginWithUserInfo:token:callback:)
    #endif
    public func login(with userInfo: ZIMUserInfo, token: String, callback: ZIMLoggedInCallback?) {
        login(
            userInfo.userID, token, Self.profile(name: userInfo.userName, avatar: userInfo.userAvatarUrl),
            OnMain(callback))
    }

    /// Logs in as the other `login` does, with the token and name of `config`.
    #if canImport(ObjectiveC)
        @objc(loginWithUserID:config:callback:)
    #endif
    public func login(with userID: String, config: ZIMLoginConfig, callback: ZIMLoggedInCallback?) {
        login(userID, config.token, Self.profile(name: config.userName, avatar: ""), OnMain(callback))
    }

    private static func profile(name: String, avatar: String) -> Request.UserUpdate? {
        guard !name.isEmpty || !avatar.isEmpty else { return nil }
        return Request.UserUpdate(name: name.nonEmpty, avatarURL: avatar.nonEmpty)
    }

    private func login(
        _ userID: String, _ token: String, _ profile: Request.UserUpdate?, _ callback: OnMain<ZIMLoggedInCallback?>
    ) {
        let done: @Sendable (Refusal?) -> Void = { refusal in
            MainDelivery.deliver { callback.value?(ZIMError(refusal)) }
        }
        do throws(Refusal) {
            let session = try makeSession(userID, token)
            let goodbye = try begin(session)
            start(session, profile, after: goodbye, done)
        } catch {
            done(error)
        }
    }

    private func makeSession(_ userID: String, _ token: String) throws(Refusal) -> Session {
        let (configuration, transport, requestTime) = Self.common.withLock {
            ($0.configuration, $0.transport, $0.requestTime)
        }
        guard let configuration else { throw .notConfigured }
        do throws(SignalingError) {
            let tokens = TokenWatch()
            var settings = try configuration.clientConfiguration(
                userID: userID, token: token, transport: transport, tokens: tokens)
            settings.resumesCalls = false
            let pushes = try configuration.pushApps()
            return Session(settings, tokens: tokens, pushes: pushes, requestTime: requestTime) { [weak self] in
                self?.deliver($0)
            }
        } catch {
            throw Refusal(error)
        }
    }

    /// Makes the session the present one. Returns the former session's logout, if that has to be awaited.
    private func begin(_ session: Session) throws(Refusal) -> Task<Void, Never>? {
        try state.withLock { state throws(Refusal) in
            if let present = state.session, !present.isLoggedOut { throw .alreadyLoggedIn }
            if let former = state.session { state.goodbye = Self.goodbye(former) }
            state.session = session
            return state.goodbye
        }
    }

    private static func goodbye(_ session: Session) -> Task<Void, Never> { Task { await session.close() } }

    private func start(
        _ session: Session, _ profile: Request.UserUpdate?, after goodbye: Task<Void, Never>?,
        _ done: @escaping @Sendable (Refusal?) -> Void
    ) {
        let ended: @Sendable (Refusal?) -> Void = { [weak self] refusal in
            if refusal != nil { self?.leave(session) }
            done(refusal)
        }
        guard let goodbye else { return session.start(profile, done: ended) }
        Task {
            await goodbye.value
            session.start(profile, done: ended)
        }
    }

    /// Logs out; an event reports the end of the connection.
    #if canImport(ObjectiveC)
        @objc(logout)
    #endif
    public func logout() {
        guard let session = state.withLock(\.session) else { return }
        leave(session)
    }

    private func leave(_ session: Session) {
        state.withLock { state in
            guard state.session === session else { return }
            state.session = nil
            state.goodbye = Self.goodbye(session)
        }
    }

    /// Connects with another token; the app gets no events of that unless the connection fails.
    #if canImport(ObjectiveC)
        @objc(renewToken:callback:)
    #endif
    public func renewToken(_ token: String, callback: ZIMTokenRenewedCallback?) {
        let callback = OnMain(callback)
        let answer: @Sendable (Refusal?) -> Void = { refusal in
            MainDelivery.deliver { callback.value?(token, ZIMError(refusal)) }
        }
        do throws(Refusal) {
            let session = try session()
            guard !token.isEmpty else { throw .badParameter("token: the text is empty") }
            answer(nil)
            session.renew(token)
        } catch {
            answer(error)
        }
    }

    /// Succeeds at once, since there is no log to upload.
    #if canImport(ObjectiveC)
        @objc(uploadLogWithCallback:)
    #endif
    public func uploadLog(with callback: ZIMLogUploadedCallback?) {
        let callback = OnMain(callback)
        MainDelivery.deliver { callback.value?(ZIMError(nil)) }
    }

    /// Registers the push tokens that the app has set, when there is a login.
    func registerPushes() { state.withLock(\.session)?.registerPushes() }

    // MARK: Requests

    /// Returns the present login.
    func session() throws(Refusal) -> Session {
        guard Self.common.withLock({ $0.configuration != nil }) else { throw .notConfigured }
        guard let session = state.withLock(\.session) else { throw .notLoggedIn }
        return session
    }

    private func deliver(_ notice: Notice) { MainDelivery.deliver { self.tell(notice) } }

    /// The handler of events.
    var handler: (any ZIMEventHandler)? { state.withLock(\.handler).object as? any ZIMEventHandler }
}

extension String {
    var nonEmpty: String? { isEmpty ? nil : self }
}
