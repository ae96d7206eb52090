// React Native lacks parts of the language and of a page's objects.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

test("the SDK has no pattern that the engine of React Native refuses", () => {
  for (const name of ["index", "react", "mqttjs"]) {
    const text = readFileSync(new URL(`../dist/${name}.js`, import.meta.url), "utf8");
    assert.doesNotMatch(text, /\\p\{/, name);
  }
});

test("text is decoded alike by the engine's decoder and without one", async () => {
  const engine = globalThis.TextDecoder;
  const decoders = { engine: await import("../dist/modules/utf8.js") };
  try {
    delete globalThis.TextDecoder;
    decoders.none = await import("../dist/modules/utf8.js?none");
    // The polyfill of Expo, among others.
    globalThis.TextDecoder = class {
      constructor(_, { fatal }) {
        if (fatal) throw new Error("the 'fatal' option is unsupported");
      }
    };
    decoders.notFatal = await import("../dist/modules/utf8.js?notFatal");
  } finally {
    globalThis.TextDecoder = engine;
  }
  for (const [name, { decodeText }] of Object.entries(decoders)) {
    for (const text of ["", "plain", "é\u{ffff}😀\u0000%41", "\ufeffmarked", "x".repeat(300_000)]) {
      assert.equal(decodeText(new TextEncoder().encode(text)), text, name);
    }
    for (const bytes of [[0x80], [0xc0, 0xaf], [0xe2, 0x82], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xff]]) {
      assert.throws(() => decodeText(Uint8Array.from(bytes)), `${name}: ${bytes}`);
    }
  }
});
