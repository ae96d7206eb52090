// The client and its calls. The test plays the broker and the service.
import assert from "node:assert/strict";
import { test } from "node:test";
import { BellwireClient } from "../dist/modules/client.js";
import { RivalWatch } from "../dist/modules/rivals.js";

const member = (userID, state, more = {}) => ({ userID, state, updatedAt: 0, ...more });
const callOf = (revision, members, more = {}) => ({
  callID: "c", revision, mode: "advanced", state: "ringing", inviter: "alice", createdAt: 0, timeout: 60, members, ...more,
});
const alice = member("alice", "accepted", { device: "phone" });

/** Returns an online client with its published messages and functions for answers. */
async function online(user, options = {}) {
  const published = [];
  const counts = { asked: 0, attempts: 0 };
  let handlers;
  const transport = (settings, given) => {
    handlers = given;
    counts.attempts += 1;
    queueMicrotask(() => {
      given.accepted();
      given.subscribed();
    });
    return {
      backlog: 0,
      publish: (topic, payload) => {
        const message = JSON.parse(payload);
        published.push(message);
        if (message.online) {
          give({ type: "welcome", session: message.session, serverTime: 0, heartbeatInterval: 20, heartbeatTimeout: 60, calls: [] });
        }
        return true;
      },
      ask: () => void (counts.asked += 1),
      close: () => undefined,
    };
  };
  const give = (message) => handlers.message(JSON.stringify(message));
  const client = new BellwireClient({ url: "ws://x", user, device: "phone", transport, ...options });
  await client.connect();
  return {
    client, published, give, counts,
    lose: (failure = { isRefused: false, message: "gone" }) => handlers.closed(failure),
    event: (event, call, more = {}) =>
      give({ type: "event", event, callID: call.callID, revision: call.revision, time: call.revision, changes: [], call, ...more }),
    answer: (type, body) => give({ type: "response", id: published.findLast((each) => each.type === type).id, ok: true, time: 9, ...body }),
    refuse: (type, error) => give({ type: "response", id: published.findLast((each) => each.type === type).id, ok: false, error }),
  };
}

