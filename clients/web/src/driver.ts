import { BellwireError } from "./errors.js";
import { type Action, ClientMachine, type Configuration, type Told } from "./machine.js";
import {
  type OutgoingSignal, type Request, type Response, encodeUser, limits, byteLength, randomID, readDown,
} from "./protocol.js";
import { RivalWatch } from "./rivals.js";
import { after, holdTimers } from "./timers.js";
import type { Connection, ConnectionFailure, Transport } from "./transport.js";

/** The duration in milliseconds after which a connection counts as good, so that the next attempt comes soon. */
const goodConnection = 10_000;
/** The waits between attempts to reach the broker, in milliseconds. The wait doubles from the first to the longest. */
const firstPause = 250;
const longestPause = 8_000;
/** The wait in milliseconds before the client asks a failed token provider again, while the current token lasts. */
const tokenRetry = 5_000;
/** The time limit for the app's `getToken`, in milliseconds. */
const tokenTimeout = 30_000;
/** The number of unsent bytes beyond which the client drops signals; signals may be lost. */
const signalBacklog = 262_144;
/** The longest timer, in milliseconds. Browsers cannot set timers beyond 24 days. */
const longestTimer = 3_600_000;
const takenOver = "another client has connected under this device id";

export interface DriverSettings {
  /** The addresses of the deployment's brokers, at least one. */
  urls: string[];
  user: string;
  device: string;
  /** The topics' root, `bellwire/v1` by default. */
  topicRoot: string;
  /** Seconds. */
  keepAlive: number;
  qos: 0 | 1;
  token?: string;
  getToken?: () => string | Promise<string>;
  transport: Transport;
  machine: Partial<Configuration>;
}

/** The receiver of the driver's results. */
export interface DriverHost {
  told(told: Told): void;
  succeeded(id: string, response: Response): void;
  failed(id: string, error: BellwireError): void;
  /** An attempt to connect failed, or a connection is lost. */
  lost(failure: ConnectionFailure): void;
  /** The connection to the broker is established, and the broker delivers messages to this device. */
  subscribed(): void;
  /** The machine ignored a message about a call, because too many calls ring. */
  refused(callID: string): void;
}

/** Returns milliseconds of a clock that never goes back. */
export const monotonic = (): number => Math.floor(performance.now());

function shuffled<Value>(values: Value[]): Value[] {
  return values.map((value) => ({ value, key: Math.random() })).sort((a, b) => a.key - b.key).map(({ value }) => value);
}

