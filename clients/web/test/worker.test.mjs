// The service worker. The test plays the browser.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";
import { RingWorker, acceptedPath } from "../dist/modules/ringing.js";

const check = "https://ring.example.com/v1/ring/c1?user=bob&device=web&key=1.abc";
const reject = "https://ring.example.com/v1/ring/c1/reject?user=bob&device=web&key=1.abc";
const ring = () => ({
  kind: "ring", callID: "c1", revision: 1, inviter: "alice", name: "Alice", mode: "common", createdAt: Date.now(),
  expiresAt: Date.now() + 60_000, title: "Alice", body: "Incoming video call", check,
});
const stop = () => ({ ...ring(), kind: "stop", revision: 3, title: undefined, body: undefined });
const missed = () => ({ ...ring(), kind: "missed", revision: 3, body: "Missed call" });
const ringing = { status: 200, body: { ringing: true, expiresIn: 50_000 } };
const over = (reason) => ({ status: 200, body: { ringing: false, reason } });

/** An open page; `says` returns the page's answers. */
class Page {
  told = [];
  focused = 0;
  constructor(visibilityState = "visible", says = () => undefined) { Object.assign(this, { visibilityState, says }); }
  postMessage(message, [port]) {
    this.told.push(message);
    const said = port && this.says(message);
    if (said !== undefined) port.postMessage(said);
    port?.close();
  }
  async focus() { this.focused += 1; }
  get wishes() { return this.told.filter(({ bellwire }) => bellwire !== "rings" && bellwire !== "takes"); }
}

/** `answers` has the gateway's answers in order; an absent answer means that the gateway cannot be reached. */
class Browser {
  shown = new Map();
  history = [];
  asked = [];
  opened = [];
  pages = [];
  answers = [];
  stored = new Map();
  subscribed = [];
  #handlers = {};

  constructor(options) {
    const browser = this;
    this.scope = {
      registration: {
        scope: "https://calls.example.com/",
        getNotifications: async ({ tag }) => [browser.shown.get(tag)].filter(Boolean),
        showNotification: async (title, options) => browser.#show(title, options),
        pushManager: {
          getSubscription: async () => null,
          subscribe: async (options) => browser.subscribed.push(options),
        },
      },
      clients: { matchAll: async ({ type }) => (type === "window" ? browser.pages : []), openWindow: async (url) => browser.opened.push(url) },
      caches: { open: async () => ({ put: async (path, response) => browser.stored.set(path, await response.text()) }) },
      fetch: (url, options) => browser.#fetch(url, options),
      skipWaiting: async () => undefined,
      addEventListener: (name, handler) => { browser.#handlers[name] = handler; },
    };
    if (options !== null) new RingWorker(this.scope, options);
  }

  #show(title, options) {
    assert.ok(typeof title === "string" && title !== "", "a notification has a title");
    // The Notifications API throws a TypeError for these options.
    assert.ok(!(options.silent && options.vibrate) && (!options.renotify || options.tag));
    const shown = this.shown;
    const notification = { title, ...structuredClone(options), close() { shown.delete(this.tag); } };
    shown.set(options.tag, notification);
    this.history.push(notification);
  }

  async #fetch(url, { method = "GET", credentials, redirect, signal }) {
    this.asked.push({ url, method });
    assert.deepEqual([credentials, redirect], ["omit", "error"]);
    const answer = this.answers.shift();
    if (!answer) throw new TypeError("no network");
    if (answer === "never") return new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
    return { ok: answer.status === 200, status: answer.status, json: async () => answer.body };
  }

  async fire(name, event) {
    let done;
    this.#handlers[name]({ ...event, waitUntil: (promise) => { done = promise; } });
    await done;
  }

  /** Each push must show a notification, unless `isSilent`. */
  async push(content, answers = [], isSilent = false) {
    this.answers = answers;
    const text = typeof content === "string" ? content : JSON.stringify(content);
    const before = this.history.length;
    await this.fire("push", { data: content === null ? null : { text: () => text } });
    assert.equal(this.history.length, before + (isSilent ? 0 : 1));
  }

  click(action, answers = []) {
    this.answers = answers;
    return this.fire("notificationclick", { notification: this.current, action });
  }

  get current() { return this.shown.get("c1"); }
}

