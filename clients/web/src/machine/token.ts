import type { Welcome } from "../protocol.js";
import { type Action, type State, clamp } from "./state.js";

/* A new token before the current token ends (docs/protocol.md, section 1, Tokens). The app is not told. */

/**
 * The time before the end of a token at which the machine asks for another token, in milliseconds. A token with a life
 * of less than twice this time is renewed in the middle of its life.
 */
const renewalMargin = 60_000;
/**
 * The shortest pause before a renewal, in milliseconds. A provider that returns the same token until its end must not
 * make the device reconnect all the time.
 */
const leastPause = 1_000;
/**
 * The pause after a warning of the broker, in milliseconds. Tokens with a life of less than a minute cause a warning
 * with each connection.
 */
const renewalPause = 5_000;

/**
 * Sets the time of the renewal. The service sends the token's end and the time of the welcome, both by its own clock.
 */
export function setTokenRenewal(state: State, { tokenExpiresAt, serverTime }: Welcome, now: number): void {
  if (!state.configuration.renewsTokens || tokenExpiresAt === undefined) return;
  // The value is clamped so that the pause is never too short and the sum never too large, whatever the service sends.
  const life = clamp(tokenExpiresAt - serverTime, 0, 2 ** 40);
  state.tokenRenewal = now + Math.max(life - renewalMargin, Math.floor(life / 2), leastPause);
}

/**
 * Handles the broker's warning, a minute before the token's end. The warning is only news when the welcome had no end
 * of the token.
 */
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
