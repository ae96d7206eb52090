import type { OutgoingSignal, Signal } from "../protocol.js";
import type { StreamBounds } from "./ordered-streams.js";
import { type Action, type State, deliver, publish } from "./state.js";

/*
 * Signals within a call (docs/protocol.md, section 2, Signals). The device sends each signal once and delivers received
 * signals in the order of `seq`.
 */

/** The time that a signal waits for a connection, in milliseconds; later the signal is useless. */
const signalLife = 5_000;
/** The bound on signals that wait for a connection. */
const waitingSignals = 256;
/**
 * A signal is useful at once or never, so the waits are short. Senders send each signal once; a copy comes from the
 * broker and is recognized by its `seq`.
 */
export const signalBounds: StreamBounds = { beginning: 500, gap: 500, remembered: 256 };

/** The app sends a signal. The machine sets the signal's place in the stream of this device. */
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
 * Forgets the counts of calls that are over. A receiver would take signals that count from 1 again for duplicates, but
 * a call that is over has no more signals.
 */
function forgetSignalPlaces(state: State): void {
  for (const callID of [...state.nextSignal.keys()]) {
    if (!state.calls.some((call) => call.snapshot.callID === callID && call.isLive)) state.nextSignal.delete(callID);
  }
}

/** Sends the signals that waited for the connection and are still useful. */
export function sendWaitingSignals(state: State, now: number): Action[] {
  const waiting = state.waitingSignals;
  state.waitingSignals = [];
  return waiting.filter((entry) => entry.until > now).map((entry) => publish(entry.signal));
}

export function receivedSignal(state: State, signal: Signal, now: number): Action[] {
  if (signal.seq === undefined) return [deliver({ tell: "signal", signal })];
  return state.signalStreams.received(signal, signal.seq, now).map((each) => deliver({ tell: "signal", signal: each }));
}

/** Gives up the gaps that have waited long enough. */
export const signalGapsPassed = (state: State, now: number): Action[] =>
  state.signalStreams.gapsPassed(now).map((signal) => deliver({ tell: "signal", signal }));
