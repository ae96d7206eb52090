import CallCore
import CallStore
import Coordinator
import RedisStore
import SignalingProtocol

// The checks of bytes from a store: the bytes of a record, and replies of Redis. A damaged store may cost the damaged
// calls, never the coordinator.

private let callID = CallID("call-1")!
private let messageID = MessageID("message-1")!
private let alice = UserID("alice")!
private let bob = UserID("bob")!
private let alicePhone = DeviceAddress(userID: alice, deviceID: DeviceID("phone")!)
private let bobPhone = DeviceAddress(userID: bob, deviceID: DeviceID("phone")!)
private let recordIDs = [RecordID.call(callID), .message(messageID, to: bob)]
/// The time in all fuzzed worlds, to which the corpus fits.
let fuzzedNow: Milliseconds = 1_790_000_000_000

/// A readable record survives another store, and a coordinator serves the record.
func checkRecord(_ input: [UInt8]) throws(Finding) {
    for id in recordIDs {
        let record = RecordCodec.decode(input, id)
        guard record != .unreadable else { continue }
        let bytes = RecordCodec.encode(record)
        let again = RecordCodec.decode(bytes, id)
        try hold(again == record && RecordCodec.encode(again) == bytes, "\(text(bytes)) is read as \(again)")
        serve(record, under: id)
    }
}

/// Does all work that a coordinator does with a record that it finds: no part of the work may trap.
private func serve(_ record: Record, under id: RecordID) {
    var now = fuzzedNow
    let store = MemoryCallStore { now }
    // The record is due after all requests were served.
    _ = store.commit([Commit(id, record: record, expected: 0, deadline: now + 1, expiresAt: nil)])
    let coordinator = FuzzedCoordinator(store) { now }
    let presence = PresenceMessage(.online, session: "s")
    for device in [alicePhone, bobPhone] {
        coordinator.serve([.init(topic: Topics.standard.presence(device), payload: presence.encoded())])
    }
    ask(coordinator)
    for pause: Milliseconds in [1, 1_000, 60_000, 600_000, 7 * 86_400_000] {
        now += pause
        coordinator.serve([])
    }
    ask(coordinator)
}

private func ask(_ coordinator: FuzzedCoordinator) {
    let bodies: [Request.Body] = [
        .get(.init(callID: callID)), .trace(.init(callID: callID)), .accept(.init(callID: callID)),
        .join(.init(callID: callID)), .signal(.init(callID: callID, data: JSONText("1")!)),
        .report(.init(callID: callID, milestones: [Milestone(name: "accepted", milliseconds: 1)])),
        .add(.init(callID: callID, invitees: [UserID("carol")!])), .cancel(.init(callID: callID)),
        .quit(.init(callID: callID)), .query(.init()), .invite(.init(invitees: [bob], callID: callID)),
        .message(.init(to: bob, data: JSONText("1")!, messageID: messageID)),
    ]
    for device in [bobPhone, alicePhone] {
        var messages = bodies.enumerated().map {
            UpMessage.request(Request(id: RequestID("r\($0.offset)")!, body: $0.element))
        }
        messages += [.ackCall(callID, revision: .max), .ackMessage(messageID), .heartbeat(callID)]
        for message in messages {
            coordinator.serve([.init(topic: Topics.standard.up(device), payload: message.encoded())])
        }
    }
}

// MARK: Redis

/// The first line names the question to the store; the further lines are the stream of replies. The stream comes after
/// the replies to a new connection, or, when the name has a "!" in front, instead of these. Whatever the replies are,
/// the store gives an answer or a `StoreError`.
func checkRedis(_ input: [UInt8]) throws(Finding) {
    let line = input.prefix { $0 != UInt8(ascii: "\n") }
    let replies = input.dropFirst(line.count + 1)
    let isWhole = line.first == UInt8(ascii: "!")
    let name = text(isWhole ? line.dropFirst() : line)
    let question =
        RedisQuestion(rawValue: name)
        ?? RedisQuestion.allCases[Int(stableHash(name.utf8) % UInt64(RedisQuestion.allCases.count))]
    let greeting = isWhole ? [] : ScriptedRedis.greeting
    do throws(StoreError) {
        try ScriptedRedis.answering(Array(replies), greeting: greeting, question.ask)
    } catch {
        try hold(error.description.utf8.count < 2_000, "an error of \(error.description.utf8.count) bytes")
    }
}

