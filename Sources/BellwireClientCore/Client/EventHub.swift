import Basics

/// A hub that gives each element to every reader. Elements that come before the first reader are kept.
final class EventHub<Element: Sendable>: Sendable {
    private struct State {
        var readers: [Int: AsyncStream<Element>.Continuation] = [:]
        var lastReader = 0
        /// The elements until the first reader; nil afterwards.
        var kept: [Element]? = []
        var isFinished = false
    }

    private let state = Mutex(State())
    private let limit: Int
    private let dropCount = Mutex(0)

    /// Creates a hub that keeps at most `limit` elements for each reader, and drops the oldest beyond that.
    init(limit: Int) { self.limit = max(1, limit) }

    /// The number of elements that were dropped because they were not read, of all readers together.
    var dropped: Int { dropCount.withLock(\.self) }

    func tell(_ element: Element) {
        state.withLock { state in
            guard !state.isFinished else { return }
            for reader in state.readers.values { yield(element, to: reader) }
            state.kept?.append(element)
            if state.kept?.count ?? 0 > limit {
                state.kept?.removeFirst()
                dropCount.withLock { $0 += 1 }
            }
        }
    }

    private func yield(_ element: Element, to reader: AsyncStream<Element>.Continuation) {
        if case .dropped = reader.yield(element) { dropCount.withLock { $0 += 1 } }
    }

    /// Removes the elements that are kept for the first reader and no longer concern that reader.
    func withdraw(_ isOver: (Element) -> Bool) { state.withLock { $0.kept?.removeAll(where: isOver) } }

    func finish() {
        let readers = state.withLock { state in
            state.isFinished = true
            defer { state.readers = [:] }
            return state.readers.values
        }
        for reader in readers { reader.finish() }
    }

    /// Returns another reader of all elements from now on. The first reader also gets the kept elements, unless
    /// `fromNow` leaves these to the next reader.
    func stream(fromNow: Bool = false) -> AsyncStream<Element> {
        let (stream, reader) = AsyncStream.makeStream(of: Element.self, bufferingPolicy: .bufferingNewest(limit))
        let number = state.withLock { state -> Int? in
            if !fromNow {
                for element in state.kept ?? [] { reader.yield(element) }
                state.kept = nil
            }
            guard !state.isFinished else { return nil }
            state.lastReader += 1
            state.readers[state.lastReader] = reader
            return state.lastReader
        }
        guard let number else {
            reader.finish()
            return stream
        }
        reader.onTermination = { [weak self] _ in self?.leave(number) }
        return stream
    }

    private func leave(_ number: Int) { state.withLock { _ = $0.readers.removeValue(forKey: number) } }
}
