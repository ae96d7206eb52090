import { isDevice, randomID } from "./protocol.js";

/*
 * Several tabs of the same user. Each tab is its own device, and only a single tab rings. The device ids and the right
 * to ring rest on Web Locks; the browser releases the locks of a closed tab. Without Web Locks, as in Node, each client
 * assumes to be alone.
 */

/**
 * The wait in milliseconds for a page that this page replaces, because the new page may start before the old page has
 * gone.
 */
const handOver = 500;
/**
 * The wait in milliseconds after a reload. The reloaded page certainly replaces an old page, but the old page may be
 * slow to go. Under another device id the new page would lose its calls.
 */
const handOverOnReload = 10_000;

/**
 * The waits in milliseconds before a tab takes the right to ring. A tab that was never touched may make no sound, so
 * such a tab leaves the right to other tabs: the wait is longer than the delay of a hidden tab's timers, one second.
 */
const ringPauses = { hidden: 150, untouched: 1_200 };

/**
 * Returns the wait before this tab takes the right to ring. The wait is 0 without tabs, and in a visible tab that the
 * user has touched.
 */
export function ringPause(): number {
  const { document, navigator } = globalThis as {
    document?: { visibilityState?: string };
    navigator?: { locks?: LockManager; userActivation?: { hasBeenActive: boolean } };
  };
  if (!document || !navigator?.locks) return 0;
  // When the browser does not report touches, the tab counts as touched.
  const untouched = navigator.userActivation?.hasBeenActive === false ? ringPauses.untouched : 0;
  return untouched + (document.visibilityState === "hidden" ? ringPauses.hidden : 0);
}

function isReload(): boolean {
  const [navigation] = globalThis.performance?.getEntriesByType?.("navigation") ?? [];
  return (navigation as { type?: unknown } | undefined)?.type === "reload";
}

const lockManager = (): LockManager | undefined =>
  (globalThis as { navigator?: { locks?: LockManager } }).navigator?.locks;

/** The tab's own storage, which survives a reload. Each tab has its own storage. */
function tabStorage(): Storage | undefined {
  try {
    return (globalThis as { sessionStorage?: Storage }).sessionStorage;
  } catch {
    // The page may not store data.
    return undefined;
  }
}

/** The storage key under which `CallPush` keeps the device of this browser that pushes wake, and its user. */
export const wokenKey = "bellwire-push";

/** Reads the stored value: a device id, a space, the user. */
export function readWoken(): { device: string; user: string } | undefined {
  try {
    const text = (globalThis as { localStorage?: Storage }).localStorage?.getItem(wokenKey) ?? "";
    const end = text.indexOf(" ");
    return end < 0 ? undefined : { device: text.slice(0, end), user: text.slice(end + 1) };
  } catch {
    // The page may not store data.
    return undefined;
  }
}

/**
 * Requests the lock and runs `whenHeld` when this tab gets the lock. The returned function releases the lock or cancels
 * the request.
 */
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
      // A page that may not use locks counts as alone.
      if ((error as { name?: unknown }).name === "AbortError") whenNot();
      else whenHeld();
    });
  return () => release();
}

/**
 * Returns the device id of this tab. The id stays the same after a reload. Every other tab has another id, even a
 * duplicated tab with a copy of the storage. A new tab takes the id of the device that pushes wake, unless another tab
 * has this id: a push may have opened the tab to answer. `release` lets another page have the id. `former` is the
 * client's previous id.
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
      // The storage is full: after a reload this tab is another device.
    }
    return { device, release };
  }
  // A newly drawn id is unique, so a failed lock does not matter.
  return { device: `web-${randomID().slice(0, 16)}`, release: () => undefined };
}
