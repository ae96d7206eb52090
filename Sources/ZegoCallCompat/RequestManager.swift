public import DropInSupport
public import Foundation
internal import SignalingProtocol

/// The vendor's `RequestManager` over Bellwire: makes the requests of document 003 (docs/migrate/zego-call.md), and
/// passes notifications to `listener`. All managers use the same connection, which `connect` makes.
///
/// A manager may be used from any thread. Callbacks and notifications come on the main queue, in order, never from
/// within a request or a callback. The callback of a request comes before the notifications of its success.
public class RequestManager: NSObject, RequestProtocol {
    /// The listener for the service's notifications. A listener of several managers gets each notification once.
    public weak var listener: (any ListenerUpdater)? = ListenerManager.shared

    public override init() {
        super.init()
        ListenerRegistry.shared.add(self)
    }

    // MARK: The connection

    /// Connects the user, in place of the user who was connected before; from now on the user's phone rings here. When
    /// user, broker, topics and device are the same as before, the present connection and its calls go on, and the new
    /// `tokenProvider` is used from then on.
    ///
    /// `completion` gets nil, or the reason why there is no connection: `paramInvalid` when the configuration or the
    /// user id is not valid; `networkError` when broker and service were not reached within 10 s, or the broker refuses
    /// the user; `tokenExpired` when the broker refuses a token that has ended. After nil a lost connection is made
    /// again without a call of the app, until one of these: `disconnect`; a `connect` with another user, broker, topics
    /// or device, or with a token provider where there was none, or the reverse; another connection that takes over the
    /// device id.
    ///
    /// `userName` is the name for the user's profile; an empty text leaves the profile unchanged.
    public static func connect(
        _ configuration: BellwireConfiguration, userID: String, userName: String,
        completion: @escaping (ZegoError?) -> Void
    ) {
        ZegoConnection.shared.connect(configuration, userID: userID, userName: userName, OnMain(completion))
    }

    /// Disconnects: the user's phone does not ring here any more. Unanswered requests fail with `notLogin`.
    public static func disconnect() { ZegoConnection.shared.disconnect() }

    // MARK: Pushes

    /// Sets the token of PushKit of this installation, or removes the token when `token` is empty: a sleeping phone
    /// then is woken for calls (docs/push.md). May be called before or after `connect`; each connection registers the
    /// token, and `disconnect` ends the registration. `isProduct` is false for builds from Xcode, whose tokens are
    /// those of Apple's sandbox.
    public static func setVoipToken(_ token: Data, isProduct: Bool) {
        ZegoConnection.shared.set(.apnsVoIP, Array(token), isProduct)
    }

    /// Sets the token for notifications, in the same way.
    public static func setDeviceToken(_ token: Data, isProduct: Bool) {
        ZegoConnection.shared.set(.apns, Array(token), isProduct)
    }

    // MARK: Requests

    /// Makes a request of ZEGO's document 003: `path` is one of the `API_…` constants. A request is tried for 10 s.
    public func request(_ path: String, parameter: [String: AnyObject], callback: RequestCallback?) {
        let done = OnMain<RequestCallback?>(callback)
        do throws(ZegoError) {
            ZegoConnection.shared.perform(try ZegoRequest(path, parameter), done)
        } catch {
            let refusal = error
            MainDelivery.deliver { done.value?(.failure(refusal)) }
        }
    }
}
