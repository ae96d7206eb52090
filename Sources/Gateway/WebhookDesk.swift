import CallCore
import CallStore
import Delivery
import HTTPServing
import SignalingProtocol

/// The webhook endpoints as administrators see them, and the replay of dead letters: parts of `bellwire webhooks`
/// (docs/webhooks.md, Command line).
struct WebhookDesk {
    private let store: any OutboxStore

    init(_ store: any OutboxStore) { self.store = store }

    func endpoint(_ name: EndpointName) async throws(StoreError) -> KeptEndpoint? {
        try await store.endpoints().first { $0.name == name }
    }

    func endpoints() async throws(StoreError) -> HTTPResponse {
        let endpoints = try await store.endpoints()
        let shown = endpoints.prefix(AdminBounds.endpoints)
        var counts: [OutboxCount] = []
        for endpoint in shown { counts.append(try await store.count(endpoint.name)) }
        return .json(200) { writer in
            writer.array("endpoints") { writer in
                for (endpoint, count) in zip(shown, counts) {
                    writer.object { writer in
                        writer.field("name", endpoint.name.string)
                        writer.field("turnedOff", endpoint.isOff)
                        writer.array("events") { writer in
                            for pattern in endpoint.patterns.split(separator: " ") { writer.string(String(pattern)) }
                        }
                        writer.field("waiting", count.waiting)
                        writer.field("oldest", count.oldest)
                        writer.field("dead", count.dead)
                        writer.field("bytes", count.bytes)
                        writer.field("lastAttempt", endpoint.lastAttempt)
                    }
                }
            }
            writer.field("omitted", shown.count < endpoints.count ? endpoints.count - shown.count : nil)
        }
    }

    func deadLetters(
        of name: EndpointName, after place: String?, _ count: Int
    ) async throws(StoreError) -> HTTPResponse {
        guard try await endpoint(name) != nil else { return Problem.unknownEndpoint.response }
        guard try await isReadable(name) else { return Problem.tooManyLetters.response }
        let place = DeadLetterPlace(place)
        let found = try await store.deadLetters(name, since: place.since, limit: place.seen + count + 1)
        let letters = found.dropFirst(place.seen)
        let page = letters.prefix(count)
        let next = letters.count > count ? place.next(after: page) : nil
        return .json(200) { writer in
            writer.array("letters") { writer in
                for letter in page {
                    writer.object { writer in
                        writer.field("id", letter.webhookID)
                        writer.field("time", letter.time)
                    }
                }
            }
            writer.field("cursor", next?.text ?? Answer.lastCursor)
        }
    }

    /// Whether the endpoint's dead letters are few enough to be read at a time.
    func isReadable(_ name: EndpointName) async throws(StoreError) -> Bool {
        try await store.count(name).bytes <= AdminBounds.letterBytes
    }

    /// Puts dead letters back into the outbox, at most `AdminBounds.replayed`.
    /// - Parameter webhookID: the only dead letter; nil for all.
    func replay(
        _ endpoint: KeptEndpoint, webhookID: String?, since: Milliseconds
    ) async throws(StoreError) -> HTTPResponse {
        var wanted = try await store.deadLetters(endpoint.name, since: since, limit: AdminBounds.replayed + 1)
        if let webhookID {
            let isAll = wanted.count <= AdminBounds.replayed
            wanted = wanted.filter { $0.webhookID == webhookID }
            // A request that also names the time of the dead letter, as `since`, spares the store this search among
            // all.
            if wanted.isEmpty, !isAll {
                wanted = try await store.deadLetters(endpoint.name, since: since, limit: AdminBounds.searched)
                    .filter { $0.webhookID == webhookID }
            }
        }
        let letters = Array(wanted.prefix(AdminBounds.replayed))
        var count = 0
        for start in stride(from: 0, to: letters.count, by: AdminBounds.replayedInOneStep) {
            let end = min(letters.count, start + AdminBounds.replayedInOneStep)
            count += try await store.replay(Array(letters[start..<end]), of: endpoint.name)
        }
        return .json(200) { writer in
            writer.field("replayed", count)
            writer.field("more", letters.count < wanted.count)
            writer.field("turnedOff", endpoint.isOff)
        }
    }
}

/// A place in the list of an endpoint's dead letters, which is sorted by time. The place is a time, and the number of
/// dead letters of that time before the place.
private struct DeadLetterPlace {
    /// The bound on dead letters of one millisecond that a place counts.
    private static let mostSeen = 10_000

    let since: Milliseconds
    let seen: Int

    init(since: Milliseconds, seen: Int) {
        self.since = since
        self.seen = seen
    }

    /// Reads a place. A text that is no place stands for the first dead letter.
    init(_ text: String?) {
        let parts = (text ?? "").split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, let since = Int64(parts[0]), let seen = Int(parts[1]), since >= 0,
            (0...Self.mostSeen).contains(seen)
        else {
            self.init(since: 0, seen: 0)
            return
        }
        self.init(since: since, seen: seen)
    }

    var text: String { "\(since).\(seen)" }

    func next(after page: ArraySlice<DeadLetter>.SubSequence) -> DeadLetterPlace? {
        guard let last = page.last?.time else { return nil }
        let ofLast = page.count { $0.time == last }
        let seen = last == since ? self.seen + ofLast : ofLast
        return seen <= Self.mostSeen
            ? DeadLetterPlace(since: last, seen: seen) : DeadLetterPlace(since: last + 1, seen: 0)
    }
}
