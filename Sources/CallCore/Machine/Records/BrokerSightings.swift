import SignalingProtocol

/// A broker, as the coordinators of a deployment with several brokers know it together (docs/protocol.md, section 1).
package struct BrokerSighting: Equatable, Sendable {
    package let name: BrokerName
    /// The store time at which a coordinator last got a message from the broker. A period in which no coordinator
    /// listened to any broker is added.
    package var seen: Milliseconds
    /// The number of the epoch. An epoch begins when the broker is back after it was away.
    package var epoch = 1
    /// The beginning of the epoch, shortly after the last message of the former epoch; 0 in the first epoch. Between
    /// the two the broker was not heard. A device whose last sign of life is older is not online before it is heard
    /// again.
    package var since: Milliseconds = 0
    /// Whether no coordinator hears the broker.
    package var isAway = false
    /// The roll call of the broker's devices; nil when it is done.
    package var rollCall: RollCall?

    /// The work that follows when a broker goes away, or is back: a coordinator goes through the broker's devices.
    package struct RollCall: Equatable, Sendable {
        /// The coordinator with the work, and the time until which no other coordinator takes the work over.
        package var coordinator: String
        package var until: Milliseconds

        package init(coordinator: String, until: Milliseconds) {
            self.coordinator = coordinator
            self.until = until
        }
    }

    package init(name: BrokerName, seen: Milliseconds) {
        self.name = name
        self.seen = seen
    }
}

/// A report of a coordinator that listens at a broker at least. Each coordinator reports about once a second.
package struct BrokerReport: Sendable {
    /// A name of a roll call that does not recur.
    package struct RollCallName: Equatable, Sendable {
        package let broker: BrokerName
        package let epoch: Int
        package let isAway: Bool

        package init(_ sighting: BrokerSighting) {
            (broker, epoch, isAway) = (sighting.name, sighting.epoch, sighting.isAway)
        }
    }

    /// The coordinator that reports.
    package let coordinator: String
    /// The brokers that have delivered a message since the last report, and how long ago, in milliseconds.
    package var heard: [(broker: BrokerName, age: Milliseconds)] = []
    /// The roll calls that the coordinator has finished.
    package var finished: [RollCallName] = []
    /// A broker is away when no coordinator has heard it for this many milliseconds.
    package let patience: Milliseconds
    /// A broker that has been away for this many milliseconds is forgotten: the presence of all its devices has
    /// expired.
    package let memory: Milliseconds

    package init(coordinator: String, patience: Milliseconds, memory: Milliseconds) {
        // The stored text has a line for each broker.
        self.coordinator = String(coordinator.map { $0.isNewline ? " " : $0 })
        self.patience = patience
        self.memory = memory
    }
}

/// The brokers of a deployment, as all coordinators know them together: the rules that every store must follow. Empty
/// in a deployment with a single broker.
package struct BrokerSightings: Equatable, Sendable {
    /// The bounds, in milliseconds where no unit is given.
    private enum SightingBounds {
        /// Without a report for longer, no coordinator was listening.
        static let pause: Milliseconds = 3_000
        /// A coordinator that has not reported for this long has lost its roll calls.
        static let rollCallLease: Milliseconds = 5_000
        /// A sign of life may be noted this much later than the broker's last message, because messages wait for their
        /// turn and reports come each second. The bound is less than the time after which a broker is away.
        static let lateness: Milliseconds = 2_000
        /// More brokers than a coordinator takes, so that a deployment can exchange all its brokers.
        static let most = 128
    }

    /// In the order of the names.
    package private(set) var sightings: [BrokerSighting]
    /// The time of the last report.
    package private(set) var reported: Milliseconds

    package init(_ sightings: [BrokerSighting] = [], reported: Milliseconds = 0) {
        self.sightings = sightings
        self.reported = reported
    }

    package subscript(_ broker: BrokerName) -> BrokerSighting? { sightings.first { $0.name == broker } }

    /// The names of the brokers that are away.
    package var away: [BrokerName] { sightings.filter(\.isAway).map(\.name) }

    /// Takes a report at the store's time `now`.
    package mutating func take(_ report: BrokerReport, now: Milliseconds) {
        // Reports of several coordinators may arrive in another order than they were dated.
        let now = max(now, reported)
        if reported > 0, now - reported > SightingBounds.pause {
            for place in sightings.indices where !sightings[place].isAway { sightings[place].seen += now - reported }
        }
        reported = now
        for (broker, age) in report.heard { heard(broker, at: now - max(0, age)) }
        for place in sightings.indices where !sightings[place].isAway {
            guard now - sightings[place].seen > report.patience else { continue }
            sightings[place].isAway = true
            beginRollCall(at: place)
        }
        sightings.removeAll { $0.isAway && now - $0.seen > report.memory }
        for place in sightings.indices { giveRollCall(at: place, report, now) }
    }

    private mutating func heard(_ broker: BrokerName, at moment: Milliseconds) {
        guard let place = sightings.firstIndex(where: { $0.name == broker }) else {
            guard sightings.count < SightingBounds.most else { return }
            sightings.append(BrokerSighting(name: broker, seen: moment))
            sightings.sort { $0.name < $1.name }
            return
        }
        // A message that was heard before the broker counted as away does not bring the broker back.
        let before = sightings[place].seen
        guard moment > before else { return }
        sightings[place].seen = moment
        guard sightings[place].isAway else { return }
        sightings[place].isAway = false
        sightings[place].epoch += 1
        sightings[place].since = before + SightingBounds.lateness
        beginRollCall(at: place)
    }

    /// The roll call is given to the first coordinator that reports.
    private mutating func beginRollCall(at place: Int) {
        sightings[place].rollCall = BrokerSighting.RollCall(coordinator: "", until: 0)
    }

    private mutating func giveRollCall(at place: Int, _ report: BrokerReport, _ now: Milliseconds) {
        guard let rollCall = sightings[place].rollCall else { return }
        let isOwn = rollCall.coordinator == report.coordinator
        if isOwn, report.finished.contains(BrokerReport.RollCallName(sightings[place])) {
            sightings[place].rollCall = nil
        } else if isOwn || rollCall.until <= now {
            sightings[place].rollCall = BrokerSighting.RollCall(
                coordinator: report.coordinator, until: now + SightingBounds.rollCallLease)
        }
    }

    /// Marks the devices that are not online although their presence says so: their broker is away, or is back and has
    /// not delivered a message of the device since.
    package func marked(_ devices: [DevicePresence]) -> [DevicePresence] {
        guard sightings.contains(where: { $0.isAway || $0.since > 0 }) else { return devices }
        return devices.map { device in
            guard let broker = device.broker, let sighting = self[broker] else { return device }
            var device = device
            // A device that was heard after the broker fell silent is there, whatever this process knows of the return.
            device.isAway =
                device.seen < (sighting.isAway ? sighting.seen + SightingBounds.lateness : sighting.since)
            return device
        }
    }
}
