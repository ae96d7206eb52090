import Testing

/// A server that speaks just enough of HTTP/2 (RFC 9113) to say 200, at a port of 127.0.0.1.
final class HTTP2Server: Sendable {
    private let server: TLSServer

    var accepted: Int { server.accepted }
    var certificateFile: String { server.certificate.certificate }
    var url: String { "https://127.0.0.1:\(server.port)/" }

    /// Waits for as many requests as the first number says, answers these requests, and goes on with the next number.
    init(answersAfter counts: [Int], isReady: @escaping @Sendable () -> Void = {}) throws {
        server = try TLSServer(.http2, isReady: isReady) { connection in
            // The server sends its settings unasked, as servers do: a client that finds nothing to read may take the
            // connection for dead.
            connection.send(Self.frame(.settings, flags: 0, stream: [0, 0, 0, 0]))
            guard connection.read(Self.preface.count) == Self.preface else { return }
            for count in counts {
                var streams: [[UInt8]] = []
                while streams.count < count {
                    guard let stream = Self.nextRequest(on: connection) else { return }
                    streams.append(stream)
                }
                // END_STREAM and END_HEADERS; 0x88 is `:status: 200` (RFC 7541, appendix A).
                for stream in streams { connection.send(Self.frame(.headers, flags: 5, stream: stream, [0x88])) }
            }
            while Self.nextRequest(on: connection) != nil {}
        }
    }

    private enum Kind: UInt8 {
        case data = 0
        case headers = 1
        case settings = 4
    }

    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    private static func frame(_ kind: Kind, flags: UInt8, stream: [UInt8], _ payload: [UInt8] = []) -> [UInt8] {
        [0, 0, UInt8(payload.count), kind.rawValue, flags] + stream + payload
    }

    /// The stream of the next request that is whole; nil when the client has gone.
    private static func nextRequest(on connection: TLSConnection) -> [UInt8]? {
        while let head = connection.read(9) {
            let length = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
            guard connection.read(length) != nil else { return nil }
            let (kind, flags, stream) = (Kind(rawValue: head[3]), head[4], Array(head[5..<9]))
            if kind == .settings, flags & 1 == 0 { connection.send(frame(.settings, flags: 1, stream: stream)) }
            if kind == .headers || kind == .data, flags & 1 == 1 { return stream }
        }
        return nil
    }
}
