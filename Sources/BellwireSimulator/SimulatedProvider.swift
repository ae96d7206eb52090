import CallCore
import Delivery
import HTTPSending
import SignalingProtocol

/// The push services of Apple, Google and the browsers, which all workers share: the services take their time, refuse
/// and throttle, and their answers get lost.
final class SimulatedProvider {
    private unowned(unsafe) let world: World
    private let mix: FaultMix
    private var random: SeededRandom
    /// The device that has each token: the last device that registered the token, as phones change hands.
    private var holders: [String: DeviceAddress] = [:]
    /// Tokens of removed apps, and when each app was removed.
    private var dead: [String: Milliseconds] = [:]

    init(in world: World, random: SeededRandom) {
        self.world = world
        mix = world.mix
        self.random = random
    }

    // MARK: Phones

    /// Records that the app of this device now has the token.
    func given(_ token: String, to device: DeviceAddress) { holders[token] = device }

    /// Removes the app from the device, together with its tokens.
    func removed(_ device: DeviceAddress) {
        for token in holders.filter({ $0.value == device }).keys {
            holders[token] = nil
            dead[token] = world.now
        }
    }

    // MARK: Requests

    /// Returns how long a request waits for a connection.
    func connecting() -> Milliseconds {
        guard world.hasFaults, mix.providerConnecting > 0 else { return random.between(0, 2) }
        return random.chance(800) ? random.between(0, 5) : random.between(0, mix.providerConnecting)
    }

    /// Receives a worker's request, which arrives even if the worker dies. `answered` receives the outcome and the time
    /// that the attempt took.
    func take(
        _ request: HTTPRequest, from worker: String,
        _ answered: @escaping (HTTPAnswer.Outcome, _ took: Milliseconds) -> Void
    ) {
        let isToken = request.url.hasPrefix("https://oauth.example/")
        let sighting = isToken ? nil : world.pushes?.leaves(request, from: worker)
        if isToken { world.pushes?.asksForToken(worker) }
        let latency = world.hasFaults ? mix.providerLatency : 5
        let there = random.between(0, latency) / 2
        world.at(world.now + there) { [self] in
            let response = isToken ? token() : respond(sighting)
            let isLost = world.hasFaults && random.chance(mix.providerLostAnswer)
            if isLost { world.count("provider's answer lost") }
            // The longest time that an attempt may take.
            let back = isLost ? 10_000 - there : random.between(0, latency) / 2
            if let sighting {
                world.tell(
                    "provider answers \(response.status) to \(sighting.id.kind) for \(sighting.device) of \(sighting.id.callID)"
                )
            }
            world.at(world.now + back) { [self] in
                if isToken { world.pushes?.hasToken(worker, isLost ? nil : response.status) }
                if let sighting { world.pushes?.answered(sighting.id, isLost ? nil : response.status) }
                answered(
                    isLost ? .failed(reason: "no answer", wasHandedOver: true) : .answered(response), there + back)
            }
        }
    }

    private func token() -> HTTPAnswer.Response {
        if world.hasFaults, random.chance(mix.providerFailure) { return .init(status: 503, retryAfter: nil, body: []) }
        return .init(status: 200, retryAfter: nil, body: Array(#"{"access_token":"t","expires_in":3600}"#.utf8))
    }

    private func respond(_ sighting: PushSighting?) -> HTTPAnswer.Response {
        guard let sighting else { return .init(status: 400, retryAfter: nil, body: []) }
        if let since = dead[sighting.token] { return gone(sighting.id.key.platform, since) }
        if world.hasFaults, random.chance(mix.providerFailure) {
            world.count("provider refuses")
            return .init(status: 503, retryAfter: nil, body: [])
        }
        if world.hasFaults, random.chance(mix.providerThrottling) {
            world.count("provider throttles")
            return .init(status: 429, retryAfter: 1 + random.below(3), body: [])
        }
        world.pushes?.accepted(sighting.id)
        if let device = holders[sighting.token], device == sighting.device {
            let delay = random.between(10, world.hasFaults ? random.pick([100, 2_000]) : 100)
            world.at(world.now + delay) { [world] in
                world.devices.first { $0.address == device }?.pushed(sighting)
            }
        }
        return .init(status: 200, retryAfter: nil, body: [])
    }

    private func gone(_ platform: PushPlatform, _ since: Milliseconds) -> HTTPAnswer.Response {
        let body =
            switch platform {
            case .apns, .apnsVoIP: #"{"reason":"Unregistered","timestamp":\#(since)}"#
            case .fcm: #"{"error":{"status":"NOT_FOUND","details":[{"errorCode":"UNREGISTERED"}]}}"#
            case .webPush: ""
            }
        return .init(status: platform == .fcm ? 404 : 410, retryAfter: nil, body: Array(body.utf8))
    }
}

/// A worker's connection to the providers, which dies and stands still with its process.
final class SimulatedPushSender: RequestSender {
    private let provider: SimulatedProvider
    private unowned(unsafe) let world: World
    private unowned(unsafe) let owner: SimulatedCoordinator
    private let life: Int
    private var answers: [HTTPAnswer] = []
    /// The name of the current worker: after its worker lease expires, a worker continues under another name.
    var worker = ""
    /// Called when an answer has come.
    var onAnswer: () -> Void = {}
    let descriptor: Int32 = -1

    init(_ provider: SimulatedProvider, in world: World, of owner: SimulatedCoordinator, life: Int) {
        self.provider = provider
        self.world = world
        self.owner = owner
        self.life = life
    }

    func send(_ request: HTTPRequest) {
        let began = world.now
        handOver(request, from: worker, began, at: began + provider.connecting())
    }

    private func handOver(_ request: HTTPRequest, from worker: String, _ began: Milliseconds, at moment: Milliseconds) {
        world.at(moment) { [weak self] in
            guard let self, owner.isAlive(life) else { return }
            guard owner.frozenUntil <= world.now else {
                return handOver(request, from: worker, began, at: owner.frozenUntil)
            }
            if let deadline = request.handOverBefore, deadline <= world.now {
                return answer(HTTPAnswer(id: request.id, outcome: .notHandedOver, took: world.now - began))
            }
            provider.take(request, from: worker) { [weak self] outcome, took in
                self?.answer(HTTPAnswer(id: request.id, outcome: outcome, took: took))
            }
        }
    }

    private func answer(_ answer: HTTPAnswer) {
        answers.append(answer)
        onAnswer()
    }

    func take() -> [HTTPAnswer] {
        defer { answers = [] }
        return answers
    }
}
