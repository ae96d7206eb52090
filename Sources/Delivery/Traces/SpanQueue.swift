/// The spans that wait to be sent, as encoded calls in their order. The queue is bounded in spans and in bytes, so that
/// a receiver that takes nothing costs a bounded part of the memory.
struct SpanQueue {
    /// The encoded spans of a call.
    struct Item {
        let bytes: [UInt8]
        let spans: Int
    }

    /// The spans of a request.
    struct Batch {
        let body: [UInt8]
        let spans: Int
        /// The number of attempts to send the batch.
        var attempts = 0
    }

    static let mostSpans = 16_384
    static let mostBytes = 16 << 20
    /// The bounds of a request; a single call may exceed these.
    static let spansPerRequest = 512
    static let bytesPerRequest = 1 << 20

    private var items: [Item] = []
    private(set) var spans = 0
    private(set) var bytes = 0

    var isEmpty: Bool { items.isEmpty }

    /// Adds a call. Returns false when the queue has no room for the call.
    mutating func add(_ item: Item) -> Bool {
        guard spans + item.spans <= Self.mostSpans, bytes + item.bytes.count <= Self.mostBytes else { return false }
        items.append(item)
        spans += item.spans
        bytes += item.bytes.count
        return true
    }

    /// Takes out the spans of the next request; nil from an empty queue.
    mutating func takeBatch() -> Batch? {
        var taken: [Item] = []
        var (count, size) = (0, 0)
        for item in items {
            (count, size) = (count + item.spans, size + item.bytes.count)
            guard taken.isEmpty || count <= Self.spansPerRequest && size <= Self.bytesPerRequest else { break }
            taken.append(item)
        }
        guard !taken.isEmpty else { return nil }
        items.removeFirst(taken.count)
        let total = taken.reduce(0) { $0 + $1.spans }
        spans -= total
        bytes -= taken.reduce(0) { $0 + $1.bytes.count }
        return Batch(body: SpanEncoding.body(taken.map(\.bytes)), spans: total)
    }
}
