import SignalingProtocol

/// A push registration. Each combination of device, app and platform has at most one registration.
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
    /// The SHA-256 of the target's identity, in base64url. The store keeps the owner of a target under this digest.
    package let digest: String
    /// The time of the last registration, by the store's clock.
    package let since: Milliseconds

    package init(_ key: Key, target: PushTarget, digest: String, since: Milliseconds) {
        self.key = key
        self.target = target
        self.digest = digest
        self.since = since
    }

    package var device: DeviceAddress { key.device }

    /// A short mark of the target. Registrations of a device with the same token or endpoint have the same mark.
    package var mark: String { String(digest.prefix(Self.markLength)) }
    package static let markLength = 16
}

/// The deployment's push policy, as the store keeps it. Every coordinator follows this policy, regardless of its own
/// settings files.
package struct PushPolicy: Equatable, Sendable {
    /// The time, in milliseconds, that an online device has for its ack before the device gets a push.
    package var after: Milliseconds
    package var apps: [AppName: Set<PushPlatform>]

    package init(after: Milliseconds = 1_000, apps: [AppName: Set<PushPlatform>] = [:]) {
        self.after = after
        self.apps = apps
    }
}

/// The deployment's push policy with the end of its validity. Each process that was started with push extends the
/// validity again and again.
package struct KeptPushPolicy: Equatable, Sendable {
    package let policy: PushPolicy
    /// The latest time that any of these processes counts as running; in the past when all of them have ended.
    package let until: Milliseconds

    package init(_ policy: PushPolicy, until: Milliseconds) {
        self.policy = policy
        self.until = until
    }

    /// Whether any process pushes, so that devices may register.
    package func isServed(at now: Milliseconds) -> Bool { now < until }

    /// Whether calls are entered into the queue: a process pushes, or may come back before the calls would be removed.
    package func isPushing(at now: Milliseconds) -> Bool { now - PushLimits.missedLife < until }
}

/// The time, in milliseconds, that a process with push counts as running after its last sign of life
/// (`KeptPushPolicy`), and the interval of renewals.
package enum PushProcessLease {
    /// A killed process may take this long to come back without an effect on registrations.
    package static let life: Milliseconds = 10_000
    package static let renewal: Milliseconds = 2_500
}

/// The bounds of push (section 7).
package enum PushLimits {
    package static let appsPerDevice = 4
    /// The number of a user's devices with registrations. A further device ends the registrations of the device that
    /// registered longest ago.
    package static let devicesPerUser = 20
    /// The life of a registration unless the device registers anew, in milliseconds: 400 days.
    package static let registrationLife: Milliseconds = 400 * 86_400_000
    /// The number of pushes to a device within `window`. `perInviter` is the number of these that a single inviter may
    /// cause.
    package static let perDevice = 30
    package static let perInviter = 10
    package static let window: Milliseconds = 60_000
    /// The life, in milliseconds, of `missed` pushes, and of calls in a queue that no worker serves.
    package static let missedLife: Milliseconds = 3_600_000
    /// The bound on calls in the queue. Beyond this bound, the oldest calls are removed.
    package static let queued = 100_000
}

/// The state of an invitation's pushes to a registration, kept beside the call. The worker that has claimed the call
/// writes this state.
package struct PushState: Equatable, Sendable {
    package enum Phase: String, Sendable {
        /// The push is about to be sent, or a worker that died was about to send the push. The push is sent again if
        /// the reason for the push still exists.
        case trying
        /// The provider has the push.
        case sent
        /// The push was given up for any reason and is never sent again.
        case over
    }

    package let key: PushRegistration.Key
    /// The revision of the user's invitation. Another invitation starts with a new state.
    package let invitation: Int
    package var ring: Phase?
    package var stop: Phase?
    package var missed: Phase?
    /// The target of `ring`, as a `PushRegistration.mark`; nil when the target was not stored.
    package private(set) var target: String?
    /// Whether a ring was or may have been sent to a target that the device had registered before `target`.
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

    /// Returns the state for the device's present registration. A target without a push so far must ring, regardless of
    /// the pushes to the previous target. `isUnsent` says that the previous ring stands as `trying` and is known to
    /// have reached no provider.
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

/// A ring check: a device that a push woke asked whether the invitation still rings. The check counts as an ack of the
/// invitation, beside the acks of live sessions.
package struct RingCheck: Equatable, Sendable {
    package let device: DeviceAddress
    /// The revision of the invitation of the device's user.
    package let invitation: Int

    package init(device: DeviceAddress, invitation: Int) {
        self.device = device
        self.invitation = invitation
    }
}

/// A push that is about to count towards the limits of its device. Further attempts have the same id, and all of them
/// count as a single push.
package struct PushReservation: Equatable, Sendable {
    package let device: DeviceAddress
    package let inviter: UserID
    /// The id of the push: at most 200 bytes of the id alphabet and ":".
    package let id: String

    package init(device: DeviceAddress, inviter: UserID, id: String) {
        self.device = device
        self.inviter = inviter
        self.id = id
    }
}

/// The result of a call that a worker had claimed from the queue.
package struct PushSettlement: Equatable, Sendable {
    package let callID: CallID
    /// The delay, in milliseconds, until a worker must look at the call again; nil when only a new commit requires
    /// this.
    package let again: Milliseconds?

    package init(_ callID: CallID, again: Milliseconds?) {
        self.callID = callID
        self.again = again
    }
}

package enum PushSettled: Equatable, Sendable {
    /// The worker's claim was void, and another worker continues.
    case void
    case done
    /// A commit has marked the call since the claim. The worker keeps the claim and looks again.
    case again
}
