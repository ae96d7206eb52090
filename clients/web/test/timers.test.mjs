// Timers of a page whose own are slowed down.
import assert from "node:assert/strict";
import { test } from "node:test";
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
  assert.equal(made.length, 1, "one worker for all clients");
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
  // A worker that the page's policy forbids.
  made[0].onerror({ preventDefault: () => undefined });
  after(1_000, () => (fired = 100));
  late.at(-1)();
  assert.equal(fired, 100, "without the worker the page's own timer does it");
  releases[1]();
  assert.equal(made[0].isEnded, true);
});
