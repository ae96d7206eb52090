// The ring tone of the call page, on an audio context that may not run before the user touches the page.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Tones } from "../dist/modules/page/tones.js";

class AudioContext {
  state = "suspended";
  sampleRate = 8_000;
  static isAllowed = false;
  async resume() {
    if (AudioContext.isAllowed) this.state = "running";
  }
}

test("a ring tone that may not sound yet sounds with whatever touch the browser takes for one, on the dialog as well", async (context) => {
  const define = (name, value) => {
    const before = Object.getOwnPropertyDescriptor(globalThis, name);
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
    context.after(() => (before ? Object.defineProperty(globalThis, name, before) : delete globalThis[name]));
  };
  const contexts = [];
  define("AudioContext", class extends AudioContext { constructor() { super(); contexts.push(this); } });
  define("AudioBuffer", class { getChannelData() { return []; } });
  define("AudioBufferSourceNode", class { connect() {} start() {} stop() {} });
  for (const name of ["pointerup", "touchend", "click", "keydown", "pointerdown", "mousedown"]) {
    const document = new EventTarget();
    const options = [];
    const { addEventListener } = document;
    document.addEventListener = (type, handler, given) => {
      options.push(given);
      addEventListener.call(document, type, handler, given);
    };
    define("document", document);
    AudioContext.isAllowed = false;
    const tones = new Tones();
    tones.ring(true);
    // This event does not count as a touch, because a finger may begin a scroll.
    document.dispatchEvent(new Event("pointerdown"));
    await undefined;
    assert.equal(contexts.at(-1).state, "suspended");
    AudioContext.isAllowed = true;
    document.dispatchEvent(new Event(name));
    await undefined;
    assert.equal(contexts.at(-1).state, "running", name);
    // The dialog cannot hide its events from the document.
    assert.ok(options.every(({ capture, passive }) => capture && passive));
    tones.ring(false);
  }
  assert.equal(contexts.length, 6);
});