const actions = ({ actions }) => (actions ?? []).map(({ action }) => action);
const rings = (notification) => notification.requireInteraction === true && actions(notification)[0] === "accept";
const isOver = (notification) => !notification.actions && !notification.requireInteraction && notification.silent;

async function rung(answers = [ringing], options = undefined) {
  const browser = new Browser(options);
  await browser.push(ring(), answers);
  return browser;
}

test("it asks, and rings", async () => {
  const browser = await rung();
  assert.deepEqual(browser.asked, [{ url: check, method: "GET" }]);
  const { current } = browser;
  assert.ok(rings(current) && current.renotify && !current.silent);
  assert.deepEqual(actions(current), ["accept", "decline"]);
  assert.deepEqual([current.title, current.body, current.tag], ["Alice", "Incoming video call", "c1"]);
});

test("nobody calls under another one's name, where ids are shown", async () => {
  const options = { showsInviter: true };
  for (const [said, title, body] of [
    [{ inviter: "mallory" }, "Alice", "mallory: Incoming video call"],
    [{ inviter: "mallory", body: "x".repeat(5_000) }, "Alice", `mallory: ${"x".repeat(399)}…`],
    [{ title: "alice" }, "alice", "Incoming video call"],
    [{ inviter: "\u202eecila" }, "Alice", "\ufffdecila: Incoming video call"],
    [{ title: undefined, name: undefined }, "alice", "Incoming video call"],
    [{ inviter: undefined }, "Alice", "Incoming video call"],
  ]) {
    const browser = new Browser(options);
    await browser.push({ ...ring(), ...said }, [ringing]);
    assert.deepEqual([browser.current.title, browser.current.body], [title, body]);
  }
});

test("where nothing is seen of a title or name, the next one stands", async () => {
  for (const [said, title] of [
    [{ title: "\u202e\u200b", name: "Alice" }, "Alice"],
    [{ title: "\u3164", name: "\u2800 \u00ad" }, "alice"],
    [{ title: "\u0301", name: "\u200d" }, "alice"],
  ]) {
    const browser = new Browser();
    await browser.push({ ...ring(), ...said }, [ringing]);
    assert.equal(browser.current.title, title);
  }
});

test("what is over does not say that it rings", async () => {
  const said = { ...ring(), title: "Alice is calling you", body: "Join now" };
  const late = new Browser();
  await late.push(said, [over("timeout")]);
  assert.deepEqual([late.current.title, late.current.body], ["Alice", "Missed call"]);
  const stopped = new Browser();
  await stopped.push(said, [ringing]);
  assert.equal(stopped.current.title, "Alice is calling you");
  await stopped.push(said, [over("answeredElsewhere")]);
  assert.deepEqual([stopped.current.title, stopped.current.body], ["Alice", "Answered on another device"]);
});

test("whoever does not know rings", async () => {
  for (const answers of [[], [{ status: 404 }], [{ status: 429 }], [{ status: 503 }], [{ status: 200, body: "?" }], [{ status: 200, body: { ringing: "no" } }]]) {
    assert.ok(rings((await rung(answers)).current), JSON.stringify(answers));
  }
  const browser = new Browser();
  await browser.push({ ...ring(), check: undefined });
  assert.ok(rings(browser.current) && browser.asked.length === 0);
  assert.deepEqual(actions(browser.current), ["accept"], "without a link the worker cannot decline");
});

