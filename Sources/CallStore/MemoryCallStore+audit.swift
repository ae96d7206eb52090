import CallCore

extension MemoryCallStore: AuditStore {
    package func add(_ entry: AuditEntry) {
        contents.audit.append((contents.nextAudit, entry))
        contents.nextAudit += 1
        let oldest = now() - AuditBounds.life
        let excess = max(0, contents.audit.count - AuditBounds.entries)
        contents.audit.removeFirst(excess)
        contents.audit.removeAll { $0.entry.time < oldest }
    }

    package func audit(after place: String?, limit: Int) -> AuditPage {
        let end = place.flatMap { Int($0) } ?? .max
        let found = contents.audit.reversed().filter { $0.number < end }
        let page = found.prefix(limit)
        return AuditPage(page.map(\.entry), next: found.count > limit ? page.last.map { "\($0.number)" } : nil)
    }
}
