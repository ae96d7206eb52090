"""The ways in which the service is broken to see whether a test notices.
Each mutant replaces `old`, which stands exactly once in `file`, by `new`. In `new`, `mutant` is true while this mutant
is switched on: all mutants are built into the same program.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str


CORE = "Sources/CallCore/Machine/"
SERVICE = "Sources/Coordinator/Service/"
INTAKE = "Sources/Coordinator/Intake/"
LOOP = "Sources/Coordinator/Loop/"
DECIDING = "Sources/CallCore/Deciding/"
STORE = "Sources/CallStore/MemoryCallStore.swift"
SDK = "Sources/BellwireClientCore/Machine/"

MUTANTS = [
    # The store.
    Mutant(
        "the compare-and-set is skipped",
        STORE,
        "== commit.expected ? nil : .conflict",
        "== commit.expected || mutant ? nil : .conflict",
    ),
    Mutant(
        "the holder of a claim is not checked",
        STORE,
        "guard contents.claims[claim] == holder || contents.claims[claim] == commit.holder else {",
        "guard contents.claims[claim] == holder || contents.claims[claim] == commit.holder || mutant else {",
    ),
    Mutant(
        "the will of an old session ends the new one",
        CORE + "Records/UserPresence.swift",
        "devices[place].isOnline, devices[place].isSession(session)\n        else { return false }",
        "devices[place].isOnline, devices[place].isSession(session) || mutant\n        else { return false }",
    ),
    Mutant(
        "a late message of a former session begins it anew",
        CORE + "Records/UserPresence.swift",
        "if let known, known.makesLate(session) { return .late }",
        "if !mutant, let known, known.makesLate(session) { return .late }",
    ),
    Mutant(
        "every message goes to every broker",
        SERVICE + "BatchService+routing.swift",
        "guard !online.isEmpty, !hasOthers else { return .all }",
        "guard !online.isEmpty, !hasOthers, !mutant else { return .all }",
    ),
    Mutant(
        "a broker that delivers nothing is kept",
        LOOP + "BrokerStanding.swift",
        "if hasCanary, missedCanaries >= StandingBounds.missedMost {",
        "if hasCanary, !mutant, missedCanaries >= StandingBounds.missedMost {",
    ),
    Mutant(
        "a relayed message is relayed again",
        LOOP + "CoordinatorLoop.swift",
        "} else if !message.isRelayed, let relay",
        "} else if !message.isRelayed || mutant, let relay",
    ),
    Mutant(
        "a clock that was set is followed",
        "Sources/CallStore/StoreClock.swift",
        "if abs(likely - now) > ClockBounds.step, likely + ClockBounds.step >= last {",
        "if !mutant, abs(likely - now) > ClockBounds.step, likely + ClockBounds.step >= last {",
    ),
    Mutant(
        "who has just started follows the store's clock wherever it went",
        "Sources/CallStore/StoreClock.swift",
        "guard last > 0 else { return now }",
        "guard last > 0, !mutant else { return now }",
    ),
    Mutant(
        "a claim is given up at whichever version it was taken",
        STORE,
        "holder.version <= commit.expected",
        "holder.version <= commit.expected || mutant",
    ),
    Mutant(
        "due records that cannot be read are tried again and again",
        SERVICE + "BatchService+deliver.swift",
        "if decision.isUnreadable { context.setAside",
        "if decision.isUnreadable, !mutant { context.setAside",
    ),
    # Deciding.
    Mutant(
        "a request that comes again is judged again",
        DECIDING + "Requests/Requests.swift",
        "if let known = call.outcome(of: received.key) {\n            // A request",
        "if !mutant, let known = call.outcome(of: received.key) {\n            // A request",
    ),
    Mutant(
        "what lost its commit is published all the same",
        SERVICE + "BatchService+calls.swift",
        "guard !decided.isLost else {",
        "guard !decided.isLost || mutant else {",
    ),
    Mutant(
        "a cancel that overtakes its invite is forgotten",
        DECIDING + "Requests/Requests.swift",
        "decision.subject.record = .cancelled(by: received.device.userID, at: now)",
        "decision.subject.record = mutant ? nil : .cancelled(by: received.device.userID, at: now)",
    ),
    Mutant(
        "an answer on another device counts as the merge",
        DECIDING + "Requests/Requests.swift",
        "guard decision.subject.alias == nil, call.origin == received.key else { return nil }",
        "guard decision.subject.alias == nil || mutant, call.origin == received.key || mutant else { return nil }",
    ),
    Mutant(
        "the holder of a claim is not fenced",
        DECIDING + "Requests/Inviting.swift",
        "if stored?.record == .unreadable || facts.fenced.contains(holder) { return nil }",
        "if mutant || stored?.record == .unreadable || facts.fenced.contains(holder) { return nil }",
    ),
    Mutant(
        "an earlier ringing call is not found by a merge",
        DECIDING + "Requests/Glare.swift",
        "let callIDs = try facts.liveCalls(of: [user])[0].filter { $0 != callID }",
        "let callIDs = try facts.liveCalls(of: [user])[0].filter { $0 != callID && !mutant }",
    ),
    Mutant(
        "a call of three merges",
        DECIDING + "Requests/Glare.swift",
        "other.isLive && other.inviter == invite.invitees[0] && other.members.count == 2",
        "other.isLive && other.inviter == invite.invitees[0] && (other.members.count == 2 || mutant)",
    ),
    # Answering.
    Mutant(
        "an ended call can be joined",
        CORE + "CallMachine+membership.swift",
        "guard call.isLive else { throw .callEnded(member.state) }\n        if member.state == .accepted {",
        "guard call.isLive || mutant else { throw .callEnded(member.state) }\n        if member.state == .accepted {",
    ),
    Mutant(
        "who answered first does not count",
        CORE + "CallMachine+answering.swift",
        "if call.isLive && member.state.isPending { return index }",
        "if call.isLive && (member.state.isPending || mutant) { return index }",
    ),
    Mutant(
        "the loser is not told that another device won",
        CORE + "CallMachine+answering.swift",
        "if let device = member.device, device != acting.device {",
        "if let device = member.device, device != acting.device, !mutant {",
    ),
    Mutant(
        "busy and declined are swapped",
        CORE + "CallMachine+answering.swift",
        "endIfOver(cause: reject.reason == WellKnownReason.busy ? .busy : .rejected)",
        "endIfOver(cause: (reject.reason == WellKnownReason.busy) != mutant ? .busy : .rejected)",
    ),
    Mutant(
        "of several invitations only the first is cancelled",
        CORE + "CallMachine+answering.swift",
        "for index in cancelled {\n",
        "for index in cancelled.prefix(mutant ? 1 : cancelled.count) {\n",
    ),
    Mutant(
        "anybody can take back anybody's invitation",
        CORE + "CallMachine+answering.swift",
        "guard member.invitedBy == inviter else {",
        "guard member.invitedBy == inviter || mutant else {",
    ),
    Mutant(
        "a user can be in two advanced calls",
        CORE + "CallMachine+answering.swift",
        "if settings.oneActiveCall, let active = activeElsewhere, active != call.callID {",
        "if settings.oneActiveCall, !mutant, let active = activeElsewhere, active != call.callID {",
    ),
    # The call as a whole.
    Mutant(
        "a call with one member goes on",
        CORE + "CallMachine.swift",
        "if accepted == 0 || accepted + pending < 2 { end(cause) }",
        "if accepted == 0 || accepted + pending < (mutant ? 1 : 2) { end(cause) }",
    ),
    Mutant(
        "a common call that nobody answered says that it was answered",
        CORE + "CallMachine.swift",
        "if pending == 0 { end(call.acceptedAt != nil ? .answered : cause) }",
        "if pending == 0 { end(call.acceptedAt != nil || mutant ? .answered : cause) }",
    ),
    Mutant(
        "who is pending stays so when the call ends",
        CORE + "CallMachine.swift",
        "for index in call.members.indices where call.members[index].state.isPending {\n            move(index, to: .cancelled, reason: reason.rawValue)",
        "for index in call.members.indices where call.members[index].state.isPending && !mutant {\n            move(index, to: .cancelled, reason: reason.rawValue)",
    ),
    Mutant(
        "a change keeps the revision",
        CORE + "CallMachine.swift",
        "call.revision += 1",
        "call.revision += mutant && actor == nil ? 0 : 1",
    ),
    Mutant(
        "resends of a new revision are not planned",
        CORE + "CallMachine.swift",
        "call.deliveryDue = call.updatedAt + ResendSchedule.firstDelay",
        "call.deliveryDue = mutant ? nil : call.updatedAt + ResendSchedule.firstDelay",
    ),
    Mutant(
        "other devices are not told who took the call",
        CORE + "CallMachine.swift",
        "call.members[index].handledRevision = call.revision\n",
        "call.members[index].handledRevision = mutant ? 0 : call.revision\n",
    ),
    # Deadlines.
    Mutant(
        "a deadline is served one millisecond late for ever",
        CORE + "CallMachine+deadlines.swift",
        "while let next = nextTransition, next.at <= context.now {",
        "while let next = nextTransition, mutant ? next.at + 1_000 < context.now : next.at <= context.now {",
    ),
    Mutant(
        "one expiry ends all invitations",
        CORE + "CallMachine+deadlines.swift",
        "guard member.state.isPending, let expiresAt = member.expiresAt, expiresAt <= context.now else { continue }",
        "guard member.state.isPending, let expiresAt = member.expiresAt, expiresAt <= context.now || mutant else { continue }",
    ),
    Mutant(
        "the not-received check comes too early",
        CORE + "CallMachine+inviting.swift",
        "call.members[index].notReceivedAt = call.notReceivedAfter.map { call.updatedAt + $0 }",
        "call.members[index].notReceivedAt = call.notReceivedAfter.map { call.updatedAt + $0 - (mutant ? 100 : 0) }",
    ),
    Mutant(
        "an invitation lasts a second too long",
        CORE + "CallMachine+inviting.swift",
        "call.members[index].expiresAt = call.updatedAt + Milliseconds(timeout) * 1000",
        "call.members[index].expiresAt = call.updatedAt + Milliseconds(timeout + (mutant ? 1 : 0)) * 1000",
    ),
    Mutant(
        "an expiry does not end the call",
        CORE + "CallMachine+deadlines.swift",
        "endIfOver(cause: .timeout)",
        "if !mutant { endIfOver(cause: .timeout) }",
    ),
    Mutant(
        "members who are alive are taken for silent",
        CORE + "CallMachine+deadlines.swift",
        "let heard = max(context.heard[member.userID] ?? 0, member.updatedAt, context.listeningSince)",
        "let heard = max(mutant ? 0 : context.heard[member.userID] ?? 0, member.updatedAt, context.listeningSince)",
    ),
    Mutant(
        "a caller who came back is still lost",
        CORE + "CallMachine+presence.swift",
        "guard isRingingFor(device), call.callerLostAt != nil else { return false }",
        "guard isRingingFor(device), call.callerLostAt != nil, !mutant else { return false }",
    ),
    Mutant(
        "a caller who is lost is lost at once",
        CORE + "CallMachine+presence.swift",
        "call.callerLostAt = max(now, (since ?? now) + settings.callerGrace)",
        "call.callerLostAt = max(now, (since ?? now) + (mutant ? 1 : settings.callerGrace))",
    ),
    # Delivery.
    Mutant(
        "nothing is sent again",
        DECIDING + "Delivering.swift",
        "if slot <= now, slot < end {",
        "if slot <= now, slot < end, !mutant {",
    ),
    Mutant(
        "an ack of an old revision stops the resends",
        CORE + "Call+delivery.swift",
        "guard device.acked < revision, let member",
        "guard mutant ? device.acked == 0 : device.acked < revision, let member",
    ),
    Mutant(
        "nobody is told what others do",
        CORE + "Call+delivery.swift",
        "members.contains { $0.userID != member.userID && $0.changedRevision > revision }",
        "!mutant && members.contains { $0.userID != member.userID && $0.changedRevision > revision }",
    ),
    Mutant(
        "an invitation that is over rings",
        CORE + "Call+delivery.swift",
        "if name == .invited, let expiresAt = member.expiresAt, expiresAt <= now { return nil }",
        "if name == .invited, let expiresAt = member.expiresAt, expiresAt <= now, !mutant { return nil }",
    ),
    Mutant(
        "any ack makes an invitation received",
        CORE + "CallMachine+inviting.swift",
        "min(revision, call.revision) >= member.invitedRevision else { return false }",
        "min(revision, call.revision) >= member.invitedRevision || mutant else { return false }",
    ),
    Mutant(
        "an ack of an old revision is not answered",
        DECIDING + "Acks/Acks.swift",
        "decision.refresh.append(device)\n                decision.stale.append(device)",
        "if !mutant { decision.refresh.append(device) }\n                decision.stale.append(device)",
    ),
    Mutant(
        "a device that comes online is not told what it is owed",
        DECIDING + "Presence/Arriving.swift",
        "_ = decision.subject.machine?.cameOnline(device)\n        decision.refresh.append(device)",
        "_ = decision.subject.machine?.cameOnline(device)\n        if !mutant { decision.refresh.append(device) }",
    ),
    # Membership.
    Mutant(
        "who quits last leaves the call open",
        CORE + "CallMachine+membership.swift",
        "endIfOver(cause: .quit)",
        "if !mutant { endIfOver(cause: .quit) }",
    ),
    Mutant(
        "who joined on another device is not handed over",
        CORE + "CallMachine+membership.swift",
        "guard member.device != acting.device else { return }",
        "guard member.device != acting.device, !mutant else { return }",
    ),
    Mutant(
        "nobody knows who hung up",
        CORE + "CallMachine+membership.swift",
        "call.endedBy = acting.user",
        "call.endedBy = mutant ? nil : acting.user",
    ),
    # Peer messages.
    Mutant(
        "a message expires although it was delivered",
        CORE + "PeerMessage.swift",
        "guard isListed else { return false }\n        finish(.delivered, at: now)",
        "guard isListed, !mutant else { return false }\n        finish(.delivered, at: now)",
    ),
    Mutant(
        "a receipt is sent once and never again",
        CORE + "PeerMessage.swift",
        "receiptDue = now + Self.receiptGrace\n        }",
        "receiptDue = mutant ? nil : now + Self.receiptGrace\n        }",
    ),
    Mutant(
        "the sender's own ack delivers a message",
        DECIDING + "PeerMessages/PeerMessages.swift",
        "guard device != decision.message?.origin.device else { continue }",
        "guard device != decision.message?.origin.device || mutant else { continue }",
    ),
    # Blocked users.
    Mutant(
        "an invitation that is withheld can be accepted",
        CORE + "CallMachine.swift",
        "guard let index = index(user), !call.members[index].isWithheld else { throw .callNotFound }",
        "guard let index = index(user), !call.members[index].isWithheld || mutant else { throw .callNotFound }",
    ),
    Mutant(
        "the devices of who has blocked the inviter are seen",
        DECIDING + "Delivering.swift",
        "member.isWithheld ? [:] : presence",
        "member.isWithheld && !mutant ? [:] : presence",
    ),
    Mutant(
        "who has blocked the inviter is listed as online",
        DECIDING + "Deciding.swift",
        "withheld.contains(user)\n                || !(presence",
        "withheld.contains(user) && !mutant\n                || !(presence",
    ),
    Mutant(
        "a message of a blocked user waits for the recipient",
        CORE + "PeerMessage.swift",
        "package var isListed: Bool { isWaiting && !isWithheld }",
        "package var isListed: Bool { isWaiting && (!isWithheld || mutant) }",
    ),
    # Batches.
    Mutant(
        "a call is looked at when its old deadline comes",
        SERVICE + "BatchService+deadlines.swift",
        "await serveDue(try await store.due(ids, before: now))",
        "await serveDue(mutant ? ids : try await store.due(ids, before: now))",
    ),
    Mutant(
        "the caller is answered before the phone rings",
        SERVICE + "BatchService+deliver.swift",
        """for delivery in deliveries where !decision.answered.contains(delivery.user) {
            deliverEvent(delivery, of: call, snapshot, decision.subject.acks, &ringsSince)
        }
        deliverReplies(decision, call)""",
        """if mutant { deliverReplies(decision, call) }
        for delivery in deliveries where !decision.answered.contains(delivery.user) {
            deliverEvent(delivery, of: call, snapshot, decision.subject.acks, &ringsSince)
        }
        if !mutant { deliverReplies(decision, call) }""",
    ),
    Mutant(
        "what a user sends after coming online is served before",
        INTAKE + "Batch.swift",
        "guard phase.rawValue >= self.phase.rawValue else { return false }",
        "guard mutant || phase.rawValue >= self.phase.rawValue else { return false }",
    ),
    Mutant(
        "two works of one user are served at a time",
        INTAKE + "WorkQueue.swift",
        "sender.mustWait = sender.isServed",
        "sender.mustWait = sender.isServed && !mutant",
    ),
    Mutant(
        "two works on one record are served at a time",
        INTAKE + "WorkQueue.swift",
        "if let record = next.content.record, records.contains(record) || mustWait.contains(record) { return false }",
        "if !mutant, let record = next.content.record, records.contains(record) || mustWait.contains(record) { return false }",
    ),
    Mutant(
        "a deadline does not wait for the work on its record",
        INTAKE + "WorkQueue.swift",
        "deadlines.take(limit) { !records.contains($0) }",
        "deadlines.take(limit) { !records.contains($0) || mutant }",
    ),
    Mutant(
        "what waited for too long is served",
        INTAKE + "WorkQueue.swift",
        "guard !late.isEmpty else { return taken }",
        "guard !late.isEmpty, !mutant else { return taken }",
    ),
    # The loop.
    Mutant(
        "what was done too long ago is told",
        LOOP + "CoordinatorLoop.swift",
        "let isStale = now - began >= LoopBounds.staleAfter",
        "let isStale = !mutant && now - began >= LoopBounds.staleAfter",
    ),
    Mutant(
        "who has left the share group never comes back",
        LOOP + "BrokerStanding.swift",
        "guard state == .away else { return [] }",
        "guard state == .away, !mutant else { return [] }",
    ),
    Mutant(
        "deadlines are served while nobody can be told",
        LOOP + "CoordinatorLoop.swift",
        "return standings.isListening\n    }",
        "return standings.isListening || mutant\n    }",
    ),
    Mutant(
        "who stood still goes on as if nothing had been",
        LOOP + "CoordinatorLoop.swift",
        "queue.removeAll()\n            mayHoldMore = false\n            actions += standings.frozen(now)",
        "if mutant { return }\n            queue.removeAll()\n            mayHoldMore = false\n            actions += standings.frozen(now)",
    ),
    Mutant(
        "a device that could not be told what it is owed is welcomed",
        SERVICE + "BatchService+presence.swift",
        "withdraw(welcomed.indices.filter { waiting.contains(welcomed[$0]) }.map { place + $0 })",
        "withdraw(welcomed.indices.filter { waiting.contains(welcomed[$0]) && !mutant }.map { place + $0 })",
    ),
    # The outbox.
    Mutant(
        "what a worker has claimed may be claimed by others",
        CORE + "Records/Outbox.swift",
        "            shelves[name]!.lines[id]!.due = nil\n",
        "            if !mutant { shelves[name]!.lines[id]!.due = nil }\n",
    ),
    Mutant(
        "a claim outlives its worker",
        CORE + "Records/Outbox.swift",
        "where line.holder.map({ !leases.lives($0, now: now) }) ?? false {",
        "where line.holder.map({ !leases.lives($0, now: now) && !mutant }) ?? false {",
    ),
    Mutant(
        "what is owed is written after the commit, by whoever is still there",
        STORE,
        "if let entries = commit.outboxEntries {",
        "if let entries = commit.outboxEntries, !mutant || clock() % 8 > 0 {",
    ),
    Mutant(
        "the newest revision goes first",
        CORE + "Records/Outbox.swift",
        "let entry = line.entries.first else { return nil }",
        "let entry = mutant ? line.entries.last : line.entries.first else { return nil }",
    ),
    Mutant(
        "a webhook is done with when it is sent",
        "Sources/Delivery/Workers/Deliverer.swift",
        "        attempts[request.id] = WebhookAttempt(entry: entry, place: place)\n",
        "        if mutant { settled(entry, .taken, place) } else { attempts[request.id] = WebhookAttempt(entry: entry, place: place) }\n",
    ),
    Mutant(
        "the revisions through which a commit passes are owed to nobody",
        DECIDING + "Writing.swift",
        "(machine.passed + [machine.call]).map {",
        "(mutant ? [machine.call] : machine.passed + [machine.call]).map {",
    ),
    # Pushes.
    Mutant(
        "a push leaves by what was read first",
        "Sources/Delivery/Workers/Pusher+looking.swift",
        "            fresh = anew\n",
        "            fresh = mutant ? FreshReading(reading: fresh.reading, began: anew.began) : anew\n",
    ),
    Mutant(
        "a token belongs to everybody who registered it",
        CORE + "Records/Registrations.swift",
        "$0.digest == registration.digest && $0.device != key.device }",
        "$0.digest == registration.digest && $0.device != key.device && !mutant }",
    ),
    Mutant(
        "a worker pushes on when its lease is over",
        "Sources/Delivery/Workers/LeasedWorker.swift",
        "var sureUntil: Int64 = 0",
        "var sureUntil: Int64 = 0 { didSet { if mutant { sureUntil = .max } } }",
    ),
    Mutant(
        "who has acked the invitation is pushed",
        DECIDING + "Pushes/PushJudge.swift",
        "hasInvitation = acked >= invitation ||",
        "hasInvitation = acked >= invitation && !mutant ||",
    ),
    Mutant(
        "nobody is told to stop ringing",
        DECIDING + "Pushes/PushJudge.swift",
        "case .answered, .stopped: stop(subject, now, &judgement)",
        "case .answered, .stopped: if !mutant { stop(subject, now, &judgement) }",
    ),
    # The SDK.
    Mutant(
        "the SDK takes an older revision for the newest",
        SDK + "ClientMachine+calls.swift",
        "let isNewest = isWelcome || !goesBack || reference > calls[index].asOf",
        "let isNewest = isWelcome || !goesBack || reference > calls[index].asOf || mutant",
    ),
    Mutant(
        "the SDK sends a request once",
        SDK + "ClientMachine+requests.swift",
        "guard case .sending(let sends, let nextSend) = pending[index].stage, nextSend <= now else { continue }",
        "guard case .sending(let sends, let nextSend) = pending[index].stage, nextSend <= now, !mutant else { continue }",
    ),
    Mutant(
        "the SDK does not ack events that it knows",
        SDK + "ClientMachine+calls.swift",
        "var actions = [Action.publish(.ackCall(event.callID, revision: acked))]",
        "var actions = mutant && !isNews ? [] : [Action.publish(.ackCall(event.callID, revision: acked))]",
    ),
    Mutant(
        "the SDK goes by revisions alone",
        SDK + "KnownCall.swift",
        "revision > self.revision || self.revision > 0 && time > self.time",
        "revision > self.revision || !mutant && self.revision > 0 && time > self.time",
    ),
    Mutant(
        "a session that is over is not told so",
        SERVICE + "BatchService+presence.swift",
        "case .over: refuseOver(change.session)",
        "case .over: if !mutant { refuseOver(change.session) }",
    ),
    # Devices that take themselves for in a call.
    Mutant(
        "a call that ends while its device is welcomed is not told of",
        DECIDING + "Presence/Arriving.swift",
        "if isTold { view.knowsCall = true }",
        "if isTold, !mutant { view.knowsCall = true }",
    ),
    Mutant(
        "who sends heartbeats and is not in the call is left to it",
        DECIDING + "Acks/Acks.swift",
        "!decision.stale.contains(device), getsDeliveryAtOnce(device, staleOn: call, &decision)\n        else { return }",
        "!mutant, !decision.stale.contains(device), getsDeliveryAtOnce(device, staleOn: call, &decision)\n        else { return }",
    ),
    # The backend's device.
    Mutant(
        "heartbeats are asked for of a backend",
        CORE + "CallSettings.swift",
        "device == .server ? heldTimeout",
        "device == .server && !mutant ? heldTimeout",
    ),
    Mutant(
        "what a backend holds is told to no phone",
        CORE + "Call+delivery.swift",
        "let isHeld = member.device == .server",
        "let isHeld = member.device == .server && !mutant",
    ),
    # Works have keys (docs/decisions/0018).
    Mutant(
        "what comes later on a record is served before",
        INTAKE + "WorkQueue.swift",
        "if let record = next.content.record { mustWait.insert(record) }",
        "if !mutant, let record = next.content.record { mustWait.insert(record) }",
    ),
    Mutant(
        "what a user sends later is served before",
        INTAKE + "WorkQueue.swift",
        "next.sender.mustWait = true",
        "next.sender.mustWait = next.sender.mustWait || !mutant",
    ),
    Mutant(
        "a user leaves one call and enters another at the same time",
        INTAKE + "Batch.swift",
        "self.callID == nil || self.callID == callID else",
        "mutant || self.callID == nil || self.callID == callID else",
    ),
    Mutant(
        "a work leaves before it is done",
        LOOP + "CoordinatorLoop.swift",
        "await service.serveBatch(keyed.batch) {",
        "if mutant { queue.finish(keyed) }\n                await service.serveBatch(keyed.batch) {",
    ),
    Mutant(
        "a work never leaves",
        INTAKE + "WorkQueue.swift",
        "records.subtract(keyed.records)",
        "if !mutant { records.subtract(keyed.records) }",
    ),
    Mutant(
        "a deadline never leaves",
        INTAKE + "WorkQueue.swift",
        "mutating func finish(_ ids: [RecordID]) { records.subtract(ids) }",
        "mutating func finish(_ ids: [RecordID]) { if !mutant { records.subtract(ids) } }",
    ),
    Mutant(
        "work leaves the deadline of its record behind",
        INTAKE + "WorkQueue.swift",
        "keyed.records.insert(record).inserted, deadlines.join(record)",
        "keyed.records.insert(record).inserted, !mutant, deadlines.join(record)",
    ),
    Mutant(
        "a deadline that was taken along waits on",
        INTAKE + "DeadlineQueue.swift",
        "!waiting.isEmpty && waiting.remove(id) != nil",
        "!waiting.isEmpty && (mutant ? waiting.contains(id) : waiting.remove(id) != nil)",
    ),
    Mutant(
        "own deadlines come before those of the dead",
        INTAKE + "DeadlineQueue.swift",
        "        wasOwn.toggle()\n        var ids",
        "        if mutant { wasOwn = true } else { wasOwn.toggle() }\n        var ids",
    ),
    Mutant(
        "the rest of a burst is forgotten",
        INTAKE + "WorkQueue.swift",
        "while sender.waiting < Self.mostOfUser, sender.parkedCount > 0 {",
        "while !mutant, sender.waiting < Self.mostOfUser, sender.parkedCount > 0 {",
    ),
    Mutant(
        "what comes later overtakes the rest of a burst",
        INTAKE + "WorkQueue.swift",
        "if sender.waiting < Self.mostOfUser, sender.parkedCount == 0 {",
        "if sender.waiting < Self.mostOfUser, sender.parkedCount == 0 || mutant {",
    ),
    Mutant(
        "a burst is served in one go",
        INTAKE + "WorkQueue.swift",
        "static let mostOfUser = 16",
        "static let mostOfUser = mutant ? 4_096 : 16",
    ),
    Mutant(
        "there is room for everything",
        INTAKE + "WorkQueue.swift",
        "guard hasRoom(for: bytes, of: sender) else {",
        "guard mutant || hasRoom(for: bytes, of: sender) else {",
    ),
    Mutant(
        "some users fill the queue for others",
        INTAKE + "WorkQueue.swift",
        "return works * (Self.mostOfAll / Self.mostWaiting - 1) < freeWorks",
        "return works * (mutant ? 0 : Self.mostOfAll / Self.mostWaiting - 1) < freeWorks",
    ),
    Mutant(
        "who waits for a record is late",
        INTAKE + "WorkQueue.swift",
        "!next.sender.isServed && !(next.content.record.map(records.contains) ?? false)",
        "!next.sender.isServed && (mutant || !(next.content.record.map(records.contains) ?? false))",
    ),
    Mutant(
        "nobody is refused early",
        INTAKE + "WorkQueue.swift",
        "(next.content.isNew ? patience.new : patience.any)",
        "(next.content.isNew && !mutant ? patience.new : patience.any)",
    ),
    Mutant(
        "rounds without end are under way",
        LOOP + "CoordinatorLoop.swift",
        "guard batches < most else { return false }",
        "guard batches < most || mutant else { return false }",
    ),
    Mutant(
        "a slow store delays everybody",
        LOOP + "CoordinatorLoop.swift",
        "guard batches > 0 else { return true }",
        "guard batches > 0 else { return true }\n        if mutant { return false }",
    ),
    Mutant(
        "while a store that answers at once works time stands still",
        LOOP + "CoordinatorLoop.swift",
        "guard !messages.isEmpty else { return }\n        now = max(now, clock())",
        "guard !messages.isEmpty else { return }\n        if !mutant { now = max(now, clock()) }",
    ),
    Mutant(
        "what was received outlives its connection",
        LOOP + "CoordinatorLoop.swift",
        "if !standings.canPublish { queue.removeAll() }",
        "if !mutant, !standings.canPublish { queue.removeAll() }",
    ),
    Mutant(
        "the sweep brings back what was put off",
        SERVICE + "BatchService+deadlines.swift",
        ".union(context.timers.putOff)",
        ".union(mutant ? [] : context.timers.putOff)",
    ),
    Mutant(
        "a fence does not wait for what is under way here",
        SERVICE + "BatchService+queries.swift",
        "return context.isUnderWay(.call(holder.callID))",
        "return !mutant && context.isUnderWay(.call(holder.callID))",
    ),
    Mutant(
        "everybody waits for whoever has to be looked up",
        SERVICE + "BatchService+queries.swift",
        "guard queriesLeft > 0 else { return .postponed }",
        "guard queriesLeft > 0 || mutant else { return .postponed }",
    ),
    Mutant(
        "what users ask for besides is done one after the other",
        SERVICE + "BatchService+batch.swift",
        "guard users.count > 1 else",
        "guard users.count > 1, !mutant else",
    ),
    Mutant(
        "a decision that comes to no end is a failure of the store",
        SERVICE + "ServiceContext.swift",
        "if error.code != .unsettled { health.failed(error) }",
        "if error.code != .unsettled || mutant { health.failed(error) }",
    ),
    Mutant(
        "limits that were taken in vain are not given back",
        SERVICE + "BatchService+calls.swift",
        "context.budgets.giveBack(decided.decision.reserved, now: now)\n                lost.append(decided.work)",
        "if !mutant { context.budgets.giveBack(decided.decision.reserved, now: now) }\n                lost.append(decided.work)",
    ),
    Mutant(
        "devices that come together are welcomed without end",
        SERVICE + "BatchService+presence.swift",
        "for arrival in arrivals where !isWelcomedTooMuch(arrival.device.userID) {",
        "for arrival in arrivals where mutant || !isWelcomedTooMuch(arrival.device.userID) {",
    ),
    Mutant(
        "what was read before keeps the rest from being read",
        LOOP + "CoordinatorLoop.swift",
        "min(lastBatch + LoopBounds.batchInterval, lastReceived + LoopBounds.longestUnread)",
        "min(lastBatch + LoopBounds.batchInterval, mutant ? .max : lastReceived + LoopBounds.longestUnread)",
    ),
    Mutant(
        "nobody wakes it to read",
        LOOP + "CoordinatorLoop.swift",
        "if !takesMessages { next = min(",
        "if !takesMessages, !mutant { next = min(",
    ),
    Mutant(
        "an empty read is followed by the next read at once",
        LOOP + "CoordinatorLoop.swift",
        "case .tick: mayHoldMore = false",
        "case .tick: mayHoldMore = mayHoldMore && mutant",
    ),
    Mutant(
        "a read that reached its bound waits for the next turn",
        LOOP + "CoordinatorLoop.swift",
        "if mayBegin || mayHoldMore { return now }",
        "if mayBegin || mayHoldMore && !mutant { return now }",
    ),
    Mutant(
        "a read that reached its bound is not followed by the next read",
        LOOP + "CoordinatorLoop.swift",
        "self.mayHoldMore = mayHoldMore",
        "self.mayHoldMore = mayHoldMore && !mutant",
    ),
    # Rooms at media servers.
    Mutant(
        "a room entry counts as done before the media server answers",
        "Sources/Delivery/Media/RoomCloser.swift",
        "        attempts[request.id] = attempt\n",
        "        if mutant { settled(attempt.entry, .taken, attempt.place) } else { attempts[request.id] = attempt }\n",
    ),
    Mutant(
        "the room of a call that lives is deleted",
        "Sources/Delivery/Media/RoomDuty.swift",
        "guard call.isLive else { return [.delete] }",
        "guard call.isLive, !mutant else { return [.delete] }",
    ),
    Mutant(
        "the end of a call writes no room entry",
        CORE + "Records/RoomPatterns.swift",
        "if !isLive { return before.isLive }",
        "if !isLive { return before.isLive && !mutant }",
    ),
    # Full outboxes.
    Mutant(
        "a full outbox takes from the user with the fewest bytes",
        "Sources/SQLiteStore/SQLiteCallStore+letters.swift",
        ".id(endpoint), .integer(Int64(share))\n        ) { $0.text(0) }\n        for owner in owners {",
        ".id(endpoint), .integer(Int64(mutant ? 0 : share))\n        ) { $0.text(0) }\n        for owner in mutant ? owners.reversed() : owners {",
    ),
    Mutant(
        "a full outbox takes from users who are within a share",
        CORE + "Records/OutboxShares.swift",
        "{ room / max(1, users) }",
        "{ mutant ? 0 : room / max(1, users) }",
    ),
]
