import CallCore
import SignalingProtocol
import Support

/// A span of OpenTelemetry: a part of a call that took time. Times are nanoseconds since the Unix epoch by the wall
/// clock, because a receiver compares them with the clocks of other services.
struct Span: Equatable {
    /// The numbers of the kinds are those of OTLP.
    enum Kind: Int64 {
        case `internal` = 1
        case server = 2
    }

    enum Value: Equatable {
        case text(String)
        case number(Int64)
        case flag(Bool)
    }

    struct Attribute: Equatable {
        let key: StaticString
        let value: Value

        init(_ key: StaticString, _ value: Value) {
            self.key = key
            self.value = value
        }

        static func == (a: Attribute, b: Attribute) -> Bool {
            a.key.description == b.key.description && a.value == b.value
        }
    }

    struct Event: Equatable {
        let time: Int64
        let name: String
        let attributes: [Attribute]
    }

    /// The trace and the span in which another span stands.
    struct Place: Equatable {
        let traceID: String
        let spanID: String
    }

    let place: Place
    let parentID: String?
    let name: String
    let kind: Kind
    let start: Int64
    let end: Int64
    /// The coordinator that did the work, `service.instance.id` of its resource.
    let coordinator: String
    var attributes: [Attribute]
    var events: [Event] = []
    /// The span of the call, for a span in another trace.
    var link: Place?
    /// The reason why the span counts as failed; nil for a span that does not.
    var failure: String?
}

/// Turns the store's time into the wall clock's: what happened some time ago by the store's time happened as long ago
/// by the wall clock (docs/decisions/0024).
struct SpanClock {
    let wall: WallTime
    let storeTime: Milliseconds

    /// Returns the nanoseconds of a moment by the store's time, and some microseconds.
    func nanoseconds(_ time: Milliseconds, plus microseconds: Int64 = 0) -> Int64 {
        // No clock is so far away that this overflows; a damaged time must not end the process.
        (wall.milliseconds &+ (time &- storeTime)) &* 1_000_000 &+ microseconds &* 1_000
    }
}

/// The ids of a call's spans. The ids follow from the call alone, so that they are the same whoever sends the spans.
struct SpanIDs {
    private let seed: String
    /// The trace of a call whose invitation names no parent.
    let traceID: String

    init(_ call: Call) {
        seed = "\(call.callID.string) \(call.createdAt)"
        traceID = Self.hex(seed, bytes: 16)
    }

    /// Returns the id of a span of the call; `name` is unique in the call.
    func spanID(_ name: String) -> String { Self.hex("\(seed) \(name)", bytes: 8) }

    private static func hex(_ text: String, bytes count: Int) -> String {
        sha256(Array(text.utf8)).prefix(count).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }
}
