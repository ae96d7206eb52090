import CallCore
import SignalingProtocol

extension MemoryCallStore: AdminStore {
    package func disabledUsers() -> Set<UserID> { contents.disabledUsers }

    package func set(_ user: UserID, isDisabled: Bool) -> Bool {
        guard isDisabled else {
            contents.disabledUsers.remove(user)
            return true
        }
        guard contents.disabledUsers.count < DisabledUsers.most || contents.disabledUsers.contains(user) else {
            return false
        }
        contents.disabledUsers.insert(user)
        return true
    }

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
