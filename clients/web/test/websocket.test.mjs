// MQTT over a WebSocket that the test plays.
import assert from "node:assert/strict";
import { test } from "node:test";
import { webSocketTransport } from "../dist/modules/websocket.js";

class Socket {
  static last;
  sent = [];
  bufferedAmount = 0;
  readyState = 0;
  isClosed = false;

  constructor(url, protocol) {
    Object.assign(this, { url, protocol });
    Socket.last = this;
  }

  send(packet) { this.sent.push(Buffer.from(packet).toString("hex")); }
  close() { this.isClosed = true; }
  open() { this.readyState = 1; this.onopen(); }
  give(hex) { this.onmessage({ data: Uint8Array.from(Buffer.from(hex.replaceAll(" ", ""), "hex")).buffer }); }
}

const settings = {
  url: "ws://broker", clientID: "a/b", username: "a", keepAlive: 0, will: { topic: "w", payload: "{}" }, subscriptions: ["x", "y"],
  qos: 1,
};

function connect(qos = 1) {
  const told = [];
  const connection = webSocketTransport(Socket)({ ...settings, qos }, {
    accepted: () => told.push("accepted"),
    subscribed: () => told.push("subscribed"),
    message: (payload) => told.push(payload),
    closed: (failure) => told.push(failure),
  });
  return { connection, told, socket: Socket.last };
}

function connected(connack = "20 03 00 00 00") {
  const made = connect();
  made.socket.open();
  made.socket.give(connack);
  made.socket.give("90 05 0001 00 01 01");
  made.socket.sent.length = 0;
  return made;
}

test("CONNECT, SUBSCRIBE, and then messages, each QoS 1 one acknowledged, a retained one not told", () => {
  const { connection, told, socket } = connect();
  assert.equal(socket.protocol, "mqtt");
  socket.open();
  assert.match(socket.sent[0], /^10/);
  socket.give("20 03 00 00 00");
  assert.match(socket.sent[1], /^82/);
  socket.give("90 05 0001 00 01 01 32 08 0001 78 0007 00 7b7d 33 08 0001 78 0008 00 7b7d 30 05 0001 78 00 ff");
  assert.deepEqual(told, ["accepted", "subscribed", "{}"]);
  assert.deepEqual(socket.sent.slice(2), ["40020007", "40020008"]);
  connection.close();
  assert.deepEqual(socket.sent.at(-1), "e000");
  assert.ok(socket.isClosed);
  assert.equal(told.length, 3, "close() does not call closed");
});

test("refusals are told from a broker that is busy", () => {
  for (const [connack, isRefused, word] of [
    ["20 03 00 87 00", true, /not authorized/], ["20 03 00 86 00", true, /password/], ["20 03 00 88 00", false, /unavailable/],
    ["20 08 00 87 05 1f 0002 6e6f", true, /no$/],
  ]) {
    const { told, socket } = connect();
    socket.open();
    socket.give(connack);
    assert.equal(told[0].isRefused, isRefused);
    assert.match(told[0].message, word);
    assert.ok(socket.isClosed);
  }
  const { told, socket } = connect();
  socket.open();
  socket.give("20 03 00 00 00 90 05 0001 00 01 87");
  assert.equal(told[1].isRefused, true);
});

test("who was replaced is told so, and not of other ends", () => {
  for (const [disconnect, isTakenOver, isDropped] of [["e0 01 8e", true, false], ["e0 01 8b", false, false], ["e0 00", false, true]]) {
    const { told, socket } = connected();
    socket.give(disconnect);
    assert.equal(told[2].isTakenOver, isTakenOver);
    assert.equal(told[2].isDropped, isDropped);
    assert.equal(told[2].isRefused, false);
  }
  // The socket closes silently, by the broker after it accepted the connection, or by a proxy in front of a broker that
  // is down.
  for (const [made, isDropped] of [[connected(), true], [connect(), false]]) {
    made.socket.onclose();
    assert.equal(made.told.at(-1).isDropped, isDropped);
  }
});

test("what is no MQTT ends the connection, and nothing is told after that", () => {
  for (const data of ["text", new Uint8Array([0xff, 0]).buffer, new Uint8Array([0x30, 0xff, 0xff, 0xff, 0x7f]).buffer]) {
    const { told, socket } = connected();
    const { onmessage } = socket;
    onmessage({ data });
    onmessage({ data: new Uint8Array([0xe0, 0]).buffer });
    assert.equal(told.length, 3);
    assert.equal(told[2].isRefused, false);
  }
});

test("the broker's bounds are kept: receive maximum and packet size", () => {
  const { connection, socket } = connected("20 0b 00 00 08 21 0002 27 00000020");
  const qos = () => socket.sent.map((packet) => packet.slice(0, 2));
  for (let number = 0; number < 4; number += 1) assert.equal(connection.publish("t", "x"), true);
  assert.deepEqual(qos(), ["32", "32", "30", "30"], "further messages have QoS 0");
  socket.give("40 02" + socket.sent[0].slice(10, 14));
  connection.publish("t", "x");
  assert.equal(qos().at(-1), "32");
  assert.equal(connection.publish("t", "x".repeat(40)), false);
});

test("with QoS 0 neither messages nor subscriptions are acknowledged", () => {
  const { connection, socket } = connect(0);
  socket.open();
  socket.give("20 03 00 00 00");
  assert.match(socket.sent[1], /00017800000179 ?00$/);
  socket.give("90 05 0001 00 00 00");
  assert.equal(connection.publish("t", "x"), true);
  assert.match(socket.sent.at(-1), /^30/);
});

test("a broker that does not read, or answer, is told", (context) => {
  context.mock.timers?.enable(["setTimeout"]);
  const slow = connected();
  slow.socket.bufferedAmount = 5_000_000;
  slow.connection.publish("t", "x");
  assert.match(slow.told[2].message, /no longer reads/);
  if (!context.mock.timers) return;
  const dead = connected();
  dead.connection.ask();
  dead.connection.ask();
  assert.deepEqual(dead.socket.sent, ["c000"], "a single ping");
  context.mock.timers.tick(4_999);
  dead.socket.give("d000");
  context.mock.timers.tick(5_000);
  assert.equal(dead.told.length, 2);
  dead.connection.ask();
  context.mock.timers.tick(5_000);
  assert.match(dead.told[2].message, /no longer answers/);
  const silent = connect();
  context.mock.timers.tick(10_000);
  assert.match(silent.told[0].message, /does not answer/);
});

test("an error before the connection is there is told once", () => {
  const { told, socket } = connect();
  const { onerror, onclose } = socket;
  onerror();
  onclose();
  assert.equal(told.length, 1);
  assert.match(told[0].message, /cannot be reached/);
});
