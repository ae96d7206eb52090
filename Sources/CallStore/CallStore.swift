import CallCore
import SignalingProtocol

/// Where coordinators keep what must survive them (docs/architecture.md, Store): all roles that a store has for them.
///
/// The methods take batches, and throw `StoreError` when the store cannot answer. What is asked is asked in the order of the calls,
/// also while others wait for their answers.
package protocol CallStore: RecordStore, UserStore, PresenceStore, TimelineStore, EndpointStore, RegistrationStore {
    /// A short name for logs, without credentials.
    var summary: String { get }

    /// What a crash of the store's machine may lose, for the log; nil while that is not known.
    var durability: String? { get }

    /// What in the store's settings may lose calls, and what mends it, for the log; nil where nothing is known.
    var hazard: String? { get }

    /// Whether it may be out of reach for this coordinator, and not for others.
    var isShared: Bool { get }

    /// How often it was waited for since the start.
    var roundTrips: Int { get }
}

/// The store's clock, by which all coordinators write and serve deadlines.
package protocol StoreTime: AnswersLater {
    func now() async throws(StoreError) -> Milliseconds

    /// The same as far as it is known without asking.
    var time: Milliseconds? { get }

    /// Asks the store for its time anew, and sees whether somebody has set its clock. To be called every half a second or so, as long as
    /// there is anything to do with the store. Whether it has written something, and so shown that it can.
    @discardableResult
    func lookAtClock() async throws(StoreError) -> Bool

    /// How far the store's time is from this machine's, in milliseconds.
    var clockSkew: Milliseconds { get }

    /// How often the clock of the store's machine was found to be set, by whichever coordinator; and by how much the last time.
    var clockSteps: (count: Int, last: Milliseconds) { get }
}

/// Records and what lies beside them: deadlines, claims, notes. A commit is a compare-and-set on the record's version; notes are merged
/// and never conflict.
package protocol RecordStore: StoreTime {
    /// Reads all that is asked for, in one round trip.
    func read(_ lookup: Lookup) async throws(StoreError) -> Findings

    /// Writes each record if nobody changed it meanwhile; merges the notes into what is kept beside calls; and then
    /// reads, in as few round trips as can be. The commits do not depend on each other.
    ///
    /// When it throws, each commit may have been written or not: who repeats it finds out.
    func write(_ commits: [Commit], _ notes: [Note], thenRead lookup: Lookup) async throws(StoreError) -> Written

    /// Records whose deadline lies at or before `moment`, the earliest first, but for those that cannot be served.
    func due(before moment: Milliseconds, limit: Int, besides: Set<RecordID>) async throws(StoreError) -> [RecordID]

    /// Those of the records whose deadline lies at or before `moment`, in their order.
    func due(_ ids: [RecordID], before moment: Milliseconds) async throws(StoreError) -> [RecordID]

    /// Removes up to `limit` things whose time is over: ended calls, forgotten cancels, finished messages, expired
    /// presence, registrations. Returns how many were removed.
    func clean(limit: Int) async throws(StoreError) -> Int
}

/// What belongs to a user: the list of calls, the profile, blocks, and what counts with the user.
package protocol UserStore: AnswersLater {
    /// All of the user's calls that are kept, the newest first, those of the same time by falling id; only those that
    /// stand behind `place`.
    func history(of user: UserID, after place: HistoryPlace?, limit: Int) async throws(StoreError) -> [HistoryPlace]

    /// Changes a user's profile. Returns it as it is then.
    func update(_ user: UserID, _ update: Request.UserUpdate) async throws(StoreError) -> UserProfile

    /// Lets a user's block begin or end. False when the list is full: nothing has changed then.
    func set(_ block: Block, _ isBlocked: Bool) async throws(StoreError) -> Bool

    /// Whom the user has blocked, in the order of their ids.
    func blockList(of user: UserID) async throws(StoreError) -> [UserID]

    /// Puts the user's list of calls right where it names calls that do not live, or in which the user is not: what coordinators left
    /// that died, or lost, in the middle of a commit. Returns how many it found; there may be more, unless there were none.
    func tidyCalls(of user: UserID) async throws(StoreError) -> Int

    /// Removes what is kept of a user: profile, blocks by and of the user, presence, registrations for pushes, lists of calls and messages,
    /// messages that wait, and of the listed calls the timelines and what the user's devices acknowledged, reported and were pushed. The calls themselves are also others'.
    func erase(_ user: UserID) async throws(StoreError)

    /// Counts what is kept because of users.
    func charge(_ charges: [StoredCharge]) async throws(StoreError)
}

/// Which devices are there. `UserPresence` is the rule.
package protocol PresenceStore: AnswersLater {
    /// Devices published `online: true`.
    func cameOnline(_ sessions: [DeviceSession], policy: PresencePolicy) async throws(StoreError) -> [OnlineOutcome]

    /// Devices published `online: false`, or their wills were published. Of each: whether that ended its current session.
    func wentOffline(_ sessions: [DeviceSession], policy: PresencePolicy) async throws(StoreError) -> [Bool]

    /// Renews the lease of devices that sent something.
    func renew(_ devices: [DeviceAddress]) async throws(StoreError)
}

