type Handler<Value> = (value: Value) => void;

/** Beyond so many that wait for a first handler, the oldest are dropped: each later one carries the whole state. */
const longestBacklog = 256;

/**
 * Handlers by event. What is emitted under one of the `kept` names before anybody listens waits for the first handler, so that
 * nothing is lost between the moment when an object is made and the moment when the app has it.
 */
export class Emitter<Events> {
  private readonly handlers = new Map<keyof Events, Set<Handler<never>>>();
  private readonly backlogs = new Map<keyof Events, unknown[]>();

  constructor(kept: (keyof Events)[] = []) {
    for (const name of kept) this.backlogs.set(name, []);
  }

  /** Calls `handler` with each `name` from now on. Returns how to stop that. */
  on<Name extends keyof Events>(name: Name, handler: Handler<Events[Name]>): () => void {
    const handlers = this.handlers.get(name) ?? new Set();
    this.handlers.set(name, handlers);
    // Another one than what was given, so that a function that is given twice is called twice.
    const entry: Handler<Events[Name]> = (value) => handler(value);
    handlers.add(entry);
    const backlog = this.backlogs.get(name);
    if (backlog) {
      this.backlogs.delete(name);
      for (const value of backlog) queueMicrotask(() => entry(value as Events[Name]));
    }
    return () => void handlers.delete(entry);
  }

  emit<Name extends keyof Events>(name: Name, value: Events[Name]): void {
    const backlog = this.backlogs.get(name);
    if (backlog) {
      backlog.push(value);
      if (backlog.length > longestBacklog) backlog.shift();
    }
    // Each in a task of its own: what one handler throws is reported, and disturbs neither the others nor the client.
    for (const handler of this.handlers.get(name) ?? []) {
      queueMicrotask(() => (handler as Handler<Events[Name]>)(value));
    }
  }
}
