import SignalingProtocol

/// One of a device's sessions, from `online: true` to `online: false` (docs/protocol.md, section 1).
package struct DeviceSession: Sendable {
    package let device: DeviceAddress
    /// As the device named it; empty when it did not, which is never remembered as over.
    package let id: String

    package init(_ device: DeviceAddress, id: String) {
        self.device = device
        self.id = id
    }
}

/// What is known of a device's presence (section 1).
package struct DevicePresence: Equatable, Sendable {
    package let device: DeviceAddress
    package let session: String
    package let isOnline: Bool
    /// When the session began.
    package let since: Milliseconds
    /// When the device last renewed its lease.
    package let seen: Milliseconds

    package init(device: DeviceAddress, session: String, isOnline: Bool, since: Milliseconds, seen: Milliseconds) {
        self.device = device
        self.session = session
        self.isOnline = isOnline
        self.since = since
        self.seen = seen
    }

    /// Sessions are compared as bytes, as every store does.
    package func isSession(_ other: String) -> Bool { session.utf8.elementsEqual(other.utf8) }

    /// Online, and heard of within the lease.
    package func isReachable(at now: Milliseconds, lease: Milliseconds) -> Bool { isOnline && seen + lease > now }
}

/// The bounds of presence (section 1).
package struct PresencePolicy: Sendable, Equatable {
    /// How long a device counts as online without a sign of life.
    package var lease: Milliseconds = 600_000
    /// How long a session that is over is remembered, so that a late `online: true` of it is ignored.
    package var sessionMemory: Milliseconds = 120_000
    /// How many devices of a user may be online; one more replaces the one silent longest.
    package var maxDevices = 10

    /// How many devices of a user are remembered, those that are offline included; one more forgets the one silent longest.
    package var devicesKnown: Int { maxDevices * 3 }

    /// How many sessions of a user that are over are remembered; one more forgets the oldest.
    package var sessionsRemembered: Int { 64 }

    package init() {}
}

package enum OnlineOutcome: Equatable, Sendable {
    /// The session is the device's current one.
    case current
    /// The session is over: a late message, to be ignored.
    case over
}