/** Owns the machine and the connection, and performs the machine's actions. */
export class Driver {
  private readonly machine: ClientMachine;
  private readonly topics: { up: string; presence: string; down: string[] };
  private connection: Connection | undefined;
  /** The current token; undefined without a token, or after the broker refused the token. */
  private token: string | undefined;
  /** A token that the app returned after the time limit. */
  private lateToken: string | undefined;
  private isStopped = false;
  /** The brokers' addresses in an order of this client. */
  private readonly urls: string[];
  private connections = 0;
  private startedAt = 0;
  private pause = firstPause;
  /** Cancels the next attempt to connect; defined while an attempt is scheduled. */
  private cancelRetry: (() => void) | undefined;
  /** Cancels the timer of the machine's next deadline. */
  private cancelTimer: (() => void) | undefined;
  private readonly releaseTimers = holdTimers();
  /** Cancels the next call of the token provider. */
  private cancelQuestion: (() => void) | undefined;
  private readonly unlisten: () => void;
  private readonly rivals = new RivalWatch();
  /** Whether the broker has accepted the current connection. */
  private wasAccepted = false;
  /** Whether the service has sent an error on this connection, such as the reason of the coming disconnection. */
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
    this.urls = shuffled(settings.urls);
    this.machine = new ClientMachine(user, device, {
      ...settings.machine,
      signalStream: randomID(),
      renewsTokens: settings.getToken !== undefined,
    });
    this.unlisten = this.listenToThePage();
    // The first attempt starts after the constructor's caller has stored this driver.
    queueMicrotask(() => void this.attempt());
  }

  /** Says goodbye to the service and closes the connection. Unanswered requests fail with `disconnected`. */
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

  /** `isOrdered`: as in `ClientMachine.send`. */
  send(request: Request, isOrdered = false): void {
    this.turn((now) => this.machine.send(request, now, isOrdered));
  }

  /** Returns false when the driver drops the signal. */
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
    const { user, device, keepAlive, qos, transport } = this.settings;
    const url = this.urls[this.connections % this.urls.length] as string;
    this.connections += 1;
    // The session belongs to this connection alone, and so does the will that names the session (section 1).
    const session = randomID();
    const will = { topic: this.topics.presence, payload: JSON.stringify({ online: false, reason: "lost", session }) };
    const encoded = encodeUser(user);
    [this.wasAccepted, this.isExplained] = [false, false];
    let connection: Connection | undefined;
    /** Ignores events of a connection that the driver has given up. */
    const whileCurrent = (act: () => void) => {
      if (!this.isStopped && (connection === undefined || connection === this.connection)) act();
    };
    try {
      connection = transport(
        {
          url, keepAlive, qos, will, clientID: `${encoded}/${device}`, username: encoded, subscriptions: this.topics.down,
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
      // The address is invalid, or the environment has no WebSocket.
      this.lost({ isRefused: false, message: error instanceof Error ? error.message : String(error) });
    }
  }

  /** Replaces the connection by another with a new session, and perhaps a new token, without telling the app. */
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
      failure = { ...failure, isTakenOver: true, message: takenOver };
    }
    if (failure.isRefused && this.settings.getToken) this.token = undefined;
    this.turn(() => this.machine.disconnected(failure.message));
    this.host.lost(failure);
    if (this.isStopped) return;
    if (monotonic() - this.startedAt >= goodConnection) this.pause = firstPause;
    // The wait is shortened at random by up to a half, so that the devices of a restarted broker do not all reconnect
    // at once.
    this.cancelRetry = after(this.pause * (1 - Math.random() / 2), () => void this.attempt());
    this.pause = Math.min(this.pause * 2, longestPause);
  }

  /** The device has another network, or comes to the foreground: the client does not wait for its timers. */
  networkChanged(): void {
    if (this.isStopped) return;
    if (this.cancelRetry) {
      this.cancelRetry();
      void this.attempt();
    }
    this.askBroker();
  }

  private askBroker(): void {
    this.connection?.ask();
    this.turn(() => []);
  }

  /**
   * A page that gets a network again, or comes to the foreground again, does not wait for its timers. A page that comes
   * back from the background (an unlocked phone, another app closed, a frozen tab) does not always get the focus, but
   * becomes visible or is resumed.
   */
  private listenToThePage(): () => void {
    const { document } = globalThis as { document?: Partial<Document> };
    const wake = (event: Event) => {
      if (event.type === "visibilitychange" && document?.visibilityState !== "visible") return;
      if (event.type === "offline") this.askBroker();
      else this.networkChanged();
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
    // An app that asks a person for the token may be late. The late token is for the next attempt.
    given.then((token) => {
      if (isLate && typeof token === "string") this.lateToken = token;
    }, () => undefined);
    let cancelLimit: (() => void) | undefined;
    const late = new Promise<never>((_, reject) => {
      cancelLimit = after(tokenTimeout, () => {
        isLate = true;
        reject(new Error(`getToken returned no token within ${tokenTimeout / 1000} s`));
      });
    });
    try {
      const token: unknown = await Promise.race([given, late]);
      if (typeof token !== "string") throw new TypeError("getToken returned no string");
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
      // When the connection was lost meanwhile, the next attempt uses the token.
      if (isCurrent()) this.reopen();
    } catch {
      // The current token still lasts a while.
      if (isCurrent()) this.cancelQuestion = after(tokenRetry, () => void this.renewToken());
    }
  }

  // The machine

  private receive(payload: string): void {
    const message = readDown(payload);
    if (message) this.turn((now) => this.machine.received(message, now));
  }

  /** Lets the machine act, does all that is due, and sets the timer for the next deadline. */
  private turn(act: (now: number) => Action[]): void {
    if (this.isStopped) return;
    this.perform(act(monotonic()));
    const now = monotonic();
    if ((this.machine.nextDeadline ?? Infinity) <= now) {
      const due = this.machine.timerFired(now);
      this.perform(due);
      // A resend may mean that the connection is dead. The keep-alive would detect a dead connection too late, so the
      // driver pings the broker now.
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
          // The reconnect must not happen within this turn: the following actions belong to the current connection.
          queueMicrotask(() => {
            if (!this.isStopped && this.connection) this.reopen();
          });
          break;
        case "endTakenOver":
          // The connection must not end within this turn either.
          queueMicrotask(() => {
            this.connection?.close();
            this.lost({ isRefused: false, isTakenOver: true, message: takenOver });
          });
          break;
        case "renewToken":
          void this.renewToken();
          break;
      }
    }
  }

  private publish(message: object): void {
    const { id } = message as { id?: string };
    const expiry = this.machine.expiry(id, monotonic());
    const payload = JSON.stringify(message);
    const isTooLarge = byteLength(payload) > limits.request;
    if (!isTooLarge && this.connection?.publish(this.topics.up, payload, expiry) !== false) return;
    if (id === undefined) return;
    // The message can never be sent, so the request fails now instead of at its time limit.
    const error = new BellwireError("tooLarge", `the request is larger than ${limits.request} bytes, or than the broker accepts`);
    this.perform(this.machine.received({ type: "response", id, error, time: 0, body: {} }, monotonic()));
  }
}
