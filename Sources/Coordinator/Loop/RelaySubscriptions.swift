import CallCore

/// The subscriptions by which a coordinator takes messages for the brokers that it serves from other coordinators,
/// which are cut off from these brokers (docs/decisions/0033).
struct RelaySubscriptions {
    /// The brokers that the coordinator served at the last call of `actions`.
    private var served: [Bool] = []

    /// Returns the actions that follow from the changes since the last call: for each broker that the coordinator
    /// serves, a subscription at every other served broker.
    mutating func actions(for standings: BrokerStandings) -> [CoordinatorLoop.Action] {
        guard standings.count > 1 else { return [] }
        let now = (0..<standings.count).map { standings[$0].isListening }
        defer { served = now }
        guard now != served else { return [] }
        let before = served.isEmpty ? now.map { _ in false } : served
        var actions: [CoordinatorLoop.Action] = []
        // A lost connection has no subscriptions any more.
        for place in now.indices where now[place] {
            for other in now.indices where other != place {
                if now[other], !(before[other] && before[place]) {
                    actions.append(.subscribeRelay(served: other, at: place))
                } else if !now[other], before[other], before[place] {
                    actions.append(.unsubscribeRelay(served: other, at: place))
                }
            }
        }
        return actions
    }
}
