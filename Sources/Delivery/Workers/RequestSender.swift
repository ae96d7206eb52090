import HTTPSending

/// Who carries requests to endpoints, and brings their answers: `HTTPSender`, or what a simulation or a test puts in its place.
package protocol RequestSender: AnyObject {
    /// Gives a request to be sent; its answer will be among those of `take`, exactly once. It never waits.
    func send(_ request: HTTPRequest)

    /// The answers that have come since the last time.
    func take() -> [HTTPAnswer]

    /// Readable while `take` has something to give; below 0 when there is no such thing.
    var descriptor: Int32 { get }
}

extension HTTPSender: RequestSender {}
