// The MQTT codec, with valid MQTT 5 packets and with arbitrary bytes.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  PacketError, PacketParser, connectPacket, disconnectPacket, pingreqPacket, pubackPacket, publishPacket, subscribePacket,
} from "../dist/modules/mqtt.js";

const bytes = (hex) => Uint8Array.from(hex.replaceAll(" ", "").match(/../g).map((pair) => parseInt(pair, 16)));
const hex = (packet) => Buffer.from(packet).toString("hex");
const plain = (hexadecimal) => hexadecimal.replaceAll(" ", "");
const parse = (input, limit = 1000) => new PacketParser(limit).push(input);

test("packets are written as section 3 of MQTT 5 has them", () => {
  const fields = { clientID: "a/b", username: "a", password: "p", keepAlive: 90, maximumPacketSize: 524_288 };
  assert.equal(
    hex(connectPacket({ ...fields, will: { topic: "t", payload: "{}" } })),
    plain("10 23 0004 4d515454 05 ce 005a 05 27 00080000 0003 612f62 00 0001 74 0002 7b7d 0001 61 0001 70"));
  assert.equal(hex(connectPacket({ clientID: "a/b", keepAlive: 0, maximumPacketSize: 1 })),
    plain("10 15 0004 4d515454 05 02 0000 05 27 00000001 0003 612f62"));
  assert.equal(hex(subscribePacket(1, ["x", "y"], 1)), plain("82 0b 0001 00 0001 78 01 0001 79 01"));
  assert.equal(hex(subscribePacket(1, ["x"], 0)), plain("82 07 0001 00 0001 78 00"));
  assert.equal(hex(publishPacket({ topic: "t", payload: "é" })), plain("30 06 0001 74 00 c3a9"));
  assert.equal(hex(publishPacket({ topic: "t", payload: "", packetID: 258, messageExpiry: 31, correlationData: bytes("0a0b") })),
    plain("32 10 0001 74 0102 0a 02 0000001f 09 0002 0a0b"));
  assert.equal(hex(pubackPacket(5)), "40020005");
  assert.equal(hex(pingreqPacket()), "c000");
  assert.equal(hex(disconnectPacket()), "e000");
  assert.equal(hex(publishPacket({ topic: "t", payload: "x".repeat(200) })).slice(0, 6), "30cc01", "a length of two bytes");
  assert.throws(() => subscribePacket(1, ["x".repeat(65_536)], 0), PacketError);
});

const packets = [
  ["20 03 00 00 00", { type: "connack", reason: 0, receiveMaximum: 65_535, maximumPacketSize: Infinity, maximumQoS: 2 }],
  ["20 15 00 87 12 21 0014 27 00010000 24 01 13 003c 1f 0002 6e6f",
    { type: "connack", reason: 0x87, reasonString: "no", receiveMaximum: 20, maximumPacketSize: 65_536, maximumQoS: 1, serverKeepAlive: 60 }],
  ["90 05 0001 00 01 87", { type: "suback", packetID: 1, reasons: [1, 0x87] }],
  ["30 0b 0001 74 05 02 00000009 7b7d", { type: "publish", topic: "t", payload: bytes("7b7d"), qos: 0, retain: false, packetID: 0 }],
  ["33 0e 0001 74 0009 07 26 0001 61 0001 62 21", { type: "publish", topic: "t", payload: bytes("21"), qos: 1, retain: true, packetID: 9 }],
  ["40 02 0007", { type: "puback", packetID: 7, reason: 0 }],
  ["40 03 0007 10", { type: "puback", packetID: 7, reason: 16 }],
  ["d0 00", { type: "pingresp" }],
  ["e0 00", { type: "disconnect", reason: 0 }],
  ["e0 01 8e", { type: "disconnect", reason: 0x8e }],
];

test("packets are read, in pieces of any size", () => {
  for (const [input, expected] of packets) assert.deepEqual(parse(bytes(input)), [expected], input);
  const all = bytes(packets.map(([input]) => input).join(""));
  for (const size of [1, 2, 3, 7, all.length]) {
    const parser = new PacketParser(1000);
    const read = [];
    for (let offset = 0; offset < all.length; offset += size) {
      // The piece has its own buffer that is overwritten afterwards, as transports may do.
      const piece = all.slice(offset, offset + size);
      read.push(...parser.push(piece).map((packet) => structuredClone(packet)));
      piece.fill(0xff);
    }
    assert.deepEqual(read, packets.map(([, expected]) => expected), `pieces of ${size}`);
  }
});

test("what is no MQTT 5, or too large, is refused", () => {
  for (const input of [
    "00 00", "10 00", "f0 00", "34 05 0001 74 0001", "20 01 00", "20 04 00 00 01 ff", "30 02 0005", "30 04 0002 fffe", "90 01 00",
    "30 ff ff ff ff 01", "20 07 00 00 04 0b ff ff ff", "30 80 80 80 01", "40 01 00",
  ]) {
    assert.throws(() => parse(bytes(input)), PacketError, input);
  }
  // The parser refuses the packet before the body has come.
  assert.throws(() => parse(bytes("30 e9 07")), PacketError);
});

test("no bytes do anything but packets or PacketError", () => {
  let seed = 1;
  const below = (bound) => (seed = (seed * 48_271) % 2_147_483_647) % bound;
  for (let round = 0; round < 20_000; round += 1) {
    const input = bytes(packets[below(packets.length)][0]);
    for (let change = below(4); change > 0; change -= 1) input[below(input.length)] = below(256);
    try {
      parse(input.subarray(0, below(2) ? input.length : below(input.length + 1)));
    } catch (error) {
      assert.ok(error instanceof PacketError, `${hex(input)}: ${error}`);
    }
  }
});
