import SignalingProtocol

/// One thing that happened, as a device or the one who makes faults saw it.
///
/// Entries come in the order of their time. The clock is the one by which the service writes its times: the machine's
/// in a chaos run, virtual time in a simulation.
package struct HistoryEntry: Equatable, Sendable {
    /// Milliseconds since the Unix epoch.
    package var at: Int64
    package var content: Content

    package init(at: Int64, _ content: Content) {
        self.at = at
        self.content = content
    }

    /// Indirect, since entries are copied from one story to the next.
    package indirect enum Content: Equatable, Sendable {
        /// Who serves; comes first.
        case began(coordinators: [String])
        /// The device is connected to the broker and subscribed.
        case connected(DeviceAddress, session: String)
        /// The connection of the device is gone, in whatever way.
        case disconnected(DeviceAddress)
        case presented(DeviceAddress, PresenceMessage)
        /// Each copy that really went out, also those that were sent again or doubled on the way.
        case sent(DeviceAddress, UpMessage)
        case received(DeviceAddress, DownMessage)
        /// A message to (`down`) or from this device was lost on purpose. It has no other entry.
        case lost(DeviceAddress, Direction)
        /// From now on `target` does not serve. Comes before the fault is made.
        case faultBegan(target: String, Fault)
        /// `target` serves again, as far as one can tell from outside.
        case faultEnded(target: String)
        /// The store forgot what was written since then, though it was answered: a failover, or an old file.
        case storeWentBack(since: Int64)
        /// The whole machine stood still from `since` until now, through nobody's fault.
        case stalled(since: Int64)
        /// The faults have stopped, everybody is online and has had time to learn what it is owed.
        case settled
    }

    package enum Direction: String, Sendable, CaseIterable { case up, down }

    package enum Fault: String, Sendable, CaseIterable { case killed, frozen, stopped }

    /// The target of a fault that is no coordinator.
    package static let broker = "broker"
    /// The target of a fault that is no coordinator.
    package static let store = "store"
}

extension HistoryEntry.Content {
    /// The device whose entry it is.
    package var device: DeviceAddress? {
        switch self {
        case .connected(let device, _), .disconnected(let device), .presented(let device, _), .sent(let device, _),
            .received(let device, _), .lost(let device, _):
            device
        case .began, .faultBegan, .faultEnded, .storeWentBack, .stalled, .settled: nil
        }
    }
}
