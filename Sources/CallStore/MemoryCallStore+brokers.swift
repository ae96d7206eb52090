import CallCore
import SignalingProtocol

extension MemoryCallStore: BrokerStore {
    package var sightings: BrokerSightings { contents.brokers }

    package func report(_ report: BrokerReport) -> BrokerSightings {
        contents.brokers.take(report, now: now())
        return contents.brokers
    }

    /// Does nothing: all users of this store share its sightings.
    package func readSightings() {}

    package func devices(at broker: BrokerName, after place: String?, limit: Int) -> DevicePage {
        let all = contents.presence.values.flatMap(\.devices)
            .filter { $0.isOnline && $0.broker == broker && (place == nil || $0.place > place!) }
            .sorted { $0.place < $1.place }
        let devices = Array(all.prefix(limit))
        return DevicePage(contents.brokers.marked(devices), next: all.count > limit ? devices.last?.place : nil)
    }
}

extension DevicePresence {
    fileprivate var place: String { "\(device)" }
}
