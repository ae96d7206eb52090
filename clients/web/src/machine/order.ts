import type { Message, Request } from "../protocol.js";
import type { StreamBounds } from "./ordered-streams.js";
import { type Action, type PendingRequest, type SentMessage, type State, deliver } from "./state.js";

/* Messages in the order of their sender (docs/protocol.md, section 2, Peer messages). */

/**
 * A first send that was lost comes again after 1, 2, 4, 8 s, one that expired never. A stream that is not known may be in its middle,
 * since the app was restarted; what is before it is then on its way, or never comes. Copies are known by their `messageID`: whoever
 * gives a `seq` twice has two messages.
 */
export const messageBounds: StreamBounds = { beginning: 1_000, gap: 10_000, remembered: 0 };

/** What is to be told now that a message has come for the first time. */
export function inOrder(state: State, message: Message, now: number): Message[] {
  if (message.stream === undefined || message.seq === undefined) return [message];
  return state.messageStreams.received(message, message.seq, now);
}

/** Gaps that have been waited for long enough are given up. */
export const messageGapsPassed = (state: State, now: number): Action[] =>
  state.messageStreams.gapsPassed(now).map((message) => deliver({ tell: "message", message }));

/**
 * A request leaves for the first time: an ordered message has its place from now on. So one that never left, because there was no
 * connection in its time, leaves no gap.
 */
export function takePlace(state: State, entry: PendingRequest): void {
  if (!entry.isUnplaced) return;
  entry.isUnplaced = false;
  entry.request = placed(state, entry.request);
}

/**
 * How far the places of a recipient's messages run ahead of the oldest that is unanswered: below what a receiver holds of one stream,
 * which would give up what it waits for.
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

/** The message with its place. When the app sends one again whose receipt has not come, it is that one's. */
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

/** Where a message stands among those to its recipient. */
interface MessagePlace {
  stream: string;
  seq: number;
}

/** Undefined before it has left. */
function placeOf({ request: { stream, seq }, isUnplaced }: SentMessage): MessagePlace | undefined {
  return !isUnplaced && typeof stream === "string" && typeof seq === "number" ? { stream, seq } : undefined;
}

/** Recipients whose numbers are remembered. Beyond it those of the one who was not written to for longest are forgotten. */
const recipients = 256;

/** The next place of an ordered message, by recipient. */
export class MessagePlaces {
  /** The one who was written to last is the last. */
  private readonly runs = new Map<string, MessagePlace>();
  /** Recipients forgotten so far. Who is written to again is counted from 1, in a stream of another name. */
  private forgotten = 0;

  /** Without a name none are given. */
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

  /** What the next message to the user has. */
  nextSeq(user: string): number { return this.runs.get(user)?.seq ?? 1; }

  /** The place of a message in the recipient's present stream; none when it stands in none of these. */
  seqOf({ to, stream, seq }: Request): number[] {
    const run = typeof to === "string" ? this.runs.get(to) : undefined;
    return run && run.stream === stream && typeof seq === "number" ? [seq] : [];
  }

  /**
   * The message was refused. When none was sent after it, the next one has its place; else the recipient waits for it until it gives
   * the gap up.
   */
  takeBack({ to, stream, seq }: Request): void {
    const run = typeof to === "string" ? this.runs.get(to) : undefined;
    if (run && run.stream === stream && typeof seq === "number" && run.seq === seq + 1) run.seq = seq;
  }

  private forgetOne(): void {
    // A map keeps the order in which its keys came.
    for (const oldest of this.runs.keys()) {
      this.runs.delete(oldest);
      this.forgotten += 1;
      return;
    }
  }
}