test("a gateway that does not answer is not waited for", async (context) => {
  // The test plays only the timer of the ring check. There are no pages to ask.
  const { setTimeout: original } = globalThis;
  const waits = [];
  context.after(() => { globalThis.setTimeout = original; });
  globalThis.setTimeout = (work, delay, ...rest) => {
    waits.push(delay);
    return original(work, delay >= 1000 ? 0 : delay, ...rest);
  };
  assert.ok(rings((await rung(["never"])).current));
  assert.ok(waits.length > 0 && Math.max(...waits) <= 5_000);
});

test("what is over does not ring, and says why", async () => {
  for (const [reason, body] of [
    ["answeredElsewhere", "Answered on another device"], ["rejected", "Declined"], ["cancelled", "Missed call"],
    ["timeout", "Missed call"], ["ended", "Missed call"], ["constructor", "Missed call"],
  ]) {
    const browser = await rung([over(reason)]);
    // The notification stays when the push comes again and the ring check gets no answer.
    for (const again of [false, true]) {
      if (again) await browser.push(ring());
      assert.deepEqual([browser.current.title, browser.current.body], ["Alice", body]);
      assert.ok(browser.current.silent && actions(browser.current).length === 0);
    }
  }
});

test("whatever this computer's clock says, a ring rings when nobody answers", async () => {
  for (const apart of [-240_000, -8 * 3_600_000, 240_000, 8 * 3_600_000]) {
    const push = { ...ring(), createdAt: Date.now() + apart, expiresAt: Date.now() + apart + 60_000, expiresIn: 60_000 };
    const browser = new Browser();
    await browser.push(push);
    assert.ok(rings(browser.current), `the service's clock is ${apart} ms away`);
    const { expiresIn, ...former } = push;
    const other = new Browser();
    await other.push(former);
    assert.ok(rings(other.current), `${expiresIn}: a former service does not say how long it rings`);
  }
});

test("a ring of which nothing was left when it left does not ring when nobody answers", async () => {
  const browser = new Browser();
  await browser.push({ ...ring(), expiresIn: 0 });
  assert.ok(isOver(browser.current) && browser.current.body === "Missed call");
  const other = new Browser();
  await other.push({ ...ring(), expiresIn: 0 }, [ringing]);
  assert.ok(rings(other.current), "the service knows the time better");
});

test("stop and missed take the place of the ringing one", async () => {
  for (const [next, body] of [[stop(), "The call is over"], [missed(), "Missed call"]]) {
    const browser = await rung();
    await browser.push(next);
    assert.equal(browser.shown.size, 1);
    assert.ok(actions(browser.current).length === 0 && !browser.current.requireInteraction && !browser.current.renotify);
    assert.equal(browser.current.body, body);
    assert.equal(browser.asked.length, 1, "the worker asks no ring check for a call that is over");
  }
});

test("a push that comes twice alerts once", async () => {
  const browser = await rung();
  await browser.push({ ...ring(), revision: 2 }, [ringing]);
  assert.ok(rings(browser.current) && browser.current.silent && !browser.current.renotify);
  assert.deepEqual(actions(browser.current), ["accept", "decline"]);
  await browser.push(ring(), [over("answeredElsewhere")]);
  assert.equal(browser.current.body, "Answered on another device");
});

test("a push that comes late changes nothing", async () => {
  const browser = await rung();
  await browser.push(stop());
  await browser.push(ring());
  assert.ok(actions(browser.current).length === 0 && browser.current.body === "The call is over");
  await browser.push(missed());
  assert.equal(browser.current.body, "The call is over", "the first push of a revision counts");
});

test("another invitation rings anew", async () => {
  const browser = await rung();
  await browser.push(missed());
  await browser.push({ ...ring(), revision: 5, check: check.replace("1.abc", "5.def") }, [ringing]);
  assert.ok(rings(browser.current) && browser.current.renotify);
  await browser.push(stop());
  assert.ok(rings(browser.current), "the stop of the former invitation");
});