private enum RedisQuestion: String, CaseIterable {
    case load, commit, commitMessage, note, due, calls, history, messages, holders, profiles, update, devices
    case cameOnline, wentOffline, renew, timeline, now, serve, register, queue

    func ask(_ store: BlockingStore) throws(StoreError) {
        switch self {
        case .load: _ = try store.load(recordIDs)
        case .commit:
            var commit = Commit(
                .call(callID), record: .cancelled(by: alice, at: 1), expected: 1, deadline: 1, expiresAt: 2)
            commit.expectedHolders = [(.activeCall(of: alice), nil)]
            commit.claims = [.ringing(from: alice, to: bob)]
            commit.releases = [.activeCall(of: bob)]
            commit.notes = [.heard(callID, UserHeard(userID: alice, at: 1))]
            _ = try store.commit([commit, commit])
        case .commitMessage:
            let key = RequestKey(device: alicePhone, requestID: RequestID("r1")!)
            let request = Request.Message(to: bob, data: JSONText("1")!)
            let message = PeerMessage(
                request, messageID: messageID, origin: key, ttl: 1, isWithheld: false, now: fuzzedNow)
            _ = try store.commit([
                Commit(recordIDs[1], record: .message(message), expected: 0, deadline: 1, expiresAt: nil)
            ])
        case .note: try store.note([.ack(callID, DeviceAck(device: alicePhone, session: "s", revision: 1))])
        case .due:
            _ = try store.due(before: fuzzedNow, limit: 10)
            _ = try store.due([.call(callID)], before: fuzzedNow)
        case .calls: _ = try store.calls(CallList(of: alice, endedAfter: 0, limit: 10))
        case .history: _ = try store.history(of: alice, after: nil, limit: 10)
        case .messages: _ = try store.messages(MessageList(for: alice, limit: 10))
        case .holders: _ = try store.holders(of: [.activeCall(of: alice), .ringing(from: alice, to: bob)])
        case .profiles: _ = try store.profiles(of: [alice, bob])
        case .update: _ = try store.update(alice, Request.UserUpdate(name: "Alice", avatarURL: ""))
        case .devices: _ = try store.devices(of: [alice, bob])
        case .cameOnline: _ = try store.cameOnline([DeviceSession(alicePhone, id: "s")], policy: PresencePolicy())
        case .wentOffline: _ = try store.wentOffline([DeviceSession(alicePhone, id: "s")], policy: PresencePolicy())
        case .renew: try store.renew([alicePhone])
        case .timeline:
            let timeline = try store.timeline(of: callID)
            let call = CallSnapshot(
                callID: callID, revision: 1, mode: .common, state: .ringing, inviter: alice, createdAt: fuzzedNow,
                timeout: 60, members: [])
            let success = Response.Success(call: call, time: fuzzedNow, timeline: timeline)
            _ = DownMessage.response(Response(id: RequestID("r1")!, outcome: .success(success))).encoded()
        case .now: _ = try store.now()
        case .register:
            let pushes = BlockingPushes(store)
            let key = PushRegistration.Key(alicePhone, .standard, .fcm)
            try pushes.register(PushRegistration(key, target: .token("t"), digest: "d", since: 1))
            _ = try pushes.registrations(of: [alice, bob])
            try pushes.unregister(alicePhone)
            _ = try pushes.policy()
            _ = try pushes.secret()
        case .queue:
            let (pushes, worker) = (BlockingPushes(store), WorkerID("w"))
            _ = try pushes.take(by: worker, near: [callID])
            _ = try pushes.settle([PushSettlement(callID, again: 1)], by: worker)
            _ = try pushes.renew(worker)
            _ = try pushes.reserve([PushReservation(device: alicePhone, inviter: bob, id: "r")])
            _ = try pushes.recover()
            _ = try pushes.count()
            _ = try pushes.bound()
        case .serve:
            // The replies answer the loads of a whole service.
            let coordinator = OneAtATime(CallService(store: store.store, settings: ServiceSettings()))
            _ = coordinator.process(
                .init(
                    topic: Topics.standard.up(bobPhone),
                    payload: UpMessage.request(
                        Request(id: RequestID("r1")!, body: .accept(.init(callID: callID)))
                    ).encoded()))
            _ = coordinator.sweep()
        }
    }
}
