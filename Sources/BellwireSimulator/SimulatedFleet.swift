import CallCore

/// The brokers of a deployment, which know nothing of each other. The number of a connection tells its broker.
final class SimulatedFleet {
    private let brokers: [SimulatedBroker]

    init(_ count: Int, in world: World, random: inout SeededRandom) {
        brokers = (0..<count).map { SimulatedBroker($0, in: world, random: random.fork()) }
    }

    var count: Int { brokers.count }
    subscript(place: BrokerIndex) -> SimulatedBroker { brokers[place] }

    /// The broker of a connection.
    func of(_ connection: Int) -> SimulatedBroker { brokers[connection % BrokerSet.mostBrokers] }

    var isWhole: Bool { brokers.allSatisfy(\.isWorking) }
}
