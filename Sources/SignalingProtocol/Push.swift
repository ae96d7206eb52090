/// The provider and kind of pushes that wake a device (docs/protocol.md, section 7).
public enum PushPlatform: String, CaseIterable, Sendable, Comparable {
    case apns
    /// Apple's pushes for calls. iOS ends apps that get such a push and show no call.
    case apnsVoIP
    case fcm
    /// A browser, or an app with UnifiedPush.
    case webPush

    public static func < (lhs: PushPlatform, rhs: PushPlatform) -> Bool { lhs.rawValue < rhs.rawValue }
}

/// The purpose of a push (section 7).
public enum PushKind: String, CaseIterable, Sendable {
    case ring
    case stop
    case missed
}

/// The outcome of an attempt to push (section 7).
public enum PushOutcome: String, CaseIterable, Sendable {
    /// The provider has accepted the push.
    case sent
    /// The provider refuses the push and would refuse further attempts.
    case refused
    /// The token or the endpoint does not exist any more; the registration has ended.
    case gone
    /// The provider did not answer, or its answer allows another attempt.
    case failed
    /// The device was sent too many pushes.
    case limited
    /// The time of the push was over before the push left.
    case late
}

/// The name of an app of the deployment: 1–64 of `A-Z a-z 0-9 _ -` (section 7).
public struct AppName: ByteIdentifier {
    public let string: String

    public init?(_ string: String) {
        guard isToken(string) else { return nil }
        self.string = string
    }

    public static let standard = AppName("default")!
}

/// The token or subscription of a sleeping device (section 7).
public enum PushTarget: Equatable, Sendable {
    case token(String)
    /// The fields of a browser's `PushSubscription`. Both keys are base64url without padding.
    case subscription(endpoint: String, p256dh: String, auth: String)

    /// The token or the endpoint in the spelling of the registration.
    package var identity: String {
        switch self {
        case .token(let token): token
        case .subscription(let endpoint, _, _): endpoint
        }
    }
}

extension PushPlatform {
    /// Returns the token or endpoint in the form that is compared to find its only owner. Apple's tokens are
    /// hexadecimal and apps write them in either letter case. The letter case of FCM tokens and of endpoints matters.
    package func identity(of target: PushTarget) -> String {
        switch self {
        case .apns, .apnsVoIP: target.identity.lowercased()
        case .fcm, .webPush: target.identity
        }
    }
}

/// A registration in the form of responses (section 7).
public struct RegisteredPush: Equatable, Sendable {
    public var platform: PushPlatform
    public var app: AppName
    /// The time of the registration, in milliseconds since the Unix epoch by the service's clock.
    public var since: Int64

    public init(platform: PushPlatform, app: AppName, since: Int64) {
        self.platform = platform
        self.app = app
        self.since = since
    }
}

/// The answer to a woken device about its invitation (section 7, Ring check).
package enum RingState: Equatable, Sendable {
    /// `expiresIn`: milliseconds until the invitation expires.
    case ringing(expiresIn: Int, CallSnapshot)
    case over(Reason)

    /// The reason why the device must not ring.
    package enum Reason: String, CaseIterable, Sendable {
        /// The user accepted, on any device.
        case answeredElsewhere
        /// The user declined, on any device.
        case rejected
        /// The inviter cancelled the invitation, or the call ended before the invitation was answered.
        case cancelled
        case timeout
        /// A member ended the call, or a newer invitation replaced this invitation.
        case ended
    }
}

/// An attempt to push, in the form of the timeline (sections 6 and 7).
public struct PushStep: Equatable, Sendable {
    public var device: DeviceAddress
    public var platform: PushPlatform
    public var kind: PushKind
    public var outcome: PushOutcome
    /// The HTTP status of the provider's answer.
    public var status: Int?
    /// The reason that the provider gave.
    public var reason: String?
    /// Milliseconds from the decision to the provider's answer.
    public var took: Int64?

    public init(
        device: DeviceAddress, platform: PushPlatform, kind: PushKind, outcome: PushOutcome, status: Int? = nil,
        reason: String? = nil, took: Int64? = nil
    ) {
        self.device = device
        self.platform = platform
        self.kind = kind
        self.outcome = outcome
        self.status = status
        self.reason = reason
        self.took = took
    }
}
