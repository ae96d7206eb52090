import { BellwireError } from "../errors.js";
import type { Welcome } from "../protocol.js";
import { resynchronised, setHeartbeatInterval } from "./calls.js";
import { askForReceipts } from "./messages.js";
import { messageGapsPassed } from "./order.js";
import { resendAll } from "./requests.js";
import { sendWaitingSignals } from "./signals.js";
import { awaitAnswer } from "./silence.js";
import { type Action, type State, clamp, deliver, fail, resendDelay } from "./state.js";
import { setTokenRenewal } from "./token.js";

/* Connections and presence (docs/protocol.md, section 1). */

/**
 * The shortest time between two corrections, in milliseconds. Two connections that claim to be the same device would
 * otherwise answer each other's welcomes without end.
 */
const correctionInterval = 1_000;
/**
 * The shortest time between two reconnects because of a session that is over, in milliseconds. The device publishes its
 * presence again at the latest after this time, and the service then answers again.
 */
const sessionPause = 8_000;

function resetPresence(state: State): void {
  state.presenceSends = 0;
  state.isAwaitingWelcome = false;
  state.nextPresence = undefined;
  state.lastCorrection = undefined;
}

/** The number of this client's sessions that the machine remembers. */
const sessionsRemembered = 16;

/** The broker accepted a connection. `session` is random and new with each connection. */
export function connected(state: State, session: string): Action[] {
  const actions = state.isRenewing ? [] : disconnected(state, "replaced by a new connection");
  state.isRenewing = false;
  state.connection += 1;
  state.heldCalls.clear();
  state.link = "connected";
  state.silentSince = {};
  state.session = session;
  state.ownSessions.push(session);
  if (state.ownSessions.length > sessionsRemembered) state.ownSessions.shift();
  return actions;
}

/**
 * The broker answered the subscriptions of both down topics. From now on the device misses no message, so the machine
 * publishes presence and then the waiting requests.
 */
export function subscribed(state: State, now: number): Action[] {
  if (state.link !== "connected") return [];
  state.link = "subscribed";
  resetPresence(state);
  state.isAwaitingWelcome = true;
  askForReceipts(state, now);
  return [...publishPresence(state, now), ...resendAll(state, now), ...sendWaitingSignals(state, now)];
}

/** The connection is lost. The machine keeps requests and calls. */
export function disconnected(state: State, reason: string): Action[] {
  state.link = "offline";
  state.isRenewing = false;
  state.tokenRenewal = undefined;
  resetPresence(state);
  if (!state.isOnline) return [];
  state.isOnline = false;
  return [deliver({ tell: "offline", reason })];
}

/** The app disconnects. Says goodbye and fails unanswered requests. The owner then closes the connection. */
export function loggedOut(state: State): Action[] {
  const actions: Action[] = [];
  if (state.link === "subscribed") {
    actions.push({ act: "publishPresence", message: { online: false, reason: "logout", session: state.session } });
  }
  // The machine has acked the waiting messages, so the app must get them now.
  actions.push(...messageGapsPassed(state, Infinity));
  const error = new BellwireError("disconnected", "the client disconnected before the response came");
  for (const { request } of state.pending) actions.push(fail(request.id, error));
  state.pending = [];
  state.link = "offline";
  state.isOnline = false;
  return actions;
}

/**
 * The owner is about to replace the connection by another with a new token. The device does not go offline for the new
 * token, and the app is told only when the next connection fails.
 */
export function renewing(state: State): void {
  state.link = "offline";
  resetPresence(state);
  state.isRenewing = true;
}

export function presenceDue(state: State, now: number): Action[] {
  if (state.link !== "subscribed" || state.nextPresence === undefined || state.nextPresence > now) return [];
  if (!state.isAwaitingWelcome) {
    // A renewal is answered and repeated like the first presence message: without repetition, the loss of a single
    // message would let the presence expire.
    state.isAwaitingWelcome = true;
    state.presenceSends = 0;
  }
  return publishPresence(state, now);
}

function publishPresence(state: State, now: number): Action[] {
  awaitAnswer(state, "presence", now);
  state.presenceSends += 1;
  state.nextPresence = now + resendDelay(state.presenceSends);
  return [{ act: "publishPresence", message: { online: true, session: state.session } }];
}

export function receivedWelcome(state: State, welcome: Welcome, now: number): Action[] {
  if (state.link !== "subscribed") return [];
  if (welcome.session !== state.session) return welcomedAnotherSession(state, now);
  state.isAwaitingWelcome = false;
  state.presenceSends = 0;
  // The device renews presence even while the device is busy: each welcome is a chance to learn of a call that is over.
  // The pause is half of the lease if the service sends the lease. Any value from the service is clamped to a pause
  // between 1 s and an hour.
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

/**
 * Handles an error of the service. A `sessionOver` error names the session of another connection, or of this
 * connection when the session's end overtook its beginning.
 */
export function receivedError(state: State, error: BellwireError, now: number): Action[] {
  if (error.code !== "sessionOver") return [deliver({ tell: "error", error })];
  if (state.link !== "subscribed" || error.session !== state.session) return [];
  // The beginning of a former session of this client came late, from a broker that stood still.
  const isOwn = error.newerSession !== undefined && state.ownSessions.includes(error.newerSession);
  if (error.reason === "takenOver" && !isOwn) return [{ act: "endTakenOver" }];
  // Reconnects have a minimum pause, whatever the service sends. After the pause the device publishes presence, and the
  // service answers again.
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

/** The service names another current session, so the device publishes its own session again. */
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
