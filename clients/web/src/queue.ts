/** The bound on values that wait for the reader. Beyond this number the oldest values are dropped. */
const longest = 1_024;

/** The unread values of a `for await` loop. */
export class AsyncQueue<Value> implements AsyncIterableIterator<Value> {
  private values: Value[] = [];
  private waiting: ((result: IteratorResult<Value>) => void)[] = [];
  private isFinished = false;

  /** `left` is called when the reader leaves the loop early. */
  constructor(private readonly left: () => void) {}

  push(value: Value): void {
    const waiter = this.waiting.shift();
    if (waiter) return waiter({ value, done: false });
    this.values.push(value);
    if (this.values.length > longest) this.values.shift();
  }

  /** Ends the sequence after the values so far. */
  finish(): void {
    this.isFinished = true;
    for (const waiter of this.waiting.splice(0)) waiter({ value: undefined, done: true });
  }

  next(): Promise<IteratorResult<Value>> {
    if (this.values.length > 0) return Promise.resolve({ value: this.values.shift() as Value, done: false });
    if (this.isFinished) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  return(): Promise<IteratorResult<Value>> {
    this.left();
    this.finish();
    this.values = [];
    return Promise.resolve({ value: undefined, done: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
