import { BellwireError } from "../errors.js";
import type { Welcome } from "../protocol.js";
import { resynchronised, setHeartbeatInterval } from "./calls.js";
import { askForReceipts } from "./messages.js";
import { messageGapsPassed } from "./order.js";
import { resendAll } from "./requests.js";
import { sendWaitingSignals } from "./signals.js";
import { type Action, type State, clamp, deliver, fail, resendDelay } from "./state.js";
import { setTokenRenewal } from "./token.js";

/* Connections and presence (docs/protocol.md, section 1). */

/** Two connections that claim to be the same device would answer each other's welcomes for ever: at most one answer in this time. */
const correctionInterval = 1_000;
/**
 * Between two connections that are made because a session is over, in milliseconds. Presence is published again after at most as
 * long, and answered again.
 */
const sessionPause = 8_000;

function resetPresence(state: State): void {
  state.presenceSends = 0;
  state.isAwaitingWelcome = false;
  state.nextPresence = undefined;
  state.lastCorrection = undefined;
}

/** The broker accepted a connection. `session` is random and new with each connection. */
export function connected(state: State, session: string): Action[] {
  const actions = state.isRenewing ? [] : disconnected(state, "replaced by a new connection");
  state.isRenewing = false;
  state.connection += 1;
  state.heldCalls.clear();
  state.link = "connected";
  state.session = session;
  return actions;
}

/**
 * The broker answered the subscriptions of both down topics: from now on nothing that is sent to this device is missed, so presence
 * is published, and after it the requests that wait.
 */
export function subscribed(state: State, now: number): Action[] {
  if (state.link !== "connected") return [];
  state.link = "subscribed";
  resetPresence(state);
  state.isAwaitingWelcome = true;
  askForReceipts(state, now);
  return [...publishPresence(state, now), ...resendAll(state, now), ...sendWaitingSignals(state, now)];
}

/** The connection is gone. Requests and calls stay. */
export function disconnected(state: State, reason: string): Action[] {
  state.link = "offline";
  state.isRenewing = false;
  state.tokenRenewal = undefined;
  resetPresence(state);
  if (!state.isOnline) return [];
  state.isOnline = false;
  return [deliver({ tell: "offline", reason })];
}

/** The app leaves: says goodbye and fails what is unanswered. The connection is to be closed afterwards. */
export function loggedOut(state: State): Action[] {
  const actions: Action[] = [];
  if (state.link === "subscribed") {
    actions.push({ act: "publishPresence", message: { online: false, reason: "logout", session: state.session } });
  }
  // What waits for its turn was acked: it is told now or never.
  actions.push(...messageGapsPassed(state, Infinity));
  const error = new BellwireError("disconnected", "the client disconnected before the response came");
  for (const { request } of state.pending) actions.push(fail(request.id, error));
  state.pending = [];
  state.link = "offline";
  state.isOnline = false;
  return actions;
}

/**
 * The connection is about to be given up for one with another token. Neither does the device go offline for that, nor does the app
 * hear of it, unless the next connection does not come about.
 */
export function renewing(state: State): void {
  state.link = "offline";
  resetPresence(state);
  state.isRenewing = true;
}

export function presenceDue(state: State, now: number): Action[] {
  if (state.link !== "subscribed" || state.nextPresence === undefined || state.nextPresence > now) return [];
  if (!state.isAwaitingWelcome) {
    // The renewal is answered and repeated like the first: a lost one would let the lease run out.
    state.isAwaitingWelcome = true;
    state.presenceSends = 0;
  }
  return publishPresence(state, now);
}

function publishPresence(state: State, now: number): Action[] {
  state.presenceSends += 1;
  state.nextPresence = now + resendDelay(state.presenceSends);
  return [{ act: "publishPresence", message: { online: true, session: state.session } }];
}

export function receivedWelcome(state: State, welcome: Welcome, now: number): Action[] {
  if (state.link !== "subscribed") return [];
  if (welcome.session !== state.session) return welcomedAnotherSession(state, now);
  state.isAwaitingWelcome = false;
  state.presenceSends = 0;
  // Also while the device is not idle: each welcome is a chance to learn of a call that is over. At half of the lease, if the
  // service says how long it is; whatever it says, the pause is a pause, and ends within an hour.
  const { presenceLease } = welcome;
  state.nextPresence =
    now + (presenceLease === undefined ? state.configuration.presenceRenewal : clamp(presenceLease, 2, 7200) * 500);
  setTokenRenewal(state, welcome, now);
  setHeartbeatInterval(state, welcome.heartbeatInterval, now);
  const actions = [deliver({ tell: "welcome", welcome })];
  if (!state.isOnline) {
    state.isOnline = true;
    actions.push(deliver({ tell: "online" }));
  }
  return [...actions, ...resynchronised(state, welcome, now)];
}

/** A session that is over is another connection's, or its end overtook its beginning. */
export function receivedError(state: State, error: BellwireError, now: number): Action[] {
  if (error.code !== "sessionOver") return [deliver({ tell: "error", error })];
  if (state.link !== "subscribed" || error.session !== state.session) return [];
  // Whatever a service says, connecting again has its pause; after it the presence that is published is answered like this one.
  const last = state.lastSessionRenewal;
  if (last !== undefined && now - last < sessionPause) {
    state.isAwaitingWelcome = true;
    state.presenceSends = 0;
    state.nextPresence = last + sessionPause;
    return [];
  }
  state.lastSessionRenewal = now;
  return [{ act: "renewSession" }];
}

/** The service takes another session for the current one: tells it again. */
function welcomedAnotherSession(state: State, now: number): Action[] {
  state.isAwaitingWelcome = true;
  state.presenceSends = 0;
  const last = state.lastCorrection;
  if (last !== undefined && now - last < correctionInterval) {
    state.nextPresence = last + correctionInterval;
    return [];
  }
  state.lastCorrection = now;
  return publishPresence(state, now);
}
