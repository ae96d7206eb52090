// CallPush: the registration of a browser, and clicks on its notifications.
import assert from "node:assert/strict";
import { test } from "node:test";
import { tabDevice } from "../dist/modules/tab.js";

const key = Buffer.alloc(65, 250).toString("base64url");
const otherKey = Buffer.alloc(65, 7).toString("base64url");
const member = (userID, state) => ({ userID, state, updatedAt: 0 });
const callOf = (id, state = "inviting") => ({ id, isIncoming: true, snapshot: { callID: id, members: [member("alice", "accepted"), member("bob", state)] } });
const settled = () => new Promise((resolve) => setTimeout(resolve, 10));

class Storage {
  #values = new Map();
  getItem(name) { return this.#values.get(name) ?? null; }
  setItem(name, value) { this.#values.set(name, String(value)); }
  removeItem(name) { this.#values.delete(name); }
}

/** The browser's functions, new for each test. */
class Browser extends EventTarget {
  subscription = null;
  subscriptions = 0;
  shown = [];
  registered = [];
  stored = new Map();
  failure = undefined;
  address = "https://calls.example.com/";
  answer = "granted";

  constructor() {
    super();
    const browser = this;
    this.registration = {
      active: {},
      pushManager: {
        getSubscription: async () => browser.subscription,
        subscribe: async ({ userVisibleOnly, applicationServerKey }) => {
          assert.ok(userVisibleOnly && browser.subscription === null, "with another key while one lasts: InvalidStateError");
          if (browser.failure) throw browser.failure;
          browser.subscriptions += 1;
          const endpoint = `https://push.example.net/${browser.subscriptions}`;
          return (browser.subscription = {
            options: { applicationServerKey: Uint8Array.from(applicationServerKey).buffer },
            toJSON: () => ({ endpoint, keys: { p256dh: "p", auth: "a" } }),
            unsubscribe: async () => { browser.subscription = null; },
          });
        },
      },
      getNotifications: async ({ tag }) => browser.shown.filter((each) => each.tag === tag),
    };
    this.worker = new EventTarget();
    Object.assign(this.worker, {
      register: async (script) => {
        browser.registered.push(script);
        if (browser.workerFailure) throw browser.workerFailure;
        return browser.registration;
      },
      getRegistration: async () => browser.registration,
    });
    this.Notification = {
      permission: "default",
      requestPermission: async () => (browser.Notification.permission = browser.answer),
    };
    this.caches = {
      open: async () => ({
        match: async (path) => (browser.stored.has(path) ? new Response(browser.stored.get(path)) : undefined),
        delete: async (path) => browser.stored.delete(path),
      }),
    };
    this.localStorage = new Storage();
    const globals = {
      navigator: { serviceWorker: this.worker }, Notification: this.Notification, caches: this.caches, localStorage: this.localStorage,
      PushManager: class {}, isSecureContext: true, addEventListener: this.addEventListener.bind(this),
      history: { state: null, replaceState: (_, __, url) => { browser.address = url.href; } },
      location: { get href() { return browser.address; } },
    };
    for (const [name, value] of Object.entries(globals)) Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }

  /** Delivers a message of the worker to this page. Returns the page's answer. */
  async tell(data) {
    const { port1, port2 } = new MessageChannel();
    const answers = [];
    port1.onmessage = (event) => answers.push(event.data);
    const event = new Event("message");
    Object.assign(event, { data, ports: [port2] });
    this.worker.dispatchEvent(event);
    await settled();
    port1.close();
    return answers[0];
  }
}

class Client {
  state = "offline";
  device = "web-1";
  calls = [];
  requests = [];
  known = new Map();
  #handlers = {};
  constructor(user = "bob") { this.user = user; }
  on(name, handler) {
    (this.#handlers[name] ??= new Set()).add(handler);
    return () => this.#handlers[name].delete(handler);
  }
  emit(name, value) { for (const handler of [...(this.#handlers[name] ?? [])]) handler(value); }
  get listeners() { return Object.values(this.#handlers).reduce((sum, { size }) => sum + size, 0); }
  online() { this.state = "online"; this.emit("state", "online"); }
  ring(call) { this.calls.push(call); this.emit("incoming", call); }
  async get(callID) {
    const found = this.known.get(callID);
    if (!found) throw Object.assign(new Error(), { code: "callNotFound" });
    return found;
  }
  async registerPush(fields) {
    this.requests.push(fields);
    if (this.refusal) throw this.refusal;
  }
  async unregisterPush(fields) { this.requests.push({ ...fields, unregister: true }); }
}

async function setUp({ user = "bob", isOnline = true, before = () => undefined, ...options } = {}) {
  const browser = new Browser();
  before(browser);
  const client = new Client(user);
  if (isOnline) client.state = "online";
  const push = await pushOf(client, options);
  return { browser, client, push };
}

async function pushOf(client, options = {}) {
  const { CallPush } = await import("../dist/modules/push.js");
  const push = new CallPush(client, { applicationServerKey: key, ...options });
  push.heard = [];
  for (const name of ["accept", "show", "over", "change", "error"]) push.on(name, (value) => push.heard.push([name, value]));
  await settled();
  return push;
}

const fails = (promise, code) => assert.rejects(promise, (error) => error.code === code && error.message !== "");

test("a click asks for the permission, subscribes and registers; each connection registers again", async () => {
  const { browser, client, push } = await setUp();
  assert.ok(!push.isEnabled && browser.registered.length === 0, "no request before enable()");
  await push.enable();
  assert.ok(push.isEnabled);
  const fields = { platform: "webPush", subscription: { endpoint: "https://push.example.net/1", keys: { p256dh: "p", auth: "a" } } };
  assert.deepEqual([client.requests, browser.registered], [[fields], ["/worker.js"]]);
  client.online();
  await settled();
  assert.deepEqual(client.requests, [fields, fields]);
  assert.equal(browser.subscriptions, 1);
  await push.enable();
  assert.equal(browser.subscriptions, 1, "two calls have the effect of one");
});

test("after a reload it is registered as before, without being asked", async () => {
  const { browser, push, client } = await setUp({ app: "work" });
  await push.enable();
  push.close();
  assert.equal(client.listeners, 0);
  client.online();
  await settled();
  assert.equal(client.requests.length, 1, "a closed CallPush does nothing");
  const again = new Client();
  const next = await pushOf(again, { app: "work" });
  assert.ok(next.isEnabled && again.requests.length === 0);
  again.online();
  await settled();
  assert.deepEqual(again.requests.map(({ app }) => app), ["work"]);
  assert.equal(browser.subscriptions, 1);
});

test("who is offline is registered once online", async () => {
  const { client, push } = await setUp({ isOnline: false });
  await push.enable();
  assert.ok(push.isEnabled && client.requests.length === 0);
  client.online();
  await settled();
  assert.equal(client.requests.length, 1);
});

test("another key, another subscription", async () => {
  const { browser, push } = await setUp();
  await push.enable();
  push.close();
  const client = new Client();
  await pushOf(client, { applicationServerKey: otherKey });
  client.online();
  await settled();
  assert.equal(browser.subscriptions, 2);
  assert.equal(client.requests[0].subscription.endpoint, "https://push.example.net/2");
});

test("a worker of the page's own", async () => {
  const { browser, push, client } = await setUp();
  push.close();
  await (await pushOf(client, { registration: browser.registration })).enable();
  assert.deepEqual([browser.registered, client.requests.length], [[], 1]);
});

test("what stands in the way has a name, and nothing is remembered", async () => {
  const denied = await setUp({ before: (browser) => { browser.answer = "denied"; } });
  await fails(denied.push.enable(), "permissionDenied");
  const dismissed = await setUp({ before: (browser) => { browser.answer = "default"; } });
  await fails(dismissed.push.enable(), "permissionDenied");
  for (const [name, code] of [["NotAllowedError", "permissionDenied"], ["AbortError", "noPushService"], ["Error", "noPushService"]]) {
    const { push, client } = await setUp({ before: (browser) => { browser.failure = Object.assign(new Error("why"), { name }); } });
    await fails(push.enable(), code);
    assert.ok(!push.isEnabled && client.requests.length === 0);
  }
  const { setTimeout: original } = globalThis;
  const silent = await setUp({ before: (browser) => { browser.registration.pushManager.subscribe = () => new Promise(() => undefined); } });
  globalThis.setTimeout = (work, delay, ...rest) => original(work, delay <= 30_000 ? 0 : delay, ...rest);
  await fails(silent.push.enable(), "noPushService").finally(() => { globalThis.setTimeout = original; });
  assert.ok(!silent.push.isEnabled);
  await silent.push.disable();
  const noScript = await setUp({ before: (browser) => { browser.workerFailure = new TypeError("404"); } });
  await fails(noScript.push.enable(), "noWorker");
  const noWorker = await setUp({ before: (browser) => {
    browser.registration.active = null;
    browser.registration.installing = Object.assign(new EventTarget(), { state: "installing" });
  } });
  const enabling = noWorker.push.enable();
  await settled();
  noWorker.browser.registration.installing.state = "redundant";
  noWorker.browser.registration.installing.dispatchEvent(new Event("statechange"));
  await fails(enabling, "noWorker");
  const refused = await setUp();
  refused.client.refusal = Object.assign(new Error("platform"), { code: "badRequest" });
  await fails(refused.push.enable(), "badRequest");
  assert.ok(!refused.push.isEnabled);
  await setUp();
  globalThis.isSecureContext = false;
  await fails((await pushOf(new Client())).enable(), "insecureContext");
  globalThis.isSecureContext = true;
  delete globalThis.PushManager;
  const without = await pushOf(new Client());
  await fails(without.enable(), "unsupported");
  await without.disable();
  await without.dismiss("c1");
});

test("a registration that cannot be renewed is told of", async () => {
  const { client, push } = await setUp();
  await push.enable();
  client.refusal = new Error("gone");
  client.online();
  await settled();
  assert.deepEqual(push.heard.at(-1), ["error", client.refusal]);
  assert.ok(push.isEnabled, "the next connection tries again");
});

test("switched off, the service and the push service know it", async () => {
  const { browser, client, push } = await setUp();
  await push.enable();
  await push.disable();
  assert.deepEqual(client.requests.at(-1), { platform: "webPush", unregister: true });
  assert.ok(browser.subscription === null && !push.isEnabled);
  client.online();
  await settled();
  assert.equal(client.requests.length, 2);
  await push.enable();
  client.state = "offline";
  await push.disable();
  assert.equal(browser.subscription, null, "also without a connection");
});

test("one user at a time is rung in a browser", async () => {
  const { browser, push } = await setUp();
  await push.enable();
  const carol = new Client("carol");
  carol.state = "online";
  const other = await pushOf(carol);
  assert.ok(!other.isEnabled && carol.requests.length === 0);
  await other.enable();
  browser.dispatchEvent(Object.assign(new Event("storage"), { key: "bellwire-push" }));
  assert.ok(other.isEnabled && !push.isEnabled);
  await settled();
  assert.deepEqual(push.heard.at(-1), ["change", false]);
  await push.disable();
  assert.notEqual(browser.subscription, null, "the subscription now belongs to another user");
  assert.ok(other.isEnabled);
});

test("a new tab is the device that is rung, unless another tab is", async () => {
  const { push, client } = await setUp();
  client.device = "web-abc";
  await push.enable();
  const held = new Set();
  globalThis.navigator.locks = {
    request: async (name, _, work) => {
      if (held.has(name)) throw Object.assign(new Error(), { name: "AbortError" });
      held.add(name);
      await work();
      held.delete(name);
    },
  };
  const first = await tabDevice("bob");
  assert.equal(first.device, "web-abc");
  const second = await tabDevice("bob");
  assert.match(second.device, /^web-[0-9a-f]{16}$/);
  assert.notEqual((await tabDevice("carol")).device, "web-abc");
  first.release();
  await settled();
  assert.equal((await tabDevice("bob")).device, "web-abc");
});

test("the worker asks who rings and who would take a call", async () => {
  const { browser, client, push } = await setUp();
  client.ring(callOf("c1"));
  client.ring(callOf("c2", "accepted"));
  assert.equal(await browser.tell({ bellwire: "rings", callID: "c1" }), true);
  for (const callID of ["c2", "c3", "", "<b>", 7]) assert.equal(await browser.tell({ bellwire: "rings", callID }), undefined);
  assert.equal(await browser.tell({ bellwire: "takes", callID: "c1" }), undefined, "this user is not rung here");
  await browser.tell({ bellwire: "accept", callID: "c1" });
  assert.deepEqual(push.heard, []);
  await push.enable();
  assert.equal(await browser.tell({ bellwire: "takes", callID: "c9" }), true);
  for (const noise of [null, 7, "accept", {}, { bellwire: "accept" }, { bellwire: "accept", callID: "a b" }, { callID: "c1" }]) await browser.tell(noise);
  await browser.tell({ bellwire: "show", callID: "c7" });
  await browser.tell({ bellwire: "accept", callID: "c1" });
  await settled();
  assert.deepEqual(push.heard.filter(([name]) => name !== "change"), [["show", "c7"], ["accept", client.calls[0]]]);
  const before = client.requests.length;
  await browser.tell({ bellwire: "renew", callID: "" });
  assert.equal(client.requests.length, before + 1);
});

test("a page that was opened to accept does so once, when the call is known", async () => {
  const enabled = (browser) => {
    browser.Notification.permission = "granted";
    browser.localStorage.setItem("bellwire-push", "web-1 bob");
    browser.address = "https://calls.example.com/?a=1&acceptCall=c1";
    browser.stored.set("/bellwire-accepted/c1", String(Date.now()));
  };
  const { CallPush } = await import("../dist/modules/push.js");
  const { browser, client, push } = await setUp({ isOnline: false, before: (browser) => {
    enabled(browser);
    assert.equal(CallPush.openedFor, "bob");
  } });
  assert.deepEqual([browser.address, browser.stored.size], ["https://calls.example.com/?a=1", 0], "a reload accepts nothing");
  assert.equal(CallPush.openedFor, undefined);
  client.known.set("c1", callOf("c1").snapshot);
  client.online();
  await settled();
  assert.deepEqual(push.heard, []);
  const call = callOf("c1");
  client.ring(callOf("c0"));
  client.ring(call);
  client.emit("incoming", call);
  await settled();
  assert.deepEqual(push.heard, [["accept", call]]);
  assert.equal(client.listeners, 1, "the page no longer waits");
});

test("an address alone accepts nothing", async () => {
  for (const stored of [undefined, String(Date.now() - 600_000), "soon"]) {
    const { browser, client, push } = await setUp({ before: (browser) => {
      browser.Notification.permission = "granted";
      browser.localStorage.setItem("bellwire-push", "web-1 bob");
      browser.address = "https://calls.example.com/?acceptCall=c1";
      if (stored) browser.stored.set("/bellwire-accepted/c1", stored);
    } });
    client.ring(callOf("c1"));
    await settled();
    assert.deepEqual(push.heard.filter(([name]) => name !== "error"), [["show", "c1"]]);
    assert.equal(browser.stored.size, 0);
  }
});

test("an address of somebody else's, or of none, is left alone", async () => {
  for (const address of ["https://calls.example.com/?acceptCall=%3Cb%3E", "https://calls.example.com/?accept=c1"]) {
    const { browser, push } = await setUp({ before: (browser) => {
      browser.Notification.permission = "granted";
      browser.localStorage.setItem("bellwire-push", "web-1 bob");
      browser.address = address;
    } });
    assert.equal(browser.address, address);
    assert.deepEqual(push.heard, []);
  }
});

test("what was accepted and is over is told of", async () => {
  for (const [known, told] of [[undefined, "over"], [callOf("c1", "timeout").snapshot, "over"], [callOf("c1", "accepted").snapshot, "show"]]) {
    const { browser, client, push } = await setUp();
    await push.enable();
    if (known) client.known.set("c1", known);
    await browser.tell({ bellwire: "accept", callID: "c1" });
    assert.deepEqual(push.heard.at(-1), [told, "c1"]);
    assert.equal(client.listeners, 1);
  }
});

test("a call that was answered in the page has no notification any more", async () => {
  const { browser, push } = await setUp();
  const closed = [];
  browser.shown = ["c1", "c2"].map((tag) => ({ tag, close: () => closed.push(tag) }));
  await push.dismiss("c1");
  assert.deepEqual(closed, ["c1"]);
});
