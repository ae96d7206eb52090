import type { Signal } from "../protocol.js";

/** How long a signal waits for one before it, in milliseconds (section 2, Signals). */
export const signalGap = 500;
/** Signals of a stream that wait for one before them. */
export const heldSignals = 64;
/** Signals of a stream that are remembered as delivered. */
const deliveredSignals = 256;

/** The signals of one sender in one call, put into order. */
export class SignalStream {
  /** The `seq` that is to come; undefined until the stream has begun. */
  private next: number | undefined;
  /** What came before its turn, by rising `seq`. */
  private held: { seq: number; signal: Signal; until: number }[] = [];
  /** The last ones that were delivered. */
  private delivered: number[] = [];

  constructor(
    private readonly first: Signal,
    public lastAt: number,
  ) {}

  isOfSender(signal: Signal): boolean {
    const { callID, from, fromDevice } = this.first;
    return callID === signal.callID && from === signal.from && fromDevice === signal.fromDevice;
  }

  isOf(signal: Signal): boolean {
    return this.isOfSender(signal) && this.first.stream === signal.stream;
  }

  /** When the first gap is given up. */
  get deadline(): number | undefined {
    return this.held.length > 0 ? Math.min(...this.held.map((entry) => entry.until)) : undefined;
  }

  /** Returns what is to be delivered now. */
  received(signal: Signal, seq: number, now: number): Signal[] {
    if (this.delivered.includes(seq) || this.held.some((entry) => entry.seq === seq)) return [];
    // A stream begins with 1, or with 0 at clients that count from there.
    if (this.next === undefined && seq <= 1) this.next = seq;
    if (this.next !== undefined && seq < this.next) {
      // Its place was given up: late is better than never.
      this.note(seq);
      return [signal];
    }
    const place = this.held.findIndex((entry) => entry.seq > seq);
    this.held.splice(place < 0 ? this.held.length : place, 0, { seq, signal, until: now + signalGap });
    if (this.held.length > heldSignals) this.next = this.held[0]?.seq;
    return this.drain();
  }

  /** Gives up the gap before what has waited for too long. */
  gapsPassed(now: number): Signal[] {
    const signals: Signal[] = [];
    for (;;) {
      const due = this.held.filter((entry) => entry.until <= now).pop();
      if (!due) return signals;
      // Everything before the one that is due goes with it, in order.
      this.next = this.held[0]?.seq;
      signals.push(...this.drain());
    }
  }

  private drain(): Signal[] {
    const signals: Signal[] = [];
    for (let entry = this.held[0]; entry && entry.seq === this.next; entry = this.held[0]) {
      this.held.shift();
      this.note(entry.seq);
      this.next = entry.seq + 1;
      signals.push(entry.signal);
    }
    return signals;
  }

  private note(seq: number): void {
    this.delivered.push(seq);
    if (this.delivered.length > deliveredSignals) this.delivered.shift();
  }
}
