import CCurl
import SystemClocks

/// What the sender's thread does. It owns everything here; callers reach it through the mailbox.
final class SenderLoop {
    private struct Waiting {
        let posted: PostedRequest
        let destination: Destination
        /// When it has waited too long, by the boot clock.
        var end: Int64 { posted.time + posted.request.timeout }
    }

    private let mailbox: SenderMailbox
    private let transfers: Transfers
    private let settings: SenderSettings
    private var admission = Admission<Waiting>(
        mostPerHost: HTTPSender.mostPerHost, mostInFlight: HTTPSender.mostInFlight,
        mostWaitingPerHost: HTTPSender.mostWaitingPerHost)
    private var underWay: [UnsafeMutableRawPointer: Transfer] = [:]
    /// No one who waits has waited too long before that.
    private var firstEnd = Int64.max
    private var answers: [HTTPAnswer] = []
    private var now = SystemClock.boot.milliseconds

    /// Milliseconds: it looks for itself that often, whatever happens.
    private static let longestWait: Int64 = 1_000

    init(_ mailbox: SenderMailbox, _ transfers: Transfers, _ settings: SenderSettings) {
        self.mailbox = mailbox
        self.transfers = transfers
        self.settings = settings
    }

    /// Until the mailbox says stop.
    func run() {
        while !mailbox.isStopping {
            now = SystemClock.boot.milliseconds
            mailbox.takePosted().forEach(take)
            transfers.perform()
            now = SystemClock.boot.milliseconds
            while let (handle, code) = transfers.nextFinished() { finish(handle, code) }
            endWaiting()
            startNext()
            deliver()
            transfers.wait(milliseconds: Int32(max(0, min(Self.longestWait, firstEnd - now))))
        }
        failAll()
    }

    private func deliver() {
        mailbox.deliver(answers, inFlight: admission.inFlight)
        answers.removeAll(keepingCapacity: true)
    }

    private func fail(_ posted: PostedRequest, _ reason: String, wasHandedOver: Bool = false) {
        answers.append(posted.answer(.failed(reason: reason, wasHandedOver: wasHandedOver), at: now))
    }

    private func turnDown(_ posted: PostedRequest, _ reason: String) {
        answers.append(posted.answer(.notTried(reason: reason), at: now))
    }

    private func take(_ posted: PostedRequest) {
        if let problem = posted.request.problem { return fail(posted, problem) }
        do throws(Destination.Problem) {
            let waiting = Waiting(posted: posted, destination: try Destination(posted.request.url))
            guard admission.add(waiting, to: waiting.destination.host) else {
                return turnDown(posted, "\(HTTPSender.mostWaitingPerHost) requests wait for this host already")
            }
            firstEnd = min(firstEnd, waiting.end)
        } catch {
            return fail(posted, error.reason)
        }
        startNext()
    }

    private func startNext() {
        while let next = admission.next() { start(next) }
    }

    private func start(_ next: Waiting) {
        guard let transfer = Transfer(next.posted, to: next.destination, settings), transfers.add(transfer.handle)
        else {
            admission.finished(next.destination.host)
            return fail(next.posted, "curl does not take the request")
        }
        underWay[transfer.handle] = transfer
    }

    private func finish(_ handle: UnsafeMutableRawPointer, _ code: CURLcode) {
        guard let transfer = underWay.removeValue(forKey: handle) else { return }
        answers.append(transfer.posted.answer(transfer.outcome(code), at: now))
        transfers.remove(handle)
        admission.finished(transfer.destination.host)
    }

    /// Those who have waited for their turn as long as their request may take.
    private func endWaiting() {
        guard now >= firstEnd else { return }
        for waiting in admission.remove(where: { $0.end <= now }) {
            turnDown(waiting.posted, "not sent within \(waiting.posted.request.timeout) ms: others went before it")
        }
        firstEnd = admission.waiting.lazy.map(\.end).min() ?? .max
    }

    private func failAll() {
        now = SystemClock.boot.milliseconds
        for waiting in mailbox.takePosted() + admission.waiting.map(\.posted) {
            turnDown(waiting, HTTPSender.isStopped)
        }
        for transfer in underWay.values {
            fail(transfer.posted, HTTPSender.isStopped, wasHandedOver: transfer.wasHandedOver)
            transfers.remove(transfer.handle)
        }
        underWay = [:]
        mailbox.deliver(answers, inFlight: 0)
    }
}
