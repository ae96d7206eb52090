import { checkURLs } from "./brokers.js";
import { Call, type CallHost, type PushText, readInvited } from "./call.js";
import { Driver, type DriverHost } from "./driver.js";
import { Emitter } from "./emitter.js";
import { BellwireError } from "./errors.js";
import type { Told } from "./machine.js";
import {
  type CallMode, type CallObject, type IceServer, type Member, type Message, type Receipt, type Response, type UserError,
  type Welcome, checkUser, isDevice, isID, isPending, memberOf, randomID, readCalls, readObjects, readUserErrors, readUsers,
} from "./protocol.js";
import { tabDevice } from "./tab.js";
import type { ConnectionFailure, Transport } from "./transport.js";
import { type WebSocketConstructor, webSocketTransport } from "./websocket.js";

/**
 * `connecting`: from `connect()` until the service first answers this device. `offline`: not connected; the client
 * keeps trying.
 */
export type ConnectionState = "connecting" | "online" | "offline";

export interface ClientOptions {
  /**
   * The broker's WebSocket address, `ws://host:port` or `wss://host:port/path`, or the addresses of all brokers of the
   * deployment, each named once. With several, each connection goes to the next broker, in an order that differs from
   * device to device.
   */
  url: string | string[];
  user: string;
  /**
   * The id of this device, 1–64 of `A-Z a-z 0-9 . _ ~ -`. A second client under the same id replaces the first. By
   * default each tab has its own id, which stays the same after a reload.
   */
  device?: string;
  /** The MQTT password, for brokers that check tokens. */
  token?: string;
  /**
   * Returns a token. The client asks before the first connection, a minute before a token ends, and when the broker
   * refuses the current token. The client then reconnects with the new token without telling the app. `token` is then
   * only the first token.
   */
  getToken?: () => string | Promise<string>;
  /** The topics' root; `bellwire/v1` by default. */
  topicRoot?: string;
  /**
   * The MQTT keep-alive in seconds; 90 by default. The broker counts a device as lost after 1.5 times this period of
   * silence.
   */
  keepAlive?: number;
  /**
   * The QoS of this device's subscriptions and messages at the broker; 0 by default. The SDK sends a request without a
   * response again after a second at either QoS.
   */
  qos?: 0 | 1;
  /** The time limit of a request in milliseconds; 30,000 by default. The request then throws `noResponse`. */
  requestTimeout?: number;
  /** The time limit of `connect()` in milliseconds; 10,000 by default. */
  connectTimeout?: number;
  /** A WebSocket class, for environments without a global class. */
  WebSocket?: WebSocketConstructor;
  /** An adapter to another MQTT library. By default the SDK uses its own MQTT over a WebSocket. */
  transport?: Transport;
}

export interface ClientEvents {
  state: ConnectionState;
  /** Another user calls this user. Emitted once per invitation, and again after a reload while the call rings. */
  incoming: Call;
  /** This device takes part in a call that the page does not know, because the page was reloaded. */
  resumed: Call;
  /**
   * Another user sent a peer message with `send`. Each message comes once. Messages of the same `stream` and device
   * come in the order of `seq`; lost messages are left out.
   */
  message: Message;
  /** The receipt of a peer message of this client. Each receipt comes once. */
  receipt: Receipt;
  /**
   * An error that belongs to no request: the broker refuses this device or announces the reason of a disconnection, the
   * service could not read a message, the service refused a signal, or a receipt did not come.
   */
  error: BellwireError;
}

/** The fields of `call.invite` (docs/protocol.md, section 2). */
export interface CallOptions {
  media?: "voice" | "video" | (string & Record<never, never>);
  /** `common` by default: a common call ends with the answer. */
  mode?: CallMode;
  /** Seconds, 1 to 600; 60 by default. */
  timeout?: number;
  /**
   * Whether members are told `notYetReceived` when no device of an invitee has received the invitation after
   * `notReceivedAfter` seconds (5 by default).
   */
  notReceivedCheck?: boolean;
  notReceivedAfter?: number;
  /** At most 2048 bytes. */
  extendedData?: string;
  joinPolicy?: "invited" | "anyone";
  autoEnd?: boolean;
  ifBusy?: "ring" | "reject";
  glare?: "ring" | "merge";
  push?: PushText;
  /** 1–64 of `A-Z a-z 0-9 _ -`; random by default. */
  callID?: string;
  /**
   * A signal to cancel the call. When the signal is aborted before the service has answered, no device rings, and
   * `call` throws `cancelled`.
   */
  signal?: AbortSignal;
}

