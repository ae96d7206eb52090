import { BellwireError } from "./errors.js";
import { type Action, ClientMachine, type Configuration, type Told } from "./machine.js";
import {
  type OutgoingSignal, type Request, type Response, encodeUser, limits, byteLength, randomID, readDown,
} from "./protocol.js";
import { RivalWatch } from "./rivals.js";
import { after, holdTimers } from "./timers.js";
import type { Connection, ConnectionFailure, Transport } from "./transport.js";

/** A connection that held this long, in milliseconds, was a good one: the next attempt comes soon. */
const goodConnection = 10_000;
/** Waits between attempts to reach the broker, in milliseconds: doubled from the first to the longest. */
const firstPause = 250;
const longestPause = 8_000;
/** After which a token provider that failed is asked again while the present token lasts, in milliseconds. */
const tokenRetry = 5_000;
/** How long the app may take to give a token, in milliseconds. */
const tokenTimeout = 30_000;
/** Signals are dropped while more bytes than this wait to be sent: they are best effort. */
const signalBacklog = 262_144;
/** A timer cannot be set for longer than 24 days, in milliseconds. */
const longestTimer = 3_600_000;

export interface DriverSettings {
  url: string;
  user: string;
  device: string;
  /** The topics' root, `bellwire/v1` by default. */
  topicRoot: string;
  /** Seconds. */
  keepAlive: number;
  token?: string;
  getToken?: () => string | Promise<string>;
  transport: Transport;
  machine: Partial<Configuration>;
}

/** Whom the driver tells. */
export interface DriverHost {
  told(told: Told): void;
  succeeded(id: string, response: Response): void;
  failed(id: string, error: BellwireError): void;
  /** An attempt to connect failed, or a connection is lost. */
  lost(failure: ConnectionFailure): void;
  /** The broker is there, and delivers to this device. */
  subscribed(): void;
  /** What was said of a call was not taken in: too many ring. */
  refused(callID: string): void;
}

/** Milliseconds of a clock that never goes back. */
export const monotonic = (): number => Math.floor(performance.now());

/** Owns the machine and the connection, and does what the machine says. */
export class Driver {
  private readonly machine: ClientMachine;
  private readonly topics: { up: string; presence: string; down: string[] };
  private connection: Connection | undefined;
  /** The present token; undefined when there is none, or none that the broker takes. */
  private token: string | undefined;
  /** One that the app gave later than it was waited for. */
  private lateToken: string | undefined;
  private isStopped = false;
  private startedAt = 0;
  private pause = firstPause;
  /** Takes back the next attempt to connect, while that is waited for. */
  private cancelRetry: (() => void) | undefined;
  /** Takes back what is to be done at the machine's next deadline. */
  private cancelTimer: (() => void) | undefined;
  private readonly releaseTimers = holdTimers();
  /** Takes back the next question to the token provider. */
  private cancelQuestion: (() => void) | undefined;
  private readonly unlisten: () => void;
  private readonly rivals = new RivalWatch();
  /** The broker has accepted the present connection. */
  private wasAccepted = false;
  /** The service has said why the present connection is about to end, or what else is the matter. */
  private isExplained = false;

  constructor(
    private readonly settings: DriverSettings,
    private readonly host: DriverHost,
  ) {
    const { user, device, topicRoot } = settings;
    const level = `${encodeUser(user)}/${device}`;
    this.topics = {
      up: `${topicRoot}/up/${level}`,
      presence: `${topicRoot}/presence/${level}`,
      down: [`${topicRoot}/down/${level}`, `${topicRoot}/down/${encodeUser(user)}`],
    };
    this.token = settings.token;
    this.machine = new ClientMachine(user, device, {
      ...settings.machine,
      signalStream: randomID(),
      renewsTokens: settings.getToken !== undefined,
    });
    this.unlisten = this.listenToThePage();
    // Not before whoever made this knows it.
    queueMicrotask(() => void this.attempt());
  }

  /** Says goodbye to the service and closes the connection. What is unanswered fails as `disconnected`. */
  stop(): void {
    if (this.isStopped) return;
    this.perform(this.machine.loggedOut());
    this.isStopped = true;
    this.connection?.close();
    this.connection = undefined;
    this.unlisten();
    this.cancelRetry?.();
    this.cancelQuestion?.();
    this.cancelTimer?.();
    this.releaseTimers();
  }

