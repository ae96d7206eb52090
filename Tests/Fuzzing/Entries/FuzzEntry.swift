/// Every place where bytes come in that a stranger chose. Each entry has a check of the rules that hold whatever the
/// bytes are.
///
/// The raw value is the name on the command line of `scripts/fuzz` and of the folder with the entry's corpus.
package enum FuzzEntry: String, CaseIterable, Sendable {
    case topic, json, up, down, presence, record, trace, history, url, cursor, redis, service, client, token, keys
    case packet

    /// Throws a `Finding` when a rule does not hold. A trap ends the process, which is not overlooked either.
    package func check(_ input: [UInt8]) throws(Finding) {
        switch self {
        case .topic: try checkTopic(input)
        case .json: try checkJSON(input)
        case .up: try checkUpMessage(input)
        case .down: try checkDownMessage(input)
        case .presence: try checkPresence(input)
        case .record: try checkRecord(input)
        case .trace: try checkTraceEntry(input)
        case .history: try checkHistoryLine(input)
        case .url: try checkURL(input)
        case .cursor: try checkCursor(input)
        case .redis: try checkRedis(input)
        case .service: try checkService(input)
        case .client: try checkClient(input)
        case .token: try checkToken(input)
        case .keys: try checkKeys(input)
        case .packet: try checkPackets(input)
        }
    }
}

/// A rule that does not hold for an input.
package struct Finding: Error, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}

func hold(_ condition: Bool, _ what: @autoclosure () -> String) throws(Finding) {
    guard condition else { throw Finding(what()) }
}

func text(_ bytes: some Sequence<UInt8>) -> String { String(decoding: Array(bytes), as: UTF8.self) }
