import { isDevice, randomID } from "./protocol.js";

/*
 * Several tabs of one user: each is a device of its own, and one of them rings. Both rest on Web Locks, which the browser takes from
 * a tab that is closed; where there are none, as in Node, each client is alone.
 */

/** A page may come before the one that it replaces has gone, for so many milliseconds. */
const handOver = 500;
/** One that is loaded again replaces a page for certain, which may be slow to go: as another device it would be out of its calls. */
const handOverOnReload = 10_000;

/**
 * How long a tab waits before it takes the right to ring, in milliseconds. A tab that was never touched may make no sound, and leaves the
 * right to any other: longer than a hidden tab's timers are late, which is a second.
 */
const ringPauses = { hidden: 150, untouched: 1_200 };

/** Nothing where there are no tabs, or where the tab is visible and was touched: the user is there. */
export function ringPause(): number {
  const { document, navigator } = globalThis as {
    document?: { visibilityState?: string };
    navigator?: { locks?: LockManager; userActivation?: { hasBeenActive: boolean } };
  };
  if (!document || !navigator?.locks) return 0;
  // A browser that does not tell whether the tab was touched: as if it was.
  const untouched = navigator.userActivation?.hasBeenActive === false ? ringPauses.untouched : 0;
  return untouched + (document.visibilityState === "hidden" ? ringPauses.hidden : 0);
}

function isReload(): boolean {
  const [navigation] = globalThis.performance?.getEntriesByType?.("navigation") ?? [];
  return (navigation as { type?: unknown } | undefined)?.type === "reload";
}

const lockManager = (): LockManager | undefined =>
  (globalThis as { navigator?: { locks?: LockManager } }).navigator?.locks;

/** The tab's own storage: it outlives a reload, and another tab has another one. */
function tabStorage(): Storage | undefined {
  try {
    return (globalThis as { sessionStorage?: Storage }).sessionStorage;
  } catch {
    // A page that may store nothing.
    return undefined;
  }
}

/** Where `CallPush` keeps which of this browser's devices pushes wake, and whose it is. */
export const wokenKey = "bellwire-push";

/** What stands there: a device id, a space, the user. */
export function readWoken(): { device: string; user: string } | undefined {
  try {
    const text = (globalThis as { localStorage?: Storage }).localStorage?.getItem(wokenKey) ?? "";
    const end = text.indexOf(" ");
    return end < 0 ? undefined : { device: text.slice(0, end), user: text.slice(end + 1) };
  } catch {
    // As above.
    return undefined;
  }
}

/** Runs `whenHeld` with the lock when this tab gets it; the function that is returned gives it back, or takes the wish back. */
export function holdLock(name: string, whenHeld: () => void, whenNot: () => void = () => undefined, limit?: number): () => void {
  const locks = lockManager();
  if (!locks) {
    whenHeld();
    return () => undefined;
  }
  const wish = new AbortController();
  let release: () => void = () => wish.abort();
  const timer = limit === undefined ? undefined : setTimeout(() => wish.abort(), limit);
  locks
    .request(name, { signal: wish.signal }, () => {
      clearTimeout(timer);
      return new Promise<void>((resolve) => {
        release = resolve;
        whenHeld();
      });
    })
    .catch((error: unknown) => {
      clearTimeout(timer);
      // A page that may hold no locks is alone as well.
      if ((error as { name?: unknown }).name === "AbortError") whenNot();
      else whenHeld();
    });
  return () => release();
}

/**
 * The device id of this tab: the same after a reload, another one in every other tab, also in one that was duplicated with its
 * storage. A new tab is the device that pushes wake, unless another one is: it may have been opened to answer. `release` lets another page have
 * the id. `former`: the one that the client had before.
 */
export async function tabDevice(user: string, former?: string): Promise<{ device: string; release: () => void }> {
  const storage = tabStorage();
  const key = `bellwire-device/${user}`;
  const kept = former ?? storage?.getItem(key);
  const woken = readWoken();
  for (const device of new Set([kept, woken?.user === user ? woken.device : undefined, `web-${randomID().slice(0, 16)}`])) {
    if (!isDevice(device)) continue;
    const release = await new Promise<(() => void) | undefined>((resolve) => {
      const give: () => void = holdLock(
        `${key}/${device}`, () => resolve(() => give()), () => resolve(undefined),
        device === kept && isReload() ? handOverOnReload : handOver);
    });
    if (!release) continue;
    try {
      storage?.setItem(key, device);
    } catch {
      // A storage that is full: after a reload this is another device.
    }
    return { device, release };
  }
  // Nobody else has an id that was just drawn; a browser that refuses its lock all the same does not matter.
  return { device: `web-${randomID().slice(0, 16)}`, release: () => undefined };
}