  /** `isOrdered`: see `ClientMachine.send`. */
  send(request: Request, isOrdered = false): void {
    this.turn((now) => this.machine.send(request, now, isOrdered));
  }

  /** False when the signal is dropped here. */
  signal(signal: OutgoingSignal): boolean {
    if (this.isStopped || (this.connection?.backlog ?? 0) > signalBacklog) return false;
    this.turn((now) => this.machine.signal(signal, now));
    return true;
  }

  // Connections

  private async attempt(): Promise<void> {
    this.cancelRetry = undefined;
    this.startedAt = monotonic();
    if (this.token === undefined && this.settings.getToken) {
      try {
        this.token = await this.askForToken();
      } catch (error) {
        this.lost({ isRefused: true, message: `no token: ${error instanceof Error ? error.message : String(error)}` });
        return;
      }
    }
    if (!this.isStopped) this.open();
  }

  private open(): void {
    const { url, user, device, keepAlive, transport } = this.settings;
    // Of this connection alone, and so is the will that names it (section 1).
    const session = randomID();
    const will = { topic: this.topics.presence, payload: JSON.stringify({ online: false, reason: "lost", session }) };
    const encoded = encodeUser(user);
    [this.wasAccepted, this.isExplained] = [false, false];
    let connection: Connection | undefined;
    /** What a connection that was given up still tells is not heard. */
    const whileCurrent = (act: () => void) => {
      if (!this.isStopped && (connection === undefined || connection === this.connection)) act();
    };
    try {
      connection = transport(
        {
          url, keepAlive, will, clientID: `${encoded}/${device}`, username: encoded, subscriptions: this.topics.down,
          ...(this.token === undefined ? {} : { password: this.token }),
        },
        {
          accepted: () =>
            whileCurrent(() => {
              this.wasAccepted = true;
              this.turn(() => this.machine.connected(session));
            }),
          subscribed: () =>
            whileCurrent(() => {
              this.host.subscribed();
              this.turn((now) => this.machine.subscribed(now));
            }),
          message: (payload) => whileCurrent(() => this.receive(payload)),
          closed: (failure) => whileCurrent(() => this.lost(failure)),
        },
      );
      this.connection = connection;
    } catch (error) {
      // An address that is none, or no WebSocket at all.
      this.lost({ isRefused: false, message: error instanceof Error ? error.message : String(error) });
    }
  }

  /** Gives the connection up for one with another session, and perhaps another token: the app sees nothing of it. */
  private reopen(): void {
    this.machine.renewing();
    this.connection?.close();
    this.connection = undefined;
    this.startedAt = monotonic();
    this.open();
  }

  private lost(failure: ConnectionFailure): void {
    if (this.isStopped) return;
    this.connection = undefined;
    this.cancelQuestion?.();
    const isUnexplained = this.wasAccepted && !this.isExplained;
    if (this.rivals.isTakenOver(failure, monotonic() - this.startedAt, isUnexplained) && !failure.isTakenOver) {
      failure = { ...failure, isTakenOver: true, message: "another client has connected under this device id" };
    }
    if (failure.isRefused && this.settings.getToken) this.token = undefined;
    this.turn(() => this.machine.disconnected(failure.message));
    this.host.lost(failure);
    if (this.isStopped) return;
    if (monotonic() - this.startedAt >= goodConnection) this.pause = firstPause;
    // Shortened at random by up to a half, so that the devices of a broker that restarts do not all come at once.
    this.cancelRetry = after(this.pause * (1 - Math.random() / 2), () => void this.attempt());
    this.pause = Math.min(this.pause * 2, longestPause);
  }

  /**
   * A page that has a network again, or is looked at again, does not wait for its timers. A page that comes back from the background (a
   * phone that is unlocked, another app closed, a frozen tab) does not always get the focus: it becomes visible, or is resumed.
   */
  private listenToThePage(): () => void {
    const { document } = globalThis as { document?: Partial<Document> };
    const wake = (event: Event) => {
      if (event.type === "visibilitychange" && document?.visibilityState !== "visible") return;
      if (event.type !== "offline" && this.cancelRetry) {
        this.cancelRetry();
        void this.attempt();
      }
      this.connection?.ask();
      this.turn(() => []);
    };
    const listening: [Partial<EventTarget> | undefined, string[]][] = [
      [globalThis as Partial<EventTarget>, ["online", "offline", "pageshow", "focus"]],
      [document, ["visibilitychange", "resume"]],
    ];
    for (const [target, names] of listening) for (const name of names) target?.addEventListener?.(name, wake);
    return () => {
      for (const [target, names] of listening) for (const name of names) target?.removeEventListener?.(name, wake);
    };
  }

