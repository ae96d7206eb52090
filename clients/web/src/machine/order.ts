import type { Message, Request } from "../protocol.js";
import type { StreamBounds } from "./ordered-streams.js";
import { type Action, type PendingRequest, type SentMessage, type State, deliver } from "./state.js";

/* Peer messages in the order of their sender (docs/protocol.md, section 2, Peer messages). */

/**
 * The service resends a message whose first send was lost after 1, 2, 4, 8 s, but never an expired message. An unknown
 * stream may have begun before the app was restarted; the missing messages then are on their way, or never come. The
 * machine recognizes copies by `messageID`, so a sender that uses a `seq` twice has sent two messages.
 */
export const messageBounds: StreamBounds = { beginning: 1_000, gap: 10_000, remembered: 0 };

/** Returns the messages for the app after the first arrival of a message. */
export function inOrder(state: State, message: Message, now: number): Message[] {
  if (message.stream === undefined || message.seq === undefined) return [message];
  return state.messageStreams.received(message, message.seq, now);
}

/** Gives up the gaps that have waited long enough. */
export const messageGapsPassed = (state: State, now: number): Action[] =>
  state.messageStreams.gapsPassed(now).map((message) => deliver({ tell: "message", message }));

/**
 * Gives an ordered message its place when the request leaves for the first time. A message that never left, for lack of
 * a connection, therefore leaves no gap.
 */
export function takePlace(state: State, entry: PendingRequest): void {
  if (!entry.isUnplaced) return;
  entry.isUnplaced = false;
  entry.request = placed(state, entry.request);
}

/**
 * The largest distance between the places of a recipient's messages and the oldest unanswered message. The distance is
 * below the number of messages that a receiver holds per stream; a receiver that holds more gives the first gap up.
 */
const window = 32;

/** Whether the request may leave: an ordered message waits while the window of its recipient is full. */
export function hasPlace(state: State, entry: PendingRequest): boolean {
  const { type, to } = entry.request;
  if (!entry.isUnplaced || type !== "message.send" || typeof to !== "string") return true;
  const others = state.pending.filter(({ request }) => request.type === "message.send" && request.to === to);
  const earlier = others.slice(0, Math.max(0, others.indexOf(entry)));
  if (earlier.some(({ isUnplaced, stage }) => isUnplaced && stage === "queued")) return false;
  const unanswered = others.filter(({ isUnplaced }) => !isUnplaced).flatMap(({ request }) => state.places.seqOf(request));
  return unanswered.length === 0 || state.places.nextSeq(to) - Math.min(...unanswered) < window;
}

/**
 * Returns the message with its place. A message without a receipt keeps its place when the app sends the message again.
 */
export function placed(state: State, request: Request): Request {
  const { messageID, to } = request;
  if (request.type !== "message.send" || typeof to !== "string") return request;
  const sent = state.unreceipted.find((each) => each.messageID === messageID && each.to === to);
  const place = (sent && placeOf(sent)) ?? state.places.next(to);
  if (!place) return request;
  if (sent) {
    sent.isUnplaced = false;
    sent.request = { ...sent.request, ...place };
  }
  return { ...request, ...place };
}

/** The place of a message among all messages to its recipient. */
interface MessagePlace {
  stream: string;
  seq: number;
}

/** Undefined before the message has left. */
function placeOf({ request: { stream, seq }, isUnplaced }: SentMessage): MessagePlace | undefined {
  return !isUnplaced && typeof stream === "string" && typeof seq === "number" ? { stream, seq } : undefined;
}

/**
 * The bound on recipients with remembered places. Beyond this number the machine forgets the recipient with the longest
 * time since the last message.
 */
const recipients = 256;

/** The next place of an ordered message, per recipient. */
export class MessagePlaces {
  /** The recipient of the latest message is last in this map. */
  private readonly runs = new Map<string, MessagePlace>();
  /**
   * The number of recipients forgotten so far. A message to a forgotten recipient begins a stream of a new name, which
   * counts from 1.
   */
  private forgotten = 0;

  /** Without a stream name the machine assigns no places. */
  constructor(private readonly stream: string | undefined) {}

  next(user: string): MessagePlace | undefined {
    if (this.stream === undefined) return undefined;
    if (!this.runs.has(user) && this.runs.size >= recipients) this.forgetOne();
    const name = this.forgotten === 0 ? this.stream : `${this.stream}-${this.forgotten}`;
    const place = this.runs.get(user) ?? { stream: name, seq: 1 };
    this.runs.delete(user);
    this.runs.set(user, { ...place, seq: place.seq + 1 });
    return place;
  }

  /** Returns the `seq` of the next message to the user. */
  nextSeq(user: string): number { return this.runs.get(user)?.seq ?? 1; }

  /**
   * Returns the place of a message in the recipient's current stream as a list; empty for a message of no current
   * stream.
   */
  seqOf({ to, stream, seq }: Request): number[] {
    const run = typeof to === "string" ? this.runs.get(to) : undefined;
    return run && run.stream === stream && typeof seq === "number" ? [seq] : [];
  }

  /**
   * Takes back the place of a refused message. The next message gets the place when no later message was sent; else the
   * recipient waits for the place until the gap is given up.
   */
  takeBack({ to, stream, seq }: Request): void {
    const run = typeof to === "string" ? this.runs.get(to) : undefined;
    if (run && run.stream === stream && typeof seq === "number" && run.seq === seq + 1) run.seq = seq;
  }

  private forgetOne(): void {
    // A map keeps the order of insertion of its keys.
    for (const oldest of this.runs.keys()) {
      this.runs.delete(oldest);
      this.forgotten += 1;
      return;
    }
  }
}
