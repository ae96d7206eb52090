/*
 * Items of many senders, each sender's items in order (docs/protocol.md, section 2, Signals and Peer messages). The
 * Swift SDK has the same `OrderedStreams`.
 */

/**
 * An item with a place in a stream of its sender. `callID` is set for signals, because each call numbers its signals
 * separately.
 */
export interface Placed {
  callID?: string;
  from: string;
  fromDevice: string;
  stream?: string;
}

/**
 * The times that a receiver waits for missing items, in milliseconds, and the number of items that the receiver
 * remembers.
 */
export interface StreamBounds {
  /** The wait of an unknown stream for items before its first item. */
  beginning: number;
  /** The wait for a gap. */
  gap: number;
  /**
   * The number of delivered items of a stream that are remembered to drop copies; 0 when copies are dropped before
   * reaching the stream.
   */
  remembered: number;
}

/** The bound on items that wait in a stream. Beyond this number the stream gives its first gap up. */
const mostHeld = 64;
/** The bound on streams that are followed. */
const mostStreams = 64;
/** The bound on streams of a single sender device. */
const streamsPerSource = 4;

const isOfSource = (first: Placed, other: Placed): boolean =>
  first.callID === other.callID && first.from === other.from && first.fromDevice === other.fromDevice;

export class OrderedStreams<Item extends Placed> {
  private readonly streams: OrderedStream<Item>[] = [];

  constructor(private readonly bounds: StreamBounds) {}

  /** The time at which the first gap is given up. */
  get deadline(): number | undefined {
    const deadlines = this.streams.flatMap((stream) => stream.deadline ?? []);
    return deadlines.length > 0 ? Math.min(...deadlines) : undefined;
  }

  /** Returns the items to deliver now, including items of a stream that is forgotten to make room. */
  received(item: Item, seq: number, now: number): Item[] {
    const known = this.streams.find(({ first }) => isOfSource(first, item) && first.stream === item.stream);
    if (known) return known.received(item, seq, now);
    const forgotten = this.makeRoom(item);
    const stream = new OrderedStream<Item>(item, this.bounds);
    this.streams.push(stream);
    return [...forgotten, ...stream.received(item, seq, now)];
  }

  /** Gives up the gaps that have waited long enough; `Infinity` gives up all gaps. */
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
   * Returns the stream to forget for a new stream of this sender: a stream of the same sender device when that device
   * has the most allowed streams, else, when there is no room, a stream of the user with the most streams. A user that
   * begins ever new streams, on any number of devices, therefore displaces no other user's streams.
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

/** A stream of a sender: delivers its items in order. */
class OrderedStream<Item extends Placed> {
  /** The next `seq` to deliver; undefined until the stream has begun. */
  private next: number | undefined;
  /** The items that came before their turn, by rising `seq`, with their times of arrival. */
  private held: { seq: number; item: Item; at: number }[] = [];
  /** The last delivered places. */
  private delivered: number[] = [];
  /** The time of the last item. */
  lastAt = 0;

  constructor(
    readonly first: Placed,
    private readonly bounds: StreamBounds,
  ) {}

  /** The time at which the first gap is given up. */
  get deadline(): number | undefined {
    if (this.held.length === 0) return undefined;
    const patience = this.next === undefined ? this.bounds.beginning : this.bounds.gap;
    return Math.min(...this.held.map(({ at }) => at)) + patience;
  }

  /** Returns the items to deliver now. */
  received(item: Item, seq: number, now: number): Item[] {
    this.lastAt = now;
    if (this.isCopy(seq)) return [];
    // A stream begins with 1, or with 0 for clients that count from 0.
    if (this.next === undefined && seq <= 1) this.next = seq;
    if (this.next !== undefined && seq < this.next) {
      // The stream gave this item's place up. A late delivery is better than no delivery.
      this.note(seq);
      return [item];
    }
    const place = this.held.findIndex((entry) => entry.seq > seq);
    this.held.splice(place < 0 ? this.held.length : place, 0, { seq, item, at: now });
    if (this.held.length > mostHeld) this.next = this.held[0]?.seq;
    return this.drain();
  }

  /** Gives up the gaps before items that have waited too long. Earlier items are delivered first, in order. */
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
