import { Emitter } from "./emitter.js";
import { BellwireError } from "./errors.js";
import {
  type CallMode, type CallObject, type CallState, type Member, type MemberState, type Response, type Signal,
  type UserError, byteLength, isPending, limits, memberOf, readUserErrors, readUsers,
} from "./protocol.js";
import { AsyncQueue } from "./queue.js";
import { holdLock, ringPause } from "./tab.js";

/** A member of the call changed. */
export interface Change {
  userID: string;
  state: MemberState;
  /** Where the user accepted, rejected or joined. */
  device?: string;
  reason?: string;
  extendedData?: string;
}

export interface CallSignal {
  from: string;
  fromDevice: string;
  /** Whatever the other member sent: to be looked at before it is used. */
  data: unknown;
}

export interface CallEvents {
  /** A member's state changed; each once. Changes that came while this device was away come as one. */
  change: Change;
  /**
   * The call is over for this device, once. With the call's own reason (`answered`, `rejected`, `busy`, `timeout`, `cancelled`,
   * `callerLost`, `hangup`, `quit`, `heartbeatTimeout`), or what became of this user in a call that goes on (`rejected`, `quit`,
   * `timeout`, `cancelled`), or `answeredElsewhere`, `rejectedElsewhere` (another device of the user), `gone` (it ended while this
   * device could not be reached), `disconnected` (the app disconnected the client).
   */
  ended: string;
  /** Another member sent this with `signal`. In the order in which it was sent, as far as it came. */
  signal: CallSignal;
  /**
   * Of an incoming call: true when this tab is to make the sound of ringing, false when it is to stop. Of several tabs of one
   * browser one is told, first of all the visible one that the user has touched: a browser lets no other make a sound. If it is closed,
   * the next.
   */
  ring: boolean;
}

export interface ExtendedData {
  /** Text for the other members, at most 2048 bytes. */
  extendedData?: string;
}

/** What an invitation brought beside the call. */
export interface Invited {
  /** Invitees without an online device: they ring when they come online. */
  offline: string[];
  /** Those who could not be invited, and why. */
  errors: UserError[];
}

export interface AddOptions extends ExtendedData {
  /** Seconds, 1 to 600; the call's own when left out. */
  timeout?: number;
  push?: PushText;
}

/** What a push about the invitation says. */
export interface PushText {
  title?: string;
  content?: string;
  payload?: string;
  /** What the push about a missed call says; `title` and `content` are those of the ringing. */
  missed?: { title?: string; content?: string };
}

/** What a call needs of its client. */
export interface CallHost {
  readonly user: string;
  readonly device: string;
  request(type: string, fields: object): Promise<Response>;
  signal(callID: string, data: unknown, to?: string[]): boolean;
  /** The call is asked for again after it was over here. */
  adopt(call: Call): void;
  /** It is over here. */
  forget(call: Call): void;
}

/** A call, as this device sees it. It changes only by what the service says. */
export class Call implements AsyncIterable<Change> {
  private readonly events = new Emitter<CallEvents>(["change", "ended", "signal", "ring"]);
  private readonly queues = new Set<AsyncQueue<Change>>();
  /** Changes that came before the app looked. */
  private backlog: Change[] | undefined = [];
  private stopRinging: (() => void) | undefined;
  private readonly startedAt = performance.now();
  /** Of a call that this client began: who could not be reached or invited. */
  invited: Readonly<Invited> = { offline: [], errors: [] };
  private over: string | undefined;
  private wasMissed = false;

  /** @internal */
  constructor(
    private readonly host: CallHost,
    private current: CallObject,
    private readonly origin: "made" | "incoming" | "resumed",
  ) {}

  /** This user was called. */
  get isIncoming(): boolean { return this.origin === "incoming"; }
  /** This page was loaded while the user was in the call: it does not know when it began. */
  get isResumed(): boolean { return this.origin === "resumed"; }

