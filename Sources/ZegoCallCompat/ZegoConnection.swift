internal import BellwireClient
internal import BellwireClientCore
internal import DropInSupport
internal import Foundation
internal import SignalingProtocol
internal import Basics

/// The single connection of the app, and its calls. All work is done in order, on a queue of its own.
///
/// Sendable: all variable properties are used on `queue` only.
final class ZegoConnection: @unchecked Sendable {
    typealias Callback = OnMain<RequestCallback?>
    typealias Completion = OnMain<(ZegoError?) -> Void>

    static let shared = ZegoConnection { ListenerRegistry.shared.tell($0) }

    let queue = DispatchQueue(label: "ZegoCallCompat")
    /// The transport to use in place of MQTT, for tests.
    private let transport: (any BellwireTransport)?
    private let tell: @Sendable (ToldNotification) -> Void

    /// The present client: from `connect` until `disconnect`, a failed connection, or another connection with this
    /// device id.
    private(set) var client: SignalingClient?
    /// The user and deployment of the present client.
    private var target: Target?
    /// The token provider of the present client.
    private var provider = NewestProvider()
    /// The number of the present client, to tell its news from the news of former clients.
    private var clientNumber = 0
    private(set) var isLoggedIn = false
    /// The connection state of the present client, else of the last client.
    private(set) var standing = BellwireConnectionState.disconnected
    private(set) var tokens = TokenWatch()
    /// The push tokens of this installation, and the apps with which the present client registers them.
    private let pushTokens = PushTokens()
    private var pushApps: PushApps?
    /// The time limit for ending the registrations for pushes.
    private static let unregisteringTime = Duration.seconds(2)
    var ledger: CallLedger?
    var held = HeldCancels()
    /// The requests that wait, in their order, until this device has left the calls of an earlier run of the app; nil
    /// when the device leaves no calls.
    var waiting: [(request: ZegoRequest, callback: Callback)]?
    static let mostWaiting = 256
    /// The time limit for leaving each call.
    static let quitTime = Duration.seconds(5)
    /// The events that came before the app was told of the connection.
    private var early: [ClientEvent] = []
    private static let mostEarly = 1_024

    init(transport: (any BellwireTransport)? = nil, tell: @escaping @Sendable (ToldNotification) -> Void) {
        self.transport = transport
        self.tell = tell
    }

    // MARK: The connection

    func connect(_ configuration: BellwireConfiguration, userID: String, userName: String, _ completion: Completion) {
        queue.async { [self] in
            do throws(SignalingError) {
                let client = try presentClient(configuration, userID)
                let number = clientNumber
                client.connect(then: { [weak self] error in
                    guard let self else { return }
                    queue.async { self.connected(error, number, userName, completion) }
                })
            } catch {
                complete(completion, ZegoError(error))
            }
        }
    }

    func disconnect() { queue.async { [self] in end() } }

    /// Returns the client for this user. A present connection for the same user goes on, with all earlier
    /// notifications; the new token provider is called when another token is needed. In any other case the former
    /// connection ends.
    private func presentClient(
        _ configuration: BellwireConfiguration, _ userID: String
    ) throws(SignalingError) -> SignalingClient {
        let target = Target(configuration, userID)
        guard let client, self.target == target else {
            end()
            self.target = target
            return try makeClient(configuration, userID)
        }
        provider.replace(configuration.tokenProvider)
        if standing != .connected { client.networkChanged() }
        return client
    }

    private func makeClient(
        _ configuration: BellwireConfiguration, _ userID: String
    ) throws(SignalingError) -> SignalingClient {
        tokens = TokenWatch()
        var configuration = configuration
        provider = NewestProvider()
        provider.replace(configuration.tokenProvider)
        if configuration.tokenProvider != nil { configuration.tokenProvider = provider.token }
        var settings = try configuration.clientConfiguration(userID: userID, transport: transport, tokens: tokens)
        settings.sendsHeartbeats = false
        settings.resumesCalls = false
        pushApps = try configuration.pushApps()
        clientNumber += 1
        standing = .disconnected
        let (client, number) = (SignalingClient(settings), clientNumber)
        self.client = client
        ledger = CallLedger(user: settings.user, device: settings.device)
        client.observe { [weak self] event in
            guard let self else { return }
            queue.async { self.told(event, number) }
        }
        return client
    }

