internal import BellwireClient
internal import BellwireClientCore
internal import DropInSupport
internal import Foundation
internal import SignalingProtocol

/// The connection of a user, and the messages on their way. All work is done in order on a queue of its own, so that a
/// busy main queue delays no messages.
///
/// Sendable: all variable properties are used on `queue` only.
final class SignalSession: @unchecked Sendable {
    typealias Completion = OnMain<((NSError?) -> Void)?>

    struct Pending {
        let peer: UserID
        let completion: Completion
    }

    let audience = Audience()
    let queue = DispatchQueue(label: "BellwireSignalClient")
    private let configuration: BellwireConfiguration
    private let userID: String
    /// The transport to use in place of MQTT, for tests.
    private let transport: (any BellwireTransport)?
    private var token: String?
    private let tokens = TokenWatch()

    /// The present client: from `login` until `logout`, a failed login, or another connection with this device id.
    private(set) var client: SignalingClient?
    /// The number of the present client, to tell its news from the news of former clients.
    private var clientNumber = 0
    private var isLoggedIn = false
    private var isOnline = false
    /// Whether the broker refuses the present client, or refused the last client.
    private var isRefused = false
    /// The reason why there is no connection; nil while there is a connection.
    private(set) var lostReason: String? = SignalSession.notYet
    private static let notYet = "there was none yet"
    var outbox = Outbox { SignalingClient.makeMessageID().string }
    var pending: [MessageID: Pending] = [:]
    /// The messages that the app got. After a logout the service sends the next client all messages without a known ack
    /// again.
    private var shown = ShownMessages()
    /// The messages that came before the app was told of the login.
    private var early: [String] = []

    init(_ configuration: BellwireConfiguration, userID: String, transport: (any BellwireTransport)? = nil) {
        self.configuration = configuration
        self.userID = userID
        self.transport = transport
    }

    var canSend: Bool { isOnline }

    // MARK: The connection

    func login(_ completion: OnMain<(NSError?) -> Void>) {
        queue.async { [self] in
            let done = OnMain<((NSError?) -> Void)?>(completion.value)
            guard Self.user(userID) != nil else {
                let reason = "login: \"\(userID)\" is not a user id"
                return audience.complete(done, SignalClientError.make(SignalClientError.invalidUserId, reason))
            }
            do throws(SignalingError) {
                let client = try presentClient()
                let number = clientNumber
                client.connect(then: { [weak self] error in
                    guard let self else { return }
                    queue.async { self.connected(error, number, done) }
                })
            } catch {
                audience.complete(done, SignalClientError.ofLogin(error))
            }
        }
    }

    private func presentClient() throws(SignalingError) -> SignalingClient {
        if let client { return client }
        return try makeClient()
    }

    private func makeClient() throws(SignalingError) -> SignalingClient {
        let settings = try configuration.clientConfiguration(
            userID: userID, token: token, transport: transport, tokens: tokens)
        clientNumber += 1
        (isRefused, lostReason) = (false, Self.notYet)
        let (client, number) = (SignalingClient(settings), clientNumber)
        self.client = client
        client.observe { [weak self] event in
            guard let self else { return }
            queue.async { self.told(event, number) }
        }
        return client
    }

    private func connected(_ error: SignalingError?, _ number: Int, _ completion: Completion) {
        audience.complete(completion, error.map(reason))
        guard number == clientNumber, client != nil else { return }
        if error == nil {
            isLoggedIn = true
            tellEarly()
        }
        if !isLoggedIn { end("the login failed") }
    }

    /// Returns the error of a failed login. A broker that refuses a token gives no reason.
    private func reason(_ error: SignalingError) -> NSError {
        guard isRefused, error.code == .notConnected, tokens.hasEnded else { return SignalClientError.ofLogin(error) }
        return SignalClientError.make(SignalClientError.tokenExpired, "the token has ended")
    }

    func logout() { queue.async { [self] in end("logged out") } }

    /// Ends the present client; messages on their way fail.
    private func end(_ reason: String) {
        guard let client else { return }
        self.client = nil
        (isLoggedIn, isOnline) = (false, false)
        clientNumber += 1
        for messageID in pending.keys {
            settle(messageID, SignalClientError.make(SignalClientError.notLoggedIn, reason))
        }
        audience.disconnected(reason)
        Task.detached { await client.disconnect() }
    }

    func renew(_ token: String) {
        queue.async { [self] in
            self.token = token
            tokens.note(token)
            client?.renew(token)
        }
    }

    // MARK: Events of the client

    private func told(_ event: ClientEvent, _ number: Int) {
        guard number == clientNumber, client != nil else { return }
        switch event {
        case .connection(let state): stands(state)
        case .message(let message): if shown.isNew(message.messageID) { received(message.text) }
        case .receipt(let receipt): took(receipt)
        case .tokenWillExpire: audience.tokenWillExpire()
        case .online, .offline, .event, .snapshot, .invitationExpired, .gone, .signal, .error: break
        }
    }

    /// Keeps a message until the login is complete: a device gets messages as soon as it listens, before the service
    /// knows the device.
    private func received(_ text: String) {
        early.append(text)
        if isLoggedIn || early.count > ShownMessages.most { tellEarly() }
    }

    private func tellEarly() {
        for text in early { audience.received(text) }
        early = []
    }

    private func stands(_ state: BellwireConnectionState) {
        isRefused = if case .refused = state { true } else { false }
        switch state {
        case .connected:
            isOnline = true
            lostReason = nil
            audience.connected()
            sendNext()
        case .disconnected, .connecting: break
        case .reconnecting(let reason), .refused(let reason): lost(reason)
        case .tokenExpired:
            lost("the token has ended")
            audience.tokenWillExpire()
        case .takenOver: end("another connection has this device id")
        }
    }

    private func lost(_ reason: String) {
        isOnline = false
        lostReason = reason
        audience.disconnected(reason)
    }

    /// Returns the user with this id; nil for CallAPI's `"0"`, which stands for no user, and for an invalid id.
    static func user(_ userID: String) -> UserID? { userID == "0" ? nil : UserID(userID) }
}

extension BellwireIncomingMessage {
    /// The text that was passed to `sendMessage`; the JSON of other clients' messages.
    fileprivate var text: String { (try? JSONParser.parse(data.bytes))?.string ?? data.description }
}

/// The last messages that the app got.
struct ShownMessages {
    static let most = 1_024
    private var order: [MessageID] = []
    private var known: Set<MessageID> = []

    mutating func isNew(_ messageID: MessageID) -> Bool {
        guard known.insert(messageID).inserted else { return false }
        order.append(messageID)
        if order.count > Self.most { known.remove(order.removeFirst()) }
        return true
    }
}
