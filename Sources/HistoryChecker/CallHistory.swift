import SignalingProtocol

/// The messages that devices sent and received about a single call.
struct CallHistory {
    /// A call at a single revision, as a device first saw the revision.
    struct View {
        let call: CallSnapshot
        /// The time at which the revision was made, in milliseconds since the Unix epoch.
        var time: Int64
        /// Whether the message named the time. If false, the revision was made at `time` or later.
        let isTimeKnown: Bool
        let seenAt: Int64
        let seenBy: DeviceAddress
    }

    private enum Bounds {
        /// The bound on entries that are kept for the text of a violation.
        static let entries = 120
    }

    let callID: CallID
    /// The revisions that devices have seen, in ascending order.
    private(set) var views: [View] = []
    /// The request that made the call.
    var invite: (device: DeviceAddress, request: Request.Invite)?
    /// The promises that `ok` responses made.
    var facts: [Fact] = []
    /// The number of `call.add` requests that named each user, answered or not.
    var additions: [UserID: Int] = [:]
    /// Users who tried to join, so that a contradicting state of their membership may be correct.
    var joiners: Set<UserID> = []
    private(set) var entries: [HistoryEntry] = []
    private(set) var touchedAt: Int64 = 0
    /// Violations that were reported already, so that each fault is reported once.
    var told: Set<String> = []

    init(callID: CallID) { self.callID = callID }

    var latest: View? { views.last }
    var isOver: Bool { latest?.call.state == .ended }

    mutating func mention(_ entry: HistoryEntry) {
        guard entries.last != entry else { return }
        touchedAt = entry.at
        entries.append(entry)
        // The beginning of a call explains more than its middle, so entries of the middle are removed first.
        if entries.count > Bounds.entries { entries.remove(at: Bounds.entries / 4) }
    }

    /// Whether a glare merge may have turned this call's invite into `call`: the two users invited each other and no
    /// other user.
    func mayBeAlias(of call: CallSnapshot) -> Bool {
        guard views.isEmpty, let invite, invite.request.glare == .merge else { return false }
        return invite.request.invitees == [call.inviter] && call.member(invite.device.userID) != nil
    }

    /// The highest revision that any device had seen before `moment`.
    func seen(before moment: Int64) -> View? { views.last { $0.seenAt < moment } }

    func view(_ revision: Int) -> View? {
        place(of: revision).flatMap { views[$0].call.revision == revision ? views[$0] : nil }
    }

    /// The first known revision after `revision` for which `condition` holds.
    func first(after revision: Int, where condition: (CallSnapshot) -> Bool) -> View? {
        views.first { $0.call.revision > revision && condition($0.call) }
    }

    /// The index of the first view whose revision is `revision` or higher.
    private func place(of revision: Int) -> Int? { views.firstIndex { $0.call.revision >= revision } }

    /// Adds a view. Returns the faults of the view, and whether the revision is new.
    mutating func add(_ view: View) -> (findings: [CallRules.Finding], isNew: Bool) {
        let revision = view.call.revision
        let place = place(of: revision) ?? views.count
        if place < views.count, views[place].call.revision == revision {
            guard views[place].call == view.call else {
                let other = views[place]
                let what =
                    "revision \(revision) is {\(other.call.story)} to \(other.seenBy), "
                    + "{\(view.call.story)} to \(view.seenBy)"
                return ([(.twoFaces, what)], false)
            }
            return ([], false)
        }
        var view = view
        var findings = CallRules.findings(in: view.call, autoEnd: invite?.request.autoEnd)
        if place > 0 {
            findings += CallRules.findings(from: views[place - 1].call, to: view.call)
            if views[place - 1].time > view.time {
                if view.isTimeKnown {
                    findings.append((.disorder, "revision \(revision) is older than the one before"))
                }
                view.time = views[place - 1].time
            }
        }
        if place < views.count { findings += CallRules.findings(from: view.call, to: views[place].call) }
        views.insert(view, at: place)
        return (findings, true)
    }

    /// Returns the time at which the revision before `revision` was made. A disturbance since then may have delayed the
    /// call's timers.
    func previousTime(before revision: Int) -> Int64 {
        views.last { $0.call.revision < revision }?.time ?? latest?.call.createdAt ?? 0
    }
}
