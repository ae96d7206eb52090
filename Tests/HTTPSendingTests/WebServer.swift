import Dispatch
import Synchronization

@testable import HTTPSending

/// A server of HTTPS that does as a test says, at a port of 127.0.0.1.
final class WebServer: Sendable {
    struct Request: Sendable {
        /// `POST /path HTTP/1.1`
        let line: String
        /// The names in lower case.
        let headers: [String: String]
        let body: [UInt8]

        var path: String { String(line.split(separator: " ")[1]) }
    }

    private struct Counts {
        var now = 0
        var most = 0
    }

    private final class Record: Sendable {
        let requests = Mutex<[Request]>([])
        let counts = Mutex(Counts())
    }

    private let server: TLSServer
    private let record: Record

    var port: Int { server.port }
    var accepted: Int { server.accepted }
    var certificateFile: String { server.certificate.certificate }
    var certificate: String { get throws { try server.certificate.text } }
    /// The requests that have arrived.
    var requests: [Request] { record.requests.withLock { $0 } }
    /// How many requests there were at once, at most.
    var mostAtOnce: Int { record.counts.withLock { $0.most } }

    /// Calls `answer` for each request, with the connection to answer on.
    init(
        _ kind: TLSServer.Kind = .http1, certificate: CertificateFiles? = nil,
        isReady: @escaping @Sendable () -> Void = {}, _ answer: @escaping @Sendable (Request, TLSConnection) -> Void
    ) throws {
        let record = Record()
        self.record = record
        server = try TLSServer(kind, certificate: certificate, isReady: isReady) { connection in
            while let request = Self.read(connection) {
                record.requests.withLock { $0.append(request) }
                record.counts.withLock { counts in
                    counts.now += 1
                    counts.most = max(counts.most, counts.now)
                }
                answer(request, connection)
                record.counts.withLock { $0.now -= 1 }
            }
        }
    }

    private static func read(_ connection: TLSConnection) -> Request? {
        guard let head = connection.readHead() else { return nil }
        let lines = head.split(separator: "\r\n")
        let headers = lines.dropFirst().map { $0.split(separator: ":", maxSplits: 1).map(String.init) }
        let pairs = headers.map { ($0[0].lowercased(), $0.count > 1 ? String($0[1].drop { $0 == " " }) : "") }
        let byName = Dictionary(pairs) { first, _ in first }
        guard let body = connection.read(byName["content-length"].flatMap { Int($0) } ?? 0) else { return nil }
        return Request(line: String(lines[0]), headers: byName, body: body)
    }

    func url(_ path: String = "/", host: String = "127.0.0.1") -> String { "https://\(host):\(port)\(path)" }
}

extension TLSConnection {
    func answer(_ status: Int, headers: [String] = [], _ body: String = "") {
        let lines = ["HTTP/1.1 \(status) Text", "Content-Length: \(body.utf8.count)"] + headers
        send(lines.joined(separator: "\r\n") + "\r\n\r\n" + body)
    }
}

/// A gate that is closed until it is opened.
final class Gate: Sendable {
    private let isOpen = Mutex(false)
    private let semaphore = DispatchSemaphore(value: 0)

    func open() {
        isOpen.withLock { $0 = true }
        semaphore.signal()
    }

    /// Returns when the gate is open, or after so long a time that the test must have failed.
    func wait() {
        if isOpen.withLock({ $0 }) { return }
        if semaphore.wait(timeout: .now() + .seconds(30)) == .success { semaphore.signal() }
    }
}
