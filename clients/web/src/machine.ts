import type { CallObject, DownMessage, OutgoingSignal, Request } from "./protocol.js";
import {
  countdownsPassed, heartbeatsDue, receivedEvent, receivedUnknownEvent,
} from "./machine/calls.js";
import { receiptsDue, receivedMessage } from "./machine/messages.js";
import {
  connected, disconnected, loggedOut, presenceDue, receivedError, receivedWelcome, renewing, subscribed,
} from "./machine/presence.js";
import { receivedReceipt, receivedResponse, requestsDue, sendRequest } from "./machine/requests.js";
import { knownCall } from "./machine/room.js";
import { MessagePlaces, messageBounds, messageGapsPassed } from "./machine/order.js";
import { OrderedStreams } from "./machine/ordered-streams.js";
import { receivedSignal, sendSignal, signalBounds, signalGapsPassed } from "./machine/signals.js";
import { endSilence, silenceDeadline, silenceDue } from "./machine/silence.js";
import { type Action, type Configuration, type State, defaults } from "./machine/state.js";
import { tokenRenewalDue, tokenWillExpire } from "./machine/token.js";

export type { Action, Configuration, Told } from "./machine/state.js";

/**
 * All decisions of the SDK: when to publish a message, when to tell the app, when a request has failed. The Swift SDK
 * has the same `ClientMachine`; the scenarios in `Tests/ClientCases` test both.
 *
 * The machine is pure, synchronous and deterministic. The machine does no I/O and has no clock and no randomness: each
 * method takes the time as an argument and returns actions that the caller performs in their order. Times are
 * milliseconds of any clock that never goes back; the machine never compares this clock with the service's clock
 * (docs/protocol.md, section 5).
 *
 * The owner calls `timerFired` when `nextDeadline` has come.
 */
export class ClientMachine {
  private readonly state: State;

  constructor(user: string, device: string, configuration: Partial<Configuration> = {}) {
    const settings = { ...defaults, ...configuration };
    this.state = {
      user, device, configuration: settings,
      link: "offline", session: "", ownSessions: [], connection: 0, isOnline: false,
      presenceSends: 0, isAwaitingWelcome: false, nextPresence: undefined,
      lastCorrection: undefined, lastSessionRenewal: undefined, silentSince: {}, leftInSilence: 0,
      tokenRenewal: undefined, isRenewing: false,
      heartbeatInterval: 20_000, pending: [], calls: [], heldCalls: new Map(),
      nextSignal: new Map(), waitingSignals: [], signalStreams: new OrderedStreams(signalBounds),
      shown: new Set(), messageStreams: new OrderedStreams(messageBounds),
      places: new MessagePlaces(settings.signalStream), unreceipted: [],
    };
  }

  /** Returns the newest known state of the call. */
  snapshot(callID: string): CallObject | undefined {
    return knownCall(this.state, callID)?.snapshot;
  }

  /** The time of the next `timerFired` call; undefined when no deadline is set. */
  get nextDeadline(): number | undefined {
    const { state } = this;
    const times: (number | undefined)[] = [];
    for (const entry of state.pending) times.push(entry.deadline);
    for (const known of state.calls) times.push(known.countdown?.until);
    times.push(state.signalStreams.deadline, state.messageStreams.deadline);
    if (state.link === "subscribed") {
      times.push(state.nextPresence, state.tokenRenewal, silenceDeadline(state));
      for (const entry of state.pending) times.push(entry.stage === "sending" ? entry.nextSend : undefined);
      for (const known of state.calls) times.push(known.nextHeartbeat);
      for (const sent of state.unreceipted) times.push(sent.askAt);
    }
    let earliest: number | undefined;
    for (const time of times) {
      if (time !== undefined && (earliest === undefined || time < earliest)) earliest = time;
    }
    return earliest;
  }

  /**
   * Returns for how many seconds a broker may keep a message of this device: until the app is told that the request
   * `id` has failed, at least a second. A broker may keep any other message for `requestTimeout`.
   */
  expiry(id: string | undefined, now: number): number {
    const entry = this.state.pending.find(({ request }) => request.id === id);
    const left = entry ? entry.deadline - now : this.state.configuration.requestTimeout;
    return Math.max(1, Math.ceil(left / 1000));
  }

  /** Does all that is due at `now`. */
  timerFired(now: number): Action[] {
    const { state } = this;
    return [
      ...tokenRenewalDue(state, now), ...presenceDue(state, now), ...requestsDue(state, now), ...heartbeatsDue(state, now),
      ...countdownsPassed(state, now), ...signalGapsPassed(state, now), ...messageGapsPassed(state, now),
      ...receiptsDue(state, now), ...silenceDue(state, now),
    ];
  }

  /** The broker accepted a connection. `session` is random and new with each connection. */
  connected(session: string): Action[] {
    return connected(this.state, session);
  }

  /** The broker answered the subscriptions of both down topics. */
  subscribed(now: number): Action[] {
    return subscribed(this.state, now);
  }

  /** The connection is lost. The machine keeps requests and calls. */
  disconnected(reason: string): Action[] {
    return disconnected(this.state, reason);
  }

  /** The owner is about to replace the connection by another. The app is not told. */
  renewing(): void {
    renewing(this.state);
  }

  /** The app disconnects. Says goodbye and fails unanswered requests. The owner then closes the connection. */
  loggedOut(): Action[] {
    return loggedOut(this.state);
  }

  /**
   * The app makes a request with a new id. Exactly one `succeed` or `fail` follows. `isOrdered`: the request is a peer
   * message that the recipient's app gets in the order of sending; the machine sets `seq` and `stream`.
   */
  send(request: Request, now: number, isOrdered = false): Action[] {
    return sendRequest(this.state, request, isOrdered, now);
  }

  /** The app sends a signal. The machine sets the signal's place in the stream of this device. */
  signal(signal: OutgoingSignal, now: number): Action[] {
    return sendSignal(this.state, signal, now);
  }

  /** A message arrived on a down topic. */
  received(message: DownMessage, now: number): Action[] {
    const { state } = this;
    endSilence(state);
    switch (message.type) {
      case "response":
        return receivedResponse(state, message, now);
      case "event":
        return receivedEvent(state, message, now);
      case "unknownEvent":
        return receivedUnknownEvent(state, message.callID, message.revision);
      case "welcome":
        return receivedWelcome(state, message, now);
      case "error":
        return receivedError(state, message.error, now);
      case "signal":
        return receivedSignal(state, message, now);
      case "message":
        return receivedMessage(state, message, now);
      case "receipt":
        return receivedReceipt(state, message, now);
      case "tokenWillExpire":
        return tokenWillExpire(state, now);
    }
  }
}
