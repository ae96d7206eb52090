/// Through whom a device is woken (docs/protocol.md, section 7).
public enum PushPlatform: String, CaseIterable, Sendable, Comparable {
    case apns
    /// Apple's pushes for calls: each must report one.
    case apnsVoIP
    case fcm
    /// A browser, or an app with UnifiedPush.
    case webPush

    public static func < (lhs: PushPlatform, rhs: PushPlatform) -> Bool { lhs.rawValue < rhs.rawValue }
}

/// What a push is about (section 7).
public enum PushKind: String, CaseIterable, Sendable {
    case ring
    case stop
    case missed
}

/// What became of one attempt to push (section 7).
public enum PushOutcome: String, CaseIterable, Sendable {
    /// The provider has taken it.
    case sent
    /// The provider refuses it, and would again.
    case refused
    /// The token or the endpoint does not exist any more: the registration has ended.
    case gone
    /// No answer, or one that says that it may be tried again.
    case failed
    /// The device was sent too many.
    case limited
    /// Its time was over before it left.
    case late
}

/// Which of the deployment's apps: 1–64 of `A-Z a-z 0-9 _ -` (section 7).
public struct AppName: ByteIdentifier {
    public let string: String

    public init?(_ string: String) {
        guard isToken(string) else { return nil }
        self.string = string
    }

    public static let standard = AppName("default")!
}

/// Where a device is reached while it sleeps (section 7).
public enum PushTarget: Equatable, Sendable {
    case token(String)
    /// What a browser's `PushSubscription` gives, both keys in base64url without padding.
    case subscription(endpoint: String, p256dh: String, auth: String)

    /// The token or the endpoint, as it was registered.
    package var identity: String {
        switch self {
        case .token(let token): token
        case .subscription(let endpoint, _, _): endpoint
        }
    }
}

extension PushPlatform {
    /// What has one owner. Apple's tokens are hexadecimal, and an app writes them in either letter case; with Google's and with endpoints
    /// the case tells one from another.
    package func identity(of target: PushTarget) -> String {
        switch self {
        case .apns, .apnsVoIP: target.identity.lowercased()
        case .fcm, .webPush: target.identity
        }
    }
}

/// That a device is registered, as it is told (section 7).
public struct RegisteredPush: Equatable, Sendable {
    public var platform: PushPlatform
    public var app: AppName
    /// Milliseconds since the Unix epoch by the service's clock.
    public var since: Int64

    public init(platform: PushPlatform, app: AppName, since: Int64) {
        self.platform = platform
        self.app = app
        self.since = since
    }
}

/// What a device that was woken is told of its invitation (section 7, Ring check).
package enum RingState: Equatable, Sendable {
    /// `expiresIn`: milliseconds until the invitation expires.
    case ringing(expiresIn: Int, CallSnapshot)
    case over(Reason)

    /// Why it is not to ring.
    package enum Reason: String, CaseIterable, Sendable {
        /// The user accepted, on whichever device.
        case answeredElsewhere
        /// The user declined, on whichever device.
        case rejected
        /// The invitation was taken back, or its call ended before it was answered.
        case cancelled
        case timeout
        /// A member ended the call, or another invitation came after this one.
        case ended
    }
}

/// One attempt to push, as a timeline tells of it (sections 6 and 7).
public struct PushStep: Equatable, Sendable {
    public var device: DeviceAddress
    public var platform: PushPlatform
    public var kind: PushKind
    public var outcome: PushOutcome
    /// The HTTP status of the provider's answer.
    public var status: Int?
    /// As the provider has named it.
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
