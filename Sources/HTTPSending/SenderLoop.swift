import CCurl
import Support

/// The work of the sender's thread. All members belong to that thread; callers use the mailbox.
final class SenderLoop {
    private struct Waiting {
        let posted: PostedRequest
        let destination: Destination
        /// The time by the boot clock when the request has waited too long.
        var end: Int64 { min(posted.time + posted.request.timeout, posted.request.handOverBefore ?? .max) }
    }

    private let mailbox: SenderMailbox
    private let transfers: Transfers
    private let settings: SenderSettings
    private var strangers = Admission<Waiting>(
        mostPerHost: HTTPSender.mostPerHost, mostInFlight: HTTPSender.mostInFlight,
        mostWaitingPerHost: HTTPSender.mostWaitingPerHost)
    private var providers = Admission<Waiting>(
        mostPerHost: HTTPSender.mostPerProvider, mostInFlight: HTTPSender.mostToProviders,
        mostWaitingPerHost: HTTPSender.mostWaitingPerProvider)
    private var underWay: [UnsafeMutableRawPointer: Transfer] = [:]
    /// The servers to which a connection is opened in advance (`warmUp`), because a request could not wait for the
    /// handshake.
    private var warming: Set<Destination.Host> = []
    /// The time of the last response on each connection.
    private var lastAnswers: [ConnectionWay: Int64] = [:]
    /// Before this time, no waiting request has waited too long.
    private var firstEnd = Int64.max
    private var answers: [HTTPAnswer] = []
    private var now = SystemClock.boot.milliseconds

    /// The bound of remembered connections; beyond this bound all are forgotten.
    private static let mostRemembered = 1_000
    /// The bound of a wait without an event, in milliseconds.
    private static let longestWait: Int64 = 1_000

    init(_ mailbox: SenderMailbox, _ transfers: Transfers, _ settings: SenderSettings) {
        self.mailbox = mailbox
        self.transfers = transfers
        self.settings = settings
    }

    /// Runs until the mailbox stops.
    func run() {
        while !mailbox.isStopping {
            now = SystemClock.boot.milliseconds
            mailbox.takePosted().forEach(take)
            transfers.perform()
            now = SystemClock.boot.milliseconds
            while let (handle, code) = transfers.nextFinished() { finish(handle, code) }
            endThoseWhoseTimeIsOver()
            startNext()
            deliver()
            transfers.wait(milliseconds: Int32(max(0, min(Self.longestWait, firstEnd - now))))
        }
        failAll()
    }

    private func deliver() {
        mailbox.deliver(answers, inFlight: strangers.inFlight + providers.inFlight)
        answers.removeAll(keepingCapacity: true)
    }

    private func fail(_ posted: PostedRequest, _ reason: String, wasHandedOver: Bool = false) {
        answers.append(posted.answer(.failed(reason: reason, wasHandedOver: wasHandedOver), at: now))
    }

    private func turnDown(_ posted: PostedRequest, _ reason: String) {
        answers.append(posted.answer(.notTried(reason: reason), at: now))
    }

    // MARK: The way of a request

    private func take(_ posted: PostedRequest) {
        if let problem = posted.request.problem { return fail(posted, problem) }
        do throws(Destination.Problem) {
            let destination = try Destination(posted.request.url, allowsPlainHTTP: posted.request.allowsPlainHTTP)
            let waiting = Waiting(posted: posted, destination: destination)
            guard admit(waiting) else {
                let most =
                    posted.request.isToProvider ? HTTPSender.mostWaitingPerProvider : HTTPSender.mostWaitingPerHost
                return turnDown(posted, "\(most) requests wait for this host already")
            }
            firstEnd = min(firstEnd, waiting.end)
        } catch {
            return fail(posted, error.reason)
        }
        startNext()
    }

    private func admit(_ waiting: Waiting) -> Bool {
        let host = waiting.destination.host
        return waiting.posted.request.isToProvider ? providers.add(waiting, to: host) : strangers.add(waiting, to: host)
    }

    private func hasEnded(_ request: HTTPRequest, to host: Destination.Host) {
        if request.isToProvider { providers.finished(host) } else { strangers.finished(host) }
    }

    private func startNext() {
        while let next = providers.next() ?? strangers.next() { start(next) }
    }

    private func start(_ next: Waiting) {
        if let end = next.posted.request.handOverBefore, end <= now {
            hasEnded(next.posted.request, to: next.destination.host)
            answers.append(next.posted.answer(.notHandedOver, at: now))
            return
        }
        let transfer = Transfer(next.posted, to: next.destination, settings, transfers.sockets, now: now)
        guard let transfer, transfers.add(transfer.handle) else {
            hasEnded(next.posted.request, to: next.destination.host)
            return fail(next.posted, "curl does not accept the request")
        }
        began(transfer)
    }

