/// Plays the listing of docs/push.md for iPhones in the order that is asked for, and prints what became of it.
import CallKit
import PushKit

/// The app's own client, which does what a scene says.
@MainActor final class Client {
    /// What the service answers to an accept, once it does.
    var answers: [CheckedContinuation<Bool, Never>] = []
    var told: [String] = []

    nonisolated init() {}
    func connect() {}
    func register(platform: String, token: String) { told.append("register \(platform) \(token)") }
    func unregister(platform: String) { told.append("unregister \(platform)") }
    func accept(_ callID: String) async -> Bool {
        told.append("accept \(callID)")
        return await withCheckedContinuation { answers.append($0) }
    }
    func hangUp(_ id: UUID) { told.append("hangUp") }
}

@main @MainActor struct Scenes {
    private let client: Client
    private let ringing: Ringing
    /// Where ring checks are answered.
    private let checks: String
    private let id = UUID(callID: "c1")
    private var provider: CXProvider { CXProvider.made }

    static func main() async {
        let (scene, checks) = (CommandLine.arguments[1], CommandLine.arguments[2])
        await Scenes(Client(), checks: checks).play(scene)
    }

    private init(_ client: Client, checks: String) {
        self.client = client
        self.checks = checks
        ringing = Ringing(client: client)
    }

    /// `check`: how the ring check is answered.
    private func push(_ check: String) {
        let registry = PKPushRegistry.made!
        let content: [String: Any] = [
            "kind": "ring", "callID": "c1", "revision": 1, "inviter": "alice", "check": "\(checks)/\(check)",
        ]
        registry.delegate!.pushRegistry(
            registry, didReceiveIncomingPushWith: PKPushPayload(["bellwire": content]), for: .voIP, completion: {})
    }

    private func wait(_ what: String, until isSo: () -> Bool) async {
        for _ in 0..<1_000 {
            if isSo() { return }
            try? await Task.sleep(nanoseconds: 5_000_000)
        }
        print("never: \(what)")
        exit(1)
    }

    private func rests(_ milliseconds: UInt64) async { try? await Task.sleep(nanoseconds: milliseconds * 1_000_000) }

    private func answer() async -> CXAnswerCallAction {
        let action = CXAnswerCallAction(call: id)
        provider.delegate!.provider(provider, perform: action)
        await wait("accept") { !client.answers.isEmpty || action.outcome != .open }
        return action
    }

    private func show(_ action: CXCallAction? = nil) {
        let shown = provider.calls[id].map { $0 ? "answered" : "rings" } ?? "nothing"
        print(shown, provider.ended.map { "\($0)" }, client.told, action.map { "\($0.outcome)" } ?? "")
    }

    private func play(_ scene: String) async {
        switch scene {
        case "over":
            push("over")
            await wait("its end") { !provider.ended.isEmpty }
        case "unanswered":
            push("short")
            await wait("its end") { !provider.ended.isEmpty }
        case "cancelled and rung again":
            push("short")
            await rests(50)
            ringing.end("c1", .remoteEnded)
            push("long")
            await rests(600)
        case "rung again and the cancel was not heard":
            push("short")
            await rests(50)
            push("long")
            await rests(600)
        case "rung again before the first check is answered":
            push("slow-over")
            await rests(50)
            push("long")
            await rests(600)
        case "pushed twice":
            push("short")
            push("short")
            await wait("its end") { !provider.ended.isEmpty }
            await rests(100)
        case "not to be disturbed":
            provider.refusal = CXErrorCodeIncomingCallError(.filteredByDoNotDisturb)
            push("short")
            await rests(400)
            ringing.end("c1", .remoteEnded)
        case "accepted":
            push("short")
            let action = await answer()
            client.answers.removeFirst().resume(returning: true)
            await wait("an outcome") { action.outcome != .open }
            push("short")
            await rests(500)
            let end = CXEndCallAction(call: id)
            provider.delegate!.provider(provider, perform: end)
            return show(action)
        case "already in another call":
            push("long")
            let action = await answer()
            client.answers.removeFirst().resume(returning: false)
            await wait("an outcome") { action.outcome != .open }
            await wait("its end") { !provider.ended.isEmpty }
            return show(action)
        case "declined":
            push("long")
            await rests(20)
            let end = CXEndCallAction(call: id)
            provider.delegate!.provider(provider, perform: end)
            provider.calls[id] = nil
            await rests(300)
            return show(end)
        case "no call":
            provider.delegate!.provider(provider, perform: CXAnswerCallAction(call: id))
        default:
            print("no such scene: \(scene)")
            exit(1)
        }
        show()
    }
}
