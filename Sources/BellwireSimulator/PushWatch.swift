import CallCore
import CallStore
import Delivery
import HTTPSending
import HistoryChecker
import SignalingProtocol

/// Compares pushes with section 7 of docs/protocol.md, based on the contents of the store.
final class PushWatch {
    private enum Bounds {
        /// The greatest age of a worker's reading when a push leaves.
        static let reading: Milliseconds = 100
        /// How long a push may be due before it counts as overdue: in worlds without faults (`calm`) and with faults
        /// (`patience`).
        static let calm: Milliseconds = 1_500
        static let patience: Milliseconds = 6_000
        /// How long the next attempt may take after a refusal: the longest pause between two attempts, including the
        /// pause that the provider asked for.
        static let again: Milliseconds = 16_000
        /// How long after a fault the fault may still be the reason for a push that should not leave, or for a push
        /// that is overdue.
        static let aftermath: Milliseconds = 5_000
    }

    private struct Attempts {
        var count = 0
        var first: Milliseconds = 0
        /// The time at which the push left last, or at which its answer came.
        var last: Milliseconds = 0
        var isOpen = false
        /// Whether the provider has accepted the push, even if its answer is still under way.
        var isAccepted = false
        /// Whether the worker knows that the push must never be sent again.
        var isOver = false
        /// Whether the push may be sent again.
        var mayRepeat = false
        var providersID: String?
    }

    private unowned(unsafe) let world: World
    private let store: MemoryCallStore
    let truth: PushTruth
    private let policy = SimulatedPushService.settings.policy
    private let lease: Milliseconds
    private var attempts: [CallID: [PushSighting.ID: Attempts]] = [:]
    private var providersIDs: [String: PushSighting.ID] = [:]
    private var limited: Set<PushSighting.ID> = []
    /// The time since which each push has been due without leaving.
    private var dueSince: [PushSighting.ID: Milliseconds] = [:]
    private var overdue: Set<PushSighting.ID> = []
    /// The pushes for ringing that the device itself has ended.
    private var ownEnds: Set<PushSighting.ID> = []
    private static let anyTarget = ""
    /// The highest revision of each call that each device has acked, in any session. The store forgets the acks of
    /// earlier sessions, but a device needs no push for a revision that it has acked.
    private var acked: [CallID: [DeviceAddress: Int]] = [:]
    /// The processes without a token of Google's, each with the time until which the missing token is a reason to wait.
    private var tokenless: [String: Milliseconds] = [:]
    private var lastFault: Milliseconds

    init(_ store: MemoryCallStore, in world: World) {
        self.world = world
        self.store = store
        lease = world.settings.presence.lease
        lastFault = world.now - Bounds.aftermath
        truth = PushTruth(store, users: world.plan.users.map(\.user), now: world.now)
    }

    var secret: [UInt8] { store.pushSecret() }

    /// Records a fault of a coordinator or the store.
    func disturbed() { lastFault = world.now }

    private func wasDisturbed(since moment: Milliseconds) -> Bool { lastFault >= moment - Bounds.aftermath }

    func wrote(_ callID: CallID) {
        truth.wrote(callID, world.now)
        guard let (call, stored) = truth.calls(callID, since: world.now).last else { return }
        for ack in stored.acks {
            acked[callID, default: [:]][ack.device] = max(ack.revision, acked[callID]?[ack.device] ?? 0)
        }
        for member in call.members where member.invitedRevision > 0 && !member.state.isPending {
            guard let device = member.device else { continue }
            let address = DeviceAddress(userID: member.userID, deviceID: device)
            for platform in PushPlatform.allCases {
                let key = PushRegistration.Key(address, .standard, platform)
                ownEnds.insert(id(call, member, key, .stop, Self.anyTarget))
            }
        }
    }

    private func id(
        _ call: Call, _ member: Member, _ key: PushRegistration.Key, _ kind: PushKind, _ target: String
    ) -> PushSighting.ID {
        PushSighting.ID(callID: call.callID, invitation: member.invitedRevision, key: key, kind: kind, target: target)
    }