test("two calls have two notifications", async () => {
  const browser = await rung();
  await browser.push({ ...ring(), callID: "c2", check: check.replace("c1", "c2") }, [ringing]);
  await browser.push({ ...stop(), callID: "c2" });
  assert.ok(rings(browser.current) && browser.shown.size === 2);
});

test("tests, later kinds and nonsense show something, and ring nobody", async () => {
  const browser = new Browser();
  await browser.push({ kind: "test", title: "Bellwire", body: "This is a test", createdAt: 1, expiresAt: 2 });
  assert.deepEqual([browser.history[0].title, browser.history[0].body], ["Bellwire", "This is a test"]);
  for (const nonsense of [null, "", "{", "7", "null", "[]", "{}", { kind: 7, callID: {} }, { kind: "ring", callID: "<b>", check }, { kind: "ring" }]) {
    await browser.push(nonsense);
    const shown = browser.history.at(-1);
    assert.ok(!shown.requireInteraction && actions(shown).length === 0 && shown.tag === "bellwire", JSON.stringify(nonsense));
  }
  await browser.push({ ...ring(), kind: "later" });
  assert.ok(browser.current.silent && actions(browser.current).length === 0);
  assert.equal(browser.asked.length, 0);
  const other = await rung();
  await other.push({ ...ring(), kind: "later", revision: 9 });
  assert.ok(rings(other.current), "the ringing call keeps ringing");
});

test("what others write is text of bounded length, and their links are not followed", async () => {
  const browser = new Browser();
  const long = "<b>😀".repeat(2000);
  await browser.push({ ...ring(), title: long, body: long, avatarURL: "https://tracker.example.net/", check: "https://a.example.com/" + "x".repeat(5000) });
  const { title, body, icon, data } = browser.current;
  assert.ok([...title].length <= 200 && title.endsWith("…") && title.startsWith("<b>😀"));
  assert.ok([...body].length <= 400);
  assert.equal(icon, undefined, "the inviter chooses the picture's address and would learn of each view");
  assert.ok(JSON.stringify(data).length < 3000);
  for (const bad of ["http://ring.example.com/v1/ring/c1", "javascript:alert(1)", "file:///etc/passwd", "//x", "", 7, null]) {
    const one = new Browser();
    await one.push({ ...ring(), check: bad }, [over("rejected")]);
    assert.equal(one.asked.length, 0, String(bad));
    assert.ok(rings(one.current));
  }
  const local = new Browser();
  await local.push({ ...ring(), check: "http://127.0.0.1:8080/v1/ring/c1?key=1" }, [over("rejected")]);
  assert.equal(local.asked.length, 1);
});

test("without names it is the caller's id, or a call", async () => {
  const browser = new Browser();
  await browser.push({ kind: "ring", callID: "c1", inviter: "alice" });
  assert.equal(browser.current.title, "alice");
  browser.shown.clear();
  await browser.push({ kind: "ring", callID: "c1" });
  assert.equal(browser.current.title, "Call");
});

test("decline is sent until it is taken, and closes the notification at once", async (context) => {
  const { setTimeout: original } = globalThis;
  context.after(() => { globalThis.setTimeout = original; });
  globalThis.setTimeout = (work, delay, ...rest) => original(work, delay < 3_000 || delay === 4_000 ? 0 : delay, ...rest);
  const asked = { url: reject, method: "POST" };
  for (const [answers, times] of [
    [[over("rejected")], 1], [[undefined, { status: 503 }, over("rejected")], 3], [[undefined, { status: 429 }], 4], [[{ status: 404 }], 1],
  ]) {
    const browser = await rung();
    const done = browser.click("decline", [...answers]);
    assert.equal(browser.shown.size, 0);
    await done;
    assert.deepEqual(browser.asked.slice(1), Array(times).fill(asked));
    assert.deepEqual(browser.opened, []);
  }
});