    private func connected(_ error: SignalingError?, _ number: Int, _ userName: String, _ completion: Completion) {
        complete(completion, error.map(refusal))
        guard number == clientNumber, let client else { return }
        guard error == nil else {
            // If an earlier `connect` has succeeded, the connection is kept: the client goes on trying.
            if !isLoggedIn { end() }
            return
        }
        isLoggedIn = true
        for event in early { took(event, number) }
        early = []
        // When the service refuses a name, the app is not told: the caller's name also travels with each call.
        if !userName.isEmpty { client.perform(.userUpdate(.init(name: userName))) { _ in } }
    }

    private func end() {
        guard let client else { return }
        self.client = nil
        clientNumber += 1
        isLoggedIn = false
        (ledger, early) = (nil, [])
        for (_, callback) in waiting ?? [] { complete(callback, .failure(.notLogin)) }
        waiting = nil
        for cancel in held.removeAll() { complete(cancel.callback, .failure(.notLogin)) }
        let hasPushes = standing == .connected && !pushTokens.isEmpty
        Task.detached {
            if hasPushes { await Self.endPushes(client) }
            await client.disconnect()
        }
    }

    // MARK: Pushes

    /// Sets a push token of this installation, and registers the tokens.
    func set(_ platform: PushPlatform, _ token: [UInt8], _ isProduct: Bool) {
        queue.async { [self] in
            pushTokens.set(platform, token, isProduct: isProduct)
            registerPushes()
        }
    }

    /// Registers the push tokens. The service's log and metrics tell of refusals: the vendor's interface has no
    /// callback.
    private func registerPushes() {
        guard standing == .connected, let client, let pushApps else { return }
        for request in pushTokens.requests(pushApps) { client.perform(request) { _ in } }
    }

    private static func endPushes(_ client: SignalingClient) async {
        await withCheckedContinuation { waiter in
            client.perform(.pushUnregister(.init(platform: nil, app: nil)), within: unregisteringTime) { _ in
                waiter.resume()
            }
        }
    }

    private func complete(_ completion: Completion, _ error: ZegoError?) {
        MainDelivery.deliver { completion.value(error) }
    }

    // MARK: Events of the service

    private func told(_ event: ClientEvent, _ number: Int) {
        guard number == clientNumber, client != nil else { return }
        if case .connection(let state) = event { return stands(state) }
        // A device gets events of calls as soon as it listens, before the service knows the device.
        guard isLoggedIn || early.count >= Self.mostEarly else { return early.append(event) }
        took(event, number)
    }

    private func took(_ event: ClientEvent, _ number: Int) {
        switch event {
        case .event(let event): news { $0.received(event.call, isElsewhere: event.name == .handledElsewhere) }
        case .snapshot(let call): news { $0.received(call) }
        case .gone(let call): lookFor(call.callID, number)
        case .connection, .online, .offline, .invitationExpired, .signal, .message, .receipt, .tokenWillExpire, .error:
            break
        }
    }

    private func stands(_ state: BellwireConnectionState) {
        standing = state
        if state == .connected { registerPushes() }
        if state == .takenOver { end() }
    }

    func news(_ change: (inout CallLedger) -> [ToldNotification]) {
        guard var ledger else { return }
        let news = change(&ledger)
        self.ledger = ledger
        for notification in news { tell(notification) }
    }

    /// Asks the service how a call ended while this device could not be reached.
    private func lookFor(_ callID: CallID, _ number: Int) {
        client?.perform(.get(.init(callID: callID)), within: Self.requestTimeout) { [weak self] outcome in
            guard let self else { return }
            queue.async {
                guard number == self.clientNumber else { return }
                if case .success(let success) = outcome, success.call.state == .ended {
                    self.news { $0.received(success.call) }
                }
                self.news { $0.gone(callID) }
            }
        }
    }

    /// The time limit of a request.
    static let requestTimeout = Duration.seconds(10)
}

extension ZegoConnection {
    /// The user of a connection, and its deployment.
    private struct Target: Equatable {
        let userID: String
        let broker: String
        let device: String?
        let topicRoot: String
        /// Without a provider the client gives up when the token ends.
        let hasProvider: Bool

        init(_ configuration: BellwireConfiguration, _ userID: String) {
            self.userID = userID
            (broker, device, topicRoot) = (configuration.broker, configuration.device, configuration.topicRoot)
            hasProvider = configuration.tokenProvider != nil
        }
    }
}

/// The newest token provider of the app.
private final class NewestProvider: Sendable {
    private let provider = Mutex<TokenWatch.Provider?>(nil)

    func replace(_ provider: TokenWatch.Provider?) { self.provider.withLock { $0 = provider } }

    @Sendable func token(_ userID: String) async throws -> String {
        guard let provider = provider.withLock(\.self) else { throw CancellationError() }
        return try await provider(userID)
    }
}
