import {
  type CallEvent, type CallObject, type Response, type Welcome, changesCall, isPending, memberOf,
} from "../protocol.js";
import { hasRoom, isLiveFor, knownCall, makeRoom } from "./room.js";
import { type Action, type Countdown, type KnownCall, type State, clamp, deliver, publish } from "./state.js";

/* Events, and what is known of calls (docs/protocol.md, section 5). */

/**
 * In milliseconds: the service sends unacked events again for 60 s. A welcome that does not list a call which was not heard of for
 * longer than that is not merely older than the last news of it.
 */
const resyncAfter = 90_000;
/** The longest invitation (section 2), in milliseconds. */
const longestInvitation = 600_000;

/**
 * A revision that was not had. One that is not above, and was made later, is of a store that has lost writes and gives revisions a
 * second time (section 5).
 */
function isNews(known: KnownCall | undefined, revision: number, madeAt: number): boolean {
  if (!known) return revision > 0;
  return revision > known.revision || (known.revision > 0 && madeAt > known.time);
}

const ack = (callID: string, revision: number): Action => publish({ type: "ack", callID, revision });

export function receivedEvent(state: State, event: CallEvent, now: number): Action[] {
  // Not acked, so the service sends it again as long as it is of use: by then there may be room.
  if (!hasRoom(state, event.call)) return [{ act: "refuse", callID: event.callID }];
  const known = knownCall(state, event.callID);
  const news = isNews(known, event.revision, event.time);
  // Cumulative: an ack below what this device has would be answered with news that it had. No service counts below 0, and none
  // would take such an ack.
  const acked = news ? event.revision : Math.max(event.revision, known?.revision ?? 0, 0);
  const actions = [ack(event.callID, acked)];
  actions.push(...remember(state, event.call, event.revision, event.time, event.expiresIn, now));
  if (news) actions.push(deliver({ tell: "event", event }));
  return actions;
}

/** An event that this version cannot read: it is acked, so that it is not sent again. */
export const receivedUnknownEvent = (state: State, callID: string, revision: number): Action[] => [
  ack(callID, Math.max(revision, knownCall(state, callID)?.revision ?? 0, 0)),
];

/** A response tells the state of its call. Later events up to that revision will be ignored, so the app is told here. */
export function learnedOfCall(state: State, { call, time }: Response, now: number): Action[] {
  if (!call || !hasRoom(state, call)) return [];
  const news = isNews(knownCall(state, call.callID), call.revision, time);
  const actions = remember(state, call, call.revision, time, undefined, now);
  return news ? [...actions, deliver({ tell: "snapshot", call })] : actions;
}

/**
 * Takes over what a message says about a call. `revision` is 0 for a welcome. `reference` is when the revision was made, or the
 * welcome: by the service's clock, the message's expiry times were `now` or later then.
 */
function remember(
  state: State, call: CallObject, revision: number, reference: number, expiresIn: number | undefined, now: number,
): Action[] {
  const actions: Action[] = [];
  let known = knownCall(state, call.callID);
  if (!known) {
    const forgetting = makeRoom(state, call);
    // Over, and with nobody who would have to be forgotten for it: there is nothing to follow.
    if (!forgetting) return [];
    actions.push(...forgetting);
    known = { snapshot: call, revision: 0, time: 0, asOf: 0, isLive: false, heardAt: now, connection: state.connection };
    state.calls.push(known);
  }
  const isWelcome = revision === 0;
  const goesBack = call.revision < known.snapshot.revision;
  const isNewest = isWelcome || !goesBack || reference > known.asOf;
  // A resend of what had been given up locally does not make it ring again; anything newer does, or a welcome.
  const news = isNews(known, revision, reference);
  const tells = isWelcome || news;
  if (!isWelcome && news) [known.revision, known.time] = [revision, reference];
  // What was had is lost there, and comes again under the same numbers.
  if (isWelcome && goesBack) [known.revision, known.time] = [0, 0];
  known.heardAt = now;
  known.connection = state.connection;
  if (!isNewest) return actions;
  known.snapshot = call;
  known.asOf = reference;
  if (tells) known.isLive = isLiveFor(state, call);
  known.countdown = countdown(state, known, reference, expiresIn, now);
  known.nextHeartbeat = beats(state, known) ? known.nextHeartbeat ?? now + state.heartbeatInterval : undefined;
  return actions;
}

// Resynchronisation

/** The last news of the call are older than the list in a welcome that arrives now. */
const isOutdated = (state: State, known: KnownCall, now: number): boolean =>
  known.connection !== state.connection || now - known.heardAt > resyncAfter;

/** A request of the app about this call is unanswered. What a welcome lists may be its success, of which the app is told first. */
const isAsked = (state: State, callID: string): boolean =>
  state.pending.some(({ request }) => request.callID === callID && changesCall(request.type));