export interface UserProfile {
  userID: string;
  name?: string;
  avatarURL?: string;
  extendedData?: string;
  /** Whether a device of the user is online. */
  online: boolean;
}

/** An entry of a call's timeline (section 6). Further fields depend on `kind`. */
export interface TraceEntry {
  /** Milliseconds since the epoch, by the service's clock. */
  time: number;
  /** Milliseconds since the call was created. */
  at: number;
  /** Milliseconds since the previous entry. */
  after: number;
  /** The coordinator that wrote the entry. */
  coordinator: string;
  kind: string;
  [field: string]: unknown;
}

export interface Trace {
  call: CallObject;
  entries: TraceEntry[];
  /** The number of older entries that were dropped. */
  omitted: number;
  /** The milestones that devices reported with `report`. */
  reports: { userID: string; device: string; milestones: Record<string, number> }[];
}

export interface SendOptions {
  /** The time after which an undelivered message expires, in seconds, 1 to 600; 30 by default. */
  ttl?: number;
  messageID?: string;
  seq?: number;
  /**
   * Whether the recipient's app gets this message after all earlier ordered messages of this client, in the order of
   * the `send` calls. The client then sets `seq` itself.
   */
  ordered?: boolean;
}

export interface SentMessage {
  messageID: string;
  time: number;
  state: "sent" | "delivered" | "expired";
}

export type PushRegistration =
  | { platform: "webPush"; app?: string; subscription: PushSubscriptionJSON }
  | { platform: "apns" | "apnsVoIP" | "fcm"; app?: string; token: string };

/**
 * A device of a user. The client makes, answers and receives calls.
 *
 * The client keeps itself connected. After a lost connection the client reconnects (after 0.25 s, then more slowly, up
 * to 8 s), tells the service that the device is back, and learns of missed events. The client keeps requests meanwhile
 * and resends each request until its response or its time limit. The client acks events by itself.
 */
export class BellwireClient {
  readonly user: string;
  private readonly transport: Transport;
  private readonly events = new Emitter<ClientEvents>();
  private readonly known = new Map<string, Call>();
  private readonly outcomes = new Map<string, { resolve(response: Response): void; reject(error: BellwireError): void }>();
  private readonly requestPrefix = randomID();
  private requestCount = 0;
  /** The calls whose invitation got no response, until the client has cancelled or ended these calls. */
  private readonly takenBack = new Set<string>();
  private driver: Driver | undefined;
  private connecting: { promise: Promise<void>; resolve(): void; reject(error: BellwireError): void } | undefined;
  private lastProblem = "no answer yet";
  private currentState: ConnectionState = "offline";
  private ownDevice: string | undefined;
  private releaseDevice: () => void = () => undefined;
  private servers: IceServer[] = [];
  /** The media sessions of the last welcome, for calls that become known later. */
  private sessions: Welcome["mediaSessions"] = [];
  private refusals = 0;
  private readonly urls: string[];

  constructor(private readonly options: ClientOptions) {
    this.user = checkUser(options.user);
    this.urls = checkURLs([options.url].flat(), options.transport === undefined);
    this.transport = options.transport ?? webSocketTransport(options.WebSocket);
    if (options.device !== undefined && !isDevice(options.device)) {
      throw new BellwireError("badRequest", "a device id is 1 to 64 of A-Z a-z 0-9 . _ ~ -");
    }
    this.ownDevice = options.device;
  }

