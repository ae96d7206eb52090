import Glibc
import HTTPSending
import SignalingProtocol
import Support

/// The metrics and the readiness of a process at a moment.
struct ProcessSample {
    let url: String
    /// The boot clock when the reading began, in milliseconds.
    let at: Int64
    /// The reason why the process cannot be read; nil for a process that was read.
    var unreachable: String?
    /// The reason why the process serves nothing; nil for a process that is ready.
    var notReady: String?
    /// The pages as they came; empty without an answer.
    var readinessText = ""
    var metricsText = ""
    var metrics = MetricsPage("")

    var isCoordinator: Bool { metrics.sum("bellwire_listening") != nil }
}

/// Reads `/readyz` and `/metrics` of processes, all at the same time.
struct ProcessReader {
    /// Milliseconds.
    private static let patience: Int64 = 5_000
    /// How long the lookup of a name may take, in milliseconds.
    private static let lookupPatience = 2_000
    /// The greatest page that is read, in bytes.
    private static let mostPage = 4 << 20

    /// The greatest number of addresses on the command line.
    private static let mostAddresses = 100

    static let options = [
        Option(
            "http", "URL,URL",
            "the HTTP addresses of coordinators and gateways, such as http://127.0.0.1:9000; required"),
        Option("http-ca", "FILE", default: "", "certificate authorities to trust with https://"),
    ]

    private let urls: [String]
    private let sender: HTTPSender
    /// The id of the first request of the next reading, so that a late answer is not taken for an answer to a later
    /// request.
    private var nextID: UInt64 = 0

    /// Takes the addresses of the command line.
    init(_ arguments: Arguments) throws(UsageError) {
        urls = try arguments.required(
            "http", "1 to \(Self.mostAddresses) different addresses as http://host:port, with commas", Self.addresses)
        let authorities = try arguments.file("http-ca")
        do throws(HTTPSender.SetupError) {
            sender = try HTTPSender(
                certificateAuthorityFile: authorities, userAgent: "bellwire/\(bellwireVersion)")
        } catch {
            throw UsageError("\(arguments.command.title): \(error)")
        }
    }

    /// Reads addresses with commas between them. An address without a scheme is `http://`, as processes listen.
    private static func addresses(_ text: String) -> [String]? {
        let urls = text.split(separator: ",", omittingEmptySubsequences: false).map { part in
            let url = part.contains("://") ? String(part) : "http://\(part)"
            return url.hasSuffix("/") ? String(url.dropLast()) : url
        }
        let isRight = urls.allSatisfy { url in
            ["http://", "https://"].contains { url.hasPrefix($0) && url.count > $0.count }
        }
        return isRight && urls.count <= mostAddresses && Set(urls).count == urls.count ? urls : nil
    }

    mutating func read() -> [ProcessSample] {
        let urls = urls.flatMap(Self.processes)
        let firstID = nextID
        nextID += UInt64(2 * urls.count)
        var samples = urls.map {
            ProcessSample(url: $0, at: SystemClock.boot.milliseconds, unreachable: "no answer in time")
        }
        for (place, url) in urls.enumerated() {
            for (part, path) in ["/readyz", "/metrics"].enumerated() {
                var request = HTTPRequest(id: firstID + UInt64(2 * place + part), method: .get, url: url + path)
                request.isToProvider = true
                request.allowsPlainHTTP = true
                request.timeout = Self.patience
                request.mostAnswer = Self.mostPage
                sender.send(request)
            }
        }
        var missing = 2 * urls.count
        let deadline = SystemClock.boot.milliseconds + 2 * Self.patience
        while missing > 0, SystemClock.boot.milliseconds < deadline {
            var waiting = pollfd(fd: sender.descriptor, events: Int16(POLLIN), revents: 0)
            _ = poll(&waiting, 1, Int32(max(0, deadline - SystemClock.boot.milliseconds)))
            for answer in sender.take() where answer.id >= firstID {
                missing -= 1
                let place = Int(answer.id - firstID)
                Self.note(answer, in: &samples[place / 2], isMetrics: place % 2 == 1)
            }
        }
        return samples
    }

    func stop() { sender.stop() }

    /// Returns the addresses of all processes behind a name, such as the replicas of a service of compose. A
    /// certificate stands for the name, so that the name of an `https://` URL stays.
    private static func processes(_ url: String) -> [String] {
        let scheme = "http://"
        guard url.hasPrefix(scheme), let colon = url.lastIndex(of: ":"), colon > url.index(url.startIndex, offsetBy: 4)
        else { return [url] }
        let host = url[url.index(url.startIndex, offsetBy: scheme.count)..<colon]
        let addresses = NameLookup.addresses(of: String(host), within: lookupPatience)
        // A machine with addresses of both kinds would be counted twice.
        let fourth = addresses.filter { !$0.contains(":") }
        guard fourth.count > 1 else { return [url] }
        return fourth.sorted().map { scheme + $0 + url[colon...] }
    }

    private static func note(_ answer: HTTPAnswer, in sample: inout ProcessSample, isMetrics: Bool) {
        switch answer.outcome {
        case .answered(let response):
            let text = String(decoding: response.body, as: UTF8.self)
            if isMetrics {
                guard response.status == 200 else {
                    sample.unreachable = "/metrics: status \(response.status)"
                    return
                }
                sample.metricsText = text
                sample.metrics = MetricsPage(text)
                sample.unreachable = nil
            } else {
                sample.readinessText = text
                if response.status != 200 { sample.notReady = reason(in: response.body) ?? "status \(response.status)" }
            }
        case .notTried(let reason), .failed(let reason, _): if isMetrics { sample.unreachable = reason }
        case .notHandedOver: break
        }
    }

    /// Returns why a process is not ready: the `reason` in a coordinator's JSON, or the first line of a gateway's text.
    private static func reason(in body: [UInt8]) -> String? {
        if case .object(let json)? = try? JSONParser.parse(body) { return json["reason"]?.string }
        let line = String(decoding: body, as: UTF8.self).split(separator: "\n").first
        return line.map { String($0.prefix(200)) }
    }
}
