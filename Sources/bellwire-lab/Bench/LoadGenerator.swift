import BellwireCommands
import Glibc
import MQTTClient
import Support

/// A load of exchanges over the broker. The load has numbered places; each place makes one exchange after the other.
protocol Load {
    /// The topic filters to subscribe to before the load begins.
    var filters: [String] { get }
    /// Begins the next exchange in this place.
    mutating func begin(_ place: Int, now: Int64, _ send: (String, [UInt8]) -> Void)
    /// Processes an inbound message. Returns the place if this message ends the place's exchange; nil otherwise.
    mutating func received(_ topic: String, _ payload: [UInt8], now: Int64, _ send: (String, [UInt8]) -> Void) -> Int?
    /// Gives up the current exchange of this place.
    mutating func giveUp(_ place: Int)
}

/// The results of a phase of a load.
struct LoadOutcome {
    /// The number of finished exchanges, including exchanges that finished after the time limit.
    var done = 0
    /// The number of exchanges that finished before the time limit.
    var inTime = 0
    var failed = 0
    /// The number of exchanges that were not begun, since every place was in use.
    var skipped = 0
    var seconds = 0.0
    var messagesUp = 0
    var bytesUp = 0
    var messagesDown = 0
    var bytesDown = 0

    var perSecond: Double { seconds > 0 ? Double(inTime) / seconds : 0 }
    var messagesPerCall: Double { Double(messagesUp + messagesDown) / Double(max(1, done)) }
    var bytesPerMessageUp: Double { Double(bytesUp) / Double(max(1, messagesUp)) }
    var bytesPerMessageDown: Double { Double(bytesDown) / Double(max(1, messagesDown)) }

    static func += (sum: inout LoadOutcome, next: LoadOutcome) {
        sum.done += next.done
        sum.inTime += next.inTime
        sum.failed += next.failed
        sum.skipped += next.skipped
        sum.seconds += next.seconds
        sum.messagesUp += next.messagesUp
        sum.bytesUp += next.bytesUp
        sum.messagesDown += next.messagesDown
        sum.bytesDown += next.bytesDown
    }
}

/// Drives a load over one connection to each broker, in one thread and without parsing messages, so that the load costs
/// little.
final class LoadGenerator<Work: Load> {
    /// The microseconds after which an exchange has failed.
    private static var patience: Int64 { 10_000_000 }

    private let connections: BenchConnections
    private let qos: QoS
    var work: Work
    private var outcome = LoadOutcome()
    private var outbox: [(topic: String, payload: [UInt8])] = []
    /// The time at which the exchange of each place began; nil while the place is free.
    private var began: [Int64?]
    private var free: [Int] = []

    init(_ work: Work, places: Int, brokers: [BrokerAddress], clientID: String, qos: QoS) throws {
        self.work = work
        self.qos = qos
        began = [Int64?](repeating: nil, count: places)
        connections = try BenchConnections(brokers, clientID: clientID, filters: work.filters, qos: qos)
    }

    /// Publishes messages such as presence that belong to no exchange, and waits until `count` messages have arrived.
    func prepare(_ messages: [(topic: String, payload: [UInt8])], awaiting count: Int) throws {
        var arrived = 0
        var rest = messages[...]
        let end = SystemClock.boot.microseconds + Self.patience + Int64(messages.count) * 2_000
        while arrived < count {
            // Publishes a few messages at a time: a coordinator drops requests that have been queued for 2 s.
            let next = rest.prefix(max(0, 256 - (messages.count - rest.count - arrived)))
            try connections.publish(Array(next), qos: qos)
            rest = rest.dropFirst(next.count)
            arrived += try connections.poll(milliseconds: 50).count
            guard SystemClock.boot.microseconds < end else {
                throw DeploymentError("only \(arrived) of \(count) answers came")
            }
        }
    }

    /// Runs for `seconds`, with at most `atOnce` exchanges at a time. `rate`: how many exchanges begin per second; nil
    /// for as many as possible. Exchanges that have begun are finished and counted.
    func run(seconds: Double, atOnce: Int, rate: Double? = nil) throws -> LoadOutcome {
        outcome = LoadOutcome()
        free = Array((0..<min(atOnce, began.count)).reversed())
        let start = SystemClock.boot.microseconds
        let end = start + Int64(seconds * 1_000_000)
        var scheduled = 0.0
        while true {
            let now = SystemClock.boot.microseconds
            if now < end {
                begin(now, &scheduled, start, rate)
            } else {
                if outcome.seconds == 0 {
                    outcome.seconds = Double(now - start) / 1_000_000
                    outcome.inTime = outcome.done
                }
                if free.count == min(atOnce, began.count) { break }
            }
            try flush()
            for message in try connections.poll(milliseconds: now < end ? wait(scheduled, start, rate) : 20) {
                receive(message)
            }
            try flush()
            giveUpLate()
        }
        return outcome
    }

    /// The milliseconds until the next exchange is due, rounded up: waits of 0 would take the processor time that the
    /// measured service needs.
    private func wait(_ scheduled: Double, _ start: Int64, _ rate: Double?) -> Int32 {
        guard let rate else { return 20 }
        let now = SystemClock.boot.microseconds
        let due = (scheduled + 1) / rate * 1_000 - Double(now - start) / 1_000
        return Int32(min(20, max(1, due.rounded(.up))))
    }

    private func begin(_ now: Int64, _ scheduled: inout Double, _ start: Int64, _ rate: Double?) {
        guard let rate else {
            while let place = free.popLast() { begin(place, now) }
            return
        }
        let due = Double(now - start) / 1_000_000 * rate
        while scheduled < due.rounded(.down) {
            scheduled += 1
            if let place = free.popLast() { begin(place, now) } else { outcome.skipped += 1 }
        }
    }

    private func begin(_ place: Int, _ now: Int64) {
        began[place] = now
        work.begin(place, now: now) { outbox.append(($0, $1)) }
    }

    private func receive(_ message: MQTTMessage) {
        outcome.messagesDown += 1
        outcome.bytesDown += message.payload.count
        let now = SystemClock.boot.microseconds
        guard let place = work.received(message.topic, message.payload, now: now, { outbox.append(($0, $1)) }) else {
            return
        }
        began[place] = nil
        free.append(place)
        outcome.done += 1
    }

    private func flush() throws {
        guard !outbox.isEmpty else { return }
        for (_, payload) in outbox {
            outcome.messagesUp += 1
            outcome.bytesUp += payload.count
        }
        try connections.publish(outbox, qos: qos)
        outbox.removeAll(keepingCapacity: true)
    }

    private var nextLook: Int64 = 0

    private func giveUpLate() {
        let now = SystemClock.boot.microseconds
        guard now >= nextLook else { return }
        nextLook = now + 250_000
        for place in began.indices {
            guard let since = began[place], now - since > Self.patience else { continue }
            work.giveUp(place)
            began[place] = nil
            free.append(place)
            outcome.failed += 1
        }
    }
}