  /** The id of this device. When the options name no device, the id is empty until `connect()` has chosen an id. */
  get device(): string { return this.ownDevice ?? ""; }
  get state(): ConnectionState { return this.currentState; }
  /** The calls that ring on this device or in which this device takes part. */
  get calls(): Call[] { return [...this.known.values()]; }
  /**
   * The deployment's STUN and TURN servers for `RTCPeerConnection`. The credentials last for about an hour, and each
   * welcome renews them.
   */
  get iceServers(): RTCIceServer[] { return this.servers.map((server) => ({ ...server })); }
  /** The number of invitations, resends included, that the client did not accept because 256 calls rang at once. */
  get refusedInvitations(): number { return this.refusals; }

  /** Calls `handler` with each such event from now on. Returns a function that removes the handler. */
  on<Name extends keyof ClientEvents>(name: Name, handler: (value: ClientEvents[Name]) => void): () => void {
    return this.events.on(name, handler);
  }

  // Connecting

  /**
   * Connects, and returns when the service has answered. Throws `notConnected` after `connectTimeout`; the client then
   * keeps trying until `disconnect()`. Throws `refused` when the broker refuses the token. Without `getToken` the
   * client then stops trying, and the app may call `connect()` again.
   */
  async connect(): Promise<void> {
    if (this.currentState === "online") return;
    const attempt = this.connecting ?? this.begin();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const limit = this.options.connectTimeout ?? 10_000;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new BellwireError("notConnected", `not connected: ${this.lastProblem}`)), limit);
    });
    try {
      await Promise.race([attempt, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  private begin(): Promise<void> {
    let [resolve, reject]: [() => void, (error: BellwireError) => void] = [() => undefined, () => undefined];
    const promise = new Promise<void>((resolved, rejected) => ([resolve, reject] = [resolved, rejected]));
    const connecting = { promise, resolve, reject };
    this.connecting = connecting;
    // The caller of `connect()` gets this rejection; without a caller the rejection must not count as unhandled.
    promise.catch(() => undefined);
    this.setState("connecting");
    void this.start(connecting);
    return promise;
  }

  private async start(connecting: object): Promise<void> {
    const { options } = this;
    if (this.driver) return;
    if (options.device === undefined) {
      const { device, release } = await tabDevice(this.user, this.ownDevice);
      if (this.connecting !== connecting) return release();
      [this.ownDevice, this.releaseDevice] = [device, release];
    }
    const { token, getToken, requestTimeout } = options;
    this.driver = new Driver(
      {
        urls: this.urls, user: this.user, device: this.device, topicRoot: options.topicRoot ?? "bellwire/v1",
        keepAlive: options.keepAlive ?? 90, qos: options.qos ?? 0, transport: this.transport,
        machine: requestTimeout === undefined ? {} : { requestTimeout },
        ...(token === undefined ? {} : { token }), ...(getToken === undefined ? {} : { getToken }),
      },
      this.driverHost(),
    );
  }

  /**
   * Says goodbye to the service and closes the connection. Unanswered requests throw `disconnected`, and calls are over
   * for this device with the reason `disconnected`. The app may call `connect()` again.
   */
  async disconnect(): Promise<void> {
    const error = new BellwireError("disconnected", "the client is disconnected");
    this.connecting?.reject(error);
    this.connecting = undefined;
    this.driver?.stop();
    this.driver = undefined;
    for (const { reject } of this.outcomes.values()) reject(error);
    this.outcomes.clear();
    for (const call of this.calls) call.finish("disconnected");
    this.releaseDevice();
    this.releaseDevice = () => undefined;
    this.setState("offline");
  }

  /**
   * Tells the client that the device has another network, or that the app has come to the foreground: the client then
   * reconnects at once, or asks the broker for a sign of life. In a browser the client notices both by itself.
   */
  networkChanged(): void { this.driver?.networkChanged(); }

  private setState(state: ConnectionState): void {
    if (state === this.currentState) return;
    this.currentState = state;
    this.events.emit("state", state);
  }

  // Calls

  /**
   * Calls users (`call.invite`), and returns when the service has made the call. The returned call emits the invitees'
   * answers. With `glare: "merge"` the result may be the invitee's own call. After `noResponse` the service may have
   * made the call: the client cancels the call, or ends an advanced call that was answered meanwhile; another attempt
   * needs another `callID`. A call that was merged, or that cannot be taken back, comes as a resumed call.
   */
  async call(invitees: string[], options: CallOptions = {}): Promise<Call> {
    const { signal, callID = randomID(), ...fields } = options;
    if (!isID(callID)) throw new BellwireError("badRequest", "a call id is 1 to 64 of A-Z a-z 0-9 _ -");
    for (const invitee of invitees) checkUser(invitee);
    const cancelled = () => new BellwireError("cancelled", "the call was cancelled");
    if (signal?.aborted) throw cancelled();
    this.requireDriver();
    const asked = new Call(this.callHost, plannedCall(this.user, this.device, invitees, callID, fields), "made");
    // Events about the call may come before the response.
    this.known.set(callID, asked);
    let cancelling: Promise<unknown> | undefined;
    const cancel = () => (cancelling = asked.cancel().catch(() => undefined));
    signal?.addEventListener("abort", cancel, { once: true });
    let response: Response;
    try {
      response = await this.request("call.invite", { ...fields, invitees, callID });
    } catch (error) {
      asked.finish("gone");
      if (error instanceof BellwireError && error.code === "noResponse") void this.takeBack(callID);
      throw error;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
    const made = response.call ?? asked.snapshot;
    const call = this.known.get(made.callID) ?? (made.callID === callID ? asked : this.adopt(made, "made"));
    if (call !== asked) asked.finish("gone");
    // The cancel came too late when an invitee had already answered.
    await cancelling;
    if (cancelling && call.endReason !== undefined) throw cancelled();
    call.invited = readInvited(response);
    call.learn(response.body.mediaSession);
    return call;
  }

  /** Cancels a call whose invitation got no response, and ends the call when an invitee has answered meanwhile. */
  private async takeBack(callID: string): Promise<void> {
    this.takenBack.add(callID);
    const ask = (type: string) => this.request(type, { callID }).catch(() => undefined);
    const cancelled = await ask("call.cancel");
    if (cancelled?.call?.state !== "ended") await ask("call.end");
    this.takenBack.delete(callID);
  }

  /** Returns a call's current state (`call.get`). This user must be a present or past member. */
  async get(callID: string): Promise<CallObject> {
    return requireCall(await this.request("call.get", { callID }));
  }

  /** Joins a call by its id (advanced calls; section 2, `call.join`). */
  async join(callID: string, options: { extendedData?: string } = {}): Promise<Call> {
    const call = this.known.get(callID) ?? new Call(this.callHost, plannedCall(undefined, "", [], callID, {}), "resumed");
    await call.join(options);
    return call;
  }

  /** Returns a call's timeline, which shows why a phone did or did not ring (section 6). */
  async trace(callID: string): Promise<Trace> {
    const response = await this.request("call.trace", { callID });
    const { entries, omitted, reports } = response.body;
    const isEntry = ({ time, at, after, coordinator, kind }: Record<string, unknown>) =>
      [time, at, after].every(Number.isFinite) && typeof coordinator === "string" && typeof kind === "string";
    const isReport = ({ userID, device, milestones }: Record<string, unknown>) =>
      typeof userID === "string" && typeof device === "string" && typeof milestones === "object" && milestones !== null;
    return {
      call: requireCall(response),
      entries: readObjects(entries).filter(isEntry) as TraceEntry[],
      omitted: typeof omitted === "number" ? omitted : 0,
      reports: readObjects(reports).filter(isReport) as unknown as Trace["reports"],
    };
  }

  /**
   * Returns this user's calls, newest first, 1 to 100 per page (`call.query`). The returned `cursor` leads to the next
   * page; the last page has no cursor.
   */
  async history(options: { count?: number; cursor?: string } = {}): Promise<{ calls: CallObject[]; cursor?: string }> {
    const { calls, cursor } = (await this.request("call.query", options)).body;
    const page = { calls: readCalls(calls) };
    return typeof cursor === "string" && cursor !== "0" ? { ...page, cursor } : page;
  }

  // Requests that are not about calls

  /**
   * Sends a peer message to all devices of a user: any JSON value of at most 32 KiB. Returns when the service has
   * stored the message; the event `receipt` tells its delivery or expiry.
   */
  async send(to: string, data: unknown, options: SendOptions = {}): Promise<SentMessage> {
    const { ordered = false, ...asked } = options;
    const fields = { messageID: randomID(), ...asked, to, data };
    const { messageID, time, state } = (await this.ask("message.send", fields, ordered)).body;
    return { messageID, time, state } as SentMessage;
  }

  /** Returns the profiles of 1 to 100 users and whether they are online. Unknown users are listed in `errors`. */
  async users(userIDs: string[]): Promise<{ users: UserProfile[]; errors: UserError[] }> {
    const { users, errors } = (await this.request("user.query", { userIDs })).body;
    const profiles = readObjects(users).flatMap((json) => readProfile(json) ?? []);
    return { users: profiles, errors: readUserErrors(errors) };
  }

  /** Changes this user's profile. Absent fields stay unchanged; an empty string removes a field. */
  async update(profile: { name?: string; avatarURL?: string; extendedData?: string }): Promise<UserProfile> {
    const [json = {}] = readObjects([(await this.request("user.update", profile)).body.user]);
    return readProfile(json) ?? { userID: this.user, online: true };
  }

  /**
   * Blocks a user: that user's invitations and peer messages no longer reach this user. Returns all users that this
   * user blocks.
   */
  async block(userID: string): Promise<string[]> {
    return readUsers((await this.request("user.block", { userID })).body.blocked);
  }

  async unblock(userID: string): Promise<string[]> {
    return readUsers((await this.request("user.unblock", { userID })).body.blocked);
  }

  async blockedUsers(): Promise<string[]> {
    return readUsers((await this.request("user.blockList", {})).body.blocked);
  }

  /**
   * Registers this device for pushes while no page is open (section 7). The app calls this method after each connect.
   */
  async registerPush(registration: PushRegistration): Promise<void> {
    await this.request("push.register", registration);
  }

  async unregisterPush(of: { platform?: PushRegistration["platform"]; app?: string } = {}): Promise<void> {
    await this.request("push.unregister", of);
  }

  /** Sends any request of section 2, for requests without a method of their own. Throws the service's error. */
  request(type: string, fields: object): Promise<Response> {
    return this.ask(type, fields, false);
  }

  private ask(type: string, fields: object, isOrdered: boolean): Promise<Response> {
    return new Promise((resolve, reject) => {
      const driver = this.requireDriver();
      this.requestCount += 1;
      const id = `${this.requestPrefix}-${this.requestCount}`;
      // A copy, so that the app cannot change the request afterwards. Undefined fields are left out, as on the wire.
      const request: object = JSON.parse(JSON.stringify(fields));
      this.outcomes.set(id, { resolve, reject });
      driver.send({ ...request, type, id }, isOrdered);
    });
  }

  private requireDriver(): Driver {
    if (!this.driver) throw new BellwireError("notConnected", "call connect() first");
    return this.driver;
  }

  // Functions that the driver calls

  private driverHost(): DriverHost {
    const settle = (id: string) => {
      const outcome = this.outcomes.get(id);
      this.outcomes.delete(id);
      return outcome;
    };
    return {
      told: (told) => this.told(told),
      succeeded: (id, response) => settle(id)?.resolve(response),
      failed: (id, error) => settle(id)?.reject(error),
      lost: (failure) => this.lost(failure),
      subscribed: () => (this.lastProblem = "the broker is there, but no coordinator answers"),
      refused: () => void (this.refusals += 1),
    };
  }

  private lost({ isRefused, isTakenOver = false, message }: ConnectionFailure): void {
    this.lastProblem = message;
    if (!isRefused && !isTakenOver) return;
    const error = new BellwireError(isTakenOver ? "takenOver" : "refused", message);
    const { connecting } = this;
    this.connecting = undefined;
    // With `getToken` the next token may be accepted, and a client that has been online keeps trying.
    if (isTakenOver || (connecting && !this.options.getToken)) void this.disconnect();
    if (connecting) connecting.reject(error);
    else this.events.emit("error", error);
  }

  private told(told: Told): void {
    switch (told.tell) {
      case "online":
        this.setState("online");
        this.connecting?.resolve();
        this.connecting = undefined;
        break;
      case "offline":
        this.lastProblem = told.reason;
        this.setState("offline");
        break;
      case "welcome":
        if (told.welcome.iceServers) this.servers = told.welcome.iceServers;
        this.sessions = told.welcome.mediaSessions;
        for (const { callID, session } of this.sessions ?? []) this.known.get(callID)?.learn(session);
        break;
      case "event":
        this.follow(told.event.call, told.event.missed);
        break;
      case "snapshot":
        this.follow(told.call);
        break;
      case "invitationExpired":
        this.known.get(told.call.callID)?.finish("timeout");
        break;
      case "gone":
        this.known.get(told.call.callID)?.finish("gone");
        break;
      case "signal":
        this.known.get(told.signal.callID)?.signalled(told.signal);
        break;
      case "message":
        this.events.emit("message", told.message);
        break;
      case "receipt":
        this.events.emit("receipt", told.receipt);
        break;
      case "error":
        this.events.emit("error", told.error);
        break;
    }
  }

  /**
   * Follows a live call. After a reload of the page, the welcome of the new session lists the calls from before the
   * reload. Each of these calls comes to this method, and the machine sends heartbeats for the call again (`beats` in
   * `machine/calls.ts`).
   */
  private follow(snapshot: CallObject, isMissed?: boolean): void {
    const call = this.known.get(snapshot.callID);
    if (call) return call.update(snapshot, isMissed);
    const own = memberOf(snapshot, this.user);
    if (!own || snapshot.state === "ended" || this.takenBack.has(snapshot.callID)) return;
    if (isPending(own.state)) {
      const incoming = this.adopt(snapshot, "incoming");
      this.events.emit("incoming", incoming);
      incoming.ring();
    } else if (own.state === "accepted" && own.device === this.device) {
      this.events.emit("resumed", this.adopt(snapshot, "resumed"));
    }
  }

  private adopt(snapshot: CallObject, origin: "made" | "incoming" | "resumed"): Call {
    const call = new Call(this.callHost, snapshot, origin);
    call.learn(this.sessions?.find(({ callID }) => callID === call.id)?.session);
    this.known.set(call.id, call);
    return call;
  }

  private readonly callHost: CallHost = hostOf(this, this.known, (callID, data, to) => {
    const signal = { type: "call.signal" as const, callID, data, ...(to ? { to } : {}) };
    return this.driver?.signal(signal) ?? false;
  });
}

/** The functions of the client that calls use. These functions are not part of the client's public interface. */
const hostOf = (client: BellwireClient, known: Map<string, Call>, signal: CallHost["signal"]): CallHost => ({
  get user() { return client.user; },
  get device() { return client.device; },
  request: (type, fields) => client.request(type, fields),
  signal,
  adopt: (call) => void known.set(call.id, call),
  forget: (call) => {
    if (known.get(call.id) === call) known.delete(call.id);
  },
});

/**
 * The expected call if nothing goes wrong. Any other state of an invitee then counts as a change. The times are zero,
 * because only the service knows the times. Without a user the members are unknown.
 */
function plannedCall(
  user: string | undefined, device: string, invitees: string[], callID: string,
  options: Omit<CallOptions, "signal" | "callID">,
): CallObject {
  const { mode = "common", media, timeout = 60, extendedData } = options;
  const members: Member[] = invitees.map((userID) => ({ userID, state: "inviting", updatedAt: 0 }));
  if (user !== undefined) members.unshift({ userID: user, state: "accepted", device, updatedAt: 0 });
  return {
    callID, revision: 0, mode, state: "ringing", inviter: user ?? "", createdAt: 0, timeout, members,
    ...(media === undefined ? {} : { media }), ...(extendedData === undefined ? {} : { extendedData }),
  };
}

function requireCall(response: Response): CallObject {
  if (!response.call) throw new BellwireError("internal", "the response brought no call");
  return response.call;
}

function readProfile(json: Record<string, unknown>): UserProfile | undefined {
  const { userID, online } = json;
  if (typeof userID !== "string" || typeof online !== "boolean") return undefined;
  const profile: UserProfile = { userID, online };
  for (const name of ["name", "avatarURL", "extendedData"] as const) {
    const value = json[name];
    if (typeof value === "string") profile[name] = value;
  }
  return profile;
}
