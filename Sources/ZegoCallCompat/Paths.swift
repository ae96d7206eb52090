// The paths of document 003, under the names that the vendor's sources give them.
// swift-format-ignore-file: AlwaysUseLowerCamelCase

internal import ZegoCallProtocol

/// The caller: invites the callees.
public let API_Start_Call = "/call/start_call"
/// The caller: takes the invitation back.
public let API_Cancel_Call = "/call/cancel_call"
/// A callee.
public let API_Accept_Call = "/call/accept_call"
/// A callee.
public let API_Decline_Call = "/call/decline_call"
/// Either party: the call is over for all.
public let API_End_Call = "/call/end_call"
/// Both parties, every 20 s: a party that is silent for 60 s is taken for gone.
public let API_Call_Heartbeat = "/call/heartbeat"

/// To a callee: `call_id`, `caller`, `callees`, `type`, and `call_type`, which is the same.
public let Notify_Call_Invited = ZegoNotification.Path.invited.rawValue
/// To a callee: `call_id`, `caller_id`, `callee_id`.
public let Notify_Call_Canceled = ZegoNotification.Path.canceled.rawValue
/// To the caller: `call_id`, `callee_id`.
public let Notify_Call_Accept = ZegoNotification.Path.accept.rawValue
/// To the caller: `call_id`, `callee_id`, `type`, a `DeclineType`.
public let Notify_Call_Decline = ZegoNotification.Path.decline.rawValue
/// To the other parties: `call_id`, and the `id` of who ended the call.
public let Notify_Call_End = ZegoNotification.Path.end.rawValue
/// To the other parties: `call_id`, and the `id` of who sent no heartbeat.
public let Notify_Call_Timeout = ZegoNotification.Path.timeout.rawValue
