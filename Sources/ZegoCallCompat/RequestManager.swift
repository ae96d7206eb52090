public import DropInSupport
public import Foundation

/// The vendor's `RequestManager` over Bellwire: makes the requests of document 003, and hands its notifications to `listener`. All of them use
/// the one connection that `connect` makes.
///
/// May be used from any thread. Callbacks and notifications come on the main queue, one after another, never from inside a request or a
/// callback; the callback of a request before the notifications of its success.
public class RequestManager: NSObject, RequestProtocol {
    /// Who is told what the service notifies. Of several managers with one listener it hears once.
    public weak var listener: (any ListenerUpdater)? = ListenerManager.shared

    public override init() {
        super.init()
        ListenerRegistry.shared.add(self)
    }

    // MARK: The connection

    /// Connects the user, in the place of whoever was connected; the user's phone rings here from then on. Again for the same user, broker,
    /// topics and device, the connection goes on with its calls, and the new `tokenProvider` is asked from then on.
    ///
    /// `completion` gets nil, or why there is no connection: `paramInvalid` when the configuration or the user id is not of its form,
    /// `networkError` when broker and service were not reached within 10 s or the broker refuses, `tokenExpired` when it refuses a token that
    /// has ended. After nil the connection is kept until `disconnect`, also when it is lost and another `connect` cannot bring it back in time.
    ///
    /// `userName` is what the user's profile is to say; the empty string leaves it as it is.
    public static func connect(
        _ configuration: BellwireConfiguration, userID: String, userName: String,
        completion: @escaping (ZegoError?) -> Void
    ) {
        ZegoConnection.shared.connect(configuration, userID: userID, userName: userName, OnMain(completion))
    }

    /// Says goodbye: the user's phone does not ring here any more. Requests that are not answered fail with `notLogin`.
    public static func disconnect() { ZegoConnection.shared.disconnect() }

    // MARK: Requests

    /// As document 003 has it: `path` is one of the `API_…` constants. A request is tried for 10 s.
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