    /// Records that the store refused a push, since the device has received enough pushes for a while.
    func refused(_ reservation: PushReservation) {
        let parts = reservation.id.split(separator: ":").map(String.init)
        guard parts.count >= 5, let callID = CallID(parts[0]), let invitation = Int(parts[1]),
            let kind = PushKind(rawValue: parts[2]), let platform = PushPlatform(rawValue: parts[3])
        else {
            return world.violated(.push, nil, reservation.device, "the worker reserved \(reservation.id)")
        }
        limited.insert(
            PushSighting.ID(
                callID: callID, invitation: invitation,
                key: PushRegistration.Key(reservation.device, .standard, platform), kind: kind,
                target: parts.count > 5 ? parts[5] : Self.anyTarget))
    }

    // MARK: Pushes that leave

    /// Checks a push that a worker hands to a provider.
    func leaves(_ request: HTTPRequest, from worker: String) -> PushSighting? {
        guard let push = PushSighting(request, secret: secret) else {
            world.violated(.push, nil, nil, "a provider receives a push that no device could use: \(request.url)")
            return nil
        }
        world.tell("\(worker) hands \(push.id.kind) of \(push.id.callID) for \(push.device) to \(push.id.key.platform)")
        world.noted(push)
        if let reason = objection(to: push, from: worker) {
            world.violated(
                .push, push.id.callID, push.device, "\(push.id.key.platform) is given \(push.id.kind): \(reason)")
        }
        count(push)
        return push
    }

    private func count(_ push: PushSighting) {
        dueSince[push.id] = nil
        var known = attempts[push.id.callID]?[push.id] ?? Attempts(first: world.now)
        known.count += 1
        known.last = world.now
        known.isOpen = true
        known.providersID = push.providersID
        if known.count > 1, !known.mayRepeat, !wasDisturbed(since: known.first), !world.hasForgotten {
            world.violated(
                .push, push.id.callID, push.device,
                "\(push.id.key.platform) is given \(push.id.kind) for the \(known.count). time")
        }
        known.mayRepeat = false
        attempts[push.id.callID, default: [:]][push.id] = known
        guard let providersID = push.providersID else { return }
        if let other = providersIDs[providersID], other != push.id {
            world.violated(.push, push.id.callID, push.device, "two pushes have one apns-id")
        }
        if providersIDs.contains(where: { $0.value == push.id && $0.key != providersID }) {
            world.violated(.push, push.id.callID, push.device, "a push has another apns-id when it is sent again")
        }
        providersIDs[providersID] = push.id
    }

    /// Records that a worker asks Google for a token. No push of its process leaves for Google without a token.
    func asksForToken(_ worker: String) { tokenless[process(of: worker)] = .max }

    /// Records Google's answer; a nil `status` stands for no answer.
    func hasToken(_ worker: String, _ status: Int?) {
        // After a refusal the worker waits longer before each next attempt.
        tokenless[process(of: worker)] = status == 200 ? nil : world.now + Bounds.again
    }

    private func waitsForToken(_ callID: CallID) -> Bool {
        guard !tokenless.isEmpty else { return false }
        if let holder = store.contents.holderOfPushes(callID, now: world.now) {
            return tokenless[process(of: holder.string), default: 0] > world.now
        }
        // The process that held the call may have released the call until the next attempt.
        return tokenless.values.contains { $0 != .max && $0 > world.now }
    }

    /// Returns the process of a worker: worker names end in a number.
    private func process(of worker: String) -> String {
        worker.split(separator: "-").dropLast().joined(separator: "-")
    }

    func accepted(_ id: PushSighting.ID) { attempts[id.callID]?[id]?.isAccepted = true }

    /// Records the answer, which reaches the worker if the worker still lives; a nil `status` stands for no answer.
    func answered(_ id: PushSighting.ID, _ status: Int?) {
        attempts[id.callID]?[id]?.isOpen = false
        attempts[id.callID]?[id]?.last = world.now
        switch status {
        case 200: break
        case 410, 404:
            // The device may be rung after it registers again. If the refused token was no longer the registered token,
            // the push is given up.
            attempts[id.callID]?[id]?.mayRepeat = true
            attempts[id.callID]?[id]?.isOver = true
        default: attempts[id.callID]?[id]?.mayRepeat = true
        }
    }

