import SignalingProtocol

/// One registration: there is one per device, app and platform.
package struct PushRegistration: Equatable, Sendable {
    package struct Key: Hashable, Comparable, Sendable {
        package let device: DeviceAddress
        package let app: AppName
        package let platform: PushPlatform

        package init(_ device: DeviceAddress, _ app: AppName, _ platform: PushPlatform) {
            self.device = device
            self.app = app
            self.platform = platform
        }

        package static func < (lhs: Key, rhs: Key) -> Bool {
            (lhs.device, lhs.app, lhs.platform) < (rhs.device, rhs.app, rhs.platform)
        }
    }

    package let key: Key
    package let target: PushTarget
    /// SHA-256 of the target's identity, in base64url: under it stands who owns the target.
    package let digest: String
    /// When it was made, by the store's clock. Registering anew makes it anew.
    package let since: Milliseconds

    package init(_ key: Key, target: PushTarget, digest: String, since: Milliseconds) {
        self.key = key
        self.target = target
        self.digest = digest
        self.since = since
    }

    package var device: DeviceAddress { key.device }

    /// Which target it is, in short: of two registrations of a device those of the same token or endpoint have the same.
    package var mark: String { String(digest.prefix(Self.markLength)) }
    package static let markLength = 16
}

/// What the deployment pushes, as the store knows it: every coordinator goes by it, whichever files it was started with.
package struct PushPolicy: Equatable, Sendable {
    /// How long a device that is online has for its ack before it is pushed, in milliseconds.
    package var after: Milliseconds
    package var apps: [AppName: Set<PushPlatform>]

    package init(after: Milliseconds = 1_000, apps: [AppName: Set<PushPlatform>] = [:]) {
        self.after = after
        self.apps = apps
    }
}

/// What the deployment pushes, and for how long: each process that was started with push says that it is there, again and again.
package struct KeptPushPolicy: Equatable, Sendable {
    package let policy: PushPolicy
    /// Until when one of these processes counts as there; in the past when all of them have ended.
    package let until: Milliseconds

    package init(_ policy: PushPolicy, until: Milliseconds) {
        self.policy = policy
        self.until = until
    }

    /// Somebody pushes: devices may register.
    package func isServed(at now: Milliseconds) -> Bool { now < until }

    /// Calls are entered into the queue: somebody pushes, or may come back before they would be forgotten.
    package func isOwed(at now: Milliseconds) -> Bool { now - PushLimits.missedLife < until }
}

/// For how long a process with push counts as there (`KeptPushPolicy`), in milliseconds.
package enum PushProcessLease {
    /// So long a process that is killed may take to come back, and nobody notices.
    package static let life: Milliseconds = 10_000
    package static let renewal: Milliseconds = 2_500
}

/// The bounds of push (section 7).
package enum PushLimits {
    package static let appsPerDevice = 4
    /// With registrations; one more ends those of the device that registered longest ago.
    package static let devicesPerUser = 20
    /// How long a registration lasts without being made anew: 400 days.
    package static let registrationLife: Milliseconds = 400 * 86_400_000
    /// Pushes to one device in `window`, and how many of them because of one inviter.
    package static let perDevice = 30
    package static let perInviter = 10
    package static let window: Milliseconds = 60_000
    /// How long `missed` is tried, and how long a call stays in the queue that nobody serves.
    package static let missedLife: Milliseconds = 3_600_000
    /// Calls in the queue; beyond it the oldest are forgotten.
    package static let queued = 100_000
}

/// How far the pushes of one invitation to one registration are; kept beside the call, and written by the worker that holds the call.
package struct PushState: Equatable, Sendable {
    package enum Phase: String, Sendable {
        /// It is about to be handed over, or was by a worker that died: sent again, if there is still reason to.
        case trying
        /// The provider has it.
        case sent
        /// Given up, whatever the reason: never again.
        case over
    }

    package let key: PushRegistration.Key
    /// The revision at which the user was invited: another invitation begins anew.
    package let invitation: Int
    package var ring: Phase?
    package var stop: Phase?
    package var missed: Phase?
    /// Of which target `ring` tells (`PushRegistration.mark`); nil where that was not written.
    package private(set) var target: String?
    /// A ring has left, or may have, for a target that the device had registered before `target`.
    package private(set) var wasRungElsewhere: Bool

    package init(
        _ key: PushRegistration.Key, invitation: Int, ring: Phase? = nil, stop: Phase? = nil, missed: Phase? = nil,
        target: String? = nil, wasRungElsewhere: Bool = false
    ) {
        self.key = key
        self.invitation = invitation
        self.ring = ring
        self.stop = stop
        self.missed = missed
        self.target = target
        self.wasRungElsewhere = wasRungElsewhere
    }

    /// The same for who registers now: a target to which nothing was sent yet is to be rung, whatever the one before was sent.
    /// `isUnsent`: the ring of before stands as `trying` and is known to have reached no provider.
    package func of(_ registration: PushRegistration, isUnsent: Bool) -> PushState {
        var state = self
        state.target = registration.mark
        guard let target, target != registration.mark else { return state }
        if ring == .sent || ring == .trying && !isUnsent { state.wasRungElsewhere = true }
        state.ring = nil
        return state
    }

    package subscript(kind: PushKind) -> Phase? {
        get {
            switch kind {
            case .ring: ring
            case .stop: stop
            case .missed: missed
            }
        }
        set {
            switch kind {
            case .ring: ring = newValue
            case .stop: stop = newValue
            case .missed: missed = newValue
            }
        }
    }
}

/// A device that was woken has asked whether it is still to ring: as an ack of the invitation, beside those of live sessions.
package struct RingCheck: Equatable, Sendable {
    package let device: DeviceAddress
    /// The revision at which its user was invited.
    package let invitation: Int

    package init(device: DeviceAddress, invitation: Int) {
        self.device = device
        self.invitation = invitation
    }
}

/// One push that is about to count with its device. Further attempts have the same id, and count once.
package struct PushReservation: Equatable, Sendable {
    package let device: DeviceAddress
    package let inviter: UserID
    /// At most 200 bytes, of the id alphabet and ":".
    package let id: String

    package init(device: DeviceAddress, inviter: UserID, id: String) {
        self.device = device
        self.inviter = inviter
        self.id = id
    }
}

/// What became of a call that a worker had taken from the queue.
package struct PushSettlement: Equatable, Sendable {
    package let callID: CallID
    /// In how many milliseconds it is to be looked at again; nil: when something new is owed.
    package let again: Milliseconds?

    package init(_ callID: CallID, again: Milliseconds?) {
        self.callID = callID
        self.again = again
    }
}

package enum PushSettled: Equatable, Sendable {
    /// The worker holds it no more: somebody else goes on.
    case void
    case done
    /// Something new is owed since it was taken: the worker still holds it, and looks again.
    case again
}
