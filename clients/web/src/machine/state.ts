import type { BellwireError } from "../errors.js";
import type {
  CallEvent, CallObject, Message, OutgoingSignal, PresenceMessage, Receipt, Request, Response, Signal, UpMessage,
  Welcome,
} from "../protocol.js";
import type { MessagePlaces } from "./order.js";
import type { OrderedStreams } from "./ordered-streams.js";

/** A message of the machine to the client. Each message about a call carries the whole call. */
export type Told =
  /** The service has answered this device, after each connect and reconnect. */
  | { tell: "online" }
  /** The connection to the broker is lost. The machine keeps the requests. */
  | { tell: "offline"; reason: string }
  /** An event of the protocol (section 5). Each event comes once, in the order of revisions. */
  | { tell: "event"; event: CallEvent }
  /** The call's state from a response or a welcome, when newer than all earlier messages to the client. */
  | { tell: "snapshot"; call: CallObject }
  /** The countdown of a ringing invitation passed without news from the service: the app must stop ringing. */
  | { tell: "invitationExpired"; call: CallObject }
  /** The call is over for an unknown reason, or the machine had to forget the call because too many calls ring. */
  | { tell: "gone"; call: CallObject }
  | { tell: "signal"; signal: Signal }
  | { tell: "message"; message: Message }
  | { tell: "receipt"; receipt: Receipt }
  /** The service could not read a message of this device, or refused a signal. */
  | { tell: "error"; error: BellwireError }
  /** A welcome with its data that belongs to no call. */
  | { tell: "welcome"; welcome: Welcome };

export type Action =
  /** Publish on the device's up topic. */
  | { act: "publish"; message: UpMessage }
  /** Publish on the device's presence topic. */
  | { act: "publishPresence"; message: PresenceMessage }
  /** Tell the app. */
  | { act: "deliver"; told: Told }
  /** The request has succeeded. */
  | { act: "succeed"; id: string; response: Response }
  /** The request has failed. */
  | { act: "fail"; id: string; error: BellwireError }
  /** The machine ignores a message about this call, because too many calls ring at once. */
  | { act: "refuse"; callID: string }
  /**
   * Connect again with a new session and its will, to the next broker of the list: the service considers this session
   * over, or the broker delivers nothing.
   */
  | { act: "renewSession" }
  /** The device has a newer session at another broker: end the connection for good. */
  | { act: "endTakenOver" }
  /** The token ends soon: ask the app for another token, and connect with that token. */
  | { act: "renewToken" };

/** Times are in milliseconds. */
export interface Configuration {
  /** The time limit of a request. */
  requestTimeout: number;
  /** The interval of presence messages: half of the lease of 10 min (section 1). */
  presenceRenewal: number;
  /** The time that an invitation rings on after its countdown: long enough for a resend of its outcome to arrive. */
  ringingMargin: number;
  /** The number of requests that wait behind another request of the same call. */
  queuedPerCall: number;
  /** The number of unanswered requests, including queued requests. */
  requests: number;
  /**
   * The number of calls with a remembered revision. Ended calls are forgotten first; calls in which the device takes
   * part are never forgotten.
   */
  knownCalls: number;
  /** Whether the app can give another token before a token ends. */
  renewsTokens: boolean;
  /**
   * The stream name of this client's signals and ordered messages. A new name per run of the app separates the streams
   * of different runs. Without a name no message has an order.
   */
  signalStream?: string;
}

export const defaults: Configuration = {
  requestTimeout: 30_000,
  presenceRenewal: 300_000,
  ringingMargin: 3_000,
  queuedPerCall: 16,
  requests: 256,
  knownCalls: 256,
  renewsTokens: false,
};

/** The countdown of a ringing invitation. */
export interface Countdown {
  /**
   * The expiry by the service's clock. The machine compares this value only with other expiries of the call, to
   * recognize a new invitation.
   */
  expiresAt: number | undefined;
  /** The end of the countdown by this device's clock. */
  until: number;
}

/** The machine's knowledge of a call. */
export interface KnownCall {
  /** The newest state from events, responses and welcomes. */
  snapshot: CallObject;
  /**
   * The highest revision from an event or a response. Revisions of welcomes do not count, because the event of the same
   * revision must still reach the app.
   */
  revision: number;
  /** The creation time of that revision, by the service's clock. */
  time: number;
  /** All revisions from before this time are at most as new as `snapshot`, by the service's clock. */
  asOf: number;
  /** Whether the app considers the call live, with this user pending or accepted. */
  isLive: boolean;
  /** The time of the last news of the call, and the number of the connection that brought the news. */
  heardAt: number;
  connection: number;
  countdown?: Countdown | undefined;
  nextHeartbeat?: number | undefined;
}

