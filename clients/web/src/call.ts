import { Emitter } from "./emitter.js";
import { BellwireError } from "./errors.js";
import {
  type CallMode, type CallObject, type CallState, type MediaSession, type Member, type MemberState, type Response,
  type Signal, type UserError, byteLength, isPending, limits, memberOf, readMediaSession, readUserErrors, readUsers,
} from "./protocol.js";
import { AsyncQueue } from "./queue.js";
import { holdLock, ringPause } from "./tab.js";

/** A change of a member's state. */
export interface Change {
  userID: string;
  state: MemberState;
  /** The device on which the user accepted, rejected or joined. */
  device?: string;
  reason?: string;
  extendedData?: string;
}

export interface CallSignal {
  from: string;
  fromDevice: string;
  /** The data of the other member. The app must check the data before use. */
  data: unknown;
}

export interface CallEvents {
  /**
   * A member's state changed. The app gets each change once. Changes during an absence of this device come as a single
   * change.
   */
  change: Change;
  /**
   * The call is over for this device; emitted once. The value is one of these:
   * - the call's own reason: `answered`, `rejected`, `busy`, `timeout`, `cancelled`, `callerLost`, `hangup`, `quit`,
   *   `heartbeatTimeout`;
   * - this user's last state in a call that goes on: `rejected`, `quit`, `timeout`, `cancelled`;
   * - `answeredElsewhere` or `rejectedElsewhere`: another device of the user responded;
   * - `gone`: the call ended while this device could not be reached;
   * - `disconnected`: the app disconnected the client.
   */
  ended: string;
  /** Another member sent a signal. Signals come in the order of sending; lost signals are left out. */
  signal: CallSignal;
  /**
   * For incoming calls: true when this tab must make the ringing sound, false when this tab must stop the sound. When a
   * browser has several tabs, only a single tab gets true. A visible tab that the user has touched comes first, because
   * browsers let no other tab make a sound. When that tab is closed, the next tab gets true.
   */
  ring: boolean;
}

export interface ExtendedData {
  /** A text for the other members, at most 2048 bytes. */
  extendedData?: string;
}

/** The result of an invitation besides the call. */
export interface Invited {
  /** Invitees without an online device. Their devices ring when they come online. */
  offline: string[];
  /** Users that could not be invited, with the reason. */
  errors: UserError[];
}

export interface AddOptions extends ExtendedData {
  /** Seconds, 1 to 600; the call's own timeout by default. */
  timeout?: number;
  push?: PushText;
}

/** The texts of a push about the invitation. */
export interface PushText {
  title?: string;
  content?: string;
  payload?: string;
  /** The texts of the push about a missed call; `title` and `content` above are for the push about the ringing call. */
  missed?: { title?: string; content?: string };
}

/** The functions of the client that a call uses. */
export interface CallHost {
  readonly user: string;
  readonly device: string;
  request(type: string, fields: object): Promise<Response>;
  signal(callID: string, data: unknown, to?: string[]): boolean;
  /** The app uses the call again after the call was over on this device. */
  adopt(call: Call): void;
  /** The call is over on this device. */
  forget(call: Call): void;
}

/** A call as this device knows it. The call changes only by messages of the service. */
export class Call implements AsyncIterable<Change> {
  private readonly events = new Emitter<CallEvents>(["change", "ended", "signal", "ring"]);
  private readonly queues = new Set<AsyncQueue<Change>>();
  /** Changes from before the app registered its first handler or iterator. */
  private backlog: Change[] | undefined = [];
  private stopRinging: (() => void) | undefined;
  private readonly startedAt = performance.now();
  /** For a call that this client made: users that are offline or could not be invited. */
  invited: Readonly<Invited> = { offline: [], errors: [] };
  private over: string | undefined;
  private wasMissed = false;
  private session: MediaSession | undefined;

  /** @internal */
  constructor(
    private readonly host: CallHost,
    private current: CallObject,
    private readonly origin: "made" | "incoming" | "resumed",
  ) {}

  /** Whether another user called this user. */
  get isIncoming(): boolean { return this.origin === "incoming"; }
  /** Whether the page was loaded while the user was in the call. Such a page does not know when the call began. */
  get isResumed(): boolean { return this.origin === "resumed"; }

