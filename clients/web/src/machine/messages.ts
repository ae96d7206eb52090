import { BellwireError } from "../errors.js";
import type { Message, Receipt, Request, Response } from "../protocol.js";
import { inOrder, placed } from "./order.js";
import { type Action, type State, deliver, publish } from "./state.js";

/*
 * Peer messages (docs/protocol.md, section 2, Peer messages). The app sees each message once, the messages of a stream
 * in order; each own message gets one receipt.
 */

/** The wait after a message's time to live before the machine asks the service for the receipt, in milliseconds. */
const receiptMargin = 3_000;
/**
 * The time in milliseconds after a message's time to live during which the machine keeps asking for the receipt; then
 * the app gets an error. The service remembers a message for 10 min and would take a later question for a new message.
 */
const receiptPatience = 300_000;
/**
 * The bound on remembered ids of shown messages. Beyond this number the oldest ids are forgotten; the service sends no
 * message for longer than 600 s.
 */
const shownMessages = 4_096;
const unreceiptedMessages = 256;
/** Seconds. */
const defaultTTL = 30;

/** Acks the message on arrival, even before its turn, so that the sender does not wait for other, missing messages. */
export function receivedMessage(state: State, message: Message, now: number): Action[] {
  const ack = publish({ type: "ack", messageID: message.messageID });
  if (state.shown.has(message.messageID)) return [ack];
  state.shown.add(message.messageID);
  if (state.shown.size > shownMessages) {
    // A set keeps the order of insertion.
    for (const oldest of state.shown) {
      state.shown.delete(oldest);
      break;
    }
  }
  return [ack, ...inOrder(state, message, now).map((each) => deliver({ tell: "message", message: each }))];
}

/**
 * Follows a message that the app sends. `isUnplaced`: the message gets its place only when the message leaves the
 * device.
 */
export function follow(state: State, request: Request, isUnplaced: boolean, now: number): void {
  const { type, messageID, to, ttl } = request;
  if (type !== "message.send" || typeof messageID !== "string" || typeof to !== "string") return;
  if (state.unreceipted.some((sent) => sent.messageID === messageID && sent.to === to)) return;
  const life = (typeof ttl === "number" ? ttl : defaultTTL) * 1000;
  state.unreceipted.push({
    request, messageID, to, isUnplaced, endsAt: now + life, askAt: now + life + receiptMargin, questions: 0,
  });
  // The oldest message is dropped silently. The number of simultaneous requests is bounded, and receipts come in time.
  if (state.unreceipted.length > unreceiptedMessages) state.unreceipted.shift();
}

/**
 * Stops following the message. Returns true when the receipt is new, and false for a repeated receipt, and for the
 * receipt of a message that the app sent before a restart.
 */
export function settle(state: State, receipt: Receipt): boolean {
  const place = state.unreceipted.findIndex((sent) => sent.messageID === receipt.messageID && sent.to === receipt.to);
  if (place >= 0) state.unreceipted.splice(place, 1);
  return place >= 0;
}

/** A response to `message.send` carries the message's state. */
export function learnedOfMessage(state: State, request: Request, response: Response): Action[] {
  const { state: fate, messageID, time } = response.body;
  if (request.type !== "message.send" || typeof request.to !== "string" || typeof messageID !== "string") return [];
  if (fate === "sent") {
    // The message is still undelivered: the machine asks again only after the message's time to live.
    const sent = state.unreceipted.find((each) => each.request.id === request.id);
    if (sent) sent.askAt = Math.max(sent.askAt, sent.endsAt + receiptMargin);
    return [];
  }
  if (fate !== "delivered" && fate !== "expired") return [];
  const receipt: Receipt = { type: "receipt", messageID, to: request.to, state: fate, time: Number(time) || 0 };
  return settle(state, receipt) ? [deliver({ tell: "receipt", receipt })] : [];
}

/** The service refused the message, so no receipt will come. */
export function unfollow(state: State, request: Request): void {
  state.unreceipted = state.unreceipted.filter((sent) => sent.request.id !== request.id);
}

/** Asks soon after a reconnect: the receipt may have come while the device was offline. */
export function askForReceipts(state: State, now: number): void {
  for (const sent of state.unreceipted) sent.askAt = Math.min(sent.askAt, now + 1_000);
}

export function receiptsDue(state: State, now: number): Action[] {
  if (state.link !== "subscribed") return [];
  const actions: Action[] = [];
  for (const sent of [...state.unreceipted].reverse()) {
    if (sent.askAt > now) continue;
    // The machine resends an unanswered request anyway.
    if (state.pending.some((entry) => entry.request.id === sent.request.id)) {
      sent.askAt = now + receiptMargin;
    } else if (now >= sent.endsAt + receiptPatience) {
      unfollow(state, sent.request);
      const error = new BellwireError("noResponse", `no receipt of message ${sent.messageID} to ${sent.to}`);
      actions.push(deliver({ tell: "error", error }));
    } else {
      sent.askAt = now + (receiptMargin << Math.min(sent.questions, 4));
      sent.questions += 1;
      actions.push(publish(sent.isUnplaced ? placed(state, sent.request) : sent.request));
    }
  }
  return actions;
}

/**
 * Handles the response to a request that `receiptsDue` has sent again. No request of the app waits for this response.
 */
export function answeredAgain(state: State, response: Response): Action[] {
  const sent = state.unreceipted.find((each) => each.request.id === response.id);
  return sent ? learnedOfMessage(state, sent.request, response) : [];
}
