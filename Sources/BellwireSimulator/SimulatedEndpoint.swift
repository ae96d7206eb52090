import CallCore
import Delivery
import HTTPSending
import HistoryChecker
import SignalingProtocol

/// The webhook endpoint of an app's backend, which all workers share: the endpoint takes its time, refuses, and its
/// answers get lost.
final class SimulatedEndpoint {
    static let name = EndpointName("app")!
    static let settings = WebhookEndpoint(
        name: "app", url: try! HTTPSURL("https://app.example/"),
        secrets: [try! WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")], events: EventPatterns(["call.*"])!)

    private unowned(unsafe) let world: World
    private let mix: FaultMix
    private var random: SeededRandom
    /// The revisions of each call, in the order in which the endpoint accepted the webhook events.
    private(set) var taken: [CallID: [Int]] = [:]

    init(in world: World, random: SeededRandom) {
        self.world = world
        mix = world.mix
        self.random = random
    }

    /// Receives a worker's request, which arrives even if the worker dies.
    func send(_ request: HTTPRequest, _ answered: @escaping (HTTPAnswer) -> Void) {
        let id = request.headers.first { $0.name == "webhook-id" }!.value
        let there = random.between(0, mix.endpointLatency) / 2
        world.at(world.now + there) { [self] in
            let status = world.hasFaults && random.chance(mix.endpointFailure) ? 503 : 200
            if status == 200 { take(id) }
            world.tell("endpoint answers \(status) to \(id)")
            let isLost = world.hasFaults && random.chance(mix.endpointLostAnswer)
            if isLost { world.count("endpoint's answer lost") }
            // The longest time that an attempt may take.
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

    private func take(_ id: String) {
        let parts = id.split(separator: "_")
        guard parts.count == 2, let callID = CallID(String(parts[0])), let revision = Int(parts[1]) else {
            world.violated(.webhook, nil, nil, "the endpoint was sent \(id), which is no webhook of a call")
            return
        }
        taken[callID, default: []].append(revision)
    }

    /// Checks, at rest, that each revision arrived once and in order. `calls`: the calls in the store. `mayRepeat`:
    /// whether a fault may have made a worker send a webhook event again.
    func judge(_ calls: [Call], mayRepeat: Bool) {
        for call in calls {
            let taken = taken[call.callID] ?? []
            var highest = 0
            for revision in taken {
                if revision > highest + 1 {
                    world.violated(
                        .webhook, call.callID, nil, "revision \(revision) came before \(highest + 1): \(taken)")
                    break
                }
                if revision <= highest, !mayRepeat {
                    world.violated(.webhook, call.callID, nil, "revision \(revision) came twice: \(taken)")
                    break
                }
                highest = max(highest, revision)
            }
            if highest != call.revision {
                world.violated(.webhook, call.callID, nil, "of \(call.revision) revisions \(highest) came: \(taken)")
            }
        }
    }
}

/// A worker's connection to an endpoint or a media server.
final class SimulatedSender: RequestSender {
    private let receive: (HTTPRequest, @escaping (HTTPAnswer) -> Void) -> Void
    private var answers: [HTTPAnswer] = []
    /// Called when an answer has come.
    var onAnswer: () -> Void = {}
    let descriptor: Int32 = -1

    /// - Parameter receive: takes a request, and is given the function that takes the answer.
    init(_ receive: @escaping (HTTPRequest, @escaping (HTTPAnswer) -> Void) -> Void) { self.receive = receive }

    func send(_ request: HTTPRequest) {
        receive(request) { [weak self] answer in
            self?.answers.append(answer)
            self?.onAnswer()
        }
    }

    func take() -> [HTTPAnswer] {
        defer { answers = [] }
        return answers
    }
}
