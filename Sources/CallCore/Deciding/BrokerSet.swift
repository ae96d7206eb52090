/// The place of a broker in `ServiceSettings.brokers`.
package typealias BrokerIndex = Int

/// The brokers at which an outbound message is published. Places beyond the deployment's brokers have no meaning.
package struct BrokerSet: OptionSet, Sendable {
    package let rawValue: UInt32

    package init(rawValue: UInt32) { self.rawValue = rawValue }

    package init(_ broker: BrokerIndex) { self.init(rawValue: 1 << UInt32(broker)) }

    /// Every broker of the deployment.
    package static let all = BrokerSet(rawValue: .max)

    /// The bound on the brokers of a deployment.
    package static let mostBrokers = 32

    package func contains(_ broker: BrokerIndex) -> Bool { contains(BrokerSet(broker)) }
}
