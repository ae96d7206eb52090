internal import BellwireClient
internal import SignalingProtocol

/// The unanswered requests that would change a call. Events about the call wait meanwhile, since a callback comes
/// before the events that its request causes.
struct OpenRequests: Sendable {
    /// The bound on events that wait per call; the oldest are dropped, since the newest event has the whole call.
    static let mostHeld = 16

    private var count = 0
    private var held: [ClientEvent] = []
    private var newestAnswer: CallVersion?

    var isEmpty: Bool { count <= 0 }

    mutating func begin() { count += 1 }

    mutating func end(_ answer: CallVersion?) {
        count -= 1
        guard let answer else { return }
        newestAnswer = max(newestAnswer ?? answer, answer)
    }

    mutating func hold(_ event: ClientEvent) {
        held.append(event)
        if held.count > Self.mostHeld { held.removeFirst() }
    }

    /// The waiting events that are newer than the responses.
    var news: [ClientEvent] {
        guard let newestAnswer else { return held }
        return held.filter { ($0.version ?? newestAnswer) > newestAnswer }
    }
}

/// The order of two states of a call. The time comes first: a store that has lost writes gives revisions a second time
/// (docs/protocol.md, section 5).
struct CallVersion: Sendable, Comparable {
    let time: Int64
    let revision: Int

    static func < (left: CallVersion, right: CallVersion) -> Bool {
        (left.time, left.revision) < (right.time, right.revision)
    }
}

extension ClientEvent {
    /// The version of the call in the event; nil for an event without a call.
    fileprivate var version: CallVersion? {
        switch self {
        case .event(let event): CallVersion(time: event.time, revision: event.revision)
        case .snapshot(let call): CallVersion(time: call.lastChange, revision: call.revision)
        default: nil
        }
    }
}

extension CallSnapshot {
    /// The creation time of this revision of the call.
    fileprivate var lastChange: Int64 { max(createdAt, endedAt ?? 0, members.map(\.updatedAt).max() ?? 0) }
}