  // Tokens

  private async askForToken(): Promise<string> {
    const { lateToken } = this;
    this.lateToken = undefined;
    if (lateToken !== undefined) return lateToken;
    let isLate = false;
    const given = (async (): Promise<unknown> => this.settings.getToken?.())();
    // Whoever asks a person for it gets it when that person has it: it is for the next attempt.
    given.then((token) => {
      if (isLate && typeof token === "string") this.lateToken = token;
    }, () => undefined);
    let cancelLimit: (() => void) | undefined;
    const late = new Promise<never>((_, reject) => {
      cancelLimit = after(tokenTimeout, () => {
        isLate = true;
        reject(new Error(`getToken gave none within ${tokenTimeout / 1000} s`));
      });
    });
    try {
      const token: unknown = await Promise.race([given, late]);
      if (typeof token !== "string") throw new TypeError("getToken gave no string");
      return token;
    } finally {
      cancelLimit?.();
    }
  }

  private async renewToken(): Promise<void> {
    const { connection } = this;
    const isCurrent = () => !this.isStopped && connection !== undefined && connection === this.connection;
    try {
      const token = await this.askForToken();
      this.token = token;
      // Lost meanwhile: it is for the next attempt, which is on its way.
      if (isCurrent()) this.reopen();
    } catch {
      // The present one lasts a while.
      if (isCurrent()) this.cancelQuestion = after(tokenRetry, () => void this.renewToken());
    }
  }

  // The machine

  private receive(payload: string): void {
    const message = readDown(payload);
    if (message) this.turn((now) => this.machine.received(message, now));
  }

  /** Lets the machine act, does what has come due, and sets the timer for what comes next. */
  private turn(act: (now: number) => Action[]): void {
    if (this.isStopped) return;
    this.perform(act(monotonic()));
    const now = monotonic();
    if ((this.machine.nextDeadline ?? Infinity) <= now) {
      const due = this.machine.timerFired(now);
      this.perform(due);
      // A request is sent again: it may be the connection that is dead, which a keepalive tells too late.
      if (due.some(({ act: what, ...rest }) => what === "publish" && "message" in rest && "id" in rest.message)) {
        this.connection?.ask();
      }
    }
    this.cancelTimer?.();
    const next = this.machine.nextDeadline;
    if (next === undefined || this.isStopped) return;
    this.cancelTimer = after(Math.min(Math.max(next - monotonic(), 1), longestTimer), () => this.turn(() => []));
  }

  private perform(actions: Action[]): void {
    for (const action of actions) {
      switch (action.act) {
        case "publish":
          this.publish(action.message);
          break;
        case "publishPresence":
          this.connection?.publish(this.topics.presence, JSON.stringify(action.message));
          break;
        case "deliver":
          if (action.told.tell === "error") this.isExplained = true;
          this.host.told(action.told);
          break;
        case "succeed":
          this.host.succeeded(action.id, action.response);
          break;
        case "fail":
          this.host.failed(action.id, action.error);
          break;
        case "refuse":
          this.host.refused(action.callID);
          break;
        case "renewSession":
          // Not within this turn: the actions that follow belong to the present connection.
          queueMicrotask(() => {
            if (!this.isStopped && this.connection) this.reopen();
          });
          break;
        case "renewToken":
          void this.renewToken();
          break;
      }
    }
  }

  private publish(message: object): void {
    // After its time limit the app has been told that a request failed: the broker must not deliver it then.
    const expiry = Math.ceil((this.settings.machine.requestTimeout ?? 30_000) / 1000) + 1;
    const payload = JSON.stringify(message);
    const isTooLarge = byteLength(payload) > limits.request;
    if (!isTooLarge && this.connection?.publish(this.topics.up, payload, expiry) !== false) return;
    const { id } = message as { id?: string };
    if (id === undefined) return;
    // It cannot be sent at all: the request fails now, not in time.
    const error = new BellwireError("tooLarge", `the request has more than ${limits.request} bytes, or than the broker takes`);
    this.perform(this.machine.received({ type: "response", id, error, time: 0, body: {} }, monotonic()));
  }
}
