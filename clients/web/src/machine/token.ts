import type { Welcome } from "../protocol.js";
import { type Action, type State, clamp } from "./state.js";

/* Another token before the present one ends (docs/protocol.md, section 1, Tokens). The app sees nothing of it. */

/**
 * How long before the end of its token a device asks for another, in milliseconds; in the middle of a life of less than twice that.
 */
const renewalMargin = 60_000;
/** A provider that gives one and the same token until it ends must not make the device connect all the time. */
const leastPause = 1_000;
/** After a warning, in milliseconds: tokens that live for less than a minute bring one with each connection. */
const renewalPause = 5_000;

/** The service says when the token ends, by its own clock, as of which the welcome was sent. */
export function setTokenRenewal(state: State, { tokenExpiresAt, serverTime }: Welcome, now: number): void {
  if (!state.configuration.renewsTokens || tokenExpiresAt === undefined) return;
  // Whatever a service says, there is a pause, and it can be added up.
  const life = clamp(tokenExpiresAt - serverTime, 0, 2 ** 40);
  state.tokenRenewal = now + Math.max(life - renewalMargin, Math.floor(life / 2), leastPause);
}

/** Told by the broker a minute before; only news to a device that was not told with its welcome. */
export function tokenWillExpire(state: State, now: number): Action[] {
  if (state.configuration.renewsTokens && state.tokenRenewal === undefined && state.link === "subscribed") {
    state.tokenRenewal = now + renewalPause;
  }
  return [];
}

export function tokenRenewalDue(state: State, now: number): Action[] {
  if (state.link !== "subscribed" || state.tokenRenewal === undefined || state.tokenRenewal > now) return [];
  state.tokenRenewal = undefined;
  return [{ act: "renewToken" }];
}
