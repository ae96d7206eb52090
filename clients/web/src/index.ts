export { BellwireClient } from "./client.js";
export type {
  CallOptions, ClientEvents, ClientOptions, ConnectionState, PushRegistration, SendOptions, SentMessage, Trace, TraceEntry,
  UserProfile,
} from "./client.js";
export { Call } from "./call.js";
export type { AddOptions, CallEvents, CallSignal, Change, ExtendedData, Invited, PushText } from "./call.js";
export { BellwireError } from "./errors.js";
export type { ErrorCode, ErrorDetails } from "./errors.js";
export type {
  CallMode, CallObject, CallState, IceServer, MediaSession, Member, MemberState, Message, Receipt, Response, UserError,
} from "./protocol.js";
export type { Connection, ConnectionFailure, ConnectionHandlers, ConnectionSettings, Transport } from "./transport.js";
export { webSocketTransport } from "./websocket.js";
export type { WebSocketConstructor } from "./websocket.js";
