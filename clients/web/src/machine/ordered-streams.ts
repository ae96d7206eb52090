/*
 * What comes from many senders, that of each in its order (docs/protocol.md, section 2, Signals and Peer messages). The twin of
 * the Swift SDK's `OrderedStreams`.
 */

/** What has a place in a run of its sender. `callID`: of signals, which are numbered in each call for itself. */
export interface Placed {
  callID?: string;
  from: string;
  fromDevice: string;
  stream?: string;
}

/** How long a receiver waits for what is missing, in milliseconds, and how much it keeps meanwhile. */
export interface StreamBounds {
  /** How long a stream that is not known waits for what is before its first one. */
  beginning: number;
  /** How long a gap is waited for. */
  gap: number;
  /** How many of the last ones of a stream are remembered as delivered, to drop their copies; 0 where copies are dropped before. */
  remembered: number;
}

/** What waits in a stream. Beyond it the first gap is given up. */
const mostHeld = 64;
/** Streams that are followed. */
const mostStreams = 64;
/** Of one sender. */
const streamsPerSource = 4;

const isOfSource = (first: Placed, other: Placed): boolean =>
  first.callID === other.callID && first.from === other.from && first.fromDevice === other.fromDevice;

export class OrderedStreams<Item extends Placed> {
  private readonly streams: OrderedStream<Item>[] = [];

  constructor(private readonly bounds: StreamBounds) {}

  /** When the first gap is given up. */
  get deadline(): number | undefined {
    const deadlines = this.streams.flatMap((stream) => stream.deadline ?? []);
    return deadlines.length > 0 ? Math.min(...deadlines) : undefined;
  }

  /** Returns what is to be delivered now; also what was held in a stream that is forgotten for this one. */
  received(item: Item, seq: number, now: number): Item[] {
    const known = this.streams.find(({ first }) => isOfSource(first, item) && first.stream === item.stream);
    if (known) return known.received(item, seq, now);
    const forgotten = this.makeRoom(item);
    const stream = new OrderedStream<Item>(item, this.bounds);
    this.streams.push(stream);
    return [...forgotten, ...stream.received(item, seq, now)];
  }

  /** Gives up the gaps that have been waited for long enough; at `Infinity` all of them. */
  gapsPassed(now: number): Item[] {
    return this.streams.flatMap((stream) => stream.gapsPassed(now));
  }

  private makeRoom(item: Item): Item[] {
    const forgotten = this.displaced(item);
    if (!forgotten) return [];
    this.streams.splice(this.streams.indexOf(forgotten), 1);
    return forgotten.gapsPassed(Infinity);
  }

  /**
   * One of the sender's own, when it has as many as it may have; else, when there is no room, one of the user who has most of them.
   * So nobody displaces the streams of others by beginning ever new ones, on however many devices.
   */
  private displaced(item: Item): OrderedStream<Item> | undefined {
    const own = this.streams.filter(({ first }) => isOfSource(first, item));
    if (own.length >= streamsPerSource) return longestSilent(own);
    if (this.streams.length < mostStreams) return undefined;
    const counts = new Map([[item.from, 1]]);
    for (const { first } of this.streams) counts.set(first.from, (counts.get(first.from) ?? 0) + 1);
    const most = Math.max(...counts.values());
    return longestSilent(this.streams.filter(({ first }) => counts.get(first.from) === most));
  }
}

const longestSilent = <Item extends Placed>(streams: OrderedStream<Item>[]): OrderedStream<Item> =>
  streams.reduce((a, b) => (b.lastAt < a.lastAt ? b : a));

/** One run of a sender, put into order. */
class OrderedStream<Item extends Placed> {
  /** The `seq` that is to come; undefined until the stream has begun. */
  private next: number | undefined;
  /** What came before its turn, and when, by rising `seq`. */
  private held: { seq: number; item: Item; at: number }[] = [];
  /** The last ones that were delivered. */
  private delivered: number[] = [];
  /** When it was last heard of. */
  lastAt = 0;

  constructor(
    readonly first: Placed,
    private readonly bounds: StreamBounds,
  ) {}

  /** When the first gap is given up. */
  get deadline(): number | undefined {
    if (this.held.length === 0) return undefined;
    const patience = this.next === undefined ? this.bounds.beginning : this.bounds.gap;
    return Math.min(...this.held.map(({ at }) => at)) + patience;
  }

  /** Returns what is to be delivered now. */
  received(item: Item, seq: number, now: number): Item[] {
    this.lastAt = now;
    if (this.isCopy(seq)) return [];
    // A stream begins with 1, or with 0 at clients that count from there.
    if (this.next === undefined && seq <= 1) this.next = seq;
    if (this.next !== undefined && seq < this.next) {
      // Its place was given up: late is better than never.
      this.note(seq);
      return [item];
    }
    const place = this.held.findIndex((entry) => entry.seq > seq);
    this.held.splice(place < 0 ? this.held.length : place, 0, { seq, item, at: now });
    if (this.held.length > mostHeld) this.next = this.held[0]?.seq;
    return this.drain();
  }

  /** Gives up the gaps before what has waited for too long: everything before it goes with it, in order. */
  gapsPassed(now: number): Item[] {
    const items: Item[] = [];
    while ((this.deadline ?? Infinity) <= now && this.held.length > 0) {
      this.next = this.held[0]?.seq;
      items.push(...this.drain());
    }
    return items;
  }

  private drain(): Item[] {
    const items: Item[] = [];
    for (let entry = this.held[0]; entry && this.next !== undefined && entry.seq <= this.next; entry = this.held[0]) {
      this.held.shift();
      this.note(entry.seq);
      this.next = entry.seq + 1;
      items.push(entry.item);
    }
    return items;
  }

  private isCopy(seq: number): boolean {
    if (this.bounds.remembered === 0) return false;
    return this.delivered.includes(seq) || this.held.some((entry) => entry.seq === seq);
  }

  private note(seq: number): void {
    if (this.bounds.remembered === 0) return;
    this.delivered.push(seq);
    if (this.delivered.length > this.bounds.remembered) this.delivered.shift();
  }
}
