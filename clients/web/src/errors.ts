/**
 * The protocol's error codes (docs/protocol.md, section 2), those with which a broker announces a disconnection (section 1), and
 * the SDK's own, which are never on the wire. A later service may add codes: any other string may come.
 */
export type ErrorCode =
  | "badRequest" | "unknownType" | "tooLarge" | "callExists" | "callNotFound" | "notInviter" | "wrongMode" | "invalidState"
  | "answeredElsewhere" | "callEnded" | "alreadyInCall" | "busy" | "callFull" | "noInvitees" | "sessionOver"
  | "userNotRegistered" | "rateLimited" | "unavailable" | "internal"
  | "tokenExpired" | "tokenRevoked" | "flooding" | "slowReader"
  /** No response within `requestTimeout`. The request may have been served. */
  | "noResponse"
  /** More at once than the client keeps. Nothing was sent. */
  | "tooManyRequests"
  /** The broker cannot be reached, or the service does not answer. */
  | "notConnected"
  /** The broker refuses this device: no token, a wrong one, or one that has ended. */
  | "refused"
  /** Another client has connected under this device's id: this one is over, until it is connected again. */
  | "takenOver"
  /** The app disconnected the client before the response came. */
  | "disconnected"
  /** `client.call` was aborted, and the call is cancelled. */
  | "cancelled"
  | (string & Record<never, never>);

/** What an error object of the protocol may carry beside its code and message. */
export interface ErrorDetails {
  /** With `invalidState`, `callEnded`, `answeredElsewhere`: the state that stands in the way. */
  state?: string;
  /** With `alreadyInCall`: the user's own live call. */
  callID?: string;
  /** With `rateLimited` and `unavailable`: milliseconds to wait. */
  retryAfter?: number;
  /** With `sessionOver`: the session. */
  session?: string;
}

/** Every failure that this SDK reports. */
export class BellwireError extends Error implements ErrorDetails {
  override readonly name = "BellwireError";
  /** What to decide by. */
  readonly code: ErrorCode;
  readonly state?: string;
  readonly callID?: string;
  readonly retryAfter?: number;
  readonly session?: string;

  /** `message` is for people; its wording may change. */
  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message);
    this.code = code;
    if (details.state !== undefined) this.state = details.state;
    if (details.callID !== undefined) this.callID = details.callID;
    if (details.retryAfter !== undefined) this.retryAfter = details.retryAfter;
    if (details.session !== undefined) this.session = details.session;
  }
}
