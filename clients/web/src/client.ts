import { Call, type CallHost, type PushText, readInvited } from "./call.js";
import { Driver, type DriverHost } from "./driver.js";
import { Emitter } from "./emitter.js";
import { BellwireError } from "./errors.js";
import type { Told } from "./machine.js";
import {
  type CallMode, type CallObject, type IceServer, type Member, type Message, type Receipt, type Response, type UserError, checkUser,
  isDevice, isID, isPending, memberOf, randomID, readCalls, readObjects, readUserErrors, readUsers,
} from "./protocol.js";
import { tabDevice } from "./tab.js";
import type { ConnectionFailure, Transport } from "./transport.js";
import { type WebSocketConstructor, webSocketTransport } from "./websocket.js";

/** `connecting`: from `connect()` until the service knows this device for the first time. `offline`: also while it tries again. */
export type ConnectionState = "connecting" | "online" | "offline";

export interface ClientOptions {
  /** Where browsers reach the broker: `ws://host:port` or `wss://host:port/path`. */
  url: string;
  user: string;
  /**
   * This device, one of the user's: 1–64 of `A-Z a-z 0-9 . _ ~ -`. A second client under the same id replaces the first. Left out:
   * one for this tab, which is the same after a reload.
   */
  device?: string;
  /** The MQTT password, where the broker checks tokens. */
  token?: string;
  /**
   * Gives a token: asked before the first connection, a minute before a token ends (the client then connects again, and the app
   * sees nothing of it), and when the broker refuses the one there is. `token` is then only the first one.
   */
  getToken?: () => string | Promise<string>;
  /** The topics' root; `bellwire/v1` by default. */
  topicRoot?: string;
  /** Seconds; 90 by default. A device that vanishes without a word is known to be lost after one and a half times as long. */
  keepAlive?: number;
  /** How long a request is tried, in milliseconds; 30,000 by default. It then throws `noResponse`. */
  requestTimeout?: number;
  /** How long `connect()` waits, in milliseconds; 10,000 by default. */
  connectTimeout?: number;
  /** A WebSocket class where there is no global one. */
  WebSocket?: WebSocketConstructor;
  /** Another MQTT library under the client; MQTT over a WebSocket by this SDK's own hand when left out. */
  transport?: Transport;
}

export interface ClientEvents {
  state: ConnectionState;
  /** Somebody calls this user. Once for each invitation, also after a reload while it rings. */
  incoming: Call;
  /** A call in which this device takes part, and of which this page knows nothing: it was loaded again. */
  resumed: Call;
  /** Another user sent this with `send`. Each once; those of one `stream` of a device in the order of `seq`, as far as they came. */
  message: Message;
  /** What has become of a message of this client. Each once. */
  receipt: Receipt;
  /**
   * What nobody waits for: the broker refuses this device or announces why it ends the connection, the service could not read
   * something, a signal was refused, no receipt came.
   */
  error: BellwireError;
}

/** The fields of `call.invite` (docs/protocol.md, section 2). */
export interface CallOptions {
  media?: "voice" | "video" | (string & Record<never, never>);
  /** `common` by default: the call ends with the answer. */
  mode?: CallMode;
  /** Seconds, 1 to 600; 60 by default. */
  timeout?: number;
  /** Tells `notYetReceived` when no device of an invitee has received the invitation after `notReceivedAfter` (5) seconds. */
  notReceivedCheck?: boolean;
  notReceivedAfter?: number;
  /** At most 2048 bytes. */
  extendedData?: string;
  joinPolicy?: "invited" | "anyone";
  autoEnd?: boolean;
  ifBusy?: "ring" | "reject";
  glare?: "ring" | "merge";
  push?: PushText;
  /** 1–64 of `A-Z a-z 0-9 _ -`; drawn when left out. */
  callID?: string;
  /**
   * Aborted before the service has answered, it cancels the call: no device rings then, and `call` throws `cancelled`.
   */
  signal?: AbortSignal;
}

export interface UserProfile {
  userID: string;
  name?: string;
  avatarURL?: string;
  extendedData?: string;
  /** A device of the user is online. */
  online: boolean;
}

/** An entry of a call's timeline (section 6); what else it carries depends on its kind. */
export interface TraceEntry {
  /** Milliseconds since the epoch, by the service's clock. */
  time: number;
  /** Milliseconds since the call was created. */
  at: number;
  /** Milliseconds since the entry before. */
  after: number;
  /** The replica that did it. */
  coordinator: string;
  kind: string;
  [field: string]: unknown;
}

export interface Trace {
  call: CallObject;
  entries: TraceEntry[];
  /** How many older entries were dropped. */
  omitted: number;
  /** What devices reported with `report`. */
  reports: { userID: string; device: string; milestones: Record<string, number> }[];
}

