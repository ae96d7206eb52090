import type { BellwireError } from "../errors.js";
import type {
  CallEvent, CallObject, Message, OutgoingSignal, PresenceMessage, Receipt, Request, Response, Signal, UpMessage,
  Welcome,
} from "../protocol.js";
import type { MessagePlaces } from "./order.js";
import type { OrderedStreams } from "./ordered-streams.js";

/** What the machine tells the client. Every message about a call carries the whole call. */
export type Told =
  /** The service knows this device: after each connect and reconnect. */
  | { tell: "online" }
  /** The connection to the broker is lost. Requests are kept meanwhile. */
  | { tell: "offline"; reason: string }
  /** An event of the protocol (section 5), each once and in the order of revisions. */
  | { tell: "event"; event: CallEvent }
  /** The call as a response or a welcome brought it, when that is newer than all that was told. */
  | { tell: "snapshot"; call: CallObject }
  /** The countdown of a ringing invitation passed, and the service said nothing: stop ringing. */
  | { tell: "invitationExpired"; call: CallObject }
  /** The call is over, and how is not known; or too many ring, and this one has to be forgotten. */
  | { tell: "gone"; call: CallObject }
  | { tell: "signal"; signal: Signal }
  | { tell: "message"; message: Message }
  | { tell: "receipt"; receipt: Receipt }
  /** The service could not read something that this device sent, or refuses a signal. */
  | { tell: "error"; error: BellwireError }
  /** What a welcome says that concerns no call. */
  | { tell: "welcome"; welcome: Welcome };

export type Action =
  /** On the up topic of the device. */
  | { act: "publish"; message: UpMessage }
  /** On its presence topic. */
  | { act: "publishPresence"; message: PresenceMessage }
  /** To the app. */
  | { act: "deliver"; told: Told }
  /** A request's outcome: success. */
  | { act: "succeed"; id: string; response: Response }
  /** A request's outcome: failure. */
  | { act: "fail"; id: string; error: BellwireError }
  /** What was said of this call is not taken in: too many calls ring at once. */
  | { act: "refuse"; callID: string }
  /** The service holds this session to be over: connect again, with another one and its will. */
  | { act: "renewSession" }
  /** The token ends soon: ask the app for another, and connect with it. */
  | { act: "renewToken" };

/** Times are in milliseconds. */
export interface Configuration {
  /** How long a request is tried before it fails. */
  requestTimeout: number;
  /** When presence is published again: half of the lease of 10 min (section 1). */
  presenceRenewal: number;
  /** How long past its countdown an invitation rings on: enough for a resend of what became of it to arrive. */
  ringingMargin: number;
  /** Requests that wait behind another of the same call. */
  queuedPerCall: number;
  /** Requests at once, queued ones included. */
  requests: number;
  /** Calls whose revision is remembered. Ended ones are forgotten first, those in which the device takes part never. */
  knownCalls: number;
  /** The app can give another token when one ends. */
  renewsTokens: boolean;
  /**
   * Names this client's signals and ordered messages, so that those of an earlier run of the app are another stream. Without one no
   * message has an order.
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

/** How long an invitation still rings. */
export interface Countdown {
  /** The expiry by the service's clock: only compared with itself, to tell a new invitation from the same one. */
  expiresAt: number | undefined;
  /** By this device's clock. */
  until: number;
}

/** What a device remembers of a call. */
export interface KnownCall {
  /** The newest state from events, responses and welcomes. */
  snapshot: CallObject;
  /**
   * The highest revision that came as event or response. A welcome does not count: the event of the same revision is still to be
   * told.
   */
  revision: number;
  /** When that revision was made, by the service's clock. */
  time: number;
  /** No revision that was made by then is newer than `snapshot`, by the service's clock. */
  asOf: number;
  /** As far as the app was told: the call lives, and this user is pending or accepted in it. */
  isLive: boolean;
  /** When it was last heard of, and on which connection. */
  heardAt: number;
  connection: number;
  countdown?: Countdown | undefined;
  nextHeartbeat?: number | undefined;
}

/** A request whose response has not come. */
export interface PendingRequest {
  request: Request;
  /** When it fails. */
  deadline: number;
  /**
   * `queued`: waits for the response of an earlier request, or of an earlier message to the same recipient.
   * `sending`: sent `sends` times on this connection, and again at `nextSend`.
   * `awaitingInvite`: a cancel that overtook its invite and was answered `callNotFound`. The service remembers it; the response
   * to the invite tells what became of the call.
   */
  stage: "queued" | "sending" | "awaitingInvite";
  sends: number;
  nextSend: number;
  /** A message that is to have a place in the stream, and has not left this device. */
  isUnplaced: boolean;
  /** The last answer that asked for another try. */
  refusal?: BellwireError;
}

/** A message of this device whose receipt has not come. */
export interface SentMessage {
  request: Request;
  messageID: string;
  to: string;
  /** It is to have a place in the stream, and has not left this device. */
  isUnplaced: boolean;
  /** When its time to live is over. */
  endsAt: number;
  /** When the service is asked what has become of it. */
  askAt: number;
  questions: number;
}

/** `connected`: the broker accepted; responses would not arrive yet, so nothing is sent. */
export type Link = "offline" | "connected" | "subscribed";

/** All that the machine knows. Changed by the functions beside this file alone. */
export interface State {
  readonly user: string;
  readonly device: string;
  readonly configuration: Configuration;

  link: Link;
  /** Of the present connection. */
  session: string;
  /** Counts connections, to tell news of this one from older news. */
  connection: number;
  /** The app was told `online`, and not yet `offline`. */
  isOnline: boolean;

  /** How often presence was published since it was last answered. */
  presenceSends: number;
  /** A welcome naming the session is outstanding. */
  isAwaitingWelcome: boolean;
  nextPresence: number | undefined;
  /** When a welcome for another session was last answered at once. */
  lastCorrection: number | undefined;
  /** When it was last connected again because its session was over. */
  lastSessionRenewal: number | undefined;

  /** When another token is asked for; undefined when that is not known, or done. */
  tokenRenewal: number | undefined;
  /** The connection was given up for one with another token: the app is not told of it. */
  isRenewing: boolean;

  /** The welcome sets it. */
  heartbeatInterval: number;
  /** In the order in which the app made them. Searched one by one: there are few. */
  pending: PendingRequest[];
  calls: KnownCall[];
  /** What a welcome lists of calls about which there are requests in `pending`, and its time. */
  heldCalls: Map<string, { call: CallObject; reference: number }>;

  /** The next place in the own stream of signals, by call. */
  nextSignal: Map<string, number>;
  /** Signals that wait for a connection. */
  waitingSignals: { signal: OutgoingSignal; until: number }[];
  signalStreams: OrderedStreams<Signal>;
  /** Peer messages in the order in which they came: each is told once, some not before their turn. */
  shown: Set<string>;
  messageStreams: OrderedStreams<Message>;
  /** The next places of own ordered messages. */
  places: MessagePlaces;
  /** Own messages without a receipt, in the order in which they were sent. */
  unreceipted: SentMessage[];
}

/** Waits between sends of the same thing: 1, 2, 4, 8 s, then every 8 s (sections 1 and 2). In milliseconds after the `count`th. */
export const resendDelay = (count: number): number => 1000 << Math.min(Math.max(count - 1, 0), 3);

export const publish = (message: UpMessage): Action => ({ act: "publish", message });
export const deliver = (told: Told): Action => ({ act: "deliver", told });
export const fail = (id: string, error: BellwireError): Action => ({ act: "fail", id, error });

export const clamp = (value: number, least: number, most: number): number => Math.min(Math.max(value, least), most);
