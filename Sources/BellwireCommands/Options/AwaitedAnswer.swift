import Glibc
import HTTPSending
import Support

extension HTTPSender {
    /// Sends a request and waits for its answer. Returns nil when no answer came before `end`, in milliseconds of the
    /// boot clock.
    func answer(to request: HTTPRequest, before end: Int64) -> HTTPAnswer? {
        answers(to: [request], before: end)[request.id]
    }

    /// Sends requests and waits for their answers. Returns the answers that came before `end` by their ids.
    func answers(to requests: [HTTPRequest], before end: Int64) -> [UInt64: HTTPAnswer] {
        var answers: [UInt64: HTTPAnswer] = [:]
        let awaited = Set(requests.map(\.id))
        for request in requests { send(request) }
        while true {
            for answer in take() where awaited.contains(answer.id) { answers[answer.id] = answer }
            let rest = end - SystemClock.boot.milliseconds
            guard answers.count < awaited.count, rest > 0 else { return answers }
            var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            _ = poll(&waiting, 1, Int32(clamping: rest))
        }
    }
}