    private func began(_ transfer: Transfer) {
        underWay[transfer.handle] = transfer
        firstEnd = min(firstEnd, transfer.end)
    }

    private func finish(_ handle: UnsafeMutableRawPointer, _ code: CURLcode) {
        guard let transfer = underWay.removeValue(forKey: handle) else { return }
        transfers.remove(handle)
        let host = transfer.destination.host
        if transfer.isWarmUp {
            warming.remove(host)
            return
        }
        let outcome = transfer.outcome(code)
        answers.append(transfer.posted.answer(outcome, at: now))
        hasEnded(transfer.posted.request, to: host)
        judge(transfer, code, outcome)
        if outcome == .notHandedOver, transfer.hadNewConnection { warmUp(transfer) }
    }

    /// Ends a silent HTTP/2 connection. Otherwise curl would send further requests over this connection, although a
    /// request there has timed out. After a request without a response, the server has probably lost the connection if
    /// no response to any request came since that request's hand-over, or during the last half of that request's time
    /// limit.
    private func judge(_ transfer: Transfer, _ code: CURLcode, _ outcome: HTTPAnswer.Outcome) {
        guard let handedOver = transfer.handedOver else { return }
        if case .answered = outcome {
            if lastAnswers.count >= Self.mostRemembered { lastAnswers = [:] }
            lastAnswers[handedOver.way] = now
        } else if code == CURLE_OPERATION_TIMEDOUT {
            let latest = max(handedOver.time, now - transfer.posted.request.timeout / 2)
            if lastAnswers[handedOver.way] ?? 0 < latest { transfers.sockets.end(handedOver.way) }
        }
    }

    /// Opens a connection to a server whose handshake takes longer than requests may wait. With HTTP/1, curl closes the
    /// new connection together with the late request, so that no request would ever leave. An HTTP/2 connection stays
    /// for the next request.
    private func warmUp(_ late: Transfer) {
        let host = late.destination.host
        guard late.hasLostConnection else { return }
        guard late.posted.request.isToProvider || warming.count < HTTPSender.mostInFlight, !warming.contains(host),
            let destination = try? Destination(host.root)
        else { return }
        let request = late.posted.request
        var asking = HTTPRequest(id: 0, method: .head, url: host.root, allowed: request.allowed)
        asking.timeout = request.timeout
        asking.isToProvider = request.isToProvider
        let transfer = Transfer(
            PostedRequest(request: asking, time: now), to: destination, settings, transfers.sockets, isWarmUp: true,
            now: now)
        guard let transfer, transfers.add(transfer.handle) else { return }
        warming.insert(host)
        began(transfer)
    }

    // MARK: Time

    /// Ends the requests that have waited too long for their turn, and the transfers that curl does not end itself:
    /// curl ignores the time of a transfer that waits for the connection of another.
    private func endThoseWhoseTimeIsOver() {
        guard now >= firstEnd else { return }
        for waiting in strangers.remove(where: { $0.end <= now }) + providers.remove(where: { $0.end <= now }) {
            let request = waiting.posted.request
            if let end = request.handOverBefore, end <= now {
                answers.append(waiting.posted.answer(.notHandedOver, at: now))
            } else {
                turnDown(waiting.posted, "not sent within \(request.timeout) ms: others went before it")
            }
        }
        for transfer in Array(underWay.values) where transfer.end <= now {
            finish(transfer.handle, CURLE_OPERATION_TIMEDOUT)
        }
        let ends = [strangers.waiting.lazy.map(\.end).min(), providers.waiting.lazy.map(\.end).min()]
        firstEnd = min(ends.compactMap(\.self).min() ?? .max, underWay.values.lazy.map(\.end).min() ?? .max)
    }

    private func failAll() {
        now = SystemClock.boot.milliseconds
        for waiting in mailbox.takePosted() + (strangers.waiting + providers.waiting).map(\.posted) {
            turnDown(waiting, HTTPSender.isStopped)
        }
        for transfer in underWay.values {
            if !transfer.isWarmUp {
                fail(transfer.posted, HTTPSender.isStopped, wasHandedOver: transfer.wasHandedOver)
            }
            transfers.remove(transfer.handle)
        }
        underWay = [:]
        mailbox.deliver(answers, inFlight: 0)
    }
}