export interface SendOptions {
  /** Seconds, 1 to 600, in which it is delivered or expires; 30 by default. */
  ttl?: number;
  messageID?: string;
  seq?: number;
  /**
   * The user's app is told of it after the ordered messages that this client has sent to that user before, in the order in which
   * `send` was called. `seq` is then given by the client.
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
 * A device of a user: makes calls, answers them, and is told of them.
 *
 * It keeps itself connected: after a lost connection it reconnects (after 0.25 s, then slower up to 8 s), tells the service that it
 * is back, and learns what it missed. Requests made meanwhile are kept, and sent again until they are answered or their time is
 * over. It acknowledges events by itself.
 */
export class BellwireClient {
  readonly user: string;
  private readonly transport: Transport;
  private readonly events = new Emitter<ClientEvents>();
  private readonly known = new Map<string, Call>();
  private readonly outcomes = new Map<string, { resolve(response: Response): void; reject(error: BellwireError): void }>();
  private readonly requestPrefix = randomID();
  private requestCount = 0;
  private driver: Driver | undefined;
  private connecting: { promise: Promise<void>; resolve(): void; reject(error: BellwireError): void } | undefined;
  private lastProblem = "no answer yet";
  private currentState: ConnectionState = "offline";
  private ownDevice: string | undefined;
  private releaseDevice: () => void = () => undefined;
  private servers: IceServer[] = [];
  private refusals = 0;

  constructor(private readonly options: ClientOptions) {
    this.user = checkUser(options.user);
    const { protocol } = new URL(options.url);
    if (!options.transport && protocol !== "ws:" && protocol !== "wss:") {
      throw new BellwireError("badRequest", "url begins with ws:// or wss://");
    }
    this.transport = options.transport ?? webSocketTransport(options.WebSocket);
    if (options.device !== undefined && !isDevice(options.device)) {
      throw new BellwireError("badRequest", "a device id is 1 to 64 of A-Z a-z 0-9 . _ ~ -");
    }
    this.ownDevice = options.device;
  }

  /** This device; when the options name none, the empty string until `connect()` has found one. */
  get device(): string { return this.ownDevice ?? ""; }
  get state(): ConnectionState { return this.currentState; }
  /** The calls that ring here or in which this device takes part. */
  get calls(): Call[] { return [...this.known.values()]; }
  /** STUN and TURN servers of the deployment, with credentials for about an hour; each welcome renews them. For `RTCPeerConnection`. */
  get iceServers(): RTCIceServer[] { return this.servers.map((server) => ({ ...server })); }
  /** How many invitations, and copies of them, were not taken in because 256 calls rang at once. */
  get refusedInvitations(): number { return this.refusals; }

  /** Calls `handler` with each such event from now on; returns how to stop that. */
  on<Name extends keyof ClientEvents>(name: Name, handler: (value: ClientEvents[Name]) => void): () => void {
    return this.events.on(name, handler);
  }

  // Connecting

  /**
   * Connects, and returns once the service knows this device. Throws `notConnected` when that takes longer than `connectTimeout`; the
   * client then goes on trying until `disconnect()`. Throws `refused` when the broker refuses the token; without `getToken` the
   * client has then given up, and may be connected again.
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
    // Whoever waits is told; nobody need wait.
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
        url: options.url, user: this.user, device: this.device, topicRoot: options.topicRoot ?? "bellwire/v1",
        keepAlive: options.keepAlive ?? 90, transport: this.transport,
        machine: requestTimeout === undefined ? {} : { requestTimeout },
        ...(token === undefined ? {} : { token }), ...(getToken === undefined ? {} : { getToken }),
      },
      this.driverHost(),
    );
  }

  /**
   * Says goodbye to the service and closes the connection. Unanswered requests throw `disconnected`, and calls are over for this
   * device: `disconnected`. The client may be connected again.
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

  private setState(state: ConnectionState): void {
    if (state === this.currentState) return;
    this.currentState = state;
    this.events.emit("state", state);
  }

  // Calls

  /**
   * Calls users: `call.invite`. Returns once the service has made the call; what the invitees do is told by the call. With
   * `glare: "merge"` it may be the invitee's own call.
   */
  async call(invitees: string[], options: CallOptions = {}): Promise<Call> {
    const { signal, callID = randomID(), ...fields } = options;
    if (!isID(callID)) throw new BellwireError("badRequest", "a call id is 1 to 64 of A-Z a-z 0-9 _ -");
    for (const invitee of invitees) checkUser(invitee);
    const cancelled = () => new BellwireError("cancelled", "the call was cancelled");
    if (signal?.aborted) throw cancelled();
    this.requireDriver();
    const asked = new Call(this.callHost, plannedCall(this.user, this.device, invitees, callID, fields), "made");
    // Events about it may come before the response.
    this.known.set(callID, asked);
    let cancelling: Promise<unknown> | undefined;
    const cancel = () => (cancelling = asked.cancel().catch(() => undefined));
    signal?.addEventListener("abort", cancel, { once: true });
    let response: Response;
    try {
      response = await this.request("call.invite", { ...fields, invitees, callID });
    } catch (error) {
      asked.finish("gone");
      throw error;
    } finally {
      signal?.removeEventListener("abort", cancel);
    }
    const made = response.call ?? asked.snapshot;
    const call = this.known.get(made.callID) ?? (made.callID === callID ? asked : this.adopt(made, "made"));
    if (call !== asked) asked.finish("gone");
    // Too late, when somebody has answered.
    await cancelling;
    if (cancelling && call.endReason !== undefined) throw cancelled();
    call.invited = readInvited(response);
    return call;
  }

