// The signals of other members that CallMedia accepts.
import assert from "node:assert/strict";
import { test } from "node:test";
import { readEnvelope } from "../dist/modules/media/signals.js";

const envelope = (more) => ({ bellwire: 1, epoch: "e", ...more });
const sdp = (sections) => "v=0\r\n" + "m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=sendrecv\r\n".repeat(sections);

test("a description of a few sounds and pictures is taken, one of many is none", () => {
  for (const [sections, isTaken] of [[0, true], [2, true], [8, true], [9, false], [500, false]]) {
    const { description } = readEnvelope(envelope({ description: { type: "offer", sdp: sdp(sections) } }));
    assert.equal(description !== undefined, isTaken, `${sections} sections`);
  }
  assert.equal(readEnvelope(envelope({ description: { type: "offer", sdp: "x".repeat(30_001) } })).description, undefined);
  assert.equal(readEnvelope(envelope({ description: { type: "rollback", sdp: "" } })).description, undefined);
});

test("what is no signal of CallMedia is nothing, and of candidates a few are taken", () => {
  for (const data of [null, 7, "x", [], {}, { bellwire: 2, epoch: "e" }, { bellwire: 1, epoch: "" }, { bellwire: 1, epoch: "x".repeat(33) }, envelope({ to: 7 })]) {
    assert.equal(readEnvelope(data), undefined);
  }
  const candidates = [{ candidate: "x".repeat(1_025) }, null, ...Array.from({ length: 400 }, (_, n) => ({ candidate: `candidate:${n}`, sdpMLineIndex: -1 }))];
  const taken = readEnvelope(envelope({ candidates })).candidates;
  assert.equal(taken.length, 18);
  assert.deepEqual(taken[0], { candidate: "candidate:0", sdpMid: null, sdpMLineIndex: null });
});
