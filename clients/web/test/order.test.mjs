// Bounds of ordered messages; the shared cases would need too many steps for these.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClientMachine } from "../dist/modules/machine.js";
import { MessagePlaces } from "../dist/modules/machine/order.js";

let now = 1_000_000;
const receiver = () => new ClientMachine("bob", "phone");
/** Returns the numbers of the messages that the app gets after this message. */
const receive = (machine, seq, fields = {}) => {
  now += 1;
  const message = { type: "message", messageID: `m${seq}`, from: "alice", fromDevice: "web", time: 1, stream: "s", seq, data: 0, ...fields };
  return machine.received(message, now).flatMap(({ act, told }) => (act === "deliver" ? [told.message.seq] : []));
};
const range = (first, last) => Array.from({ length: last - first + 1 }, (_, index) => first + index);

test("64 messages of a stream are held; one more gives the gap up", () => {
  const machine = receiver();
  assert.deepEqual(receive(machine, 1), [1]);
  for (const seq of range(3, 66)) assert.deepEqual(receive(machine, seq), []);
  assert.deepEqual(receive(machine, 67), range(3, 67));
  assert.deepEqual(receive(machine, 2), [2]);
});

test("64 streams are followed; what a forgotten one held is told", () => {
  const machine = receiver();
  const told = range(1, 67).map((number) => receive(machine, 5, { messageID: `m${number}`, from: `user-${number}` }).length);
  assert.deepEqual(told, range(1, 67).map((number) => (number > 64 ? 1 : 0)));
});

test("who has many devices displaces the own streams alone", () => {
  const machine = receiver();
  receive(machine, 1, { messageID: "c1", from: "carol" });
  receive(machine, 3, { messageID: "c3", from: "carol" });
  for (const number of range(0, 399)) {
    receive(machine, 3, { messageID: `m${number}`, fromDevice: `device-${Math.floor(number / 5)}`, stream: `stream-${number}` });
  }
  assert.deepEqual(receive(machine, 2, { messageID: "c2", from: "carol" }), [2, 3]);
});

test("256 recipients are counted; who was forgotten is sent another stream", () => {
  const places = new MessagePlaces("mine");
  const next = (user) => Object.values(places.next(user)).join(" ");
  assert.equal(next("bob"), "mine 1");
  for (const number of range(0, 254)) next(`user-${number}`);
  assert.equal(next("bob"), "mine 2");
  assert.equal(next("carol"), "mine-1 1");
  assert.equal(next("bob"), "mine 3");
  assert.equal(next("user-0"), "mine-2 1");
  assert.equal(new MessagePlaces(undefined).next("bob"), undefined);
});
