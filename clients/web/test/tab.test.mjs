// The device id of a tab, with Web Locks that another tab may hold.
import { test } from "node:test";
import assert from "node:assert/strict";
import { Call } from "../dist/modules/call.js";
import { tabDevice } from "../dist/modules/tab.js";

/** Locks that are held until `letGo`; the abort signal of a request cancels the request. */
class Locks {
  constructor(...held) {
    this.held = new Map(held.map((name) => [name, []]));
  }

  request(name, { signal }, work) {
    if (!this.held.has(name)) {
      this.held.set(name, []);
      return work();
    }
    return new Promise((resolve, reject) => {
      this.held.get(name).push(() => resolve(work()));
      signal.addEventListener("abort", () => reject(Object.assign(new Error(), { name: "AbortError" })));
    });
  }

  letGo(name) {
    this.held.get(name).shift()?.();
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve));
const lock = "bellwire-device/bob/web-before";

/** A page with a device id in its storage. `type` is the kind of navigation that opened the page. */
function openPage(t, type, locks) {
  const stored = new Map([["bellwire-device/bob", "web-before"]]);
  const define = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  const before = ["navigator", "sessionStorage"].map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)]);
  define("navigator", { locks });
  define("sessionStorage", { getItem: (key) => stored.get(key) ?? null, setItem: (key, value) => stored.set(key, value) });
  t.mock.method(globalThis.performance, "getEntriesByType", () => [{ type }]);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  t.after(() => {
    for (const [name, descriptor] of before) {
      if (descriptor) Object.defineProperty(globalThis, name, descriptor);
      else delete globalThis[name];
    }
  });
}

test("a page that is loaded again waits for its predecessor to go, however slow that is", async (t) => {
  const locks = new Locks(lock);
  openPage(t, "reload", locks);
  const device = tabDevice("bob");
  t.mock.timers.tick(9_000);
  await settled();
  locks.letGo(lock);
  assert.equal((await device).device, "web-before");
});

test("a tab that was duplicated with its storage becomes another device at once", async (t) => {
  openPage(t, "navigate", new Locks(lock));
  const device = tabDevice("bob");
  t.mock.timers.tick(500);
  assert.match((await device).device, /^web-[0-9a-f]{16}$/);
});

test("a page whose predecessor never goes is another device in the end", async (t) => {
  openPage(t, "reload", new Locks(lock));
  const device = tabDevice("bob");
  t.mock.timers.tick(10_000);
  assert.match((await device).device, /^web-[0-9a-f]{16}$/);
});

test("of several tabs the one rings that the user has touched and sees, however early the others ask", async (t) => {
  const tabs = {
    untouchedHidden: [false, "hidden"], untouched: [false, "visible"], hidden: [true, "hidden"], touched: [true, "visible"], unknown: [undefined, "visible"],
  };
  const ringing = async (...names) => {
    const locks = new Locks();
    openPage(t, "navigate", locks);
    const told = [];
    const calls = names.map((name) => {
      const [hasBeenActive, visibilityState] = tabs[name];
      globalThis.navigator.userActivation = hasBeenActive === undefined ? undefined : { hasBeenActive };
      globalThis.document = { visibilityState };
      const host = { user: "bob", device: name, forget: () => undefined };
      const call = new Call(host, { callID: "c", members: [], state: "ringing" }, "incoming");
      call.on("ring", (on) => told.push(`${name} ${on}`));
      call.ring();
      return call;
    });
    t.mock.timers.tick(150);
    await settled();
    const early = [...told];
    t.mock.timers.tick(1_200);
    await settled();
    for (const call of calls) call.finish("cancelled");
    await settled();
    t.mock.timers.tick(5_000);
    await settled();
    t.mock.timers.reset();
    delete globalThis.document;
    return [early, told];
  };
  assert.deepEqual(await ringing("untouchedHidden", "untouched", "hidden", "touched"), [["touched true"], ["touched true", "touched false"]]);
  assert.deepEqual(await ringing("untouched", "hidden"), [["hidden true"], ["hidden true", "hidden false"]]);
  assert.deepEqual(await ringing("untouchedHidden", "untouched"), [[], ["untouched true", "untouched false"]]);
  assert.deepEqual(await ringing("untouchedHidden"), [[], ["untouchedHidden true", "untouchedHidden false"]], "a tab alone rings, but late");
  assert.deepEqual(await ringing("untouched", "unknown"), [["unknown true"], ["unknown true", "unknown false"]]);
});
