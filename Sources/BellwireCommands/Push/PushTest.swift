import CallCore
import CallStore
import Delivery
import HTTPSending
import MQTTClient
import SignalingProtocol
import Support

/// `bellwire push test`: sends test pushes (docs/push.md, Command line).
struct PushTest {
    private static let command = Command(
        name: "push test", arguments: "USER",
        summary: """
            Sends a push of kind test to all registered devices of a user, and prints the outcome of each. The status is
            1 when none was sent.
            """,
        options: [
            Option("push", "FILE", "the settings of pushes to sleeping phones (docs/push.md); required")
        ] + StoreOptions.visitedByCommand + [
            Option("device", "ID", default: "", "only to this device")
        ], positionals: 1...1)

    /// Milliseconds for a token of the provider and a push, and both again with a new token.
    private static let patience: Int64 = 60_000

    private let store: VisitedStore<any CallStore & PushStore>
    private let providers: PushProviders
    private let sender: HTTPSender
    private let end = SystemClock.boot.milliseconds + Self.patience

    /// Runs the command. Returns the exit status.
    static func run(_ words: [String]) throws -> Int32 {
        let arguments = try Arguments(command, words)
        guard let user = UserID(arguments.positionals[0]) else {
            throw UsageError("bellwire push test: \(arguments.positionals[0]): not a user id")
        }
        let device: DeviceID?
        if let text = arguments.text("device"), !text.isEmpty {
            device = try arguments.required("device", "a device id", DeviceID.init)
        } else {
            device = nil
        }
        let file = try arguments.required("push", "a file") { $0.isEmpty ? nil : $0 }
        let test = try PushTest(file, arguments)
        defer { test.sender.stop() }
        return try test.run(user, device)
    }

    private init(_ file: String, _ arguments: Arguments) throws {
        let settings = try PushDelivery.settings(file, "bellwire push test")
        guard let store = try StoreOptions.visited(arguments) as? any CallStore & PushStore else {
            throw UsageError("bellwire push test: --store: this store keeps no registrations")
        }
        self.store = VisitedStore(store, store, "bellwire push test")
        providers = PushProviders(settings)
        sender = try PushDelivery.sender(settings, file, "bellwire push test")
    }

    private func run(_ user: UserID, _ device: DeviceID?) throws -> Int32 {
        let all = try ask { store throws(StoreError) in try await store.registrations(of: [user]) }[0]
        let registrations = all.filter { device == nil || $0.device.deviceID == device }
        guard !registrations.isEmpty else {
            writeError("bellwire push test: no device of \(device.map { "\(user)/\($0)" } ?? "\(user)") is registered")
            return 1
        }
        var sent = 0
        for (number, registration) in registrations.enumerated() {
            let outcome = try self.outcome(of: registration, UInt64(number))
            if outcome == Self.sent { sent += 1 }
            let key = registration.key
            writeOutput("\(key.device.deviceID)  \(key.platform)  \(key.app)  \(outcome)")
        }
        return sent > 0 ? 0 : 1
    }

    private static let sent = "sent"

    // MARK: A push

    private func outcome(of registration: PushRegistration, _ number: UInt64) throws -> String {
        guard registration.key.platform != .apnsVoIP else {
            return "not sent: iOS requires the app to show a call for each VoIP push"
        }
        let push = OutgoingPush(registration, PushContent(testAt: try now()), invitation: 0)
        let single = SinglePush(providers: providers, sender: sender, end: end, now: now)
        switch try single.send(push, number: number) {
        case .answered(let verdict): return try told(verdict, registration)
        case .refused(let reason): return "refused: \(reason)"
        case .failed(let reason): return "failed: \(reason)"
        }
    }

    private func told(_ verdict: PushVerdict, _ registration: PushRegistration) throws -> String {
        let details = [verdict.status.map { "status \($0)" }, verdict.reason].compactMap(\.self)
        let end = details.isEmpty ? "" : ": " + details.joined(separator: ", ")
        switch verdict.step {
        case .sent: return Self.sent
        case .gone:
            try ask { store throws(StoreError) in try await store.end(registration) }
            return "gone, and ended\(end)"
        case .refused: return "refused\(end)"
        case .again, .newToken, .notHandedOver: return "failed\(end)"
        }
    }

    private func now() throws -> Milliseconds { try ask { store throws(StoreError) in try await store.now() } }

    private func ask<Value>(
        _ question: @escaping (any CallStore & PushStore) async throws(StoreError) -> Value
    ) throws -> Value {
        try store.ask(question)
    }
}