    /// Returns the reason why this push must not leave now; nil when the push may leave.
    private func objection(to push: PushSighting, from worker: String) -> String? {
        guard !world.hasForgotten else { return nil }
        let moment = world.now - Bounds.reading
        if store.contents.holderOfPushes(push.id.callID, now: world.now - 10)?.string != worker {
            return "\(worker) does not hold the call (any more)"
        }
        let registrations = truth.registrations(since: moment)
        let target = SimulatedPushService.target(push.id.key.platform, push.token)
        let isOwner = truth.owners(of: target, since: moment).contains(push.device)
        let isRegistered = registrations.contains { moment in
            moment.contains { $0.key == push.id.key && $0.target == target }
        }
        guard isRegistered else { return "the device is not registered for it (any more)" }
        guard isOwner else { return "\(push.token) belongs to another device" }
        let standings = truth.calls(push.id.callID, since: moment).compactMap { call, stored in
            PushStanding(call, stored, push.device, invitation: push.id.invitation)
        }
        guard !standings.isEmpty else { return "there is no such invitation (any more)" }
        switch push.id.kind {
        case .ring: return objection(toRing: push, standings, registrations, since: moment)
        case .stop:
            guard push.id.key.platform == .fcm || push.id.key.platform == .webPush else { return "it has no stop" }
            guard standings.contains(where: { $0.isStopped(for: push.device) }) else {
                return "the ringing has not ended, or needs no stop"
            }
            let invitedAt = standings.last.flatMap { $0.call.invitedAt($0.member) } ?? 0
            // A ring that a worker was about to send before a fault may have left.
            return wasRung(push) || wasDisturbed(since: invitedAt) ? nil : "the device was sent no ring"
        case .missed: return objection(toMissed: push, standings, since: moment)
        }
    }

    private func objection(
        toRing push: PushSighting, _ standings: [PushStanding], _ registrations: [[PushRegistration]],
        since moment: Milliseconds
    ) -> String? {
        guard standings.contains(where: \.isRinging) else { return "the user is not ringing (any more)" }
        guard standings.contains(where: { !$0.knowsInvitation }) else { return "the device knows of the invitation" }
        let hasVoIP = registrations.allSatisfy { known in
            known.contains { $0.device == push.device && $0.key.platform == .apnsVoIP }
        }
        if hasVoIP, push.id.key.platform != .apnsVoIP { return "the device has apnsVoIP" }
        guard world.mix.clockStep == 0, let last = standings.last else { return nil }
        if let expiresAt = last.member.expiresAt, expiresAt <= moment { return "the invitation has expired" }
        let invitedAt = last.call.invitedAt(last.member) ?? 0
        if world.now < invitedAt + policy.after - 20, !truth.wasOffline(push.device, since: moment, lease: lease) {
            return "the device is online, and was invited \(world.now - invitedAt) ms ago"
        }
        return nil
    }

    private func objection(
        toMissed push: PushSighting, _ standings: [PushStanding], since moment: Milliseconds
    ) -> String? {
        if push.id.key.platform == .apnsVoIP { return "it has no missed" }
        guard standings.contains(where: \.isMissed) else { return "no user missed the call" }
        guard standings.contains(where: { !$0.knowsEnd }) else { return "the device knows how the call ended" }
        let wasRung = wasRung(push)
        if push.hasNotification, wasRung,
            attempts(of: push).contains(where: { isRing($0.key, of: push) && $0.value.isAccepted && !$0.value.isOpen }),
            !wasDisturbed(since: world.now)
        {
            return "the device rings, and its app would not receive the push"
        }
        let invitedAt = standings.last.flatMap { $0.call.invitedAt($0.member) } ?? 0
        guard wasRung || wasDisturbed(since: invitedAt) || truth.wasOffline(push.device, since: moment, lease: lease)
        else { return "the device is online and was not sent ring" }
        return nil
    }

    private func isRing(_ id: PushSighting.ID, of push: PushSighting) -> Bool {
        id.callID == push.id.callID && id.invitation == push.id.invitation && id.key.device == push.device
            && id.kind == .ring
    }

    private func wasRung(_ push: PushSighting) -> Bool { attempts(of: push).keys.contains { isRing($0, of: push) } }

    /// Returns all attempts for the push's call.
    private func attempts(of push: PushSighting) -> [PushSighting.ID: Attempts] { attempts[push.id.callID] ?? [:] }

    // MARK: Pushes that are due

