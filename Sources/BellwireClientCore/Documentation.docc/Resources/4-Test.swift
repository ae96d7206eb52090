import BellwireClient
import BellwireTestKit
import Testing

@Suite struct CallTests {
    let service = TestService()

    @Test func bobAnswers() async throws {
        let alice = SignalingClient(service.configuration(user: "alice"))
        let bob = SignalingClient(service.configuration(user: "bob"))
        try await alice.connect()
        try await bob.connect()

        let call = try await alice.call("bob")
        var incomingCalls = bob.incomingCalls.makeAsyncIterator()
        try await incomingCalls.next()?.accept()
        try await call.waitUntilActive()
        #expect(call.members.map(\.state) == [.accepted, .accepted])
    }
}