  /** A call by its id, as it is now: `call.get`. Only of calls in which this user is or was a member. */
  async get(callID: string): Promise<CallObject> {
    return requireCall(await this.request("call.get", { callID }));
  }

  /** Joins a call by its id (advanced calls, section 2, `call.join`). */
  async join(callID: string, options: { extendedData?: string } = {}): Promise<Call> {
    const call = this.known.get(callID) ?? new Call(this.callHost, plannedCall(undefined, "", [], callID, {}), "resumed");
    await call.join(options);
    return call;
  }

  /** Why a phone did or did not ring: the call's timeline (section 6). */
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

  /** This user's calls, the newest first, 1 to 100 at once: `call.query`. `cursor` is the next page's; absent when there are no more. */
  async history(options: { count?: number; cursor?: string } = {}): Promise<{ calls: CallObject[]; cursor?: string }> {
    const { calls, cursor } = (await this.request("call.query", options)).body;
    const page = { calls: readCalls(calls) };
    return typeof cursor === "string" && cursor !== "0" ? { ...page, cursor } : page;
  }

  // Beyond calls

  /**
   * A reliable message to all devices of a user: any JSON value of at most 32 KiB. Returns once the service has it; what becomes of
   * it is told by `receipt`.
   */
  async send(to: string, data: unknown, options: SendOptions = {}): Promise<SentMessage> {
    const { ordered = false, ...asked } = options;
    const fields = { messageID: randomID(), ...asked, to, data };
    const { messageID, time, state } = (await this.ask("message.send", fields, ordered)).body;
    return { messageID, time, state } as SentMessage;
  }

  /** Profiles of 1 to 100 users, and whether they are online. Those who are unknown are in `errors`. */
  async users(userIDs: string[]): Promise<{ users: UserProfile[]; errors: UserError[] }> {
    const { users, errors } = (await this.request("user.query", { userIDs })).body;
    const profiles = readObjects(users).flatMap((json) => readProfile(json) ?? []);
    return { users: profiles, errors: readUserErrors(errors) };
  }

  /** Changes the own profile. What is left out stays, the empty string removes. */
  async update(profile: { name?: string; avatarURL?: string; extendedData?: string }): Promise<UserProfile> {
    const [json = {}] = readObjects([(await this.request("user.update", profile)).body.user]);
    return readProfile(json) ?? { userID: this.user, online: true };
  }

  /** From now on the other user's invitations and messages do not reach this user. Returns whom this user has blocked. */
  async block(userID: string): Promise<string[]> {
    return readUsers((await this.request("user.block", { userID })).body.blocked);
  }

  async unblock(userID: string): Promise<string[]> {
    return readUsers((await this.request("user.unblock", { userID })).body.blocked);
  }

  async blockedUsers(): Promise<string[]> {
    return readUsers((await this.request("user.blockList", {})).body.blocked);
  }

  /** This device is woken by pushes while no page is open (section 7). To be done whenever the client has connected. */
  async registerPush(registration: PushRegistration): Promise<void> {
    await this.request("push.register", registration);
  }

  async unregisterPush(of: { platform?: PushRegistration["platform"]; app?: string } = {}): Promise<void> {
    await this.request("push.unregister", of);
  }

  /** Any request of section 2, for what has no method of its own. Throws what the service answers. */
  request(type: string, fields: object): Promise<Response> {
    return this.ask(type, fields, false);
  }

  private ask(type: string, fields: object, isOrdered: boolean): Promise<Response> {
    return new Promise((resolve, reject) => {
      const driver = this.requireDriver();
      this.requestCount += 1;
      const id = `${this.requestPrefix}-${this.requestCount}`;
      // A copy, which the app cannot change any more. What is undefined is left out, as on the wire.
      const request: object = JSON.parse(JSON.stringify(fields));
      this.outcomes.set(id, { resolve, reject });
      driver.send({ ...request, type, id }, isOrdered);
    });
  }

  private requireDriver(): Driver {
    if (!this.driver) throw new BellwireError("notConnected", "call connect() first");
    return this.driver;
  }

  // From the driver

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
    // A token may be better next time; and who has been online goes on trying.
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

  private follow(snapshot: CallObject, isMissed?: boolean): void {
    const call = this.known.get(snapshot.callID);
    if (call) return call.update(snapshot, isMissed);
    const own = memberOf(snapshot, this.user);
    if (!own || snapshot.state === "ended") return;
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
    this.known.set(call.id, call);
    return call;
  }

  private readonly callHost: CallHost = hostOf(this, this.known, (callID, data, to) => {
    const signal = { type: "call.signal" as const, callID, data, ...(to ? { to } : {}) };
    return this.driver?.signal(signal) ?? false;
  });
}

/** What calls need of their client, without showing it to apps. */
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
 * The call as it will be if all goes well: each other state of an invitee is a change. Times are the service's, and not known. Without a
 * user nothing is known of it.
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
