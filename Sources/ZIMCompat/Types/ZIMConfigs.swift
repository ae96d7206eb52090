public import Foundation

/// Accepted for compatibility: `ZIM.configure` names the Bellwire deployment.
#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMAppConfig: NSObject {
    public var appID: UInt32 = 0
    public var appSign = ""
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMLoginConfig: NSObject {
    /// The user's name, stored unless the text is empty; at most 256 bytes.
    public var userName = ""
    /// The token, where the broker checks tokens (docs/protocol.md, section 1, Tokens). When empty, the SDK asks
    /// `BellwireConfiguration.tokenProvider`.
    public var token = ""
    /// Not used.
    public var customStatus = ""
    /// Not used.
    public var isOfflineLogin = false
}

/// The text of a push to an invitee whose phone is asleep (docs/protocol.md, section 7). At most 2048 bytes each.
#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMPushConfig: NSObject {
    public var title = ""
    public var content = ""
    public var payload = ""
    /// Not used, nor are the two properties below: the deployment's push settings define the rest of a push.
    public var resourcesID = ""
    public var enableBadge = false
    public var badgeIncrement: Int32 = 0
    public var voIPConfig: ZIMVoIPConfig?
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMVoIPConfig: NSObject {
    /// Not used, nor is the value: a push names the inviter.
    public var iOSVoIPHandleType = ZIMCXHandleType.generic
    public var iOSVoIPHandleValue = ""
    /// Whether the invitation is to a video call (`media`).
    public var iOSVoIPHasVideo = false
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallInviteConfig: NSObject {
    /// Seconds, 1 to 600; 0 stands for 90.
    public var timeout: UInt32 = 90
    public var mode = ZIMCallInvitationMode.general
    /// At most 2048 bytes.
    public var extendedData = ""
    /// Whether members without the invitation after 5 s become `notYetReceived`.
    public var enableNotReceivedCheck = false
    public var pushConfig: ZIMPushConfig?
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallingInviteConfig: NSObject {
    public var pushConfig: ZIMPushConfig?
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallCancelConfig: NSObject {
    public var extendedData = ""
    /// Not used.
    public var pushConfig: ZIMPushConfig?
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallQuitConfig: NSObject {
    public var extendedData = ""
    /// Not used.
    public var pushConfig: ZIMPushConfig?
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallEndConfig: NSObject {
    public var extendedData = ""
    /// Not used.
    public var pushConfig: ZIMPushConfig?
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallAcceptConfig: NSObject {
    public var extendedData = ""
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallRejectConfig: NSObject {
    public var extendedData = ""
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallJoinConfig: NSObject {
    public var extendedData = ""
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMCallInvitationQueryConfig: NSObject {
    /// The number of calls in a page: 1 to 100. More counts as 100, 0 as 20.
    public var count: UInt32 = 0
    /// The page: 0 for the newest calls, or the `nextFlag` of the previous query of this login.
    public var nextFlag: Int64 = 0
}

#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMUsersInfoQueryConfig: NSObject {
    /// Not used: the service is always asked.
    public var isQueryFromServer = false
}

/// Not used.
#if canImport(ObjectiveC)
    @objcMembers
#endif
public final class ZIMRoomAdvancedConfig: NSObject {
    public var roomAttributes: [String: String] = [:]
    public var roomDestroyDelayTime: UInt32 = 0
}
