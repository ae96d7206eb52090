import CallCore
import CallStore
import SignalingProtocol

/// Serves calls in batches: gathers, decides, commits, and only then publishes. After a conflict with another
/// coordinator, a call is gathered and decided again.
struct CallRounds {
    let serving: Serving

    private var context: ServiceContext { serving.context }

    /// Serves each call's events until its decision is committed. Returns the requests without a committed decision.
    /// `senders` are the devices that sent the messages; `told` is called after each attempt, when `serving` has
    /// messages to publish.
    @discardableResult
    func serve(
        _ works: [CallWork], of senders: [DeviceAddress] = [], _ told: () -> Void = {}
    ) async -> [CallWork] {
        guard !works.isEmpty || !senders.isEmpty else { return [] }
        var open = works
        var unsettled: [CallWork] = []
        do throws(StoreError) {
            for attempt in 0..<ServiceBounds.commitAttempts where attempt == 0 || !open.isEmpty {
                // A second decision uses the current time.
                if attempt > 0 { try await serving.readClock() }
                let senders = attempt > 0 ? open.senders : senders
                open = try await self.attempt(open, senders, lookups: ServiceBounds.lookups(attempt), &unsettled)
                told()
            }
        } catch {
            context.failed(error)
        }
        open += unsettled
        // The remaining requests lost every attempt, or the store is unavailable: the devices send again.
        for work in open { serving.answerUnavailable(work) }
        return open
    }

    /// Makes one attempt for all calls. Returns the requests that lost their commit against another writer, and the
    /// requests that need more queries than the batch allows. Adds to `unsettled` the requests that come to no
    /// decision.
    private func attempt(
        _ works: [CallWork], _ senders: [DeviceAddress], lookups: Int, _ unsettled: inout [CallWork]
    ) async throws(StoreError) -> [CallWork] {
        let gathering = Gathering(serving: serving)
        var finding = Finding(serving: serving, lookups: lookups)
        let (facts, records) = try await gathering.facts(for: works, of: senders)
        var deciding = Deciding(facts, serving.settings, context.budgets)
        var round: [Decided] = []
        round.reserveCapacity(works.count)
        var postponed: [CallWork] = []
        let presence: Presence?
        do throws(StoreError) {
            for (work, stored) in zip(works, records) {
                let outcome = try await finding.decided(&deciding, besides: works) { (deciding) throws(Undecided) in
                    try deciding.decide(work, stored)
                }
                let decided: Decided
                switch consume outcome {
                case .decided(let decision): decided = Decided(work, decision)
                case .postponed:
                    postponed.append(work)
                    continue
                case .unsettled:
                    unsettled.append(work)
                    continue
                }
                // Later decisions of this batch count these.
                context.budgets.take(decided.decision.reserved, now: serving.now)
                context.budgets.pace(decided.decision.sentAgain, decided.decision.heldBack, now: serving.now)
                for (user, invitees) in decided.decision.rings {
                    deciding.facts.liveInvitations[user, default: OutstandingNumber()].add(invitees)
                }
                round.append(decided)
            }
            presence = try await Committing(serving: serving).write(round)
        } catch {
            // Whether the unpublished decisions were written is unknown. A request that was written and comes again
            // takes nothing from the limits.
            for decided in round { context.budgets.giveBack(decided.decision.reserved, now: serving.now) }
            throw error
        }
        return tell(round, presence) + postponed
    }

    /// Publishes the committed decisions. Returns the requests that lost their commit against another writer.
    private func tell(_ round: [Decided], _ presence: Presence?) -> [CallWork] {
        let telling = Telling(serving: serving)
        var lost: [CallWork] = []
        for decided in round {
            guard !decided.isLost else {
                context.budgets.giveBack(decided.decision.reserved, now: serving.now)
                lost.append(decided.work)
                continue
            }
            if let written = decided.written {
                committed(decided.decision, written.id, written.deadline)
                charge(written.outboxBytes, decided.decision)
            }
            telling.tell(decided.decision, of: decided.work.id, presence)
        }
        return lost
    }

    /// Charges the bytes that the service keeps for backends because of a user like the bytes that the service sends to
    /// devices because of the user.
    private func charge(_ outboxBytes: Int, _ decision: borrowing Decision) {
        guard outboxBytes > 0 else { return }
        let delivering = Delivering(settings: serving.settings, now: serving.now)
        if let payer = delivering.payer(of: decision) { serving.charge(outboxBytes, to: payer) }
    }

    private func committed(_ decision: borrowing Decision, _ id: RecordID, _ deadline: Milliseconds?) {
        guard let call = decision.call else { return }
        let before = decision.subject.before
        context.timers.set(id, at: deadline, isResend: decision.subject.machine?.isNextDeadlineResend ?? false)
        context.usage.add(KeptBytes.difference(call, before), to: call.inviter)
        if before == nil { context.counters.add(.callsCreated) }
        if !call.isLive, before?.isLive ?? true { context.counters.add(.callsEnded, call.endReason?.rawValue ?? "") }
    }
}

extension [CallWork] {
    /// The devices that sent these messages.
    fileprivate var senders: [DeviceAddress] { flatMap { $0.events.compactMap(\.sender) }.unique }
}
