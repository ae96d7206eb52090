import { BellwireError } from "../errors.js";
import type { Message, Receipt, Request, Response } from "../protocol.js";
import { inOrder, placed } from "./order.js";
import { type Action, type State, deliver, publish } from "./state.js";

/*
 * Peer messages (docs/protocol.md, section 2, Peer messages): each is shown once, those of a stream in its order; each of the own gets
 * one receipt.
 */

/** How long after its time to live a message's receipt may come before the service is asked, in milliseconds. */
const receiptMargin = 3_000;
/**
 * How long after its time to live it is still asked; then the app is told that nothing is known. The service remembers a message
 * for 10 min: later it would take the question for a new message.
 */
const receiptPatience = 300_000;
/** Ids of messages that were shown. Beyond it the oldest are forgotten: the service sends none for longer than 600 s. */
const shownMessages = 4_096;
const unreceiptedMessages = 256;
/** Seconds. */
const defaultTTL = 30;

/** It is acked when it comes, also when its turn has not: the sender need not wait for what others are waited for. */
export function receivedMessage(state: State, message: Message, now: number): Action[] {
  const ack = publish({ type: "ack", messageID: message.messageID });
  if (state.shown.has(message.messageID)) return [ack];
  state.shown.add(message.messageID);
  if (state.shown.size > shownMessages) {
    // A set keeps the order in which its values came.
    for (const oldest of state.shown) {
      state.shown.delete(oldest);
      break;
    }
  }
  return [ack, ...inOrder(state, message, now).map((each) => deliver({ tell: "message", message: each }))];
}

/** Follows a message that the app sends. `isUnplaced`: it is given its place when it leaves. */
export function follow(state: State, request: Request, isUnplaced: boolean, now: number): void {
  const { type, messageID, to, ttl } = request;
  if (type !== "message.send" || typeof messageID !== "string" || typeof to !== "string") return;
  if (state.unreceipted.some((sent) => sent.messageID === messageID && sent.to === to)) return;
  const life = (typeof ttl === "number" ? ttl : defaultTTL) * 1000;
  state.unreceipted.push({
    request, messageID, to, isUnplaced, endsAt: now + life, askAt: now + life + receiptMargin, questions: 0,
  });
  // The oldest is given up without a word: requests at once are bounded, receipts come within their time.
  if (state.unreceipted.length > unreceiptedMessages) state.unreceipted.shift();
}

/** True for one that is news: not when it comes again, or to an app that was restarted. The message is not followed any more. */
export function settle(state: State, receipt: Receipt): boolean {
  const place = state.unreceipted.findIndex((sent) => sent.messageID === receipt.messageID && sent.to === receipt.to);
  if (place >= 0) state.unreceipted.splice(place, 1);
  return place >= 0;
}

/** A response to `message.send` says what has become of it. */
export function learnedOfMessage(state: State, request: Request, response: Response): Action[] {
  const { state: fate, messageID, time } = response.body;
  if (request.type !== "message.send" || typeof request.to !== "string" || typeof messageID !== "string") return [];
  if (fate === "sent") {
    // It waits: there is nothing to ask before its time is over.
    const sent = state.unreceipted.find((each) => each.request.id === request.id);
    if (sent) sent.askAt = Math.max(sent.askAt, sent.endsAt + receiptMargin);
    return [];
  }
  if (fate !== "delivered" && fate !== "expired") return [];
  const receipt: Receipt = { type: "receipt", messageID, to: request.to, state: fate, time: Number(time) || 0 };
  return settle(state, receipt) ? [deliver({ tell: "receipt", receipt })] : [];
}

/** The service refused the message: there will be no receipt. */
export function unfollow(state: State, request: Request): void {
  state.unreceipted = state.unreceipted.filter((sent) => sent.request.id !== request.id);
}

/** On a new connection: the receipt may have come while there was none. */
export function askForReceipts(state: State, now: number): void {
  for (const sent of state.unreceipted) sent.askAt = Math.min(sent.askAt, now + 1_000);
}

export function receiptsDue(state: State, now: number): Action[] {
  if (state.link !== "subscribed") return [];
  const actions: Action[] = [];
  for (const sent of [...state.unreceipted].reverse()) {
    if (sent.askAt > now) continue;
    // While the request itself is unanswered it is sent again anyway.
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

/** An answer to such a question: no request of the app waits for it. */
export function answeredAgain(state: State, response: Response): Action[] {
  const sent = state.unreceipted.find((each) => each.request.id === response.id);
  return sent ? learnedOfMessage(state, sent.request, response) : [];
}
