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
import { type Action, type Configuration, type State, defaults } from "./machine/state.js";
import { tokenRenewalDue, tokenWillExpire } from "./machine/token.js";

export type { Action, Configuration, Told } from "./machine/state.js";

/**
 * All decisions of the SDK: what to publish when, what the app is told, when a request has failed. The twin of the Swift SDK's
 * `ClientMachine`; both are held to the scenarios in `Tests/ClientCases`.
 *
 * A pure, synchronous, deterministic machine. It does no I/O and knows no clock and no randomness: each event is a call with the
 * time, and what follows is returned as actions, to be performed in their order. Times are milliseconds of any clock that never
 * goes back; the service's clock is never compared with it (docs/protocol.md, section 5).
 *
 * The owner calls `timerFired` when `nextDeadline` has come.
 */
export class ClientMachine {
  private readonly state: State;

  constructor(user: string, device: string, configuration: Partial<Configuration> = {}) {
    const settings = { ...defaults, ...configuration };
    this.state = {
      user, device, configuration: settings,
      link: "offline", session: "", connection: 0, isOnline: false,
      presenceSends: 0, isAwaitingWelcome: false, nextPresence: undefined,
      lastCorrection: undefined, lastSessionRenewal: undefined, tokenRenewal: undefined, isRenewing: false,
      heartbeatInterval: 20_000, pending: [], calls: [], heldCalls: new Map(),
      nextSignal: new Map(), waitingSignals: [], signalStreams: new OrderedStreams(signalBounds),
      shown: new Set(), messageStreams: new OrderedStreams(messageBounds),
      places: new MessagePlaces(settings.signalStream), unreceipted: [],
    };
  }

  /** The newest state of the call that the device knows. */
  snapshot(callID: string): CallObject | undefined {
    return knownCall(this.state, callID)?.snapshot;
  }

  /** When `timerFired` must be called next; undefined when there is nothing to wait for. */
  get nextDeadline(): number | undefined {
    const { state } = this;
    const times: (number | undefined)[] = [];
    for (const entry of state.pending) times.push(entry.deadline);
    for (const known of state.calls) times.push(known.countdown?.until);
    times.push(state.signalStreams.deadline, state.messageStreams.deadline);
    if (state.link === "subscribed") {
      times.push(state.nextPresence, state.tokenRenewal);
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

  /** Does all that is due at `now`. */
  timerFired(now: number): Action[] {
    const { state } = this;
    return [
      ...tokenRenewalDue(state, now), ...presenceDue(state, now), ...requestsDue(state, now), ...heartbeatsDue(state, now),
      ...countdownsPassed(state, now), ...signalGapsPassed(state, now), ...messageGapsPassed(state, now),
      ...receiptsDue(state, now),
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

  /** The connection is gone. Requests and calls stay. */
  disconnected(reason: string): Action[] {
    return disconnected(this.state, reason);
  }

  /** The connection is about to be given up for another one, of which the app is to hear nothing. */
  renewing(): void {
    renewing(this.state);
  }

  /** The app leaves: says goodbye and fails what is unanswered. The connection is to be closed afterwards. */
  loggedOut(): Action[] {
    return loggedOut(this.state);
  }

  /**
   * The app makes a request. Its id must be new; `succeed` or `fail` follows exactly once. `isOrdered`: a message that the recipient's
   * app is to get in the order of those to it; its `seq` and `stream` are given here.
   */
  send(request: Request, now: number, isOrdered = false): Action[] {
    return sendRequest(this.state, request, isOrdered, now);
  }

  /** The app sends a signal. Its place in the stream of this device is given here. */
  signal(signal: OutgoingSignal, now: number): Action[] {
    return sendSignal(this.state, signal, now);
  }

  /** A message arrived on one of the down topics. */
  received(message: DownMessage, now: number): Action[] {
    const { state } = this;
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