    /// Looks for overdue pushes. The world calls this function again and again.
    func inspect() {
        let now = world.now
        if !world.pushersAreFine { lastFault = now }
        guard !world.hasForgotten, world.mix.clockStep == 0 else { return }
        var due: [PushSighting.ID: Milliseconds] = [:]
        let registrations = truth.registrations(since: now).last ?? []
        for (call, stored) in truth.calls(endedSince: now - 60_000) {
            let attempts = attempts[call.callID] ?? [:]
            for member in call.members where member.invitedRevision > 0 && !member.isWithheld {
                for registration in registrations where registration.device.userID == member.userID {
                    add(registration, registrations, call, stored, member, attempts, &due)
                }
            }
        }
        let wait = world.plan.isLite ? Bounds.calm : Bounds.patience
        for (id, since) in due where now - max(since, lastFault) > wait && overdue.insert(id).inserted {
            world.violated(
                .push, id.callID, id.key.device,
                "\(id.kind) by \(id.key.platform) has been due for \(now - since) ms, of invitation \(id.invitation)")
        }
        dueSince = due
    }

    private func add(
        _ registration: PushRegistration, _ registrations: [PushRegistration], _ call: Call, _ stored: StoredRecord,
        _ member: Member, _ attempts: [PushSighting.ID: Attempts], _ due: inout [PushSighting.ID: Milliseconds]
    ) {
        let now = world.now
        let device = registration.device
        guard let standing = PushStanding(call, stored, device, invitation: member.invitedRevision),
            let expiresAt = member.expiresAt
        else { return }
        // The values are lazy, since most devices already know of the invitation and need no push.
        lazy var isOffline = truth.wasOffline(device, since: now, lease: lease)
        lazy var ofDevice = attempts.filter { attempt in
            attempt.key.invitation == member.invitedRevision && attempt.key.key.device == device
        }
        lazy var rings = ofDevice.filter { $0.key.kind == .ring }
        lazy var wasRung = rings.contains { $0.value.isAccepted }
        let acked = acked[call.callID]?[device] ?? 0
        func owed(_ kind: PushKind, from begin: Milliseconds) {
            let id = id(call, member, registration.key, kind, registration.mark)
            guard begin <= now, !limited.contains(id) else { return }
            // A due push waits for the answer to the registration's previous push.
            guard !ofDevice.contains(where: { $0.key.key == registration.key && $0.value.isOpen }) else { return }
            if registration.key.platform == .fcm, waitsForToken(call.callID) { return }
            if let known = attempts[id] {
                guard !known.isAccepted, !known.isOver, known.last + Bounds.again < now else { return }
            }
            due[id] = dueSince[id] ?? now
        }
        if standing.isRinging {
            guard now < expiresAt, !standing.knowsInvitation, acked < member.invitedRevision else { return }
            let hasVoIP = registrations.contains { $0.device == device && $0.key.platform == .apnsVoIP }
            guard !hasVoIP || registration.key.platform == .apnsVoIP else { return }
            owed(.ring, from: isOffline ? 0 : (call.invitedAt(member) ?? now) + policy.after)
        } else if standing.isMissed {
            guard registration.key.platform != .apnsVoIP, !standing.knowsEnd, acked < standing.endRevision,
                wasRung || isOffline, registration.since <= standing.endedAt
            else { return }
            func wasOffline(since end: Milliseconds) -> Bool {
                now <= end + 400 && !truth.wasOnline(device, since: end - 50, lease: lease)
            }
            // A device that was online at the end and had not been rung needs no `missed`.
            guard
                wasRung || dueSince[id(call, member, registration.key, .missed, registration.mark)] != nil
                    || wasOffline(since: standing.endedAt)
            else { return }
            owed(.missed, from: isOffline ? 0 : standing.endedAt + policy.after)
        } else if standing.isStopped(for: device) {
            guard registration.key.platform == .fcm || registration.key.platform == .webPush, wasRung,
                !rings.contains(where: \.value.isOpen), now < expiresAt, registration.since <= member.updatedAt,
                !ownEnds.contains(id(call, member, registration.key, .stop, registration.mark))
            else { return }
            owed(.stop, from: 0)
        }
    }

    /// The pushes that are still in the queue, for the check at rest.
    var waiting: [String] { store.contents.queuedPushes }
}
