import { BellwireError } from "../errors.js";
import { type Receipt, type Request, type Response, changesCall } from "../protocol.js";
import { callNotFound, learnedOfCall, releaseHeld } from "./calls.js";
import { answeredAgain, follow, learnedOfMessage, settle, unfollow } from "./messages.js";
import { hasPlace, takePlace } from "./order.js";
import { beginsCall, knownCall, mayBegin } from "./room.js";
import { awaitAnswer } from "./silence.js";
import { type Action, type PendingRequest, type State, fail, publish, deliver, resendDelay } from "./state.js";

/*
 * Requests. The machine resends a request under the same id until its response or its time limit, and sends the
 * requests of a call one at a time (docs/protocol.md, section 2). A request that begins a call waits for the responses
 * to requests that leave another call.
 */

const isInvite = (entry: PendingRequest): boolean => entry.request.type === "call.invite";
const isCancel = (entry: PendingRequest): boolean => entry.request.type === "call.cancel";

const isOfCall = (entry: PendingRequest, other: PendingRequest): boolean =>
  entry.request.callID !== undefined && entry.request.callID === other.request.callID;

/**
 * Whether a request waits for the response to an earlier request. Two coordinators may serve two requests of a device
 * at the same time. The later request would then be decided on the state before the earlier request, as an invitation
 * in a call that the user has just left.
 */
function waits(entry: PendingRequest, earlier: PendingRequest): boolean {
  if (!changesCall(entry.request.type) || !changesCall(earlier.request.type)) return false;
  // A cancel may overtake its invitation: the service remembers the cancel.
  if (isOfCall(entry, earlier)) return !(isCancel(entry) && isInvite(earlier));
  return beginsCall(entry) && /^call\.(quit|end|reject|cancel)$/.test(earlier.request.type);
}

/**
 * Whether a waiting request may leave: the request waits for no earlier request, and the window of its recipient has
 * room.
 */
const mayLeave = (state: State, entry: PendingRequest): boolean =>
  !state.pending.slice(0, state.pending.indexOf(entry)).some((earlier) => waits(entry, earlier)) && hasPlace(state, entry);

/**
 * The app makes a request with a new id. Exactly one `succeed` or `fail` follows. `isOrdered`: the request is a peer
 * message that the recipient's app gets in the order of sending; the machine sets `seq` and `stream`.
 */
export function sendRequest(state: State, request: Request, isOrdered: boolean, now: number): Action[] {
  const { configuration, pending } = state;
  const refuse = (message: string) => [fail(request.id, new BellwireError("tooManyRequests", message))];
  if (pending.length >= configuration.requests) return refuse(`${pending.length} requests are unanswered`);
  const deadline = now + configuration.requestTimeout;
  const entry: PendingRequest = { request, deadline, stage: "queued", sends: 0, nextSend: now, isUnplaced: isOrdered };
  if (!mayBegin(state, entry)) return refuse(`this device is in ${configuration.knownCalls} calls`);
  follow(state, request, isOrdered, now);
  const ahead = pending.filter((other) => changesCall(other.request.type) && changesCall(request.type) && isOfCall(entry, other)).length;
  if (ahead > configuration.queuedPerCall) return refuse(`${ahead} requests of this call are unanswered`);
  pending.push(entry);
  return mayLeave(state, entry) ? start(state, entry, now) : [];
}

function start(state: State, entry: PendingRequest, now: number): Action[] {
  entry.stage = "sending";
  // Without a connection, `resendAll` sends the request as soon as the response can arrive.
  [entry.sends, entry.nextSend] = state.link === "subscribed" ? [1, now + resendDelay(1)] : [0, now];
  if (entry.sends === 0) return [];
  takePlace(state, entry);
  awaitAnswer(state, "request", now);
  return [publish(entry.request)];
}

/** Sends all unanswered requests on a new connection. */
export const resendAll = (state: State, now: number): Action[] =>
  state.pending.filter((entry) => entry.stage === "sending").flatMap((entry) => {
    if (hasPlace(state, entry)) return start(state, entry, now);
    entry.stage = "queued";
    return [];
  });

export function requestsDue(state: State, now: number): Action[] {
  const actions: Action[] = [];
  // The last requests fail first, so that a failed request does not start a request that fails at the same time.
  for (const entry of state.pending.filter(({ deadline }) => deadline <= now).reverse()) {
    actions.push(...failed(state, entry, entry.refusal ?? noResponse(state, entry), now));
  }
  if (state.link !== "subscribed") return actions;
  for (const entry of state.pending) {
    if (entry.stage !== "sending" || entry.nextSend > now) continue;
    entry.sends += 1;
    entry.nextSend = now + resendDelay(entry.sends);
    awaitAnswer(state, "request", now);
    actions.push(publish(entry.request));
  }
  return actions;
}