test("accept opens the page, which finds that it was accepted", async () => {
  const browser = await rung();
  const before = Date.now();
  await browser.click("accept");
  assert.deepEqual(browser.opened, ["https://calls.example.com/?acceptCall=c1"]);
  assert.ok(Number(browser.stored.get(acceptedPath("c1"))) >= before);
  assert.equal(browser.shown.size, 0);
});

test("a click beside the buttons shows the call, and accepts nothing", async () => {
  const browser = await rung();
  await browser.click("");
  assert.deepEqual(browser.opened, ["https://calls.example.com/?showCall=c1"]);
  assert.equal(browser.stored.size, 0);
  const gone = await rung();
  await gone.push(missed());
  await gone.click("accept");
  assert.deepEqual(gone.opened, ["https://calls.example.com/?showCall=c1"], "a missed call cannot be accepted");
});

test("a page that is open takes it, if it is online as who is called", async () => {
  const browser = await rung();
  const [other, mute, taker, second] = [new Page("visible", () => false), new Page(), new Page("hidden", () => true), new Page("hidden", () => true)];
  browser.pages = [other, mute, taker, second];
  await browser.click("accept");
  assert.deepEqual(taker.wishes, [{ bellwire: "accept", callID: "c1" }]);
  assert.deepEqual([other.wishes, mute.wishes, second.wishes], [[], [], []]);
  assert.deepEqual([taker.focused, browser.opened.length, browser.stored.size], [1, 0, 0]);
  const alone = await rung();
  alone.pages = [mute];
  await alone.click("");
  assert.equal(alone.opened.length, 1);
});

test("a page that is seen and rings is enough", async () => {
  const says = ({ bellwire, callID }) => bellwire === "rings" && callID === "c1";
  const browser = new Browser();
  browser.pages = [new Page("visible", says)];
  await browser.push(ring(), [ringing], true);
  await browser.push(stop(), [], true);
  // A page that is hidden or does not ring does not count.
  for (const page of [new Page("hidden", says), new Page("visible", () => false), new Page("visible")]) {
    const other = new Browser();
    other.pages = [page];
    await other.push(ring(), [ringing]);
    assert.ok(rings(other.current));
    await other.push(stop());
    assert.ok(isOver(other.current), "a shown notification is replaced even with a visible page");
  }
  const hidden = new Browser();
  hidden.pages = [new Page("hidden", says)];
  await hidden.push(stop());
  assert.ok(isOver(hidden.current));
});

test("a subscription that ended is made anew, and open pages register it", async () => {
  const browser = new Browser();
  const page = new Page();
  browser.pages = [page];
  const applicationServerKey = new Uint8Array([4, 1]).buffer;
  await browser.fire("pushsubscriptionchange", { oldSubscription: { options: { applicationServerKey } } });
  assert.deepEqual(browser.subscribed, [{ userVisibleOnly: true, applicationServerKey }]);
  assert.deepEqual(page.told, [{ bellwire: "renew", callID: "" }]);
  await browser.fire("pushsubscriptionchange", { newSubscription: {} });
  await browser.fire("pushsubscriptionchange", {});
  assert.equal(browser.subscribed.length, 1);
});

test("texts and the page are the developer's choice; the script is one by itself", async () => {
  const script = readFileSync(new URL("../dist/worker.js", import.meta.url), "utf8");
  const browser = new Browser(null);
  const self = { ...browser.scope, bellwire: { page: "calls?from=push", texts: { accept: "Annehmen", missed: "Verpasst" } } };
  vm.runInNewContext(script, { ...globalThis, self, URL, AbortController, MessageChannel, Response, setTimeout, clearTimeout });
  await browser.push(ring(), [ringing]);
  assert.deepEqual(browser.current.actions.map(({ title }) => title), ["Annehmen", "Decline"]);
  await browser.click("accept");
  assert.deepEqual(browser.opened, ["https://calls.example.com/calls?from=push&acceptCall=c1"]);
  await browser.push(ring(), [over("timeout")]);
  assert.equal(browser.current.body, "Verpasst");
});
