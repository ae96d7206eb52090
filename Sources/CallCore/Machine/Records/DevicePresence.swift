import SignalingProtocol

/// A session of a device, from `online: true` to `online: false` (docs/protocol.md, section 1).
package struct DeviceSession: Sendable, Equatable {
    package let device: DeviceAddress
    /// The session's name, as sent by the device; empty when the device sent no name. A session without a name is never
    /// remembered as over.
    package let id: String
    /// The broker of the session's connection; nil in a deployment with a single broker.
    package let broker: BrokerName?
    /// The store time at which a coordinator received the presence message of the session; nil when unknown.
    package var received: Milliseconds?

    package init(_ device: DeviceAddress, id: String, broker: BrokerName? = nil, received: Milliseconds? = nil) {
        self.device = device
        self.id = id
        self.broker = broker
        self.received = received
    }
}

/// The name of a broker in a deployment with several brokers, `host:port`. All coordinators use the same names.
package typealias BrokerName = String

/// The stored presence of a device (section 1).
package struct DevicePresence: Equatable, Sendable {
    package let device: DeviceAddress
    package let session: String
    package let isOnline: Bool
    /// The start of the session.
    package let since: Milliseconds
    /// The time of the device's last stored sign of life. Any message of the device is a sign of life, and is stored at
    /// the latest when the stored time is older than a tenth of the lease.
    package let seen: Milliseconds
    /// The broker of the session's connection while the device is online; nil when the broker is not known, as in a
    /// deployment with a single broker.
    package let broker: BrokerName?
    /// Whether the device cannot be online whatever the presence says: no coordinator has heard its broker for the
    /// caller's grace, at least for 6 s, or the broker is back and has brought nothing of the device yet
    /// (`BrokerSightings.marked`). This mark is not stored.
    package var isAway = false

    package init(
        device: DeviceAddress, session: String, isOnline: Bool, since: Milliseconds, seen: Milliseconds,
        broker: BrokerName? = nil
    ) {
        self.device = device
        self.session = session
        self.isOnline = isOnline
        self.since = since
        self.seen = seen
        self.broker = isOnline ? broker : nil
    }

    /// Whether this is the presence of the session. Names are compared as bytes, as in every store. The same name at
    /// another broker is another session; an unknown broker may be any broker, so that a deployment can come to have
    /// several brokers, or a single broker, without an interruption.
    package func isSession(_ other: DeviceSession) -> Bool {
        guard session.utf8.elementsEqual(other.id.utf8) else { return false }
        guard let broker, let otherBroker = other.broker else { return true }
        return broker == otherBroker
    }

    /// Whether a message of `other` comes too late: a coordinator received the message before this session began, and
    /// then stood still. A current session sends its message again until the welcome.
    package func makesLate(_ other: DeviceSession) -> Bool {
        guard let received = other.received else { return false }
        return received < since && !isSession(other)
    }

    /// The session that ends when `other` begins: an online session at another broker, which the other broker does not
    /// end. Nil when there is no such session.
    package func session(
        takenOverBy other: DeviceSession, at now: Milliseconds, lease: Milliseconds
    ) -> DeviceSession? {
        guard isReachable(at: now, lease: lease), let broker, let otherBroker = other.broker, broker != otherBroker
        else { return nil }
        return DeviceSession(device, id: session, broker: broker)
    }

    /// Whether the device is online, its broker is not away, and its last sign of life is younger than `lease`.
    package func isReachable(at now: Milliseconds, lease: Milliseconds) -> Bool {
        isOnline && !isAway && seen + lease > now
    }
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
    /// The session is the device's current session. `takenOver` is the former session of the device at another broker:
    /// a broker ends only the former session of its own client with the same id.
    case current(takenOver: DeviceSession? = nil)
    /// The session is over, so the message is late and must be ignored.
    case over
    /// The message is older than the device's current session, and must be ignored.
    case late
}
