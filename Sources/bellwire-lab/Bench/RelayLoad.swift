/// The messages of a call, in number and size, sent through the bare relay one after the other.
struct RelayLoad: Load {
    /// The number of exchanges for each call, with one message each way.
    var exchanges: Int
    private let ups: [String]
    private let up: [UInt8]
    private var left: [Int]
    private var sentAt: [Int64]
    private var placeOfTopic: [String: Int] = [:]
    var roundTrip = Latencies()
    let filters = [BareRelay.downPrefix + "+"]

    init(places: Int, exchanges: Int, bytesUp: Int, bytesDown: Int) {
        self.exchanges = exchanges
        ups = (0..<places).map { BareRelay.upPrefix + String($0) }
        left = [Int](repeating: 0, count: places)
        sentAt = [Int64](repeating: 0, count: places)
        let digits = String(bytesDown)
        let header = String(repeating: "0", count: BareRelay.header - digits.count) + digits
        up = Array(header.utf8) + [UInt8](repeating: UInt8(ascii: "x"), count: max(0, bytesUp - BareRelay.header))
        for place in 0..<places { placeOfTopic[BareRelay.downPrefix + String(place)] = place }
    }

    mutating func begin(_ place: Int, now: Int64, _ send: (String, [UInt8]) -> Void) {
        left[place] = exchanges
        sentAt[place] = now
        send(ups[place], up)
    }

    mutating func giveUp(_ place: Int) { left[place] = 0 }

    mutating func received(
        _ topic: String, _ payload: [UInt8], now: Int64, _ send: (String, [UInt8]) -> Void
    ) -> Int? {
        guard let place = placeOfTopic[topic], left[place] > 0 else { return nil }
        roundTrip.add(now - sentAt[place])
        left[place] -= 1
        guard left[place] > 0 else { return place }
        sentAt[place] = now
        send(ups[place], up)
        return nil
    }
}
