/**
 * The protocol's error codes (docs/protocol.md, section 2), the codes by which a broker announces a disconnection
 * (section 1), and the SDK's own codes, which are never on the wire. A later service may add codes, so any other string
 * is possible.
 */
export type ErrorCode =
  | "badRequest" | "unknownType" | "tooLarge" | "callExists" | "callNotFound" | "notInviter" | "wrongMode" | "invalidState"
  | "answeredElsewhere" | "callEnded" | "alreadyInCall" | "busy" | "callFull" | "noInvitees" | "sessionOver"
  | "noMedia" | "userNotRegistered" | "rateLimited" | "unavailable" | "internal"
  | "tokenExpired" | "tokenRevoked" | "flooding" | "slowReader" | "userDisabled"
  /** No response came within `requestTimeout`. The service may have served the request. */
  | "noResponse"
  /** The client has too many unanswered requests. The request was not sent. */
  | "tooManyRequests"
  /** The broker cannot be reached, or the service does not answer. */
  | "notConnected"
  /** The broker refuses this device: the token is missing, wrong or has ended. */
  | "refused"
  /**
   * Another client has connected under this device's id. This client stays offline until the app connects the client
   * again.
   */
  | "takenOver"
  /** The app disconnected the client before the response came. */
  | "disconnected"
  /** `client.call` was aborted, and the call is cancelled. */
  | "cancelled"
  | (string & Record<never, never>);

/** Further fields of an error object of the protocol. */
export interface ErrorDetails {
  /** With `invalidState`, `callEnded` and `answeredElsewhere`: the state that prevents the request. */
  state?: string;
  /** With `alreadyInCall`: the user's own live call. */
  callID?: string;
  /** With `rateLimited` and `unavailable`: milliseconds to wait. */
  retryAfter?: number;
  /** With `sessionOver`: the session that has ended. */
  session?: string;
  /** With `sessionOver`: why the session has ended, such as `takenOver`. */
  reason?: string;
  /** With the reason `takenOver`: the newer session. */
  newerSession?: string;
}

/** Every failure that this SDK reports. */
export class BellwireError extends Error implements ErrorDetails {
  override readonly name = "BellwireError";
  /** The error code. Programs decide by this code, not by `message`. */
  readonly code: ErrorCode;
  readonly state?: string;
  readonly callID?: string;
  readonly retryAfter?: number;
  readonly session?: string;
  readonly reason?: string;
  readonly newerSession?: string;

  /** `message` is for people; the wording may change. */
  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message);
    this.code = code;
    if (details.state !== undefined) this.state = details.state;
    if (details.callID !== undefined) this.callID = details.callID;
    if (details.retryAfter !== undefined) this.retryAfter = details.retryAfter;
    if (details.session !== undefined) this.session = details.session;
    if (details.reason !== undefined) this.reason = details.reason;
    if (details.newerSession !== undefined) this.newerSession = details.newerSession;
  }
}