  get id(): string { return this.current.callID; }
  /** The state of the whole call. `endReason` tells whether the call is over for this device. */
  get state(): CallState { return this.current.state; }
  get mode(): CallMode { return this.current.mode; }
  get media(): string | undefined { return this.current.media; }
  get inviter(): string { return this.current.inviter; }
  get extendedData(): string | undefined { return this.current.extendedData; }
  /** All present and past members, in the order of their invitations; the inviter is the first. */
  get members(): readonly Readonly<Member>[] { return this.current.members; }
  /** The call object of the protocol (section 4). */
  get snapshot(): Readonly<CallObject> { return this.current; }
  /**
   * The newest media session of this device: the media server's address, the room and a token. Undefined before the
   * user is accepted on this device, and for a call without a media server.
   */
  get mediaSession(): MediaSession | undefined { return this.session && { ...this.session }; }
  /** The reason why the call is over for this device; undefined before the end. See `ended`. */
  get endReason(): string | undefined { return this.over; }
  /** Whether the call is over and this user never responded on any device. */
  get isMissed(): boolean { return this.wasMissed; }
  /** Whether the user takes part in the call on this device. */
  get isHere(): boolean {
    const own = memberOf(this.current, this.host.user);
    return this.over === undefined && own?.state === "accepted" && own.device === this.host.device;
  }
  /** The other members that are in the call now. */
  get others(): string[] {
    const isOther = ({ userID, state }: Member) => state === "accepted" && userID !== this.host.user;
    return this.current.members.filter(isOther).map(({ userID }) => userID);
  }
  /** Milliseconds since this device made the call or learned of the call. `report` takes times of the same clock. */
  get elapsed(): number { return Math.round(performance.now() - this.startedAt); }

  /**
   * Calls `handler` with each such event from now on, and first with the events from before the first handler. Returns
   * a function that removes the handler.
   */
  on<Name extends keyof CallEvents>(name: Name, handler: (value: CallEvents[Name]) => void): () => void {
    return this.events.on(name, handler);
  }

  /** @internal As `on`, and leaves the earlier events to the first handler. */
  follow<Name extends keyof CallEvents>(name: Name, handler: (value: CallEvents[Name]) => void): void {
    this.events.follow(name, handler);
  }

  /** Iterates over the changes until the call is over for this device. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Change> {
    const queue: AsyncQueue<Change> = new AsyncQueue(() => this.queues.delete(queue));
    for (const change of this.backlog ?? []) queue.push(change);
    this.backlog = undefined;
    if (this.over === undefined) this.queues.add(queue);
    else queue.finish();
    return queue;
  }

  // Requests (section 2). Each method throws a BellwireError when the service refuses the request.

  async accept(options: ExtendedData = {}): Promise<void> {
    this.learn((await this.ask("call.accept", options)).body.mediaSession);
  }

  /** `reason`: `declined`, `busy`, or any text of at most 256 bytes. */
  async reject(reason = "declined", options: ExtendedData = {}): Promise<void> {
    await this.ask("call.reject", { ...options, reason });
  }

  /**
   * Cancels this user's pending invitations: the invitations of `invitees`, or all invitations. Returns the invitees
   * that were not pending.
   */
  async cancel(options: ExtendedData & { invitees?: string[] } = {}): Promise<UserError[]> {
    return readUserErrors((await this.ask("call.cancel", options)).body.errors);
  }

  /** Advanced calls: invites more users. */
  async add(invitees: string[], options: AddOptions = {}): Promise<Invited> {
    return readInvited(await this.ask("call.add", { ...options, invitees }));
  }

  /** Advanced calls: enters the call, or moves this user's part from another device to this device. */
  async join(options: ExtendedData = {}): Promise<void> {
    this.over = undefined;
    this.host.adopt(this);
    try {
      this.learn((await this.ask("call.join", options)).body.mediaSession);
    } catch (error) {
      if (!this.isHere) this.finish("gone");
      throw error;
    }
  }

  /** Advanced calls: leaves the call. The call goes on while at least two members remain. */
  async quit(options: ExtendedData = {}): Promise<void> {
    await this.ask("call.quit", options);
  }

  /** Advanced calls: ends the call for all. */
  async end(options: ExtendedData & { reason?: string } = {}): Promise<void> {
    await this.ask("call.end", options);
  }

  /**
   * Asks for another media session, which is then also `mediaSession`. Throws `noMedia` for a call without a media
   * server.
   */
  async renewMediaSession(): Promise<MediaSession> {
    this.learn((await this.ask("call.media", {})).body.mediaSession);
    const { mediaSession } = this;
    if (!mediaSession) throw new BellwireError("internal", "the response brought no media session");
    return mediaSession;
  }

  /**
   * Sends any JSON value of at most 32 KiB to all other accepted members, or to the members in `to`. Signals can get
   * lost, but keep their order. Returns false when the client dropped the signal because too much data waits to be
   * sent. When the service refuses the signal, the client emits `error`.
   */
  signal(data: unknown, options: { to?: string[] } = {}): boolean {
    const json: string | undefined = JSON.stringify(data);
    if (json === undefined) throw new BellwireError("badRequest", "a signal is a JSON value");
    if (byteLength(json) > limits.data) {
      throw new BellwireError("tooLarge", `a signal has at most ${limits.data} bytes of JSON`);
    }
    return this.host.signal(this.id, data, options.to);
  }

