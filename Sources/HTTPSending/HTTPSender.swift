import Glibc
import Support
import Synchronization

/// Sends requests over HTTPS to strangers' servers, and to providers that the operator named.
///
/// Each author of a URL counts as an attacker until proven otherwise: the sender checks each address when connecting,
/// and again before a request leaves on an existing connection; no redirect and no proxy is followed; and all times and
/// sizes are bounded. A separate thread does all work, so that callers never wait.
///
/// curl resends a request on a new connection when a kept connection turns out to be dead before the first byte of the
/// response, so a server may see a request twice.
package final class HTTPSender: Sendable {
    /// The bound of requests under way to a host and port.
    package static let mostPerHost = 10
    /// The bound of requests under way to all strangers' servers.
    package static let mostInFlight = 100
    /// The bound of requests that wait for a host and port. Further requests fail at once.
    package static let mostWaitingPerHost = 500
    /// The corresponding bounds for a provider.
    package static let mostPerProvider = 100
    package static let mostWaitingPerProvider = 2_000
    /// The bound of requests under way to all providers.
    package static let mostToProviders = 500
    /// The bound of all requests without an answer. Further requests fail at once.
    package static let mostOpen = 5_000

    static let isStopped = "the sender is stopped"

    /// The reason why the sender cannot start.
    package struct SetupError: Error, CustomStringConvertible {
        package let description: String
        /// Whether the file of the certificate authorities is the reason.
        package var isAboutAuthorities = false
    }

    private let mailbox: SenderMailbox
    private let transfers: Transfers
    /// Nil after the thread has ended.
    private let thread: Mutex<pthread_t?>

    /// - Parameters:
    ///   - certificateAuthorityFile: the file of the trusted certificate authorities; nil for the system's.
    ///   - userAgent: the `User-Agent` header of all requests.
    package init(certificateAuthorityFile: String? = nil, userAgent: String) throws(SetupError) {
        if let problem = CurlLibrary.problem { throw SetupError(description: problem) }
        if let problem = certificateAuthorityFile.flatMap(CurlLibrary.problem(ofAuthorities:)) {
            throw SetupError(description: problem, isAboutAuthorities: true)
        }
        guard userAgent.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else {
            throw SetupError(description: "the user agent has a character that is not printable ASCII")
        }
        guard let mailbox = SenderMailbox(mostOpen: Self.mostOpen), let transfers = Transfers() else {
            throw SetupError(description: "no memory or descriptors for a sender")
        }
        let settings = SenderSettings(certificateAuthorityFile: certificateAuthorityFile, userAgent: userAgent)
        guard let thread = startThread({ SenderLoop(mailbox, transfers, settings).run() }) else {
            throw SetupError(description: "no thread for a sender")
        }
        self.mailbox = mailbox
        self.transfers = transfers
        self.thread = Mutex(thread)
    }

    deinit { stop() }

    /// Takes a request to be sent; `take()` returns its answer exactly once. May be called on any thread; never waits.
    package func send(_ request: HTTPRequest) {
        let posted = PostedRequest(request: request, time: SystemClock.boot.milliseconds)
        switch mailbox.post(posted) {
        case .first: transfers.wake()
        case .further: break
        case .full: turnDown(posted, "\(Self.mostOpen) requests are open already")
        case .stopping: turnDown(posted, Self.isStopped)
        }
    }

    private func turnDown(_ posted: PostedRequest, _ reason: String) {
        mailbox.turnDown(posted.answer(.notTried(reason: reason), at: posted.time))
    }

    /// Returns the answers since the last call. May be called on any thread.
    package func take() -> [HTTPAnswer] { mailbox.takeAnswers() }

    /// A descriptor for `poll`, readable while `take()` has answers. The descriptor belongs to the sender: callers must
    /// not read or close the descriptor.
    package var descriptor: Int32 { mailbox.descriptor }

    /// The requests under way, and the requests that wait for their turn.
    package var counts: (inFlight: Int, waiting: Int) { mailbox.counts }

    /// Ends the thread, and waits some milliseconds for its end. Open requests have failed at the return; later
    /// requests fail at once.
    package func stop() {
        mailbox.stop()
        transfers.wake()
        thread.withLock { thread in
            if let running = thread { pthread_join(running, nil) }
            thread = nil
        }
    }
}
