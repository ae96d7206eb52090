/// A request, from the reading to the end of the response. Only microhttpd's thread uses this class.
final class IncomingRequest {
    /// Path and query.
    let target: String
    /// Nil until all headers have arrived.
    var head: RequestHead?
    private(set) var body: [UInt8] = []
    private var dropped = 0
    /// Nil until the request is whole.
    var exchange: HTTPExchange?
    var isAnswered = false
    /// The stream of an unfinished response.
    var stream: HTTPStream?

    init(target: String) { self.target = target }

    var isTooLong: Bool { dropped > 0 }

    /// Takes a piece of the body. Returns false when the body exceeds the bound by so many bytes that the server does
    /// not read the rest of the body.
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
