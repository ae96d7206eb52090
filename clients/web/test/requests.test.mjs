// How long a broker keeps the messages of a device.
import assert from "node:assert/strict";
import { test } from "node:test";
import { ClientMachine } from "../dist/modules/machine.js";

test("a broker keeps a request until its time limit", () => {
  const machine = new ClientMachine("alice", "phone", { requestTimeout: 20_000 });
  machine.send({ id: "r1", type: "call.get", callID: "c" }, 1_000);
  assert.equal(machine.expiry("r1", 1_000), 20);
  assert.equal(machine.expiry("r1", 16_001), 5);
  assert.equal(machine.expiry("r1", 21_000), 1);
  assert.equal(machine.expiry("unknown", 1_000), 20);
  assert.equal(machine.expiry(undefined, 1_000), 20);
});
