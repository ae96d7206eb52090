import Glibc
import Support
import Synchronization

/// Sends requests to strangers' servers, and to providers that the operator named, over HTTPS.
///
/// Whoever names a URL is an attacker until proven otherwise: every address is judged at the moment of connecting to it and again before
/// a request leaves by a connection that is there already; nothing leads elsewhere (no redirects, no proxies); and all time
/// and room are bounded. One thread of its own does everything, so that callers are never held up.
///
/// curl sends a request again, over a new connection, when one that it had kept turns out to be dead before a byte of the answer: a
/// server may see a request twice.
package final class HTTPSender: Sendable {
    /// Requests under way to one host and port.
    package static let mostPerHost = 10
    /// Requests under way to strangers in all.
    package static let mostInFlight = 100
    /// Requests that wait for their turn with one host and port. More fail at once.
    package static let mostWaitingPerHost = 500
    /// The same of one provider.
    package static let mostPerProvider = 100
    package static let mostWaitingPerProvider = 2_000
    /// Requests under way to providers in all.
    package static let mostToProviders = 500
    /// Requests without an answer in all. More fail at once.
    package static let mostOpen = 5_000

    static let isStopped = "the sender is stopped"

    /// There can be no sender.
    package struct SetupError: Error, CustomStringConvertible {
        package let description: String
    }

    private let mailbox: SenderMailbox
    private let transfers: Transfers
    /// Nil when it has ended.
    private let thread: Mutex<pthread_t?>

    /// - Parameters:
    ///   - certificateAuthorityFile: who is trusted to say which server is which; the system's authorities when nil.
    ///   - userAgent: what servers are told about who asks.
    package init(certificateAuthorityFile: String? = nil, userAgent: String) throws(SetupError) {
        if let problem = CurlLibrary.problem ?? certificateAuthorityFile.flatMap(CurlLibrary.problem(ofAuthorities:)) {
            throw SetupError(description: problem)
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

    /// Gives a request to be sent. Its answer will be among those of `take()`, exactly once. For any thread; it never waits.
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

    /// The answers that have come since the last time, for any thread.
    package func take() -> [HTTPAnswer] { mailbox.takeAnswers() }

    /// Readable while `take()` has something to give, for `poll`. It is the sender's: not to be read or closed.
    package var descriptor: Int32 { mailbox.descriptor }

    /// Requests under way, and those that wait for their turn.
    package var counts: (inFlight: Int, waiting: Int) { mailbox.counts }

    /// Ends the thread, and waits for its end, for some milliseconds. What was open has failed when this returns; what is given to be sent
    /// afterwards fails at once.
    package func stop() {
        mailbox.stop()
        transfers.wake()
        thread.withLock { thread in
            if let running = thread { pthread_join(running, nil) }
            thread = nil
        }
    }
}
