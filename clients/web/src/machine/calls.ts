import {
  type CallEvent, type CallObject, type Response, type Welcome, changesCall, isPending, memberOf,
} from "../protocol.js";
import { hasRoom, isLiveFor, knownCall, makeRoom } from "./room.js";
import { type Action, type Countdown, type KnownCall, type State, clamp, deliver, publish } from "./state.js";

/* Events, and the machine's knowledge of calls (docs/protocol.md, section 5). */

/**
 * The age in milliseconds after which the last news of a call no longer contradicts a welcome. The service resends
 * unacked events for 60 s. A welcome that does not list a call may be older than the last news of the call. When that
 * news is older than this age, the welcome is newer, and the call is over.
 */
const resyncAfter = 90_000;
/** The longest invitation (section 2), in milliseconds. */
const longestInvitation = 600_000;

/**
 * Whether the device has not had this revision. A lower revision with a later time is also new: the store has lost
 * writes and assigns revision numbers a second time (section 5).
 */
function isNews(known: KnownCall | undefined, revision: number, madeAt: number): boolean {
  if (!known) return revision > 0;
  return revision > known.revision || (known.revision > 0 && madeAt > known.time);
}

const ack = (callID: string, revision: number): Action => publish({ type: "ack", callID, revision });

export function receivedEvent(state: State, event: CallEvent, now: number): Action[] {
  // Without an ack the service resends the event while the event is useful; by then there may be room.
  if (!hasRoom(state, event.call)) return [{ act: "refuse", callID: event.callID }];
  const known = knownCall(state, event.callID);
  const news = isNews(known, event.revision, event.time);
  // Acks are cumulative: the service would answer a lower ack by resending news that the device already has. Revisions
  // below 0 do not exist, and the service would refuse such an ack.
  const acked = news ? event.revision : Math.max(event.revision, known?.revision ?? 0, 0);
  const actions = [ack(event.callID, acked)];
  actions.push(...remember(state, event.call, event.revision, event.time, event.expiresIn, now));
  if (news) actions.push(deliver({ tell: "event", event }));
  return actions;
}

/** Acks an event that this version cannot read, so that the service does not resend the event. */
export const receivedUnknownEvent = (state: State, callID: string, revision: number): Action[] => [
  ack(callID, Math.max(revision, knownCall(state, callID)?.revision ?? 0, 0)),
];

/**
 * Learns a call's state from a response. The machine will ignore later events up to that revision, so the machine tells
 * the app here.
 */
export function learnedOfCall(state: State, { call, time }: Response, now: number): Action[] {
  if (!call || !hasRoom(state, call)) return [];
  const news = isNews(knownCall(state, call.callID), call.revision, time);
  const actions = remember(state, call, call.revision, time, undefined, now);
  return news ? [...actions, deliver({ tell: "snapshot", call })] : actions;
}

/**
 * Stores the state of a call from a message. `revision` is 0 for a welcome. `reference` is the creation time of the
 * revision, or of the welcome, by the service's clock. On this device's clock that moment is `now` or earlier, so an
 * expiry that is computed from `reference` can only be too late.
 */
function remember(
  state: State, call: CallObject, revision: number, reference: number, expiresIn: number | undefined, now: number,
): Action[] {
  const actions: Action[] = [];
  let known = knownCall(state, call.callID);
  if (!known) {
    const forgetting = makeRoom(state, call);
    // The table is full and the call is over, so the machine does not store the call.
    if (!forgetting) return [];
    actions.push(...forgetting);
    known = { snapshot: call, revision: 0, time: 0, asOf: 0, isLive: false, heardAt: now, connection: state.connection };
    state.calls.push(known);
  }
  const isWelcome = revision === 0;
  const goesBack = call.revision < known.snapshot.revision;
  const isNewest = isWelcome || !goesBack || reference > known.asOf;
  // A resend does not make a call ring again that the machine gave up locally. Newer events and welcomes make the call
  // ring again.
  const news = isNews(known, revision, reference);
  const tells = isWelcome || news;
  if (!isWelcome && news) [known.revision, known.time] = [revision, reference];
  // The store has lost revisions, and will assign the same numbers again.
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

/** Whether the last news of the call are older than the list in a welcome that arrives now. */
const isOutdated = (state: State, known: KnownCall, now: number): boolean =>
  known.connection !== state.connection || now - known.heardAt > resyncAfter;

/**
 * Whether the app has an unanswered request about this call. A welcome may already show the request's success, but the
 * app is told the response first.
 */
const isAsked = (state: State, callID: string): boolean =>
  state.pending.some(({ request }) => request.callID === callID && changesCall(request.type));

/** Applies the held list entry of a call when the last request about the call is answered. */
export function releaseHeld(state: State, callID: string, now: number): Action[] {
  const held = isAsked(state, callID) ? undefined : state.heldCalls.get(callID);
  if (!held) return [];
  state.heldCalls.delete(callID);
  return listedCall(state, held.call, held.reference, now);
}

function listedCall(state: State, call: CallObject, reference: number, now: number): Action[] {
  const known = knownCall(state, call.callID);
  const news = !known || !known.isLive || call.revision !== known.snapshot.revision;
  // Two coordinators may send their lists in the wrong order, so a list that is older than the last news revives no
  // call. On another connection, or long after the last news, a lower revision means that the store has lost data.
  const isOlder = known !== undefined && call.revision < known.snapshot.revision && !isOutdated(state, known, now);
  if (isOlder || !hasRoom(state, call)) return [];
  const actions = remember(state, call, 0, reference, undefined, now);
  return news ? [...actions, deliver({ tell: "snapshot", call })] : actions;
}

/**
 * Tells the app of listed calls that are new to the app. Calls that the service does not list are over, and the service
 * does not send their events to this session, so the machine tells the app once.
 */
export function resynchronised(state: State, welcome: Welcome, now: number): Action[] {
  const actions: Action[] = [];
  for (const call of welcome.calls) {
    if (isAsked(state, call.callID)) state.heldCalls.set(call.callID, { call, reference: welcome.serverTime });
    else actions.push(...listedCall(state, call, welcome.serverTime, now));
  }
  // An incomplete list says nothing about unlisted calls.
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

/** The service does not know a call that the machine considered live. */
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

/** Returns the countdown of an invitation that rings here, or that this user made and no invitee has answered. */
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
  // A message can only overstate the remaining time, by its own age. The earliest end is therefore the best.
  if (running && running.expiresAt === expiresAt) until = Math.min(until, running.until);
  return { expiresAt, until };
}

export const countdownsPassed = (state: State, now: number): Action[] =>
  state.calls
    .filter((known) => known.countdown && known.countdown.until <= now)
    .map((known) => over(known, "invitationExpired"));

// Heartbeats

/**
 * Whether this device must send heartbeats. In advanced mode the service considers a silent member gone (section 3).
 */
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
