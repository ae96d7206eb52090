import { type Action, type State, clamp } from "./state.js";

/*
 * A broker that answers pings may deliver nothing to this device. The device then leaves its connection
 * (docs/protocol.md, section 1, Several brokers).
 */

/**
 * The wait for a message, in milliseconds. The wait doubles with each further connection that is left, because another
 * broker does not help while no coordinator serves: all brokers are silent then.
 */
const firstWait = 8_000;
const longestWait = 64_000;

/** The time at which to leave the connection. */
export const silenceDeadline = ({ silentSince, leftInSilence }: State): number | undefined =>
  silentSince === undefined ? undefined : silentSince + clamp(firstWait * 2 ** leftInSilence, firstWait, longestWait);

/** The device has sent a request or presence, which the service answers. */
export function awaitAnswer(state: State, now: number): void {
  state.silentSince ??= now;
}

/** A message came. */
export function endSilence(state: State): void {
  state.silentSince = undefined;
  state.leftInSilence = 0;
}

export function silenceDue(state: State, now: number): Action[] {
  if (state.link !== "subscribed" || (silenceDeadline(state) ?? Infinity) > now) return [];
  state.silentSince = undefined;
  state.leftInSilence += 1;
  return [{ act: "renewSession" }];
}
