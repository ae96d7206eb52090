import SignalingProtocol

extension [TraceEntry] {
    /// By their times. At the same time each coordinator's steps stay as they are, and those of several go as they can have followed
    /// each other: what knows a revision comes after it was made.
    package func inOrderOfTime() -> Self {
        var sorted: Self = []
        var rest = indices.sorted { (self[$0].time, $0) < (self[$1].time, $1) }.map { self[$0] }[...]
        while let time = rest.first?.time {
            let end = rest.firstIndex { $0.time != time } ?? rest.endIndex
            sorted += rest[..<end].inOrderOfRevisions()
            rest = rest[end...]
        }
        return sorted
    }
}

extension ArraySlice<TraceEntry> {
    /// Steps of the same time.
    fileprivate func inOrderOfRevisions() -> [TraceEntry] {
        guard contains(where: { $0.coordinator != first?.coordinator }) else { return Array(self) }
        // Of each coordinator, the last step first.
        var waiting = Dictionary(grouping: self, by: \.coordinator).values.map { $0.reversed().map(Known.init) }
        for place in waiting.indices { waiting[place].letFollow() }
        // Whose first step came in first.
        waiting.sort { firstIndex(of: $0.last!.entry)! < firstIndex(of: $1.last!.entry)! }
        var sorted: [TraceEntry] = []
        while sorted.count < count {
            let heads = waiting.indices.filter { !waiting[$0].isEmpty }
            let next = heads.min { waiting[$0].last!.knowsLess(than: waiting[$1].last!) }!
            sorted.append(waiting[next].removeLast().entry)
        }
        return sorted
    }
}

/// A step, and what must have been before it.
private struct Known {
    let entry: TraceEntry
    /// The revision that was made before; nil where the step does not say.
    var revision: Int?
    /// Whether that revision was also sent before.
    var isHeard = false

    init(_ entry: TraceEntry) {
        self.entry = entry
        switch entry.step {
        case .transition(let revision, _, _, _, _): self.revision = revision - 1
        case .send(_, _, _, let revision, _, _): self.revision = revision
        case .ack(_, let revision):
            self.revision = revision
            isHeard = true
        case .request, .presence, .deadline, .push: break
        }
    }

    func knowsLess(than other: Known) -> Bool {
        (revision ?? 0, isHeard ? 1 : 0) < (other.revision ?? 0, other.isHeard ? 1 : 0)
    }
}

extension [Known] {
    /// The last step first: one that does not say what it knew has led to the next one, which knew the same.
    fileprivate mutating func letFollow() {
        for place in indices.dropFirst() { self[place].revision = self[place].revision ?? self[place - 1].revision }
    }
}
