// The timers of a page, when the browser slows the page's own timers down.
import assert from "node:assert/strict";
import { test } from "node:test";
import vm from "node:vm";
import { BellwireClient } from "../dist/modules/client.js";
import { mqttTransport } from "../dist/modules/mqttjs.js";
import { after, holdTimers } from "../dist/modules/timers.js";

test("in a hidden page whose timers come too late the worker's tick is in time, and the last client ends the worker", (context) => {
  const made = [];
  class FakeWorker {
    asked = [];
    isEnded = false;
    constructor() { made.push(this); }
    postMessage(message) { this.asked.push(message); }
    terminate() { this.isEnded = true; }
  }
  const { setTimeout } = globalThis;
  const late = [];
  Object.assign(globalThis, { Worker: FakeWorker, document: {}, setTimeout: (act) => late.push(act) });
  context.after(() => {
    Object.assign(globalThis, { setTimeout });
    delete globalThis.Worker;
    delete globalThis.document;
  });
  const releases = [holdTimers(), holdTimers()];
  assert.equal(made.length, 1, "a single worker for all clients");
  let fired = 0;
  after(20_000, () => (fired += 1));
  const [[number, delay]] = made[0].asked;
  assert.equal(delay, 20_000);
  made[0].onmessage({ data: number });
  made[0].onmessage({ data: number });
  assert.equal(fired, 1);
  const cancel = after(1_000, () => assert.fail("it was cancelled"));
  cancel();
  made[0].onmessage({ data: made[0].asked.at(-1)[0] });
  releases[0]();
  releases[0]();
  assert.equal(made[0].isEnded, false);
  // The page's policy forbids this worker.
  made[0].onerror({ preventDefault: () => undefined });
  after(1_000, () => (fired = 100));
  late.at(-1)();
  assert.equal(fired, 100, "without the worker the page's own timer fires");
  releases[1]();
  assert.equal(made[0].isEnded, true);
});

/** Waits until all handlers have run. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

/**
 * A hidden page. The page's own timers fire a minute late; the timers of its workers, which run the given script, fire
 * in time. `advance` moves the time.
 */
function hiddenPage(context) {
  let now = 1_000;
  let count = 0;
  const timers = new Map();
  const set = (act, delay) => {
    count += 1;
    timers.set(count, { act, at: now + delay });
    return count;
  };
  const clear = (number) => void timers.delete(number);
  const scripts = new Map();
  const loading = [];
  const workers = { made: 0, running: 0 };
  class PageWorker {
    constructor(url) {
      workers.made += 1;
      workers.running += 1;
      const global = { setTimeout: set, clearTimeout: clear, postMessage: (data) => this.isEnded || this.onmessage({ data }) };
      this.loaded = scripts.get(url).text().then((script) => {
        vm.runInNewContext(script, global);
        return global;
      });
      loading.push(this.loaded);
    }
    postMessage(data) { loading.push(this.loaded.then((global) => global.onmessage({ data }))); }
    terminate() {
      this.isEnded = true;
      workers.running -= 1;
    }
  }
  const { setTimeout, setInterval, clearTimeout, clearInterval } = globalThis;
  const late = (act, delay) => set(act, delay + 60_000);
  const every = (act, delay) => {
    const number = late(function tick() {
      act();
      timers.set(number, { act: tick, at: now + delay + 60_000 });
    }, delay);
    return number;
  };
  Object.assign(globalThis, {
    Worker: PageWorker, document: {}, setTimeout: late, setInterval: every, clearTimeout: clear, clearInterval: clear,
  });
  context.mock.method(performance, "now", () => now);
  context.mock.method(URL, "createObjectURL", (blob) => {
    scripts.set(`blob:${scripts.size}`, blob);
    return `blob:${scripts.size - 1}`;
  });
  context.mock.method(Math, "random", () => 0);
  context.after(() => {
    Object.assign(globalThis, { setTimeout, setInterval, clearTimeout, clearInterval });
    delete globalThis.Worker;
    delete globalThis.document;
  });
  const ready = async () => {
    while (loading.length > 0) await Promise.all(loading.splice(0));
    await settled();
  };
  return {
    workers,
    seconds: () => (now - 1_000) / 1_000,
    async advance(seconds) {
      const end = now + seconds * 1_000;
      for (;;) {
        await ready();
        const [number, next] = [...timers].sort(([, a], [, b]) => a.at - b.at)[0] ?? [];
        if (next === undefined || next.at > end) break;
        timers.delete(number);
        now = Math.max(now, next.at);
        next.act();
      }
      now = end;
    },
  };
}

const call = {
  callID: "c", revision: 1, mode: "advanced", state: "active", inviter: "alice", createdAt: 0, timeout: 60,
  members: [{ userID: "alice", state: "accepted", device: "phone", updatedAt: 0 }, { userID: "bob", state: "accepted", device: "d", updatedAt: 0 }],
};

