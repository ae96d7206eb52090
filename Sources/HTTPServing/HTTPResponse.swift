/// A response to a client.
package struct HTTPResponse: Sendable, Equatable {
    /// 200 to 599.
    package var status: Int
    /// Nil for a response without a body.
    package var contentType: String?
    /// Headers that are sent unchanged, without `Content-Length` and `Date`, because the server adds these.
    /// `Connection: close` closes the connection afterwards. If a header cannot be sent (an empty value, or a line
    /// break in the value), the client gets a 500 instead.
    package var headers: [Header]
    /// Not sent in response to HEAD, and not with 204 and 304.
    package var body: [UInt8]
    /// The stream that is sent in place of `body`.
    package var stream: HTTPStream?

    package static func == (left: HTTPResponse, right: HTTPResponse) -> Bool {
        left.status == right.status && left.contentType == right.contentType && left.headers == right.headers
            && left.body == right.body && left.stream === right.stream
    }

    package struct Header: Sendable, Equatable {
        package let name: String
        package let value: String

        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    package init(_ status: Int, contentType: String? = nil, headers: [Header] = [], body: [UInt8] = []) {
        precondition((200...599).contains(status), "a response's status is 200 to 599")
        self.status = status
        self.contentType = contentType
        self.headers = headers
        self.body = body
    }

    /// Returns a response that begins now and continues until `stream` ends.
    package static func streaming(
        _ stream: HTTPStream, contentType: String, headers: [Header] = []
    ) -> HTTPResponse {
        var response = HTTPResponse(200, contentType: contentType, headers: headers)
        response.stream = stream
        return response
    }

    package static func text(
        _ status: Int, _ text: String, contentType: String = "text/plain; charset=utf-8", headers: [Header] = []
    ) -> HTTPResponse {
        HTTPResponse(status, contentType: contentType, headers: headers, body: Array(text.utf8))
    }

    /// Returns the same response, after which the connection is closed.
    var closing: HTTPResponse {
        var response = self
        response.headers.append(Header("Connection", "close"))
        return response
    }
}
