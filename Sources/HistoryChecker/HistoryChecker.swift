import SignalingProtocol

/// Compares the messages that devices saw with the promises of docs/protocol.md: a single order of revisions, responses
/// that stay true, legal transitions, one winner per race, timers in time, and every device told in the end.
///
/// The checker reads entries in order and keeps only open calls and requests, so that a history may be of any length.
/// The checker reads no clock: time is that of the entries.
package struct HistoryChecker {
    enum Bounds {
        /// How long an ended call is kept, in milliseconds: longer than the service delivers events of the call.
        static let overFor: Int64 = 120_000
        /// How long a request is kept after its last copy, in milliseconds.
        static let requestFor: Int64 = 150_000
        static let cleaningInterval: Int64 = 5_000
        /// How long faults are kept, in milliseconds: longer than the period of any check that a fault may excuse.
        static let faultsFor: Int64 = 600_000
        /// How long a time check waits until the faults are known, in milliseconds.
        static let judgementDelay: Int64 = 3_500
        /// The bound on entries in a violation.
        static let story = 60
        /// The bound on violations that are kept. Further violations are only counted.
        static let violations = 1_000
    }

    package let tolerances: Tolerances
    package private(set) var violations: [Violation] = []
    package internal(set) var summary = Summary()

    var now: Int64 = 0
    var calls: [CallID: CallHistory] = [:]
    var requests: [RequestKey: RequestHistory] = [:]
    var devices: [DeviceAddress: DeviceHistory] = [:]
    var messages: [RequestKey: MessageHistory] = [:]
    var messageKeys: [MessageKey: RequestKey] = [:]
    var earlyReceipts: [MessageKey: EarlyReceipt] = [:]
    var disturbances = Disturbances()
    var lost = LostHistory()
    var activeCalls: [UserID: [ActiveSpan]] = [:]
    /// Time checks, and when each check runs.
    private var judgements: [(at: Int64, matter: Matter)] = []
    private var nextJudgement = Int64.max
    private var faultEntries: [HistoryEntry] = []
    private var nextCleaning: Int64 = 0
    private var hasSettled = false

    /// A request, identified by its device and id.
    struct RequestKey: Hashable {
        let device: DeviceAddress
        let id: RequestID
    }

    package init(tolerances: Tolerances = Tolerances()) { self.tolerances = tolerances }

    /// Reads the next entry. Returns the violations that the entry shows.
    @discardableResult
    package mutating func observe(_ entry: HistoryEntry) -> [Violation] {
        let known = violations.count
        now = max(now, entry.at)
        summary.entries += 1
        judge(until: now)
        guard !isOfLostHistory(entry) else { return [] }
        switch entry.content {
        case .began(let coordinators): disturbances.coordinators = coordinators
        case .connected(let device, let session): connected(device, session: session)
        case .disconnected(let device): disconnected(device)
        case .presented(let device, let presence): presented(device, presence)
        case .sent(let device, let message): sent(message, by: device, entry)
        case .received(let device, let message): received(message, by: device, entry)
        case .lost(let device, _):
            summary.faults["message lost", default: 0] += 1
            disturbances.lost(device, at: entry.at)
        case .faultBegan(let target, let fault):
            let what = disturbances.coordinators.contains(target) ? "coordinator" : target
            summary.faults["\(what) \(fault.rawValue)", default: 0] += 1
            faultEntries.append(entry)
            disturbances.began(target, at: entry.at)
        case .faultEnded(let target):
            faultEntries.append(entry)
            disturbances.ended(target, at: entry.at)
        case .storeWentBack(let since):
            summary.faults["store went back", default: 0] += 1
            faultEntries.append(entry)
            disturbances.ended(HistoryEntry.store, since: since, at: entry.at)
            forgetWhatMayBeLost()
        case .stalled(let since):
            faultEntries.append(entry)
            disturbances.stalled(since: since, until: entry.at)
        case .settled:
            hasSettled = true
            settle()
            settleMessages()
        }
        clean()
        return Array(violations[min(known, violations.count)...])
    }

    /// Ends the history. Without a `settled` entry the checker does not know which events were still on their way to
    /// devices.
    @discardableResult
    package mutating func finish() -> [Violation] {
        let known = violations.count
        judge(until: .max)
        for (_, call) in calls.sorted(by: { $0.key < $1.key }) { summary.count(call) }
        calls.removeAll()
        summary.isSettled = hasSettled
        return Array(violations[known...])
    }

    // MARK: Shared by the checks

    /// Keeps a violation with the surrounding entries.
    mutating func report(
        _ kind: Violation.Kind, _ callID: CallID? = nil, _ device: DeviceAddress? = nil, _ what: String,
        entry: HistoryEntry? = nil
    ) {
        // Each fault of a call is reported once. For `twoFaces` the key omits `what`, which names the device that saw
        // the fault, so that a call has a single report of this kind.
        let key = "\(kind.rawValue) \(device.map { "\($0)" } ?? "") \(kind == .twoFaces ? "" : what)"
        if let callID, calls[callID]?.told.insert(key).inserted == false { return }
        summary.violations[kind, default: 0] += 1
        guard violations.count < Bounds.violations else { return }
        var entries = callID.flatMap { calls[$0]?.entries } ?? []
        if let entry, !entries.contains(entry) { entries.append(entry) }
        if let first = entries.first?.at, let last = entries.last?.at {
            entries += faultEntries.filter { $0.at >= first - 20_000 && $0.at <= last + 5_000 }
        }
        entries = entries.enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }.map(\.element)
        violations.append(
            Violation(kind, callID: callID, device: device, what, entries: Array(entries.suffix(Bounds.story))))
    }

    mutating func later(_ matter: Matter, after delay: Int64 = 0) {
        let moment = now + delay + Bounds.judgementDelay
        judgements.append((moment, matter))
        nextJudgement = min(nextJudgement, moment)
    }

    mutating func dropJudgements() {
        judgements.removeAll()
        nextJudgement = .max
    }

    private mutating func judge(until moment: Int64) {
        guard nextJudgement <= moment else { return }
        var due: [Matter] = []
        nextJudgement = .max
        judgements.removeAll { at, matter in
            if at <= moment {
                due.append(matter)
            } else {
                nextJudgement = min(nextJudgement, at)
            }
            return at <= moment
        }
        for matter in due { judge(matter) }
    }

    /// Removes ended calls and old requests, so that a history of any length can be checked.
    private mutating func clean() {
        guard now >= nextCleaning else { return }
        nextCleaning = now + Bounds.cleaningInterval
        for callID in calls.keys.sorted() {
            guard let call = calls[callID], call.isOver, call.touchedAt + Bounds.overFor < now else { continue }
            checkKnowledge(of: call)
            checkGlare(of: call)
            summary.count(call)
            calls[callID] = nil
        }
        requests = requests.filter { $0.value.lastSent + Bounds.requestFor >= now }
        forgetMessages(before: now - Bounds.requestFor)
        disturbances.forget(before: now - Bounds.faultsFor)
        lost.forget(before: now - Bounds.faultsFor)
        faultEntries.removeAll { $0.at < now - Bounds.faultsFor }
        forgetActiveCalls()
        for device in devices.keys { devices[device]?.forget(before: now - Bounds.faultsFor) { calls[$0] != nil } }
    }

    /// Whether the faults and departures of `moment` are still known.
    func remembers(_ moment: Int64) -> Bool { moment > now - Bounds.faultsFor }
}