  get id(): string { return this.current.callID; }
  /** The state of the call as a whole. Whether this device is still concerned tells `endReason`. */
  get state(): CallState { return this.current.state; }
  get mode(): CallMode { return this.current.mode; }
  get media(): string | undefined { return this.current.media; }
  get inviter(): string { return this.current.inviter; }
  get extendedData(): string | undefined { return this.current.extendedData; }
  /** All who are or were in it, in the order in which they were invited; the inviter is the first. */
  get members(): readonly Readonly<Member>[] { return this.current.members; }
  /** The call object of the protocol (section 4). */
  get snapshot(): Readonly<CallObject> { return this.current; }
  /** Why it is over for this device; undefined while it is not. See `ended`. */
  get endReason(): string | undefined { return this.over; }
  /** It is over, and this user never responded on any device. */
  get isMissed(): boolean { return this.wasMissed; }
  /** This device takes part in it. */
  get isHere(): boolean {
    const own = memberOf(this.current, this.host.user);
    return this.over === undefined && own?.state === "accepted" && own.device === this.host.device;
  }
  /** The other members who have accepted, and not left. */
  get others(): string[] {
    const isOther = ({ userID, state }: Member) => state === "accepted" && userID !== this.host.user;
    return this.current.members.filter(isOther).map(({ userID }) => userID);
  }
  /** Milliseconds since this device made the call, or was told of it: what `report` counts in. */
  get elapsed(): number { return Math.round(performance.now() - this.startedAt); }

  /** Calls `handler` with each such event from now on; returns how to stop that. What came before the first handler is told it. */
  on<Name extends keyof CallEvents>(name: Name, handler: (value: CallEvents[Name]) => void): () => void {
    return this.events.on(name, handler);
  }

  /** Each change, until the call is over for this device. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Change> {
    const queue: AsyncQueue<Change> = new AsyncQueue(() => this.queues.delete(queue));
    for (const change of this.backlog ?? []) queue.push(change);
    this.backlog = undefined;
    if (this.over === undefined) this.queues.add(queue);
    else queue.finish();
    return queue;
  }

  // Requests (section 2). Each throws a BellwireError when the service refuses.

  async accept(options: ExtendedData = {}): Promise<void> {
    await this.ask("call.accept", options);
  }

  /** `reason`: `declined`, `busy`, or any text of at most 256 bytes. */
  async reject(reason = "declined", options: ExtendedData = {}): Promise<void> {
    await this.ask("call.reject", { ...options, reason });
  }

  /** Takes back this user's pending invitations: of `invitees`, or all. Returns those who were not pending any more. */
  async cancel(options: ExtendedData & { invitees?: string[] } = {}): Promise<UserError[]> {
    return readUserErrors((await this.ask("call.cancel", options)).body.errors);
  }

  /** Advanced calls: invites more users. */
  async add(invitees: string[], options: AddOptions = {}): Promise<Invited> {
    return readInvited(await this.ask("call.add", { ...options, invitees }));
  }

  /** Advanced calls: enters the call, or moves it from another device of this user to this one. */
  async join(options: ExtendedData = {}): Promise<void> {
    this.over = undefined;
    this.host.adopt(this);
    try {
      await this.ask("call.join", options);
    } catch (error) {
      if (!this.isHere) this.finish("gone");
      throw error;
    }
  }

  /** Advanced calls: leaves; the others go on, if there are two. */
  async quit(options: ExtendedData = {}): Promise<void> {
    await this.ask("call.quit", options);
  }

  /** Advanced calls: ends the call for all. */
  async end(options: ExtendedData & { reason?: string } = {}): Promise<void> {
    await this.ask("call.end", options);
  }

  /**
   * Sends any JSON value of at most 32 KiB to the other accepted members, or to those of `to`. Best effort, but in order. False: it
   * was dropped here, because too much waits to be sent. What the service refuses is told by the client's `error`.
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
   * Tells the service how long the call took to reach its milestones, in milliseconds (`elapsed`): `remoteReceived`, `accepted`,
   * `joinedChannel`, `remoteJoinedChannel`, `firstFrameCaptured`, `firstFramePublished`, `firstFrame`, or names of the app's own.
   */
  async report(milestones: Record<string, number>): Promise<void> {
    const whole = Object.entries(milestones).map(([name, time]) => [name, Math.max(0, Math.round(time))]);
    await this.ask("call.report", { milestones: Object.fromEntries(whole) });
  }

  private ask(type: string, fields: object): Promise<Response> {
    return this.host.request(type, { ...fields, callID: this.id });
  }

  // From the client

  /** @internal The service says how the call is now. */
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

  /** @internal Begins to ring: of an incoming call. */
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

  /** @internal It is over for this device. */
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

  /** Undefined while it is not over for this device. */
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

/** That the own devices received an invitation is no news to its user. */
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
