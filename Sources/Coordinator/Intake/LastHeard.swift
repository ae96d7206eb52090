import CallCore
import SignalingProtocol

/// The broker from which each device was last heard, in a deployment with several brokers. The presence of a device may
/// name another broker: an `online: true` of its former session can come late, after its broker or a coordinator stood
/// still.
struct LastHeard {
    private struct Entry {
        var broker: BrokerIndex
        /// The time at which the device was last reminded of its presence.
        var reminded = Milliseconds.min / 2
    }

    /// The bound on devices. At the bound all devices are forgotten; each device is added again with its next message.
    private static let most = 65_536
    /// The least time between two reminders of a device, in milliseconds; a device publishes its presence again at most
    /// once a second.
    private static let pause: Milliseconds = 2_000

    private var entries: [DeviceAddress: Entry] = [:]

    mutating func note(_ device: DeviceAddress, at broker: BrokerIndex) {
        if entries.count >= Self.most { entries = [:] }
        entries[device, default: Entry(broker: broker)].broker = broker
    }

    /// Returns the broker from which the device was last heard; nil when the device was not heard here lately.
    func broker(of device: DeviceAddress) -> BrokerIndex? { entries[device]?.broker }

    /// Returns the broker of a device whose presence names another broker, or that counts as offline, or `isBack`, if
    /// the device may be reminded now.
    mutating func brokerToRemind(
        _ device: DeviceAddress, _ known: DevicePresence, isBack: Bool, _ brokers: [BrokerName], now: Milliseconds
    ) -> BrokerIndex? {
        guard let entry = entries[device], now >= entry.reminded + Self.pause else { return nil }
        let isThere = known.isOnline && (known.broker ?? brokers[entry.broker]) == brokers[entry.broker]
        guard isBack || !isThere else { return nil }
        entries[device]?.reminded = now
        return entry.broker
    }
}
