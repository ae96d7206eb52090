import SignalingProtocol

extension [TraceEntry] {
    /// Returns the steps in the order of their times. At the same time, the steps of each coordinator keep their order,
    /// and the steps of several coordinators are merged in a possible order: a step that knows a revision comes after
    /// the step that made the revision.
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
    /// Orders steps of the same time.
    fileprivate func inOrderOfRevisions() -> [TraceEntry] {
        guard contains(where: { $0.coordinator != first?.coordinator }) else { return Array(self) }
        // The steps of each coordinator, the last step first.
        var waiting = Dictionary(grouping: self, by: \.coordinator).values.map { $0.reversed().map(Known.init) }
        for place in waiting.indices { waiting[place].letFollow() }
        // The coordinators stand in the order of their first steps.
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

/// A step, and the revision that must have come before the step.
private struct Known {
    let entry: TraceEntry
    /// The revision that came before the step; nil when the step does not say.
    var revision: Int?
    /// Whether that revision was also sent before the step.
    var isHeard = false

    init(_ entry: TraceEntry) {
        self.entry = entry
        switch entry.step {
        case .transition(let revision, _, _, _, _): self.revision = revision - 1
        case .send(_, _, _, let revision, _, _): self.revision = revision
        case .ack(_, let revision):
            self.revision = revision
            isHeard = true
        case .request, .presence, .deadline, .push, .media: break
        }
    }

    func knowsLess(than other: Known) -> Bool {
        (revision ?? 0, isHeard ? 1 : 0) < (other.revision ?? 0, other.isHeard ? 1 : 0)
    }
}

extension [Known] {
    /// Fills in missing revisions. The last step stands first: a step without a revision led to the next step, and so
    /// knew the same revision.
    fileprivate mutating func letFollow() {
        for place in indices.dropFirst() { self[place].revision = self[place].revision ?? self[place - 1].revision }
    }
}
