import CallCore
import CallStore
import SignalingProtocol

/// Serves calls: gathers, decides, commits, and only then delivers. After a conflict with another coordinator, the
/// facts of a call are gathered again, and its events are decided again.
extension BatchService {
    /// Serves each call's events until its decision is committed. Returns the events without a committed decision.
    /// `senders` are the devices that sent the messages; `afterEachAttempt` is called when `outbound` has the messages
    /// of an attempt.
    @discardableResult
    func serveCalls(
        _ works: [CallWork], of senders: [DeviceAddress] = [], afterEachAttempt: () -> Void = {}
    ) async -> [CallWork] {
        guard !works.isEmpty || !senders.isEmpty else { return [] }
        var open = works
        var unsettled: [CallWork] = []
        do throws(StoreError) {
            for attempt in 0..<ServiceBounds.commitAttempts where attempt == 0 || !open.isEmpty {
                // A second decision uses the current time.
                if attempt > 0 { try await readClock() }
                let senders = attempt > 0 ? open.senders : senders
                open = try await attemptCalls(
                    open, of: senders, unforeseen: ServiceBounds.unforeseenQueries(attempt), &unsettled)
                afterEachAttempt()
            }
        } catch {
            context.failed(error)
        }
        open += unsettled
        // The remaining calls lost every attempt, or the store is unavailable: the devices send again.
        for work in open { answerUnavailable(work) }
        return open
    }

    /// Makes one attempt for all calls. Returns the calls that lost their commit against another writer, and the calls
    /// that need more queries than `unforeseen` allows. Adds to `unsettled` the calls that come to no decision.
    private func attemptCalls(
        _ works: [CallWork], of senders: [DeviceAddress], unforeseen: Int, _ unsettled: inout [CallWork]
    ) async throws(StoreError) -> [CallWork] {
        let (facts, records) = try await gatherFacts(for: works, of: senders)
        var deciding = Deciding(facts, settings, context.budgets)
        var queriesLeft = unforeseen
        var decisions: [Decided] = []
        decisions.reserveCapacity(works.count)
        var postponed: [CallWork] = []
        let presence: Presence?
        do throws(StoreError) {
            for (work, stored) in zip(works, records) {
                let outcome = try await decide(&deciding, besides: works, &queriesLeft) {
                    (deciding) throws(Undecided) in try deciding.decide(work, stored)
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
                context.budgets.take(decided.decision.reserved, now: now)
                context.budgets.pace(decided.decision.sentAgain, decided.decision.heldBack, now: now)
                for (user, invitees) in decided.decision.rings {
                    deciding.facts.add(invitees: invitees, of: user)
                }
                decisions.append(decided)
            }
            presence = try await commit(decisions)
        } catch {
            // Whether the undelivered decisions were written is unknown. A request that was written and comes again
            // takes nothing from the limits.
            for decided in decisions { context.budgets.giveBack(decided.decision.reserved, now: now) }
            throw error
        }
        return deliverCommitted(decisions, presence) + postponed
    }

    /// Delivers the committed decisions. Returns the calls that lost their commit against another writer.
    private func deliverCommitted(_ decisions: [Decided], _ presence: Presence?) -> [CallWork] {
        var lost: [CallWork] = []
        for decided in decisions {
            guard !decided.isLost else {
                context.budgets.giveBack(decided.decision.reserved, now: now)
                lost.append(decided.work)
                continue
            }
            if let written = decided.written {
                noteCommitted(decided.decision, written.id, written.deadline)
                chargeOutbox(written.outboxBytes, decided.decision)
            }
            deliver(decided.decision, of: decided.work.id, presence)
        }
        return lost
    }

    /// Charges the bytes that the service keeps for backends because of a user like the bytes that the service sends to
    /// devices because of the user.
    private func chargeOutbox(_ bytes: Int, _ decision: borrowing Decision) {
        guard bytes > 0 else { return }
        if let payer = Delivering(settings: settings, now: now).payer(of: decision) { charge(bytes, to: payer) }
    }

    private func noteCommitted(_ decision: borrowing Decision, _ id: RecordID, _ deadline: Milliseconds?) {
        guard let call = decision.call else { return }
        let before = decision.subject.before
        context.timers.set(id, at: deadline, isResend: decision.subject.machine?.isNextDeadlineResend ?? false)
        context.usage.add(KeptBytes.difference(call, before), to: call.inviter)
        if before == nil { context.counters.add(.callsCreated) }
        if !call.isLive, before?.isLive ?? true {
            context.counters.add(.callsEnded, call.endReason?.rawValue ?? "")
            if let onTimelineEnd = context.onTimelineEnd, context.recorder.isTraced(call.callID) {
                onTimelineEnd(call.callID)
            }
        }
    }
}

extension [CallWork] {
    /// The devices that sent these messages.
    fileprivate var senders: [DeviceAddress] { flatMap { $0.events.compactMap(\.sender) }.unique }
}