function noResponse(state: State, { stage }: PendingRequest): BellwireError {
  const isHeld = stage === "queued";
  const cause = state.link === "offline" ? "the broker cannot be reached"
    : isHeld ? "it waited for the answer to an earlier request" : "the service did not answer";
  return new BellwireError("noResponse", `no response within ${state.configuration.requestTimeout} ms: ${cause}`);
}

export function receivedResponse(state: State, response: Response, now: number): Action[] {
  const entry = state.pending.find(({ request }) => request.id === response.id);
  if (response.error) return entry ? refused(state, entry, response.error, now) : [];
  const news = learnedOfCall(state, response, now);
  if (!entry) return response.call ? news : answeredAgain(state, response);
  const actions = succeeded(state, entry, response, now);
  return [...actions, ...(response.call ? news : learnedOfMessage(state, entry.request, response))];
}

function refused(state: State, entry: PendingRequest, error: BellwireError, now: number): Action[] {
  const { callID } = entry.request;
  if (error.code === "unavailable" || error.code === "rateLimited") {
    if (entry.stage !== "sending") return [];
    const wait = Math.min(error.retryAfter ?? 0, state.configuration.requestTimeout);
    entry.refusal = error;
    entry.nextSend = now + Math.max(resendDelay(entry.sends), wait);
    return [];
  }
  if (error.code !== "callNotFound" || callID === undefined) return failed(state, entry, error, now);
  if (!isCancel(entry)) return [...failed(state, entry, error, now), ...callNotFound(state, callID)];
  const earlier = state.pending.slice(0, state.pending.indexOf(entry));
  if (earlier.some((other) => isInvite(other) && isOfCall(entry, other))) {
    entry.refusal = error;
    entry.stage = "awaitingInvite";
    return [];
  }
  const call = knownCall(state, callID)?.snapshot;
  if (call?.state === "ended") {
    // The response to the invite came first and shows that the cancel has worked.
    const time = call.endedAt ?? call.createdAt;
    return succeeded(state, entry, { type: "response", id: entry.request.id, call, time, body: {} }, now);
  }
  return failed(state, entry, error, now);
}

function succeeded(state: State, entry: PendingRequest, response: Response, now: number): Action[] {
  return completed(state, entry, { act: "succeed", id: entry.request.id, response }, response, now);
}

function failed(state: State, entry: PendingRequest, error: BellwireError, now: number): Action[] {
  // After `noResponse`, a request that has left may still be served.
  if (error.code !== "noResponse" || entry.sends === 0) {
    unfollow(state, entry.request);
    state.places.takeBack(entry.request);
  }
  return completed(state, entry, fail(entry.request.id, error), undefined, now);
}

function completed(
  state: State, entry: PendingRequest, outcome: Action, response: Response | undefined, now: number,
): Action[] {
  const place = state.pending.indexOf(entry);
  if (place < 0) return [];
  state.pending.splice(place, 1);
  const actions = [outcome];
  const { callID, type } = entry.request;
  if (isInvite(entry) && callID !== undefined) actions.push(...inviteCompleted(state, callID, response, now));
  // Starts the requests that waited for this response, in the order of the app's calls.
  for (const waiting of state.pending) {
    if (waiting.stage === "queued" && mayLeave(state, waiting)) actions.push(...start(state, waiting, now));
  }
  return changesCall(type) && callID !== undefined ? [...actions, ...releaseHeld(state, callID, now)] : actions;
}

/** A receipt may overtake the response and carries the final state. The app is told of its request's success first. */
export function receivedReceipt(state: State, receipt: Receipt, now: number): Action[] {
  const { messageID, to, time, state: fate } = receipt;
  const sent = state.unreceipted.find((each) => each.messageID === messageID && each.to === to);
  if (!sent) return [];
  const entry = state.pending.find(({ request }) => request.id === sent.request.id);
  const response: Response = { type: "response", id: sent.request.id, time, body: { messageID, time, state: fate } };
  const answered = entry ? succeeded(state, entry, response, now) : [];
  settle(state, receipt);
  return [...answered, deliver({ tell: "receipt", receipt })];
}

/** A cancel that overtook its invite now learns the call's state. */
function inviteCompleted(state: State, callID: string, response: Response | undefined, now: number): Action[] {
  const place = state.pending.findIndex(
    (entry) => entry.request.callID === callID && entry.stage === "awaitingInvite");
  const entry = state.pending[place];
  if (!entry) return [];
  if (response?.call && response.call.state !== "ended") return start(state, entry, now);
  state.pending.splice(place, 1);
  const { id } = entry.request;
  if (response) return [{ act: "succeed", id, response: { ...response, id } }];
  return [fail(id, entry.refusal ?? new BellwireError("callNotFound", "the call was not created"))];
}
