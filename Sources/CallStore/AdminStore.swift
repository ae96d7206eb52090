import CallCore
import SignalingProtocol

/// An act of an administrator in the audit log (docs/operations.md, Acting on calls and users).
package struct AuditEntry: Equatable, Sendable {
    package enum Act: String, Sendable, CaseIterable {
        case end, signOut, disable, enable, logLevel, replay
    }

    /// The time of the act, in milliseconds since the epoch, by the store's clock.
    package var time: Milliseconds
    /// Different for each entry.
    package let id: String
    /// The `sub` of the administrator's token.
    package let actor: String
    package let act: Act
    package var callID: CallID?
    package var userID: UserID?
    package var device: DeviceID?
    package var reason: String?
    /// With `logLevel`: the level.
    package var level: String?
    /// With `replay`: the endpoint, the only dead letter, and the time from which on dead letters are sent again.
    package var endpoint: EndpointName?
    package var webhookID: String?
    package var since: Milliseconds?

    package init(time: Milliseconds, id: String, actor: String, act: Act) {
        self.time = time
        self.id = id
        self.actor = actor
        self.act = act
    }

    package func encoded() -> [UInt8] { JSONWriter.object { write(to: &$0) } }

    package func write(to writer: inout JSONWriter) {
        writer.field("time", time)
        writer.field("id", id)
        writer.field("actor", actor)
        writer.field("act", act.rawValue)
        writer.field("callID", callID?.string)
        writer.field("userID", userID?.string)
        writer.field("device", device?.string)
        writer.field("reason", reason)
        writer.field("level", level)
        writer.field("endpoint", endpoint?.string)
        writer.field("webhookID", webhookID)
        writer.field("since", since)
    }

    /// Returns nil for an entry that this version cannot read.
    package init?(_ bytes: some Sequence<UInt8>) {
        guard case .object(let json)? = try? JSONParser.parse(Array(bytes)), let time = json["time"]?.integer,
            let id = json["id"]?.string, let actor = json["actor"]?.string,
            let act = json["act"]?.string.flatMap(Act.init)
        else { return nil }
        self.init(time: time, id: id, actor: actor, act: act)
        callID = json["callID"]?.string.flatMap(CallID.init)
        userID = json["userID"]?.string.flatMap(UserID.init)
        device = json["device"]?.string.flatMap(DeviceID.init)
        reason = json["reason"]?.string
        level = json["level"]?.string
        endpoint = json["endpoint"]?.string.flatMap(EndpointName.init)
        webhookID = json["webhookID"]?.string
        since = json["since"]?.integer
    }
}

/// The bounds of the audit log.
package enum AuditBounds {
    /// How long an entry is kept, in milliseconds: 400 days.
    package static let life: Milliseconds = 400 * 86_400_000
    /// The number of entries that are kept; beyond it, the oldest go.
    package static let entries = 100_000
}

/// A part of the audit log, the newest entry first.
package struct AuditPage: Equatable, Sendable {
    package let entries: [AuditEntry]
    /// The place behind the page; nil for the last page.
    package let next: String?

    package init(_ entries: [AuditEntry], next: String?) {
        self.entries = entries
        self.next = next
    }
}

/// A part of the calls that have a deadline.
package struct CallIDPage: Equatable, Sendable {
    package let calls: [CallID]
    /// The place behind the page; nil for the last page.
    package let next: String?

    package init(_ calls: [CallID], next: String?) {
        self.calls = calls
        self.next = next
    }
}

/// The settings that administrators have made for all processes of a deployment.
package struct AdminSettings: Equatable, Sendable {
    package var disabledUsers: Set<UserID> = []
    package var logLevel: LogLevelOrder?

    package init() {}
}

/// An order to all processes to log from a level on, until they restart.
package struct LogLevelOrder: Equatable, Sendable {
    /// The time of the order, in milliseconds since the epoch. The time tells a repeated order from the order before,
    /// so that processes obey both.
    package let time: Milliseconds
    /// `debug`, `info`, `warning` or `error`.
    package let level: String

    package init(time: Milliseconds, level: String) {
        self.time = time
        self.level = level
    }

    /// The stored form: the time, a space, and the level.
    package var text: String { "\(time) \(level)" }

    package init?(_ text: String) {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 2, let time = Int64(parts[0]) else { return nil }
        self.init(time: time, level: String(parts[1]))
    }
}

/// Tells a process which orders about its log are new.
package struct LogLevelWatch: Sendable {
    private var known: LogLevelOrder??

    package init() {}

    /// Returns the level to log from on, when there is a new order. The first settings are as the process found them.
    package mutating func newLevel(in settings: AdminSettings) -> String? {
        defer { known = .some(settings.logLevel) }
        guard let known, known != settings.logLevel else { return nil }
        return settings.logLevel?.level
    }
}

/// The data of administrators: the disabled users, the level of logs, and the audit log of their acts, kept by
/// `AuditBounds`.
package protocol AdminStore: UserStore {
    /// Disables or enables a user. Returns false, without a change, when the list would be too long (`DisabledUsers`).
    func set(_ user: UserID, isDisabled: Bool) async throws(StoreError) -> Bool

    func set(_ logLevel: LogLevelOrder) async throws(StoreError)

    /// Returns devices that are online, in some order: at least those that were from the first page to the last.
    /// `place` is nil for the first page, or the `next` of the page before. A page has about `limit` devices, and may
    /// have none although further pages follow.
    func online(after place: String?, limit: Int) async throws(StoreError) -> DevicePage

    /// Returns calls that have a deadline, in some order: every live call has one, and so has an ended call until its
    /// devices know of the end. The pages have at least the calls that had a deadline from the first page to the last.
    /// `place` is nil for the first page, or the `next` of the page before. A page has about `limit` calls, and may
    /// have none although further pages follow.
    func callsWithDeadline(after place: String?, limit: Int) async throws(StoreError) -> CallIDPage

    /// Adds an entry, and removes entries that are too old, and the oldest beyond `most`. An administrator's act
    /// follows only when its entry is written.
    func add(_ entry: AuditEntry, keeping most: Int) async throws(StoreError)

    /// Returns entries behind `place`, which is the `next` of an earlier page, or nil for the newest. For a `place`
    /// that this store never returned, the page begins with the newest entry.
    func audit(after place: String?, limit: Int) async throws(StoreError) -> AuditPage
}

extension AdminStore {
    /// Adds an entry to a log of `AuditBounds.entries` entries.
    package func add(_ entry: AuditEntry) async throws(StoreError) {
        try await add(entry, keeping: AuditBounds.entries)
    }
}
