import Glibc
import Testing

/// A connection over which a test sends any bytes.
final class Client {
    struct Response: Equatable {
        let status: Int
        /// The names in lower case.
        let headers: [String: String]
        let body: [UInt8]

        var text: String { String(decoding: body, as: UTF8.self) }
    }

    private var descriptor: Int32
    private var received: [UInt8] = []

    /// - Parameter receiveBuffer: bytes that the kernel takes while the test does not read; the kernel's own choice
    ///   when nil.
    init(_ port: Int, receiveBuffer: Int32? = nil) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        try #require(descriptor >= 0)
        if var size = receiveBuffer {
            setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &size, socklen_t(MemoryLayout<Int32>.size))
        }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        let code = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(code == 0, "\(String(cString: strerror(errno)))")
    }

    deinit { close(descriptor) }

    /// False when the other side has gone.
    @discardableResult
    func send(_ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes {
                Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    @discardableResult
    func send(_ text: String) -> Bool { send(Array(text.utf8)) }

    /// Sends a request with the lines that HTTP/1.1 needs.
    @discardableResult
    func request(_ line: String, headers: [String] = [], body: String? = nil) -> Bool {
        var lines = ["\(line) HTTP/1.1", "Host: localhost"] + headers
        if let body { lines.append("Content-Length: \(body.utf8.count)") }
        return send(lines.joined(separator: "\r\n") + "\r\n\r\n" + (body ?? ""))
    }

    /// Tells the server that no further bytes come.
    func finish() { shutdown(descriptor, Int32(SHUT_WR)) }

    /// Ends the connection with a reset.
    func reset() {
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        close(descriptor)
        descriptor = -1
    }

    /// Returns the next response; nil when the server has gone before the response was whole.
    func response(hasBody: Bool = true) throws -> Response? {
        let end = Array("\r\n\r\n".utf8)
        var headEnd: Int?
        while headEnd == nil {
            headEnd = received.indices.dropLast(end.count - 1).first { received[$0...].starts(with: end) }
            if headEnd == nil, try !receive() { return nil }
        }
        guard let headEnd else { return nil }
        let lines = String(decoding: received[..<headEnd], as: UTF8.self).split(separator: "\r\n")
        received.removeFirst(headEnd + end.count)
        let pairs = lines.dropFirst().map { line in
            let parts = line.split(separator: ":", maxSplits: 1)
            return (parts[0].lowercased(), String(parts[1].drop { $0 == " " }))
        }
        let headers = Dictionary(pairs) { "\($0), \($1)" }
        let status = try #require(Int(lines[0].split(separator: " ")[1]))
        let count = hasBody && status >= 200 ? Int(headers["content-length"] ?? "0") ?? 0 : 0
        while received.count < count { guard try receive() else { return nil } }
        defer { received.removeFirst(count) }
        return Response(status: status, headers: headers, body: Array(received[..<count]))
    }

    /// Whether the server ends the connection without a further byte. Waits for the end or for a byte.
    func isClosed() throws -> Bool { try received.isEmpty && !receive() && received.isEmpty }

    /// Reads until this text has come, and drops the text with all bytes before it. False when the server has gone
    /// first.
    func read(to text: String) throws -> Bool {
        let wanted = Array(text.utf8)
        while true {
            let starts = received.indices.dropLast(wanted.count - 1)
            if let start = starts.first(where: { received[$0...].starts(with: wanted) }) {
                received.removeFirst(start + wanted.count)
                return true
            }
            guard try receive() else { return false }
        }
    }

    /// Reads until the server ends the connection.
    func readToEnd() throws { while try receive() {} }

    /// Waits until there are bytes to read.
    func waitForBytes() throws {
        var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        var code: Int32
        repeat { code = poll(&waiting, 1, 30_000) } while code < 0 && errno == EINTR
        try #require(code == 1, "nothing comes: \(code), errno \(errno)")
    }

    /// False when the other side has gone.
    private func receive() throws -> Bool {
        try waitForBytes()
        var buffer = [UInt8](repeating: 0, count: 64 * 1024)
        let count = recv(descriptor, &buffer, buffer.count, 0)
        guard count > 0 else { return false }
        received += buffer[..<count]
        return true
    }
}

/// Waits until `condition` holds, but not for ever.
func eventually(_ condition: () -> Bool) throws {
    for _ in 0..<15_000 {
        if condition() { return }
        usleep(2_000)
    }
    try #require(Bool(false), "it never came to be")
}
