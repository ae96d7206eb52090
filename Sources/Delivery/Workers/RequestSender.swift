import HTTPSending

/// The sender of requests to endpoints and providers: `HTTPSender`, or a substitute in a simulation or a test.
package protocol RequestSender: AnyObject {
    /// Takes a request to be sent; `take` returns its response exactly once. Never waits.
    func send(_ request: HTTPRequest)

    /// Returns the responses that have come since the last call.
    func take() -> [HTTPAnswer]

    /// A descriptor that is readable while `take` has responses; below 0 when the sender has no descriptor.
    var descriptor: Int32 { get }
}

extension HTTPSender: RequestSender {}
