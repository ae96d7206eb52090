internal import BellwireClient
internal import SignalingProtocol

/// The unanswered requests that would change a call, and what is heard of it meanwhile, which waits: a callback comes before what it brought
/// about.
struct OpenRequests: Sendable {
    /// Events of one call that wait. Each later one has the whole call.
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

    /// What the answers did not say already.
    var news: [ClientEvent] {
        guard let newestAnswer else { return held }
        return held.filter { ($0.version ?? newestAnswer) > newestAnswer }
    }
}

/// Which of two states of a call is the newer one. A store that has lost writes gives revisions a second time: the time decides
/// (docs/protocol.md, section 5).
struct CallVersion: Sendable, Comparable {
    let time: Int64
    let revision: Int

    static func < (left: CallVersion, right: CallVersion) -> Bool {
        (left.time, left.revision) < (right.time, right.revision)
    }
}

extension ClientEvent {
    /// Nil for what does not say how a call stands.
    fileprivate var version: CallVersion? {
        switch self {
        case .event(let event): CallVersion(time: event.time, revision: event.revision)
        case .snapshot(let call): CallVersion(time: call.lastChange, revision: call.revision)
        default: nil
        }
    }
}

extension CallSnapshot {
    /// When this revision was made.
    fileprivate var lastChange: Int64 { max(createdAt, endedAt ?? 0, members.map(\.updatedAt).max() ?? 0) }
}