/** Waits until all handlers have run. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test("what happened before the app had the call waits for its first handler", async () => {
  const { client, event, answer } = await online("alice");
  const calling = client.call(["bob"], { callID: "c", mode: "advanced" });
  event("call.userStateChanged", callOf(2, [alice, member("bob", "received")]));
  event("call.userStateChanged", callOf(3, [alice, member("bob", "accepted", { device: "d" })], { state: "active" }));
  answer("call.invite", { call: callOf(3, [alice, member("bob", "accepted", { device: "d" })], { state: "active" }), offline: ["bob"] });
  const call = await calling;
  const told = [];
  await settled();
  call.on("change", ({ userID, state }) => told.push(`${userID} ${state}`));
  await settled();
  assert.deepEqual(told, ["bob received", "bob accepted"]);
  assert.deepEqual(call.invited, { offline: ["bob"], errors: [] });
  assert.deepEqual(call.others, ["bob"]);
  const seen = [];
  const loop = (async () => { for await (const { state } of call) seen.push(state); })();
  event("call.ended", callOf(4, [alice, member("bob", "accepted", { device: "d" })], { state: "ended", endReason: "hangup" }));
  await loop;
  assert.deepEqual(seen, ["received", "accepted"]);
  let reason;
  call.on("ended", (told) => (reason = told));
  await settled();
  assert.equal(reason, "hangup");
  assert.deepEqual(client.calls, []);
  await client.disconnect();
});

test("why a call is over, as this device sees it", async () => {
  const bob = (state, more) => member("bob", state, { invitedBy: "alice", expiresAt: 60_000, ...more });
  for (const [expected, event, call, isMissed = false] of [
    ["answeredElsewhere", "call.handledElsewhere", callOf(2, [alice, bob("accepted", { device: "web" })], { state: "active" })],
    ["rejectedElsewhere", "call.handledElsewhere", callOf(2, [alice, bob("rejected", { device: "web" })], { state: "ended", endReason: "rejected" })],
    ["cancelled", "call.cancelled", callOf(2, [alice, bob("cancelled")], { state: "ended", endReason: "cancelled" }), true],
    ["callerLost", "call.cancelled", callOf(2, [alice, bob("cancelled", { reason: "callerLost" })]), true],
    ["timeout", "call.timeout", callOf(2, [alice, bob("timeout"), member("carol", "accepted")], { state: "active" }), true],
    ["answered", "call.userStateChanged", callOf(2, [alice, bob("accepted", { device: "phone" })], { mode: "common", state: "ended", endReason: "answered" })],
    ["quit", "call.userStateChanged", callOf(2, [alice, bob("quit", { device: "phone" }), member("carol", "accepted")], { state: "active" })],
  ]) {
    const device = await online("bob");
    const told = [];
    device.client.on("incoming", (call) => {
      told.push("incoming");
      call.on("ring", (on) => told.push(on));
      call.on("ended", (reason) => told.push(reason, call.isMissed, call.isHere));
    });
    device.event("call.invited", callOf(1, [alice, bob("inviting")]), { expiresIn: 60_000 });
    await settled();
    device.event(event, call, isMissed ? { missed: true } : {});
    device.event(event, call, isMissed ? { missed: true } : {});
    await settled();
    assert.deepEqual(told, ["incoming", true, false, expected, isMissed, false]);
    await device.client.disconnect();
  }
});

test("a user who is invited again rings again, with another Call", async () => {
  const device = await online("bob");
  const calls = [];
  device.client.on("incoming", (call) => calls.push(call));
  const bob = (state) => member("bob", state, { invitedBy: "alice", expiresAt: 60_000, device: state === "rejected" ? "phone" : undefined });
  device.event("call.invited", callOf(1, [alice, bob("inviting")]), { expiresIn: 60_000 });
  device.event("call.userStateChanged", callOf(2, [alice, bob("rejected")], { state: "active" }));
  device.event("call.invited", callOf(3, [alice, bob("inviting")], { state: "active" }), { expiresIn: 60_000 });
  await settled();
  assert.equal(calls.length, 2);
  assert.equal(calls[0].endReason, "rejected");
  assert.equal(calls[1].endReason, undefined);
  await device.client.disconnect();
  assert.equal(calls[1].endReason, "disconnected");
});

test("glare: the call that is made may be the one that rings", async () => {
  const device = await online("alice");
  let incoming;
  device.client.on("incoming", (call) => (incoming = call));
  const bob = member("bob", "accepted", { device: "d" });
  const own = { invitedBy: "bob", expiresAt: 60_000 };
  device.event("call.invited", callOf(1, [bob, member("alice", "inviting", own)], { inviter: "bob" }), { expiresIn: 60_000 });
  const calling = device.client.call(["bob"], { callID: "mine", glare: "merge" });
  device.answer("call.invite", {
    merged: true, call: callOf(2, [bob, member("alice", "accepted", { ...own, device: "phone" })], { inviter: "bob", state: "active" }),
  });
  const call = await calling;
  assert.equal(call, incoming);
  assert.ok(call.isHere);
  assert.deepEqual(device.client.calls, [call]);
  await device.client.disconnect();
});

test("a request that is refused throws with all that the service said, and leaves no call behind", async () => {
  const device = await online("alice");
  const calling = device.client.call(["bob"]);
  device.refuse("call.invite", { code: "alreadyInCall", message: "m", callID: "other" });
  await assert.rejects(calling, { name: "BellwireError", code: "alreadyInCall", message: "m", callID: "other" });
  assert.deepEqual(device.client.calls, []);
  await assert.rejects(device.client.call(["bob"], { callID: "no id" }), { code: "badRequest" });
  await assert.rejects(device.client.call([""]), { code: "badRequest" });
  const asking = device.client.history();
  await device.client.disconnect();
  await assert.rejects(asking, { code: "disconnected" });
  await assert.rejects(device.client.history(), { code: "notConnected" });
});

test("a call that is made while a quit is unanswered waits for it, and may be taken back meanwhile", async () => {
  const device = await online("alice");
  const bob = member("bob", "accepted", { device: "d" });
  device.event("call.created", callOf(1, [alice, bob], { state: "active" }));
  await settled();
  const sent = () => device.published.flatMap(({ type }) => (/^call\.(quit|invite|cancel)$/.test(type) ? [type] : []));
  const leaving = device.client.calls[0].quit();
  const abort = new AbortController();
  const calling = device.client.call(["carol"], { callID: "next", signal: abort.signal });
  await settled();
  assert.deepEqual(sent(), ["call.quit"]);
  abort.abort();
  await settled();
  assert.deepEqual(sent(), ["call.quit", "call.cancel"]);
  device.refuse("call.cancel", { code: "callNotFound", message: "" });
  device.answer("call.quit", { call: callOf(2, [member("alice", "quit"), bob], { state: "ended", endedAt: 2, endReason: "quit" }) });
  await leaving;
  assert.deepEqual(sent(), ["call.quit", "call.cancel", "call.invite"]);
  const carol = member("carol", "cancelled");
  device.answer("call.invite", { call: callOf(1, [alice, carol], { callID: "next", state: "ended", endedAt: 3, endReason: "cancelled" }) });
  await assert.rejects(calling, { code: "cancelled" });
  await device.client.disconnect();
});

test("what a handler throws disturbs nobody else", async () => {
  const device = await online("bob");
  const thrown = [];
  const listeners = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error) => thrown.push(error.message));
  const told = [];
  device.client.on("message", () => { throw new Error("the app's own"); });
  device.client.on("message", ({ data }) => told.push(data));
  for (const data of [1, 2]) device.give({ type: "message", messageID: `m${data}`, from: "a", fromDevice: "d", time: 0, data });
  await settled();
  process.removeAllListeners("uncaughtException");
  for (const listener of listeners) process.on("uncaughtException", listener);
  assert.deepEqual([told, thrown], [[1, 2], ["the app's own", "the app's own"]]);
  assert.equal(device.client.state, "online");
  await device.client.disconnect();
});

test("offline and online again, and a refusal meanwhile is told", async () => {
  const device = await online("bob");
  const told = [];
  device.client.on("state", (state) => told.push(state));
  device.client.on("error", ({ code }) => told.push(code));
  device.lose({ isRefused: true, message: "expired" });
  await new Promise((resolve) => device.client.on("state", (state) => state === "online" && resolve()));
  assert.deepEqual(told, ["offline", "refused", "online"]);
  await device.client.disconnect();
});

test("options that cannot work are refused at once", () => {
  assert.throws(() => new BellwireClient({ url: "http://x", user: "a", WebSocket: class {} }), { code: "badRequest" });
  for (const url of ["nowhere", "", "ws://", "ws://x:65536", "ws://x y", "ws:x", "ws://x#a", "ws://x,ws://y"]) {
    assert.throws(() => new BellwireClient({ url, user: "a", WebSocket: class {} }), { code: "badRequest" }, url);
  }
  assert.throws(() => new BellwireClient({ url: "ws://x", user: "", WebSocket: class {} }), { code: "badRequest" });
  assert.throws(() => new BellwireClient({ url: "ws://x", user: "a", device: "a b", WebSocket: class {} }), { code: "badRequest" });
});

test("an empty, malformed or repeated entry of a list of brokers is refused, by its place", () => {
  const make = (...url) => new BellwireClient({ url, user: "a", WebSocket: class {} });
  const refused = (message, ...url) => assert.throws(() => make(...url), (error) => error.code === "badRequest" && error.message.includes(message));
  refused("no broker");
  refused("entry 2", "ws://x", "");
  refused("entry 2", "ws://x", "http://y");
  refused("entry 1", "wss://user:secret@x:port", "ws://x");
  assert.throws(() => make("wss://user:secret@x:port"), ({ message }) => !message.includes("secret"));
  for (const again of ["ws://x:8083", "ws://X:8083/", "wss://user:secret@x:08083"]) refused("x:8083 is named twice", "ws://x:8083", again);
  refused("x:443 is named twice", "wss://x/mqtt", "wss://x:443/mqtt");
  refused("[::1]:80 is named twice", "ws://[::1]", "ws://[::1]:80/");
  make("ws://x:8083", "ws://x:8084", "ws://y:8083", "wss://lb/1", "wss://lb/2", "wss://lb/mqtt?broker=1", "wss://lb/mqtt?broker=2");
});

test("with several brokers each connection goes to the next broker", async (context) => {
  if (!context.mock.timers) return context.skip("Node 18 has no mocked timers");
  const urls = ["ws://a", "ws://b", "ws://c"];
  const tried = [];
  let handlers;
  const transport = ({ url }, given) => {
    tried.push(url);
    handlers = given;
    return { backlog: 0, publish: () => true, ask: () => undefined, close: () => undefined };
  };
  const client = new BellwireClient({ url: urls, user: "bob", device: "phone", transport, connectTimeout: 3_600_000 });
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const connecting = client.connect().catch(() => undefined);
  for (let attempt = 1; attempt <= 6; attempt += 1) {
    await settled();
    assert.equal(tried.length, attempt);
    handlers.closed({ isRefused: false, message: "no broker there" });
    context.mock.timers.tick(8_000);
  }
  assert.deepEqual([tried.slice(0, 3).sort(), tried.slice(3, 6)], [urls, tried.slice(0, 3)]);
  context.mock.timers.reset();
  await client.disconnect();
  await connecting;
});

test("a client whose device id another one has taken stays away until it is told to connect", async (context) => {
  const { client, lose, event } = await online("bob");
  const told = [];
  client.on("error", ({ code }) => told.push(code));
  client.on("incoming", (call) => call.on("ended", (reason) => told.push(reason)));
  const bob = member("bob", "inviting", { invitedBy: "alice", expiresAt: 60_000 });
  event("call.invited", callOf(1, [alice, bob]));
  await settled();
  const pending = client.history();
  context.mock.timers?.enable({ apis: ["setTimeout"] });
  lose({ isRefused: false, isTakenOver: true, message: "session taken over" });
  await assert.rejects(pending, { code: "disconnected" });
  context.mock.timers?.tick(60_000);
  context.mock.timers?.reset();
  await settled();
  assert.deepEqual(told.sort(), ["disconnected", "takenOver"]);
  assert.equal(client.state, "offline");
  await client.connect();
  assert.equal(client.state, "online");
  await client.disconnect();
});

test("a token that the app gives late is taken", async (context) => {
  if (!context.mock.timers) return context.skip("Node 18 has no mocked timers");
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const asked = [];
  const getToken = () => new Promise((resolve) => asked.push(resolve));
  const passwords = [];
  let handlers;
  const transport = ({ password }, given) => {
    passwords.push(password);
    handlers = given;
    return { backlog: 0, publish: () => true, ask: () => undefined, close: () => undefined };
  };
  const client = new BellwireClient({ url: "ws://x", user: "bob", device: "phone", transport, getToken, connectTimeout: 3_600_000 });
  const connecting = client.connect().catch(() => undefined);
  await settled();
  assert.equal(asked.length, 1);
  // This request has timed out, and the next request has not started.
  context.mock.timers.tick(30_000);
  await settled();
  asked[0]("first");
  await settled();
  context.mock.timers.tick(10_000);
  await settled();
  assert.deepEqual([asked.length, passwords], [1, ["first"]]);
  // The broker refused this token, so the client does not use it again.
  handlers.closed({ isRefused: true, message: "no" });
  context.mock.timers.tick(10_000);
  await settled();
  assert.deepEqual([asked.length, passwords], [2, ["first"]]);
  context.mock.timers.reset();
  await client.disconnect();
  await connecting;
});

test("a page that is looked at again asks the broker for a sign of life at once, and waits for no timer", async (context) => {
  const page = new EventTarget();
  const document = Object.assign(new EventTarget(), { visibilityState: "visible" });
  const define = (name, value) => {
    const before = Object.getOwnPropertyDescriptor(globalThis, name);
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
    context.after(() => (before ? Object.defineProperty(globalThis, name, before) : delete globalThis[name]));
  };
  define("addEventListener", page.addEventListener.bind(page));
  define("removeEventListener", page.removeEventListener.bind(page));
  define("document", document);
  const { client, counts, lose } = await online("bob");
  context.after(() => client.disconnect());
  const asks = (target, name, visibilityState = "visible") => {
    document.visibilityState = visibilityState;
    const before = counts.asked;
    target.dispatchEvent(new Event(name));
    return counts.asked - before;
  };
  assert.deepEqual([asks(page, "focus"), asks(page, "pageshow"), asks(page, "online"), asks(page, "offline")], [1, 1, 1, 1]);
  assert.equal(asks(document, "visibilitychange"), 1);
  assert.equal(asks(document, "resume", "hidden"), 1, "a frozen page is resumed before it becomes visible");
  assert.equal(asks(document, "visibilitychange", "hidden"), 0, "a hidden page does not ask the broker");
  for (const name of ["visibilitychange", "resume"]) {
    document.visibilityState = "visible";
    const before = counts.attempts;
    lose();
    document.dispatchEvent(new Event(name));
    await settled();
    assert.equal(counts.attempts, before + 1, `${name} waited for the next attempt`);
  }
  await client.disconnect();
  assert.deepEqual([asks(document, "visibilitychange"), asks(document, "resume"), asks(page, "focus")], [0, 0, 0]);
});

test("an app without a page tells of another network: the client asks the broker, or connects at once", async (context) => {
  const { client, counts, lose } = await online("bob");
  context.after(() => client.disconnect());
  client.networkChanged();
  assert.deepEqual(counts, { asked: 1, attempts: 1 });
  lose();
  client.networkChanged();
  await settled();
  assert.deepEqual([counts.attempts, client.state], [2, "online"], "the client waited for the next attempt");
  await client.disconnect();
  client.networkChanged();
  await settled();
  assert.equal(counts.attempts, 2, "a client that is disconnected stays so");
});

test("two clients of one device: the one that was there first gives up, also where the broker does not say why", async (context) => {
  const { client, lose, counts, give } = await online("bob");
  context.after(() => client.disconnect());
  const told = [];
  client.on("error", ({ code }) => told.push(code));
  const dropped = { isRefused: false, isDropped: true, message: "the connection broke" };
  const isOnline = () => new Promise((resolve) => {
    const unlisten = client.on("state", (state) => state === "online" && resolve(unlisten()));
  });
  for (let count = 0; count < 2; count += 1) {
    lose(dropped);
    await isOnline();
  }
  // The service explains the disconnection, so there is no rival client.
  give({ type: "error", error: { code: "flooding", message: "m" } });
  lose(dropped);
  await isOnline();
  await settled();
  assert.deepEqual([told, client.state], [["flooding"], "online"]);
  const { attempts } = counts;
  lose(dropped);
  await settled();
  assert.deepEqual([told, client.state], [["flooding", "takenOver"], "offline"]);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.equal(counts.attempts, attempts);
  await client.connect();
  lose(dropped);
  await isOnline();
  assert.equal(client.state, "online", "the count begins again");
});

test("what is taken for another client of the same device, and what is not", () => {
  const dropped = { isRefused: false, isDropped: true };
  const watch = (...ends) => {
    const rivals = new RivalWatch();
    return ends.map(([failure, lasted = 100, isUnexplained = true]) => rivals.isTakenOver(failure, lasted, isUnexplained));
  };
  assert.deepEqual(watch([{ isRefused: false, isTakenOver: true }]), [true]);
  assert.deepEqual(watch([dropped, 3_600_000], [dropped], [dropped, 2_999]), [false, false, true]);
  assert.deepEqual(watch([dropped], [dropped], [dropped, 3_000], [dropped], [dropped]), [false, false, false, false, true], "a longer connection resets the count");
  for (const other of [{ isRefused: false }, { isRefused: true, isDropped: true }]) {
    assert.deepEqual(watch([dropped], [dropped], [other], [dropped], [dropped]), [false, false, false, false, false]);
  }
  assert.deepEqual(watch([dropped], [dropped], [dropped, 100, false], [dropped]), [false, false, false, true], "an explained end does not count");
});

const session = (token) => ({ server: "sfu", type: "livekit", url: "wss://sfu.example", room: "c", token, expiresAt: 600_000 });

test("a call has the newest media session of its responses and of the welcome", async () => {
  const { client, event, answer, refuse, give, published } = await online("bob");
  let incoming;
  client.on("incoming", (call) => (incoming = call));
  event("call.invited", callOf(1, [alice, member("bob", "inviting")]), { expiresIn: 9_000 });
  await settled();
  assert.equal(incoming.mediaSession, undefined);
  const accepting = incoming.accept();
  const bob = member("bob", "accepted", { device: "phone" });
  answer("call.accept", { call: callOf(2, [alice, bob], { state: "active" }), mediaSession: session("one") });
  await accepting;
  assert.deepEqual(incoming.mediaSession, session("one"));
  const renewing = incoming.renewMediaSession();
  answer("call.media", { call: callOf(2, [alice, bob], { state: "active" }), mediaSession: session("two") });
  assert.equal((await renewing).token, "two");
  assert.equal(incoming.mediaSession.token, "two");
  const refused = incoming.renewMediaSession();
  refuse("call.media", { code: "noMedia", message: "m" });
  await assert.rejects(refused, { code: "noMedia" });
  assert.equal(incoming.mediaSession.token, "two");
  const named = published.find(({ online }) => online).session;
  give({
    type: "welcome", session: named, serverTime: 0, heartbeatInterval: 20, heartbeatTimeout: 60,
    calls: [callOf(2, [alice, bob], { state: "active" })], mediaSessions: [{ callID: "c", ...session("three") }],
  });
  assert.equal(incoming.mediaSession.token, "three");
  await client.disconnect();
});

test("a call that the answer ends keeps its media session", async () => {
  const { client, event, answer } = await online("bob");
  let incoming;
  client.on("incoming", (call) => (incoming = call));
  const common = (revision, members, more = {}) => callOf(revision, members, { mode: "common", ...more });
  event("call.invited", common(1, [alice, member("bob", "inviting")]), { expiresIn: 9_000 });
  await settled();
  const accepting = incoming.accept();
  const bob = member("bob", "accepted", { device: "phone" });
  const over = { state: "ended", endReason: "answered", endedAt: 2 };
  answer("call.accept", { call: common(2, [alice, bob], over), mediaSession: session("one") });
  await accepting;
  assert.deepEqual([incoming.endReason, incoming.mediaSession.token], ["answered", "one"]);
  const renewing = incoming.renewMediaSession();
  answer("call.media", { call: common(2, [alice, bob], over), mediaSession: session("two") });
  assert.equal((await renewing).token, "two");
  await client.disconnect();
});

test("a call that was made, and a call of a page before, have their media sessions", async () => {
  const { client, answer, give, published } = await online("alice");
  const calling = client.call(["bob"], { callID: "c", mode: "advanced" });
  answer("call.invite", { call: callOf(1, [alice, member("bob", "inviting")]), offline: [], mediaSession: session("one") });
  assert.equal((await calling).mediaSession.token, "one");
  let resumed;
  client.on("resumed", (call) => (resumed = call));
  const named = published.find(({ online }) => online).session;
  const other = { ...callOf(3, [alice, member("bob", "accepted", { device: "d" })], { state: "active" }), callID: "e" };
  give({
    type: "welcome", session: named, serverTime: 0, heartbeatInterval: 20, heartbeatTimeout: 60,
    calls: [other], mediaSessions: [{ callID: "e", ...session("two") }],
  });
  await settled();
  assert.equal(resumed.mediaSession.token, "two");
  await client.disconnect();
});

test("an invitation without a response is taken back", async () => {
  const { client, published, event, answer } = await online("alice", { requestTimeout: 50 });
  const resumed = [];
  client.on("resumed", (call) => resumed.push(call));
  await assert.rejects(client.call(["bob"], { callID: "c" }), { code: "noResponse" });
  await settled();
  const types = () => published.map(({ type }) => type).filter((type) => type?.startsWith("call."));
  assert.deepEqual(types(), ["call.invite", "call.cancel"]);
  // Bob has answered, and the invitation of another invitee is cancelled.
  const answered = callOf(3, [alice, member("bob", "accepted", { device: "d" })], { state: "active" });
  event("call.userStateChanged", answered);
  answer("call.cancel", { call: answered });
  await settled();
  assert.deepEqual(types(), ["call.invite", "call.cancel", "call.end"]);
  assert.deepEqual(resumed, []);
  await client.disconnect();
});
