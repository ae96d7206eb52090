import CallCore

/// The knowledge about the brokers that all coordinators of a deployment share. `BrokerSightings` defines the rules.
/// A store marks the devices in its answers by the sightings that this process has read last.
package protocol BrokerStore: AnswersLater {
    /// Adds a coordinator's report to the sightings. Returns the new sightings.
    func report(_ report: BrokerReport) async throws(StoreError) -> BrokerSightings

    /// Reads the sightings, for a process that reports none and wants to know which devices are online. Such a process
    /// should read the sightings about every second.
    func readSightings() async throws(StoreError)

    /// Returns devices whose presence names the broker and is online, in some order: at least those that were there
    /// from the first page to the last page. `place` is nil for the first page, or the `next` of the page before. A
    /// page has about `limit` devices, and may have none although further pages follow.
    func devices(at broker: BrokerName, after place: String?, limit: Int) async throws(StoreError) -> DevicePage
}

/// A part of the devices at a broker.
package struct DevicePage: Equatable, Sendable {
    package var devices: [DevicePresence] = []
    /// The place behind the page; nil for the last page.
    package var next: String?

    package init(_ devices: [DevicePresence] = [], next: String? = nil) {
        self.devices = devices
        self.next = next
    }
}

/// The times at which a process that makes no reports reads the sightings again.
package struct SightingsLook {
    private static let interval: Milliseconds = 1_000
    private var next = Milliseconds.min

    package init() {}

    /// Whether the sightings should be read at `now`; a caller that gets `true` reads them.
    package mutating func isDue(at now: Milliseconds) -> Bool {
        guard now >= next else { return false }
        next = now + Self.interval
        return true
    }
}
