import BellwireClient
import BellwireTestKit
import Testing

/// The surroundings of the clients of a test: every site offers the same.
protocol Site: Sendable {
    func configuration(user: String, device: String) -> SignalingClient.Configuration
    /// Breaks the connections of all devices of a user.
    func breakConnections(of user: String)
    /// Cuts all clients off, and lets no client connect.
    func goOffline()
    func goOnline()
    /// The coordinator dies, and another coordinator takes its place.
    func replaceCoordinator()
}

struct SiteTimings: Sendable {
    var heartbeatTimeout: Duration = .seconds(60)
    var heartbeatInterval: Duration = .seconds(20)
}

extension Site {
    func configuration(user: String) -> SignalingClient.Configuration { configuration(user: user, device: "phone") }
}

extension TestService: Site {}

/// The sites, one after another: the service in memory, and a deployment over each transport.
enum Everywhere: CaseIterable {
    case memory, own, mosquitto

    @TaskLocal static var here = Everywhere.memory

    /// A site of the present kind.
    static func site(_ timings: SiteTimings = SiteTimings()) -> any Site {
        switch here {
        case .memory:
            var own = TestService.Timings()
            (own.heartbeatTimeout, own.heartbeatInterval) = (timings.heartbeatTimeout, timings.heartbeatInterval)
            return TestService(timings: own)
        case .own: return try! Deployed(.own, timings)
        case .mosquitto: return try! Deployed(.mosquitto, timings)
        }
    }
}

/// Runs each test of a suite at every site.
struct AtEverySite: SuiteTrait, TestTrait, TestScoping {
    /// Each test has processes of its own, so that not all tests run at once.
    private static let turns = Turns(4)

    var isRecursive: Bool { true }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing body: @concurrent @Sendable () async throws -> Void
    ) async throws {
        for site in Everywhere.allCases {
            await Self.turns.take()
            do {
                try await Everywhere.$here.withValue(site) { try await body() }
            } catch {
                await Self.turns.giveBack()
                throw error
            }
            await Self.turns.giveBack()
        }
    }
}

extension Trait where Self == AtEverySite {
    static var atEverySite: Self { Self() }
}

/// Lets so many tests run at once; the others wait.
private actor Turns {
    private var free: Int
    private var waiting: [CheckedContinuation<Void, Never>] = []

    init(_ count: Int) { free = count }

    func take() async {
        if free > 0 { return free -= 1 }
        await withCheckedContinuation { waiting.append($0) }
    }

    func giveBack() {
        if waiting.isEmpty { free += 1 } else { waiting.removeFirst().resume() }
    }
}
