import SignalingProtocol

/// One of a device's sessions, from `online: true` to `online: false` (docs/protocol.md, section 1).
public struct DeviceSession: Sendable {
    public let device: DeviceAddress
    /// As the device named it; empty when it did not, which is never remembered as over.
    public let id: String

    public init(_ device: DeviceAddress, id: String) {
        self.device = device
        self.id = id
    }
}

/// What is known of a device's presence (section 1).
public struct DevicePresence: Equatable, Sendable {
    public let device: DeviceAddress
    public let session: String
    public let isOnline: Bool
    /// When the session began.
    public let since: Milliseconds
    /// When the device last renewed its lease.
    public let seen: Milliseconds

    public init(device: DeviceAddress, session: String, isOnline: Bool, since: Milliseconds, seen: Milliseconds) {
        self.device = device
        self.session = session
        self.isOnline = isOnline
        self.since = since
        self.seen = seen
    }

    /// Sessions are compared as bytes, as every store does.
    public func isSession(_ other: String) -> Bool { session.utf8.elementsEqual(other.utf8) }

    /// Online, and heard of within the lease.
    public func isReachable(at now: Milliseconds, lease: Milliseconds) -> Bool { isOnline && seen + lease > now }
}

/// The bounds of presence (section 1).
public struct PresencePolicy: Sendable, Equatable {
    /// How long a device counts as online without a sign of life.
    public var lease: Milliseconds = 600_000
    /// How long a session that is over is remembered, so that a late `online: true` of it is ignored.
    public var sessionMemory: Milliseconds = 120_000
    /// How many devices of a user may be online; one more replaces the one silent longest.
    public var maxDevices = 10

    /// How many devices of a user are remembered, those that are offline included; one more forgets the one silent longest.
    package var devicesKnown: Int { maxDevices * 3 }

    /// How many sessions of a user that are over are remembered; one more forgets the oldest.
    package var sessionsRemembered: Int { 64 }

    public init() {}
}

public enum OnlineOutcome: Equatable, Sendable {
    /// The session is the device's current one.
    case current
    /// The session is over: a late message, to be ignored.
    case over
}