  /**
   * Reports the times at which the call reached its milestones, in milliseconds (`elapsed`): `remoteReceived`,
   * `accepted`, `joinedChannel`, `remoteJoinedChannel`, `firstFrameCaptured`, `firstFramePublished`, `firstFrame`, or
   * the app's own names.
   */
  async report(milestones: Record<string, number>): Promise<void> {
    const whole = Object.entries(milestones).map(([name, time]) => [name, Math.max(0, Math.round(time))]);
    await this.ask("call.report", { milestones: Object.fromEntries(whole) });
  }

  private ask(type: string, fields: object): Promise<Response> {
    return this.host.request(type, { ...fields, callID: this.id });
  }

  // Functions that the client calls

  /** @internal Takes the media session of a response or a welcome. */
  learn(session: unknown): void {
    this.session = readMediaSession(session) ?? this.session;
  }

  /** @internal Takes the call's new state from the service. */
  update(snapshot: CallObject, isMissed = false): void {
    const before = this.current;
    this.current = snapshot;
    if (isMissed) this.wasMissed = true;
    for (const member of snapshot.members) {
      if (before.members.length > 0 && isChange(memberOf(before, member.userID), member, this.host.user)) this.tell(member);
    }
    const reason = this.endedBecause(snapshot);
    if (reason !== undefined) this.finish(reason);
    else if (!isPending(memberOf(snapshot, this.host.user)?.state ?? "quit")) this.silence();
  }

  /** @internal Begins to ring; for incoming calls. */
  ring(): void {
    const name = `bellwire-ring/${this.host.user}/${this.id}`;
    let isRinging = false;
    let giveBack: () => void = () => undefined;
    const take = () => {
      giveBack = holdLock(name, () => {
        isRinging = true;
        this.events.emit("ring", true);
      });
    };
    const pause = ringPause();
    const timer = pause > 0 ? setTimeout(take, pause) : undefined;
    if (pause === 0) take();
    this.stopRinging = () => {
      clearTimeout(timer);
      if (isRinging) this.events.emit("ring", false);
      giveBack();
    };
  }

  private silence(): void {
    this.stopRinging?.();
    this.stopRinging = undefined;
  }

  /** @internal */
  signalled({ from, fromDevice, data }: Signal): void {
    this.events.emit("signal", { from, fromDevice, data });
  }

  /** @internal Ends the call for this device. */
  finish(reason: string): void {
    this.silence();
    if (this.over !== undefined) return;
    this.over = reason;
    this.host.forget(this);
    this.events.emit("ended", reason);
    for (const queue of this.queues) queue.finish();
    this.queues.clear();
  }

  private tell({ userID, state, device, reason, extendedData }: Member): void {
    const change: Change = { userID, state };
    if (device !== undefined) change.device = device;
    if (reason !== undefined) change.reason = reason;
    if (extendedData !== undefined) change.extendedData = extendedData;
    this.events.emit("change", change);
    for (const queue of this.queues) queue.push(change);
    if (this.backlog && this.backlog.push(change) > longestBacklog) this.backlog.shift();
  }

  /** Returns the reason why the call is over for this device; undefined while the call is not over. */
  private endedBecause(call: CallObject): string | undefined {
    const own = memberOf(call, this.host.user);
    const isElsewhere = own?.device !== undefined && own.device !== this.host.device;
    if (isElsewhere && own.state === "rejected") return "rejectedElsewhere";
    if (isElsewhere && own.state === "accepted") return "answeredElsewhere";
    if (call.state === "ended") return call.endReason ?? "gone";
    if (own && (own.state === "accepted" || isPending(own.state))) return undefined;
    const wasTaken = own?.reason === "callerLost" || own?.reason === "heartbeatTimeout";
    return own ? (wasTaken ? own.reason : own.state) : "gone";
  }
}

const longestBacklog = 256;

/**
 * Whether the app is told of the member's change. An app is not told that its user's own devices have received the
 * invitation.
 */
function isChange(before: Member | undefined, after: Member, user: string): boolean {
  if (before?.state === after.state) {
    return (
      before.reason !== after.reason || before.extendedData !== after.extendedData ||
      (after.state === "accepted" && before.device !== after.device)
    );
  }
  return !(after.userID === user && before && isPending(after.state));
}

/** @internal */
export const readInvited = ({ body }: Response): Invited => ({
  offline: readUsers(body.offline),
  errors: readUserErrors(body.errors),
});