/// Timelines of calls (docs/protocol.md, section 6).
package protocol TimelineStore: AnswersLater {
    /// Adds entries to calls' timelines, which are kept for `life` milliseconds beyond the last one. Of each timeline the last
    /// `Limits.traceEntries` by their time are kept, in whichever order coordinators write.
    func trace(_ traces: [CallTrace], life: Milliseconds) async throws(StoreError)

    /// The call's timeline, as far as it is kept, in the order of its times, and of one coordinator in its own.
    func timeline(of callID: CallID) async throws(StoreError) -> Timeline
}

/// To whom revisions may be owed, and how much of that is kept: coordinators see to it, whoever hands over. `Outbox` is the rule.
package protocol EndpointStore: AnswersLater {
    /// All that settings have ever named, and nobody has told it to forget, in the order of their names.
    func endpoints() async throws(StoreError) -> [KeptEndpoint]

    /// Keeps endpoints as settings have them.
    func keep(_ endpoints: [KeptEndpoint]) async throws(StoreError)

    /// Holds an endpoint to its bounds, step by step when much is beyond them: to be called again while it loses something.
    func bound(_ endpoint: EndpointName, _ bounds: OutboxBounds) async throws(StoreError) -> OutboxLoss
}

extension StoreTime {
    package var clockSkew: Milliseconds { 0 }
    package var clockSteps: (count: Int, last: Milliseconds) { (0, 0) }
    package func lookAtClock() async throws(StoreError) -> Bool { false }
}

extension RecordStore {
    package func due(before moment: Milliseconds, limit: Int) async throws(StoreError) -> [RecordID] {
        try await due(before: moment, limit: limit, besides: [])
    }
}

extension UserStore {
    package func tidyCalls(of user: UserID) async throws(StoreError) -> Int { 0 }
}

extension CallStore {
    package var isShared: Bool { false }
    package var durability: String? { nil }
    package var hazard: String? { nil }
    package var roundTrips: Int { 0 }
}

extension AnswersLater {
    package var answersAtOnce: Bool { true }
    package var socket: StoreSocket? { nil }
    package func receive() {}
}

/// Something that is asked, and may answer later.
package protocol AnswersLater: AnyObject {
    /// Nothing goes on meanwhile: there is an answer when what was asked returns.
    var answersAtOnce: Bool { get }

    /// Where its answers arrive; nil for one that answers at once, and while nothing is on its way.
    var socket: StoreSocket? { get }

    /// Takes what has arrived, and gives up what did not arrive in time: who waited for it goes on with the next run of the work.
    func receive()
}

/// Where a store's answers arrive.
package struct StoreSocket: Equatable, Sendable {
    package let descriptor: Int32
    /// Something could not be sent yet.
    package let waitsToSend: Bool
    /// The boot clock at which what was asked first is given up; nil while nothing is on its way.
    package let deadline: Milliseconds?

    package init(descriptor: Int32, waitsToSend: Bool, deadline: Milliseconds?) {
        self.descriptor = descriptor
        self.waitsToSend = waitsToSend
        self.deadline = deadline
    }
}

/// The store cannot do now what it was asked.
package struct StoreError: Error, Sendable, CustomStringConvertible {
    /// What kind of failure it is: what to do about it follows from this alone.
    package enum Code: String, Sendable, CaseIterable {
        /// There is no connection, or no answer in time: what was written may have been written or not.
        case unreachable
        /// It answers that it cannot, or answers nonsense.
        case failed
        /// A write failed, or is not known to be as safe as it has to be: that reading succeeds says nothing about it.
        case notWritten
        /// It is another deployment's (`DeploymentStamp`), or in another format (`StoreFormat`): nothing is to be done with it.
        case foreign
        /// It answers, and what was asked came to no end: others were faster each time, or this process stood still for too long.
        case unsettled
    }

    package let code: Code
    package let description: String

    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}

/// New entries of one call's timeline.
package struct CallTrace: Equatable, Sendable {
    package let callID: CallID
    package var entries: [TraceEntry]

    package init(_ callID: CallID, _ entries: [TraceEntry]) {
        self.callID = callID
        self.entries = entries
    }
}

extension Timeline {
    /// Keeps the last `Limits.traceEntries` of what was there and what is new, by their times.
    package mutating func add(_ new: [TraceEntry]) {
        entries += new
        let excess = entries.count - Limits.traceEntries
        guard excess > 0 else { return }
        entries = Array(entries.inOrderOfTime().dropFirst(excess))
        omitted += excess
    }
}

extension DeviceReport {
    /// Each device's milestones, both in a certain order.
    package static func sorted(_ milestones: [DeviceAddress: [String: Int64]]) -> [DeviceReport] {
        milestones.sorted { $0.key < $1.key }.map { device, times in
            DeviceReport(
                device: device,
                milestones: times.sorted { $0.key < $1.key }.map { Milestone(name: $0.key, milliseconds: $0.value) })
        }
    }
}
