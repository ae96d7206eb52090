import { type Action, type State, clamp } from "./state.js";

/*
 * A broker that answers pings may deliver nothing to this device. The device then leaves its connection
 * (docs/protocol.md, section 1, Several brokers).
 *
 * All brokers are silent while no coordinator serves, and another broker does not help then. So the waits double with
 * each connection that is left, and a device without a request waits longer: such devices are many, and no person
 * waits.
 */

/** The first and the longest wait for a message, in milliseconds, after a request and after presence. */
const waits = { request: [8_000, 64_000], presence: [64_000, 1_024_000] } as const;
/**
 * A timer that fires later than this has stood still with the device, in milliseconds: messages may have come meanwhile
 * that the device has not read.
 */
const lateTimer = 2_000;

function end({ silentSince, leftInSilence }: State, kind: "request" | "presence"): number {
  const since = silentSince[kind];
  const [first, longest] = waits[kind];
  return since === undefined ? Infinity : since + clamp(first * 2 ** leftInSilence, first, longest);
}

/** The time at which to leave the connection; infinite when nothing is awaited. */
const deadline = (state: State): number => Math.min(end(state, "request"), end(state, "presence"));

/** The time at which to leave the connection; undefined when nothing is awaited. */
export function silenceDeadline(state: State): number | undefined {
  const time = deadline(state);
  return time === Infinity ? undefined : time;
}

/** The device has sent a request, or presence, which the service answers. */
export function awaitAnswer(state: State, kind: "request" | "presence", now: number): void {
  state.silentSince[kind] ??= now;
}

/** A message came. */
export function endSilence(state: State): void {
  state.silentSince = {};
  state.leftInSilence = 0;
}

export function silenceDue(state: State, now: number): Action[] {
  const late = now - deadline(state);
  if (state.link !== "subscribed" || late < 0) return [];
  if (late > lateTimer) {
    for (const kind of ["request", "presence"] as const) if (state.silentSince[kind] !== undefined) state.silentSince[kind] = now;
    return [];
  }
  state.silentSince = {};
  state.leftInSilence += 1;
  return [{ act: "renewSession" }];
}
