// The paths of ZEGO's call protocol (docs/reference/sources.md), under the names in ZEGO's sources.
// swift-format-ignore-file: AlwaysUseLowerCamelCase

internal import ZegoCallProtocol

/// The caller invites the callees.
public let API_Start_Call = "/call/start_call"
/// The caller cancels the invitation of a callee.
public let API_Cancel_Call = "/call/cancel_call"
/// A callee accepts the invitation.
public let API_Accept_Call = "/call/accept_call"
/// A callee declines the invitation.
public let API_Decline_Call = "/call/decline_call"
/// A party ends the call for all.
public let API_End_Call = "/call/end_call"
/// Both parties send this every 20 s; a party that is silent for 60 s has quit.
public let API_Call_Heartbeat = "/call/heartbeat"

/// A callee is invited: `call_id`, `caller`, `callees`, `type`, and `call_type`, which equals `type`.
public let Notify_Call_Invited = ZegoNotification.Path.invited.rawValue
/// A callee's invitation is cancelled: `call_id`, `caller_id`, `callee_id`.
public let Notify_Call_Canceled = ZegoNotification.Path.canceled.rawValue
/// The caller learns that a callee has accepted: `call_id`, `callee_id`.
public let Notify_Call_Accept = ZegoNotification.Path.accept.rawValue
/// The caller learns that a callee has declined: `call_id`, `callee_id`, and `type`, a `DeclineType`.
public let Notify_Call_Decline = ZegoNotification.Path.decline.rawValue
/// The other parties learn that a party has ended the call: `call_id`, and the party's `id`.
public let Notify_Call_End = ZegoNotification.Path.end.rawValue
/// The other parties learn that a party sent no heartbeat: `call_id`, and the party's `id`.
public let Notify_Call_Timeout = ZegoNotification.Path.timeout.rawValue
