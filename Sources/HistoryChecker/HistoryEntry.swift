import SignalingProtocol

/// An event in the view of a device, or of the program that makes the faults.
///
/// Entries are in the order of their time. All times are by the clock of the service: the machine's clock in a chaos
/// run, virtual time in a simulation.
package struct HistoryEntry: Equatable, Sendable {
    /// Milliseconds since the Unix epoch.
    package var at: Int64
    package var content: Content

    package init(at: Int64, _ content: Content) {
        self.at = at
        self.content = content
    }

    /// Indirect, since entries are often copied.
    package indirect enum Content: Equatable, Sendable {
        /// The names of the coordinators. This entry comes first.
        case began(coordinators: [String])
        /// The device is connected to the broker and subscribed.
        case connected(DeviceAddress, session: String)
        /// The connection of the device ended, for any reason.
        case disconnected(DeviceAddress)
        case presented(DeviceAddress, PresenceMessage)
        /// A copy of a message that left the device. Copies that were resent, or doubled on the way, have entries of
        /// their own.
        case sent(DeviceAddress, UpMessage)
        case received(DeviceAddress, DownMessage)
        /// A message to (`down`) or from this device was lost on purpose. A lost message has no other entry.
        case lost(DeviceAddress, Direction)
        /// From now on `target` does not serve. The entry comes before the fault is made.
        case faultBegan(target: String, Fault)
        /// `target` serves again, as far as can be seen from outside.
        case faultEnded(target: String)
        /// The store lost the writes since `since`, although requests were answered: a failover, or an old file.
        case storeWentBack(since: Int64)
        /// The whole machine stood still from `since` until now, which is not a fault of the service.
        case stalled(since: Int64)
        /// The faults have stopped, and every device is online and has had time to receive its deliveries.
        case settled
    }

    package enum Direction: String, Sendable, CaseIterable { case up, down }

    package enum Fault: String, Sendable, CaseIterable { case killed, frozen, stopped }

    /// The name of the broker as the target of a fault.
    package static let broker = "broker"
    /// The name of the store as the target of a fault.
    package static let store = "store"
}

extension HistoryEntry.Content {
    /// The device that the entry is about.
    package var device: DeviceAddress? {
        switch self {
        case .connected(let device, _), .disconnected(let device), .presented(let device, _), .sent(let device, _),
            .received(let device, _), .lost(let device, _):
            device
        case .began, .faultBegan, .faultEnded, .storeWentBack, .stalled, .settled: nil
        }
    }
}
