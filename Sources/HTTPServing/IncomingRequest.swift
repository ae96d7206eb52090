/// A request that is being read and answered. microhttpd's thread alone uses it.
final class IncomingRequest {
    /// Path and query.
    let target: String
    /// Nil until all headers are here.
    var head: RequestHead?
    private(set) var body: [UInt8] = []
    private var dropped = 0
    /// Nil until it is whole.
    var exchange: HTTPExchange?
    var isAnswered = false
    /// Of a response that goes on.
    var stream: HTTPStream?

    init(target: String) { self.target = target }

    var isTooLong: Bool { dropped > 0 }

    /// False when so much too much has come that nobody waits for the end of it.
    func take(_ bytes: UnsafeRawBufferPointer, longestBody: Int) -> Bool {
        guard !isTooLong, body.count + bytes.count <= longestBody else {
            dropped += body.count + bytes.count
            body = []
            return dropped <= longestBody + HTTPServerSettings.mostDropped
        }
        body += bytes
        return true
    }
}
