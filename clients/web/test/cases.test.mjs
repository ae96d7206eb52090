// The machine against the test cases that the Swift SDK shares (Tests/ClientCases/README.md).
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { ClientMachine } from "../dist/modules/machine.js";
import { readDown } from "../dist/modules/protocol.js";

const folder = new URL("../../../Tests/ClientCases/", import.meta.url);
const read = (name) => JSON.parse(readFileSync(new URL(name, folder), "utf8"));
const definitions = read("definitions.json");

/** Replaces `$use` by the named value. */
function expand(json) {
  if (Array.isArray(json)) return json.map(expand);
  if (typeof json !== "object" || json === null) return json;
  const { $use, ...own } = json;
  const base = $use === undefined ? {} : expand(definitions[$use] ?? assert.fail(`no definition ${$use}`));
  return { ...base, ...Object.fromEntries(Object.entries(own).map(([key, value]) => [key, expand(value)])) };
}

/** Returns an action in the form of the cases; undefined for actions that only this SDK has. */
function written(action) {
  switch (action.act) {
    case "publish": return { publish: action.message };
    case "publishPresence": return { presence: action.message };
    case "succeed": return { succeed: action.id };
    case "fail": return { fail: action.id, code: action.error.code };
    case "refuse": return { refuse: action.callID };
    case "deliver": return told(action.told);
    default: return { [action.act]: true };
  }
}

function told(event) {
  switch (event.tell) {
    case "online": return { online: true };
    case "offline": return { offline: event.reason };
    case "event": return { event: event.event.event, callID: event.event.callID, revision: event.event.revision };
    case "snapshot": return { snapshot: event.call.callID, revision: event.call.revision };
    case "gone": return { gone: event.call.callID };
    case "invitationExpired": return { expired: event.call.callID };
    case "signal": return { signal: event.signal.data };
    case "message": return { message: event.message.messageID };
    case "receipt": return { receipt: event.receipt.messageID, state: event.receipt.state };
    case "error": return { error: event.error.code };
    case "welcome": return undefined;
  }
  return assert.fail(`what is ${event.tell}?`);
}

/** The machine in virtual time. */
class Device {
  now = 1_000_000;

  constructor({ user, configuration = {} }) {
    this.machine = new ClientMachine(user, "phone", configuration);
  }

  /** Performs a step. Returns the machine's actions as [milliseconds since the begin of the step, action]. */
  perform(step) {
    const { machine, now } = this;
    const at = (actions, time = 0) => actions.map((action) => [time, action]);
    if ("connected" in step) return at(machine.connected(step.connected));
    if ("subscribed" in step) return at(machine.subscribed(now));
    if ("disconnected" in step) return at(machine.disconnected(step.disconnected));
    if ("renewing" in step) return at(machine.renewing() ?? []);
    if ("loggedOut" in step) return at(machine.loggedOut());
    if ("send" in step) return at(machine.send(step.send, now, step.ordered));
    if ("signal" in step) return at(machine.signal({ type: "call.signal", ...step.signal }, now));
    if ("pass" in step) return this.pass(step.pass).flatMap(([time, actions]) => at(actions, time - now));
    const message = readDown(JSON.stringify(step.receive));
    return message ? at(machine.received(message, now)) : [];
  }

  pass(milliseconds) {
    const end = this.now + milliseconds;
    const done = [];
    for (let due = this.machine.nextDeadline; due !== undefined && due <= end; due = this.machine.nextDeadline) {
      this.now = Math.max(this.now, due);
      done.push([this.now, this.machine.timerFired(this.now)]);
      assert.ok((this.machine.nextDeadline ?? Infinity) > this.now, "no deadline is left");
    }
    this.now = end;
    return done;
  }
}

for (const file of readdirSync(folder).filter((name) => name.endsWith(".json") && name !== "definitions.json")) {
  for (const { name, steps, ...settings } of read(file)) {
    test(`${file}: ${name}`, () => {
      const device = new Device(settings);
      for (const [index, step] of expand(steps).entries()) {
        const done = device.perform(step).flatMap(([at, action]) => {
          const action_ = written(action);
          // The form of the wire, without undefined fields.
          return action_ ? [JSON.parse(JSON.stringify({ at, ...action_ }))] : [];
        });
        if (!step.expect) continue;
        const expected = step.expect.map((action) => ({ at: 0, ...action }));
        assert.deepEqual(done, expected, `step ${index + 1}: ${JSON.stringify(steps[index]).slice(0, 120)}`);
      }
    });
  }
}
