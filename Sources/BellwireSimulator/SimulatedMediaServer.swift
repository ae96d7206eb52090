import CallCore
import CallStore
import Delivery
import HTTPSending
import HistoryChecker
import SignalingProtocol

/// A LiveKit server that all workers share: the server takes its time, refuses, and its answers get lost. The server
/// holds each request against the store: rooms are closed only for calls that are over.
final class SimulatedMediaServer {
    static let settings = MediaSettings(
        liveKit: "sfu", url: "wss://sfu.example", apiURL: "https://sfu.example", key: "K", secret: "simulated")
    /// The longest time from a worker's judgement of a call until the server has the request, in milliseconds.
    private static let underWay: Milliseconds = 15_000

    private unowned(unsafe) let world: World
    private let mix: FaultMix
    private let store: MemoryCallStore
    private var random: SeededRandom
    /// The calls for which a device got a session.
    private var rooms: Set<CallID> = []
    /// How often the server has deleted each room.
    private var deleted: [CallID: Int] = [:]
    /// The number of deleted rooms and of removed participants.
    private(set) var changes = (deleted: 0, removed: 0)

    init(_ store: MemoryCallStore, in world: World, random: SeededRandom) {
        self.store = store
        self.world = world
        mix = world.mix
        self.random = random
    }

    /// Returns the session of a member. No token is made, because no part of the world reads tokens.
    func session(for member: MediaMember) -> BellwireMediaSession {
        rooms.insert(member.callID)
        return BellwireMediaSession(
            server: "sfu", type: "livekit", url: "wss://sfu.example", room: member.callID.string,
            token: "\(member.device)", expiresAt: world.now)
    }

    /// Receives a worker's request, which arrives even if the worker dies.
    func send(_ request: HTTPRequest, _ answered: @escaping (HTTPAnswer) -> Void) {
        let there = random.between(0, mix.endpointLatency) / 2
        world.at(world.now + there) { [self] in
            let status = world.hasFaults && random.chance(mix.endpointFailure) ? 503 : 200
            if status == 200 { take(request) }
            world.tell("media server answers \(status) to \(request.url.split(separator: "/").last ?? "")")
            let isLost = world.hasFaults && random.chance(mix.endpointLostAnswer)
            if isLost { world.count("endpoint's answer lost") }
            let back = isLost ? 10_000 : random.between(0, mix.endpointLatency) / 2
            world.at(world.now + back) {
                answered(
                    HTTPAnswer(
                        id: request.id,
                        outcome: isLost
                            ? .failed(reason: "no answer", wasHandedOver: true)
                            : .answered(.init(status: status, retryAfter: nil, body: [])), took: there + back))
            }
        }
    }

    /// Checks a request that the server accepts. A store that has lost writes may not know the call, or its end.
    private func take(_ request: HTTPRequest) {
        guard !world.hasLostWrites else { return }
        let body = (try? JSONParser.parse(request.body))?.object
        guard let callID = body?["room"]?.string.flatMap(CallID.init),
            case .call(let call)? = store.load([RecordID.call(callID)])[0]?.record
        else {
            let text = String(decoding: request.body, as: UTF8.self)
            world.violated(.room, nil, nil, "the media server was sent \(text)")
            return
        }
        guard request.url.hasSuffix("/RemoveParticipant") else {
            deleted[callID, default: 0] += 1
            changes.deleted += 1
            if call.isLive { world.violated(.room, callID, nil, "the room of a call that lives was deleted") }
            return
        }
        changes.removed += 1
        guard let user = body?["identity"]?.string.flatMap(UserID.init), let member = call.entry(user) else {
            world.violated(.room, callID, nil, "the user who was removed is no member")
            return
        }
        if member.state == .accepted, call.isLive, member.updatedAt < world.now - Self.underWay {
            world.violated(.room, callID, nil, "\(user) was removed, and is in the call")
        }
    }

    /// Checks, at rest, that each room of an ended call was deleted, once. `mayRepeat`: whether a fault may have made a
    /// worker send a request again.
    func judge(_ calls: [Call], mayRepeat: Bool) {
        for call in calls where call.mode == .advanced && !call.isLive && rooms.contains(call.callID) {
            let count = deleted[call.callID] ?? 0
            if count == 0 { world.violated(.room, call.callID, nil, "the room was never deleted") }
            if count > 1, !mayRepeat {
                world.violated(.room, call.callID, nil, "the room was deleted \(count) times")
            }
        }
    }
}
