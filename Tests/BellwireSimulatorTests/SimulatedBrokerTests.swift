import Testing

@testable import BellwireSimulator

/// The broker of the simulator, in the respects in which it must be like a real broker.
struct SimulatedBrokerTests {
    private final class Client: BrokerClient {
        let clientID: String
        private(set) var losses = 0

        init(_ clientID: String) { self.clientID = clientID }

        func received(topic: String, payload: [UInt8], connection: Int, delivery: Delivery) {}
        func doubled(_ payload: [UInt8]) {}
        func missed(connection: Int) {}
        func disconnected(connection: Int) { losses += 1 }
    }

    /// Client ids are bytes: Swift's strings hold both spellings equal.
    @Test func theTwinOfAClientPutsNobodyOff() {
        let world = World(Plan.drawn(seed: 1, isLite: true))
        let broker = world.brokers[0]
        let (composed, decomposed) = (Client("caf\u{E9}/phone"), Client("cafe\u{301}/phone"))
        #expect(broker.connect(composed, will: nil, isDevice: true) != nil)
        #expect(broker.connect(decomposed, will: nil, isDevice: true) != nil)
        #expect(composed.losses == 0)
        #expect(broker.connect(Client("caf\u{E9}/phone"), will: nil, isDevice: true) != nil)
        #expect(composed.losses == 1 && decomposed.losses == 0)
    }
}
