import CallCore
import SignalingProtocol

extension MemoryCallStore: AdminStore {
    package func adminSettings() -> AdminSettings { contents.adminSettings }

    package func online(after place: String?, limit: Int) -> DevicePage {
        let now = now()
        let all = contents.brokers.marked(contents.presence.values.flatMap(\.devices))
            .filter { $0.isReachable(at: now, lease: lease) && (place == nil || "\($0.device)" > place!) }
            .sorted { "\($0.device)" < "\($1.device)" }
        let devices = Array(all.prefix(limit))
        return DevicePage(devices, next: all.count > limit ? devices.last.map { "\($0.device)" } : nil)
    }

    package func callsWithDeadline(after place: String?, limit: Int) -> CallIDPage {
        let all = contents.entries.filter { $0.value.deadline != nil }.keys.compactMap(\.callID)
            .filter { place == nil || $0.string > place! }.sorted { $0.string < $1.string }
        let calls = Array(all.prefix(limit))
        return CallIDPage(calls, next: all.count > limit ? calls.last?.string : nil)
    }

    package func set(_ logLevel: LogLevelOrder) { contents.adminSettings.logLevel = logLevel }

    package func set(_ user: UserID, isDisabled: Bool) -> Bool {
        guard isDisabled else {
            contents.adminSettings.disabledUsers.remove(user)
            return true
        }
        guard DisabledUsers(contents.adminSettings.disabledUsers).adding(user) != nil else { return false }
        contents.adminSettings.disabledUsers.insert(user)
        return true
    }

    package func add(_ entry: AuditEntry, keeping most: Int) {
        contents.audit.append((contents.nextAudit, entry))
        contents.nextAudit += 1
        let oldest = now() - AuditBounds.life
        let excess = max(0, contents.audit.count - most)
        // Entries are written in the order of their times, but for a clock that was set.
        let old = contents.audit.dropFirst(excess).prefix { $0.entry.time < oldest }.count
        if excess + old > 0 { contents.audit.removeFirst(excess + old) }
    }

    package func audit(after place: String?, limit: Int) -> AuditPage {
        let end = place.flatMap { Int($0) } ?? .max
        let found = contents.audit.reversed().filter { $0.number < end }
        let page = found.prefix(limit)
        return AuditPage(page.map(\.entry), next: found.count > limit ? page.last.map { "\($0.number)" } : nil)
    }
}
