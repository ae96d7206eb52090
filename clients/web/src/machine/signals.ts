import type { OutgoingSignal, Signal } from "../protocol.js";
import type { StreamBounds } from "./ordered-streams.js";
import { type Action, type State, deliver, publish } from "./state.js";

/* Signals within a call (docs/protocol.md, section 2, Signals): sent once, received in the order of their `seq`. */

/** How long a signal waits for a connection, in milliseconds; it is of no use later. */
const signalLife = 5_000;
/** Signals that wait for a connection. */
const waitingSignals = 256;
/** A signal is of use at once or not at all. Each is sent once: a copy is the broker's, and known by its `seq`. */
export const signalBounds: StreamBounds = { beginning: 500, gap: 500, remembered: 256 };

/** The app sends a signal. Its place in the stream of this device is given here. */
export function sendSignal(state: State, asked: OutgoingSignal, now: number): Action[] {
  const seq = state.nextSignal.get(asked.callID) ?? 1;
  if (state.nextSignal.size >= state.configuration.knownCalls && seq === 1) forgetSignalPlaces(state);
  state.nextSignal.set(asked.callID, seq + 1);
  const signal: OutgoingSignal = { ...asked, seq };
  if (state.configuration.signalStream !== undefined) signal.stream = state.configuration.signalStream;
  if (state.link === "subscribed") return [publish(signal)];
  if (state.waitingSignals.length === waitingSignals) state.waitingSignals.shift();
  state.waitingSignals.push({ signal, until: now + signalLife });
  return [];
}

/**
 * Counting begins again for calls that are over. A receiver that followed one takes what comes for duplicates, but in a call that
 * is over nothing comes.
 */
function forgetSignalPlaces(state: State): void {
  for (const callID of [...state.nextSignal.keys()]) {
    if (!state.calls.some((call) => call.snapshot.callID === callID && call.isLive)) state.nextSignal.delete(callID);
  }
}

/** What waited for the connection and is still of use. */
export function sendWaitingSignals(state: State, now: number): Action[] {
  const waiting = state.waitingSignals;
  state.waitingSignals = [];
  return waiting.filter((entry) => entry.until > now).map((entry) => publish(entry.signal));
}

export function receivedSignal(state: State, signal: Signal, now: number): Action[] {
  if (signal.seq === undefined) return [deliver({ tell: "signal", signal })];
  return state.signalStreams.received(signal, signal.seq, now).map((each) => deliver({ tell: "signal", signal: each }));
}

/** Gaps that have been waited for long enough are given up. */
export const signalGapsPassed = (state: State, now: number): Action[] =>
  state.signalStreams.gapsPassed(now).map((signal) => deliver({ tell: "signal", signal }));