/** A request without a response. */
export interface PendingRequest {
  request: Request;
  /** The time at which the request fails. */
  deadline: number;
  /**
   * `queued`: the request waits for the response to an earlier request, or to an earlier message to the same recipient.
   * `sending`: the machine has sent the request `sends` times on this connection, and sends again at `nextSend`.
   * `awaitingInvite`: a cancel overtook its invite, and the service answered `callNotFound`. The service remembers the
   * cancel; the response to the invite shows the call's state.
   */
  stage: "queued" | "sending" | "awaitingInvite";
  sends: number;
  nextSend: number;
  /** Whether the request is an ordered message that has not left this device and so has no place yet. */
  isUnplaced: boolean;
  /** The last response that asked for another attempt. */
  refusal?: BellwireError;
}

/** A peer message of this device without a receipt. */
export interface SentMessage {
  request: Request;
  messageID: string;
  to: string;
  /** Whether the message is ordered, has not left this device and so has no place yet. */
  isUnplaced: boolean;
  /** The end of the message's time to live. */
  endsAt: number;
  /** The time of the next question to the service about the receipt. */
  askAt: number;
  questions: number;
}

/**
 * `connected`: the broker has accepted the connection, but responses would not arrive before `subscribed`, so the
 * machine sends no request.
 */
export type Link = "offline" | "connected" | "subscribed";

/** The machine's whole state. Only the functions of this folder change the state. */
export interface State {
  readonly user: string;
  readonly device: string;
  readonly configuration: Configuration;

  link: Link;
  /** The session of the current connection. */
  session: string;
  /** The sessions of this client, the latest last. */
  ownSessions: string[];
  /** The number of connections so far, to recognize news of earlier connections. */
  connection: number;
  /** Whether the app's last message about the connection was `online`. */
  isOnline: boolean;

  /** The number of presence messages since the last answer. */
  presenceSends: number;
  /** Whether the machine waits for a welcome that names the session. */
  isAwaitingWelcome: boolean;
  nextPresence: number | undefined;
  /** The time of the last immediate answer to a welcome for another session. */
  lastCorrection: number | undefined;
  /** The time of the last reconnect because of a session that was over. */
  lastSessionRenewal: number | undefined;

  /**
   * The times at which the device sent, on this connection, the first request and the first presence after which no
   * message has come; undefined when there is none.
   */
  silentSince: { request?: number; presence?: number };
  /** The number of connections in a row that were left because no message came. */
  leftInSilence: number;

  /** The time at which the machine asks for another token; undefined when unknown or done. */
  tokenRenewal: number | undefined;
  /** Whether the connection is being replaced for a new token, of which the app is not told. */
  isRenewing: boolean;

  /** The interval of heartbeats in milliseconds, from the welcome. */
  heartbeatInterval: number;
  /** Requests in the order of the app's calls. A linear search suffices for their small number. */
  pending: PendingRequest[];
  calls: KnownCall[];
  /** Listed calls of a welcome that have requests in `pending`, with the time of the welcome. */
  heldCalls: Map<string, { call: CallObject; reference: number }>;

  /** The next place in this device's stream of signals, per call. */
  nextSignal: Map<string, number>;
  /** Signals that wait for a connection. */
  waitingSignals: { signal: OutgoingSignal; until: number }[];
  signalStreams: OrderedStreams<Signal>;
  /** Ids of peer messages in the order of arrival, to deliver each message once. Some messages wait for their turn. */
  shown: Set<string>;
  messageStreams: OrderedStreams<Message>;
  /** The next places of own ordered messages. */
  places: MessagePlaces;
  /** Own messages without a receipt, in the order of sending. */
  unreceipted: SentMessage[];
}

/**
 * Returns the wait after the `count`th send of a message, in milliseconds: 1, 2, 4, 8 s, then always 8 s (sections 1
 * and 2).
 */
export const resendDelay = (count: number): number => 1000 << Math.min(Math.max(count - 1, 0), 3);

export const publish = (message: UpMessage): Action => ({ act: "publish", message });
export const deliver = (told: Told): Action => ({ act: "deliver", told });
export const fail = (id: string, error: BellwireError): Action => ({ act: "fail", id, error });

export const clamp = (value: number, least: number, most: number): number => Math.min(Math.max(value, least), most);