/** The broker and the service behind a page's WebSockets, and a client. */
function playService(context, { options = {}, welcome = {} } = {}) {
  const page = hiddenPage(context);
  const service = { page, isSilent: false, connections: [], pings: [], heartbeats: [] };
  class Socket {
    bufferedAmount = 0;
    readyState = 1;
    isClosed = false;
    constructor() {
      service.connections.push(page.seconds());
      service.socket = this;
      queueMicrotask(() => this.onopen?.());
    }
    close() { this.isClosed = true; }
    give(bytes) { if (!service.isSilent) queueMicrotask(() => this.onmessage?.({ data: Uint8Array.from(bytes).buffer })); }
    tell(message) {
      const rest = [...Buffer.from("\0\x01x\0"), ...Buffer.from(JSON.stringify(message))];
      this.give([0x30, (rest.length % 128) + 128, Math.floor(rest.length / 128), ...rest]);
    }
    send(packet) {
      const type = packet[0] >> 4;
      if (type === 1) this.give([0x20, 3, 0, 0, 0]);
      if (type === 8) this.give([0x90, 5, 0, 1, 0, 1, 1]);
      if (type === 12) {
        service.pings.push(page.seconds());
        this.give([0xd0, 0]);
      }
      if (type !== 3) return;
      const text = Buffer.from(packet).toString();
      const message = JSON.parse(text.slice(text.indexOf("{")));
      if (message.online) {
        const calls = service.connections.length > 1 ? [call] : [];
        const [{ session }, serverTime] = [message, page.seconds() * 1_000];
        this.tell({ type: "welcome", session, serverTime, heartbeatInterval: 20, heartbeatTimeout: 60, calls, ...welcome });
      }
      if (message.type === "call.heartbeat") service.heartbeats.push(page.seconds());
      if (message.type === "call.invite") this.tell({ type: "response", id: message.id, ok: true, time: 9, call });
    }
  }
  const client = new BellwireClient({ url: "ws://x", user: "alice", device: "phone", WebSocket: Socket, ...options });
  context.after(() => client.disconnect());
  return Object.assign(service, { client });
}

test("a hidden page's call gets its heartbeats, and its broker the pings of a short keep alive, in time", async (context) => {
  const service = playService(context, { options: { keepAlive: 20 } });
  const { client, page } = service;
  await client.connect();
  await client.call(["bob"], { callID: "c", mode: "advanced" });
  await page.advance(65);
  assert.deepEqual(service.heartbeats, [20, 40, 60]);
  assert.deepEqual(service.pings, [10, 20, 30, 40, 50, 60]);
  assert.equal(page.workers.made, 1);
  await client.disconnect();
  assert.equal(page.workers.running, 0, "the client is gone");
});

test("a hidden page finds out in time that its broker is silent, and comes back in time", async (context) => {
  const service = playService(context, { options: { keepAlive: 20 } });
  const { client, page } = service;
  await client.connect();
  await client.call(["bob"], { callID: "c", mode: "advanced" });
  service.isSilent = true;
  await page.advance(20);
  // The client pings after 10 s and gets no answer for 5 s. The first pause is 0.25 s, because the connection was good.
  assert.deepEqual(service.connections, [0, 15.25]);
  await page.advance(9);
  service.isSilent = false;
  // CONNECT gets no answer for 10 s, then the same pause follows.
  await page.advance(1);
  assert.deepEqual(service.connections, [0, 15.25, 25.5]);
});

test("a hidden page asks for tokens again in time", async (context) => {
  const asked = [];
  const getToken = () => {
    asked.push(service.page.seconds());
    // The second call of the provider fails; the third never returns.
    if (asked.length === 2) throw new Error("not now");
    return asked.length === 3 ? new Promise(() => undefined) : "token";
  };
  const service = playService(context, { options: { getToken }, welcome: { tokenExpiresAt: 600_000 } });
  await service.client.connect();
  await service.page.advance(599);
  // The provider is asked a minute before the token ends and again after 5 s. The third call is given up after 30 s and
  // followed by another after 5 s.
  assert.deepEqual(asked.slice(0, 4), [0, 540, 545, 580]);
  assert.deepEqual(service.connections.slice(0, 2), [0, 580]);
});

test("under MQTT.js, too, a hidden page finds out in time that its broker is silent", async (context) => {
  const page = hiddenPage(context);
  const handlers = new Map();
  const library = {
    connect: () => ({
      on: (event, handler) => handlers.set(event, handler), subscribe: (_, done) => done(null, []), sendPing: () => undefined, end: () => undefined,
    }),
  };
  const connect = () => {
    const told = [];
    const tell = (what) => (failure) => told.push([page.seconds(), failure?.message ?? what]);
    const connection = mqttTransport(library)(
      { url: "ws://x", clientID: "a/b", username: "a", keepAlive: 20, will: { topic: "w", payload: "{}" }, subscriptions: ["x"], qos: 0 },
      { accepted: () => undefined, subscribed: tell("subscribed"), message: () => undefined, closed: tell("closed") });
    return { connection, told };
  };
  const silent = connect();
  await page.advance(15);
  assert.deepEqual(silent.told, [[10, "ws://x does not answer"]]);
  const lost = connect();
  handlers.get("connect")({});
  lost.connection.ask();
  await page.advance(15);
  assert.deepEqual(lost.told, [[15, "subscribed"], [20, "the broker no longer answers"]]);
  connect().connection.close();
  assert.deepEqual([page.workers.made, page.workers.running], [3, 0]);
});
