import SignalingProtocol

/// A session of a device, from `online: true` to `online: false` (docs/protocol.md, section 1).
package struct DeviceSession: Sendable {
    package let device: DeviceAddress
    /// The session's name, as sent by the device; empty when the device sent no name. A session without a name is never
    /// remembered as over.
    package let id: String

    package init(_ device: DeviceAddress, id: String) {
        self.device = device
        self.id = id
    }
}

/// The stored presence of a device (section 1).
package struct DevicePresence: Equatable, Sendable {
    package let device: DeviceAddress
    package let session: String
    package let isOnline: Bool
    /// The start of the session.
    package let since: Milliseconds
    /// The time of the device's last sign of life.
    package let seen: Milliseconds

    package init(device: DeviceAddress, session: String, isOnline: Bool, since: Milliseconds, seen: Milliseconds) {
        self.device = device
        self.session = session
        self.isOnline = isOnline
        self.since = since
        self.seen = seen
    }

    /// Whether the session has this name. Names are compared as bytes, as in every store.
    package func isSession(_ other: String) -> Bool { session.utf8.elementsEqual(other.utf8) }

    /// Whether the device is online and its last sign of life is no older than `lease`.
    package func isReachable(at now: Milliseconds, lease: Milliseconds) -> Bool { isOnline && seen + lease > now }
}

/// The bounds of presence (section 1).
package struct PresencePolicy: Sendable, Equatable {
    /// The time, in milliseconds, that a device counts as online without a sign of life.
    package var lease: Milliseconds = 600_000
    /// The time, in milliseconds, that an ended session is remembered, so that a delayed `online: true` of the session
    /// is ignored.
    package var sessionMemory: Milliseconds = 120_000
    /// The number of a user's devices that may be online. A further device replaces the device that has been silent
    /// longest.
    package var maxDevices = 10

    /// The number of a user's devices that are remembered, including offline devices. A further device replaces the
    /// offline device that has been silent longest.
    package var devicesKnown: Int { maxDevices * 3 }

    /// The number of a user's ended sessions that are remembered. A further session replaces the oldest.
    package var sessionsRemembered: Int { 64 }

    package init() {}
}

package enum OnlineOutcome: Equatable, Sendable {
    /// The session is the device's current session.
    case current
    /// The session is over, so the message is late and must be ignored.
    case over
}
