type Handler<Value> = (value: Value) => void;

/**
 * The bound on events that wait for a first handler. Beyond this number the oldest events are dropped; each later event
 * carries the whole state.
 */
const longestBacklog = 256;

/**
 * A table of handlers by event name. Events under the `kept` names wait for the first handler, so that no event is lost
 * between the creation of an object and the moment when the app has the object.
 */
export class Emitter<Events> {
  private readonly handlers = new Map<keyof Events, Set<Handler<never>>>();
  private readonly backlogs = new Map<keyof Events, unknown[]>();

  constructor(kept: (keyof Events)[] = []) {
    for (const name of kept) this.backlogs.set(name, []);
  }

  /** Calls `handler` with each `name` event from now on. Returns a function that removes the handler. */
  on<Name extends keyof Events>(name: Name, handler: Handler<Events[Name]>): () => void {
    const handlers = this.handlers.get(name) ?? new Set();
    this.handlers.set(name, handlers);
    // A new function per registration, so that a handler that is registered twice is called twice.
    const entry: Handler<Events[Name]> = (value) => handler(value);
    handlers.add(entry);
    const backlog = this.backlogs.get(name);
    if (backlog) {
      this.backlogs.delete(name);
      for (const value of backlog) queueMicrotask(() => entry(value as Events[Name]));
    }
    return () => void handlers.delete(entry);
  }

  /** @internal Calls `handler` as `on` does, and leaves the kept events to the first handler of `on`. */
  follow<Name extends keyof Events>(name: Name, handler: Handler<Events[Name]>): void {
    const handlers = this.handlers.get(name) ?? new Set();
    this.handlers.set(name, handlers);
    handlers.add(handler);
    for (const value of this.backlogs.get(name) ?? []) queueMicrotask(() => handler(value as Events[Name]));
  }

  emit<Name extends keyof Events>(name: Name, value: Events[Name]): void {
    const backlog = this.backlogs.get(name);
    if (backlog) {
      backlog.push(value);
      if (backlog.length > longestBacklog) backlog.shift();
    }
    // Each handler runs in its own microtask. The environment reports a handler's exception, and the exception disturbs
    // neither other handlers nor the client.
    for (const handler of this.handlers.get(name) ?? []) {
      queueMicrotask(() => (handler as Handler<Events[Name]>)(value));
    }
  }
}
