import CallCore
import SignalingProtocol

/// Selects the brokers for messages to devices, in a deployment with several brokers (docs/decisions/0033).
///
/// The presence of a device names its broker. A message goes to all brokers when the broker of a recipient is not
/// known: the other brokers have no subscriber for the message and drop it. The same holds for a device whose broker is
/// away: the device may have moved, and its presence may be under way.
extension BatchService {
    /// Adds the presence of a user, as read last, for the messages of this batch.
    func learn(_ devices: [DevicePresence], of user: UserID) {
        if settings.isRouting { presence[user] = devices }
    }

    /// Returns the broker of the device's session; all brokers for a device without a session.
    func brokers(of device: DeviceAddress) -> BrokerSet {
        guard settings.isRouting, let known = presence[device.userID]?.first(where: { $0.device == device }) else {
            return .all
        }
        return known.isAway ? .all : brokers(of: known)
    }

    /// Returns the brokers of all devices of the user. `acks` are the acknowledgments in the call that the message is
    /// about: a device without presence that has acknowledged an event may be at any broker.
    func brokers(of user: UserID, _ acks: [DeviceAck] = []) -> BrokerSet {
        guard settings.isRouting, let known = presence[user] else { return .all }
        let online = known.filter { $0.isReachable(at: now, lease: settings.presence.lease) }
        let hasOthers = acks.contains { ack in
            ack.device.userID == user && !known.contains { $0.device == ack.device }
        }
        guard !online.isEmpty, !hasOthers else { return .all }
        // A device that was not heard since its broker is back may still be there.
        return BrokerSet((online + known.filter { $0.isOnline && $0.isAway }).map(brokers))
    }

    private func brokers(of device: DevicePresence) -> BrokerSet {
        device.broker.flatMap { settings.brokers.firstIndex(of: $0) }.map { BrokerSet($0) } ?? .all
    }
}
