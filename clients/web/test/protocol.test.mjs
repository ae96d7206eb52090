// The parser of messages: accepted and ignored content.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClientMachine } from "../dist/modules/machine.js";
import { checkUser, encodeUser, readDown } from "../dist/modules/protocol.js";

const call = {
  callID: "c", revision: 1, mode: "common", state: "ringing", inviter: "alice", createdAt: 0, timeout: 60,
  members: [{ userID: "alice", state: "accepted", updatedAt: 0 }, { userID: "bob", state: "inviting", updatedAt: 0, expiresAt: 9 }],
};
const messages = [
  { type: "event", event: "call.invited", callID: "c", revision: 1, time: 0, expiresIn: 9, changes: [{ userID: "bob", state: "inviting" }], call },
  { type: "response", id: "r", ok: true, callID: "c", revision: 1, time: 0, call },
  { type: "response", id: "r", ok: false, error: { code: "busy", message: "m", retryAfter: 3 } },
  { type: "welcome", session: "s", serverTime: 0, heartbeatInterval: 20, heartbeatTimeout: 60, calls: [call], iceServers: [{ urls: ["stun:x"] }],
    mediaSessions: [{ callID: "c", server: "sfu", type: "livekit", url: "wss://m", room: "c", token: "t", expiresAt: 9, more: 1 }, { callID: "d" }] },
  { type: "signal", callID: "c", from: "a", fromDevice: "d", seq: 1, data: null },
  { type: "message", messageID: "m", from: "a", fromDevice: "d", time: 1, data: {} },
  { type: "receipt", messageID: "m", to: "a", state: "expired", time: 1 },
  { type: "error", error: { code: "flooding" } },
  { type: "tokenWillExpire", expiresAt: 1 },
];

test("every kind of message is read", () => {
  for (const message of messages) assert.equal(readDown(JSON.stringify(message))?.type, message.type);
  assert.equal(readDown(JSON.stringify(messages[2])).error.retryAfter, 3);
  assert.deepEqual(readDown(JSON.stringify(messages[3])).iceServers, [{ urls: ["stun:x"] }]);
  assert.deepEqual(readDown(JSON.stringify(messages[3])).mediaSessions, [
    { callID: "c", session: { server: "sfu", type: "livekit", url: "wss://m", room: "c", token: "t", expiresAt: 9 } },
  ]);
});

test("unknown fields are left behind, and strings stay strings", () => {
  const event = { ...messages[0], evil: 1, call: { ...call, evil: 1, extendedData: "<img onerror=x>", media: 7 } };
  const read = readDown(JSON.stringify(event));
  assert.ok(!("evil" in read) && !("evil" in read.call) && !("media" in read.call));
  assert.equal(read.call.extendedData, "<img onerror=x>");
});

test("what is of no form is no message", () => {
  for (const text of ["", "null", "[]", "7", "{", "{}", '"x"', "[".repeat(100_000), '{"type":{}}', '{"type":"event"}',
    '{"type":"signal","callID":"c","from":"a","fromDevice":"d"}', '{"type":"response","id":"r"}', '{"type":"welcome","session":"s"}',
    '{"type":"receipt","messageID":"m","to":"a","state":"sent","time":1}']) {
    assert.equal(readDown(text), undefined, text.slice(0, 40));
  }
});

test("messages with anything in their fields neither throw nor stop the machine", () => {
  let seed = 7;
  const below = (bound) => (seed = (seed * 48_271) % 2_147_483_647) % bound;
  const strange = [null, true, -1, 1e300, 0.5, "", "x".repeat(5000), [], {}, [[]], "\ud800", { __proto__: null }, Number.MAX_SAFE_INTEGER];
  const spoil = (json) => {
    if (below(12) === 0) return strange[below(strange.length)];
    if (Array.isArray(json)) return json.map(spoil);
    if (typeof json !== "object" || json === null) return json;
    return Object.fromEntries(Object.entries(json).filter(() => below(15) > 0).map(([key, value]) => [key, spoil(value)]));
  };
  const machine = new ClientMachine("bob", "phone", { renewsTokens: true });
  let now = 0;
  machine.connected("s");
  machine.subscribed(now);
  for (let round = 0; round < 20_000; round += 1) {
    const message = readDown(JSON.stringify(spoil(messages[below(messages.length)])));
    now += below(50);
    if (message) machine.received(message, now);
    if ((machine.nextDeadline ?? Infinity) <= now) machine.timerFired(now);
    assert.ok((machine.nextDeadline ?? Infinity) > now);
  }
});

test("a user is encoded as topics have it, and no broker need refuse one", () => {
  assert.equal(encodeUser("a/b+c#d%e\u0001\u007fé "), "a%2Fb%2Bc%23d%25e%01%7Fé ");
  for (const user of ["", "x".repeat(65), "é".repeat(33), "\ud800", "\u0085", "\uffff", "a\ufdd0", "\ufdef", "\u{1fffe}", "a\u{10ffff}", 7, undefined]) {
    assert.throws(() => checkUser(user), { code: "badRequest" }, String(user));
  }
  for (const user of ["é".repeat(32), "\ufdcf\ufdf0\ufffd", "\u{1fffd}😀"]) assert.equal(checkUser(user), user);
});

test("256 calls are known; who rings most often gives way, and the own call never", () => {
  const machine = new ClientMachine("bob", "phone");
  machine.connected("s");
  machine.subscribed(0);
  const ring = (id, inviter, bob = { state: "inviting" }) => machine.received(readDown(JSON.stringify({
    ...messages[0], callID: id, time: 1,
    call: { ...call, mode: "advanced", callID: id, inviter, createdAt: Number(id.slice(1)) || 0,
      members: [{ userID: inviter, state: "accepted", updatedAt: 0, device: "d" }, { userID: "bob", updatedAt: 0, invitedBy: inviter, ...bob }] },
  })), 0);
  ring("own", "alice", { state: "accepted", device: "phone" });
  ring("c0", "carol");
  for (let number = 1; number <= 254; number += 1) ring(`c${number}`, "mallory");
  assert.deepEqual(ring("c255", "mallory").map(({ act }) => act), ["refuse"]);
  const told = ring("c256", "dave");
  assert.deepEqual(told.filter(({ act }) => act === "deliver").map(({ told: { tell, call: gone } }) => [tell, gone?.callID]), [["gone", "c254"], ["event", undefined]]);
  assert.ok(machine.snapshot("own") && machine.snapshot("c0") && !machine.snapshot("c254"));
});
