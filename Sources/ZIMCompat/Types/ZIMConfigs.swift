public import Foundation

/// Accepted for compatibility: a Bellwire deployment is named by `ZIM.configure`.
public final class ZIMAppConfig: NSObject {
    public var appID: UInt32 = 0
    public var appSign = ""
}

public final class ZIMLoginConfig: NSObject {
    /// Stored as the user's name, unless it is empty.
    public var userName = ""
    /// Where the broker checks tokens; empty: `BellwireConfiguration.tokenProvider` is asked.
    public var token = ""
    /// Not used.
    public var customStatus = ""
    /// Not used.
    public var isOfflineLogin = false
}

/// What a push to a sleeping invitee says (docs/protocol.md, section 7).
public final class ZIMPushConfig: NSObject {
    public var title = ""
    public var content = ""
    public var payload = ""
    /// Not used, nor is what follows: the deployment's push settings say what else goes into a push.
    public var resourcesID = ""
    public var enableBadge = false
    public var badgeIncrement: Int32 = 0
    public var voIPConfig: ZIMVoIPConfig?
}

/// Not used.
public final class ZIMVoIPConfig: NSObject {
    public var iOSVoIPHandleType = ZIMCXHandleType.generic
    public var iOSVoIPHandleValue = ""
    public var iOSVoIPHasVideo = false
}

public final class ZIMCallInviteConfig: NSObject {
    /// Seconds, at most 600; 0 stands for 90.
    public var timeout: UInt32 = 90
    public var mode = ZIMCallInvitationMode.general
    /// At most 2048 bytes.
    public var extendedData = ""
    /// Members who have not received the invitation within 5 s become `notYetReceived`.
    public var enableNotReceivedCheck = false
    public var pushConfig: ZIMPushConfig?
}

public final class ZIMCallingInviteConfig: NSObject {
    public var pushConfig: ZIMPushConfig?
}

public final class ZIMCallCancelConfig: NSObject {
    public var extendedData = ""
    /// Not used.
    public var pushConfig: ZIMPushConfig?
}

public final class ZIMCallQuitConfig: NSObject {
    public var extendedData = ""
    /// Not used.
    public var pushConfig: ZIMPushConfig?
}

public final class ZIMCallEndConfig: NSObject {
    public var extendedData = ""
    /// Not used.
    public var pushConfig: ZIMPushConfig?
}

public final class ZIMCallAcceptConfig: NSObject {
    public var extendedData = ""
}

public final class ZIMCallRejectConfig: NSObject {
    public var extendedData = ""
}

public final class ZIMCallJoinConfig: NSObject {
    public var extendedData = ""
}

public final class ZIMCallInvitationQueryConfig: NSObject {
    /// More than 100 counts as 100, 0 as 20.
    public var count: UInt32 = 0
    /// 0 for the newest calls, or what the query before gave.
    public var nextFlag: Int64 = 0
}

public final class ZIMUsersInfoQueryConfig: NSObject {
    /// Not used: the service is always asked.
    public var isQueryFromServer = false
}

/// Not used.
public final class ZIMRoomAdvancedConfig: NSObject {
    public var roomAttributes: [String: String] = [:]
    public var roomDestroyDelayTime: UInt32 = 0
}