/** What a welcome had of a call, once the last request about it is answered. */
export function releaseHeld(state: State, callID: string, now: number): Action[] {
  const held = isAsked(state, callID) ? undefined : state.heldCalls.get(callID);
  if (!held) return [];
  state.heldCalls.delete(callID);
  return listedCall(state, held.call, held.reference, now);
}

function listedCall(state: State, call: CallObject, reference: number, now: number): Action[] {
  const known = knownCall(state, call.callID);
  const news = !known || !known.isLive || call.revision !== known.snapshot.revision;
  // An older list than the last news, as two replicas may send them, brings nothing back to life. Long after the last news, or on
  // another connection, it is no older list: the store has lost what it had.
  const isOlder = known !== undefined && call.revision < known.snapshot.revision && !isOutdated(state, known, now);
  if (isOlder || !hasRoom(state, call)) return [];
  const actions = remember(state, call, 0, reference, undefined, now);
  return news ? [...actions, deliver({ tell: "snapshot", call })] : actions;
}

/**
 * Calls that the service lists are told when they are new to the app. Calls that it does not list are over, and their events are
 * not owed to this session: the app is told once.
 */
export function resynchronised(state: State, welcome: Welcome, now: number): Action[] {
  const actions: Action[] = [];
  for (const call of welcome.calls) {
    if (isAsked(state, call.callID)) state.heldCalls.set(call.callID, { call, reference: welcome.serverTime });
    else actions.push(...listedCall(state, call, welcome.serverTime, now));
  }
  // A list that had to be cut says nothing about the calls that it does not name.
  if (welcome.omittedCalls > 0) return actions;
  const listed = new Set(welcome.calls.map((call) => call.callID));
  const invited = new Set(state.pending.flatMap(({ request }) => (request.type === "call.invite" ? [request.callID] : [])));
  for (const known of state.calls) {
    const { callID } = known.snapshot;
    if (known.isLive && !listed.has(callID) && isOutdated(state, known, now) && !invited.has(callID)) {
      actions.push(over(known, "gone"));
    }
  }
  return actions;
}

/** The service does not know a call that this device took for live. */
export function callNotFound(state: State, callID: string): Action[] {
  const known = knownCall(state, callID);
  return known?.isLive ? [over(known, "gone")] : [];
}

function over(known: KnownCall, tell: "gone" | "invitationExpired"): Action {
  known.isLive = false;
  known.countdown = undefined;
  known.nextHeartbeat = undefined;
  return deliver({ tell, call: known.snapshot });
}

// Countdown

/** The countdown of an invitation that rings here, or that this user made and nobody answered. */
function countdown(
  state: State, known: KnownCall, reference: number, expiresIn: number | undefined, now: number,
): Countdown | undefined {
  const call = known.snapshot;
  const own = memberOf(call, state.user);
  if (!known.isLive || !own) return undefined;
  const isRinging = isPending(own.state);
  let expiresAt = own.expiresAt;
  if (!isRinging) {
    const pending = call.members.filter((member) => isPending(member.state));
    if (call.state !== "ringing" || own.device !== state.device || pending.length === 0) return undefined;
    const expiries = pending.flatMap((member) => member.expiresAt ?? []);
    expiresAt = expiries.length > 0 ? Math.max(...expiries) : undefined;
  }
  const computed = expiresAt === undefined ? call.timeout * 1000 : expiresAt - reference;
  const left = isRinging ? expiresIn ?? computed : computed;
  let until = now + clamp(left, 0, longestInvitation) + state.configuration.ringingMargin;
  const running = known.countdown;
  // Each message can only overstate what is left: by its own age.
  if (running && running.expiresAt === expiresAt) until = Math.min(until, running.until);
  return { expiresAt, until };
}

export const countdownsPassed = (state: State, now: number): Action[] =>
  state.calls
    .filter((known) => known.countdown && known.countdown.until <= now)
    .map((known) => over(known, "invitationExpired"));

// Heartbeats

/** In advanced mode the service takes a silent member for gone (section 3). */
function beats(state: State, known: KnownCall): boolean {
  const own = memberOf(known.snapshot, state.user);
  return known.isLive && known.snapshot.mode === "advanced" && own?.state === "accepted" && own.device === state.device;
}

export function setHeartbeatInterval(state: State, seconds: number, now: number): void {
  state.heartbeatInterval = clamp(seconds, 1, 3600) * 1000;
  for (const known of state.calls) {
    if (known.nextHeartbeat !== undefined) {
      known.nextHeartbeat = Math.min(known.nextHeartbeat, now + state.heartbeatInterval);
    }
  }
}

export function heartbeatsDue(state: State, now: number): Action[] {
  if (state.link !== "subscribed") return [];
  const due = state.calls.filter((known) => known.nextHeartbeat !== undefined && known.nextHeartbeat <= now);
  return due.map((known) => {
    known.nextHeartbeat = now + state.heartbeatInterval;
    return publish({ type: "call.heartbeat", callID: known.snapshot.callID });
  });
}
