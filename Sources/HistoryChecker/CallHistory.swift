import SignalingProtocol

/// All that was seen of one call.
struct CallHistory {
    /// A call at one revision, as it was first seen.
    struct View {
        let call: CallSnapshot
        /// When the revision was made.
        var time: Int64
        /// Whether the message said so; else it was no earlier than `time`.
        let isTimeKnown: Bool
        let seenAt: Int64
        let seenBy: DeviceAddress
    }

    private enum Bounds {
        /// Entries that are kept for stories.
        static let entries = 120
    }

    let callID: CallID
    /// By revision, rising.
    private(set) var views: [View] = []
    /// The request that made the call.
    var invite: (device: DeviceAddress, request: Request.Invite)?
    /// What `ok` responses promised.
    var facts: [Fact] = []
    /// How often users were named in a `call.add`, answered or not.
    var additions: [UserID: Int] = [:]
    /// Users who tried to join: they may be in the call again.
    var joiners: Set<UserID> = []
    private(set) var entries: [HistoryEntry] = []
    private(set) var touchedAt: Int64 = 0
    /// Violations that were told already, so that one fault is one story.
    var told: Set<String> = []

    init(callID: CallID) { self.callID = callID }

    var latest: View? { views.last }
    var isOver: Bool { latest?.call.state == .ended }

    mutating func mention(_ entry: HistoryEntry) {
        guard entries.last != entry else { return }
        touchedAt = entry.at
        entries.append(entry)
        // The beginning of a call tells more than its middle.
        if entries.count > Bounds.entries { entries.remove(at: Bounds.entries / 4) }
    }

    /// Whoever asked for this call may have got that one instead, by a glare merge: the two users invited each other alone.
    func mayBeAlias(of call: CallSnapshot) -> Bool {
        guard views.isEmpty, let invite, invite.request.glare == .merge else { return false }
        return invite.request.invitees == [call.inviter] && call.member(invite.device.userID) != nil
    }

    /// The highest revision that anybody had seen before `moment`.
    func seen(before moment: Int64) -> View? { views.last { $0.seenAt < moment } }

    func view(_ revision: Int) -> View? {
        place(of: revision).flatMap { views[$0].call.revision == revision ? views[$0] : nil }
    }

    /// The first known revision after `revision` of which `condition` holds.
    func first(after revision: Int, where condition: (CallSnapshot) -> Bool) -> View? {
        views.first { $0.call.revision > revision && condition($0.call) }
    }

    /// The place of the first view that is not below `revision`.
    private func place(of revision: Int) -> Int? { views.firstIndex { $0.call.revision >= revision } }

    /// Adds what was seen. Returns what is wrong with it, and whether the revision is new.
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

    /// When the revision before this one was made: since then its owner has been holding the timers.
    func previousTime(before revision: Int) -> Int64 {
        views.last { $0.call.revision < revision }?.time ?? latest?.call.createdAt ?? 0
    }
}
