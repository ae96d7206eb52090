// CallMedia with two pages of the same call. The test plays WebRTC, the tracks and the signals between the pages.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Emitter } from "../dist/modules/emitter.js";
import { CallMedia } from "../dist/modules/media.js";

class Track extends EventTarget {
  readyState = "live";
  enabled = true;
  constructor(kind) {
    super();
    this.kind = kind;
  }
  stop() { this.readyState = "ended"; }
  /** The device is unplugged, or no longer permitted. */
  vanish() {
    this.readyState = "ended";
    this.dispatchEvent(new Event("ended"));
  }
}

class Stream {
  constructor(tracks = []) { this.tracks = [...tracks]; }
  getTracks() { return [...this.tracks]; }
  getAudioTracks() { return this.tracks.filter(({ kind }) => kind === "audio"); }
  getVideoTracks() { return this.tracks.filter(({ kind }) => kind === "video"); }
  addTrack(track) { this.tracks.push(track); }
  removeTrack(track) { this.tracks = this.tracks.filter((each) => each !== track); }
}

/** All connections in the order of creation. */
const connections = [];

class Connection {
  connectionState = "connected";
  signalingState = "stable";
  remoteDescription = null;
  restarts = 0;
  transceivers = [];
  constructor() { connections.push(this); }
  addTrack(track) { this.addTransceiver(track.kind, track); }
  addTransceiver(kind, track = null) {
    const sender = { track, replaceTrack: async (next) => void (sender.track = next) };
    this.transceivers.push({ direction: "sendrecv", receiver: { track: { kind } }, sender });
  }
  getTransceivers() { return this.transceivers; }
  sending(kind) { return this.transceivers.find(({ receiver }) => receiver.track.kind === kind)?.sender.track; }
  setConfiguration() {}
  restartIce() { this.restarts += 1; }
  async setLocalDescription() {}
  close() {}
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

/** A browser; `given` has the results of `getUserMedia`. */
function browser(context, connection) {
  const page = new EventTarget();
  const given = [];
  let problem;
  const getUserMedia = async ({ audio, video }) => {
    if (problem) throw Object.assign(new Error(), { name: problem });
    const tracks = [audio && new Track("audio"), video && new Track("video")].filter(Boolean);
    given.push(...tracks);
    return new Stream(tracks);
  };
  const define = (name, value) => {
    const before = Object.getOwnPropertyDescriptor(globalThis, name);
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
    context.after(() => (before ? Object.defineProperty(globalThis, name, before) : delete globalThis[name]));
  };
  define("navigator", { connection, mediaDevices: { getUserMedia } });
  define("MediaStream", Stream);
  define("RTCPeerConnection", Connection);
  define("addEventListener", page.addEventListener.bind(page));
  define("removeEventListener", page.removeEventListener.bind(page));
  return { page, given, devices: { refuse: (name) => void (problem = name) } };
}

/**
 * The page of `user` in a call with `other`. `sent` has the page's signals; they reach the other page while both pages
 * are online.
 */
async function joined(context, user, other, options = {}) {
  const events = new Emitter(["change", "ended", "signal"]);
  const states = new Emitter();
  const sent = [];
  const self = { sent, isOnline: true, to: undefined };
  const call = {
    media: "video", others: [other], members: [{ userID: user }, { userID: other }], isIncoming: false, isHere: true, elapsed: 0,
    on: (name, handler) => events.on(name, handler),
    report: async () => undefined,
    signal: (data) => {
      sent.push(data);
      if (self.isOnline && self.to?.isOnline) self.to.receive(user, JSON.parse(JSON.stringify(data)));
      return true;
    },
  };
  self.media = new CallMedia({ user, iceServers: [], on: (name, handler) => states.on(name, handler) }, call, options);
  self.receive = (from, data) => events.emit("signal", { from, fromDevice: "d", data });
  self.setOnline = (isOnline) => {
    self.isOnline = isOnline;
    states.emit("state", isOnline ? "online" : "offline");
  };
  context.after(() => self.media.stop());
  await self.media.start();
  self.connection = connections.at(-1);
  return self;
}

test("an estimate of the bandwidth is no other network: ICE goes on as it is while the connection stands", async (context) => {
  const network = Object.assign(new EventTarget(), { type: "wifi" });
  const { page } = browser(context, network);
  const { connection } = await joined(context, "alice", "bob");
  let now = 10_000;
  context.mock.method(performance, "now", () => (now += 2_000));
  const change = (fields = {}) => {
    Object.assign(network, fields);
    const before = connection.restarts;
    network.dispatchEvent(new Event("change"));
    return connection.restarts - before;
  };
  assert.deepEqual([change({ downlink: 3 }), change({ rtt: 50 }), change()], [0, 0, 0]);
  assert.equal(change({ type: "cellular" }), 1);
  assert.equal(change({ downlink: 1 }), 0, "later changes compare with the new type");
  assert.equal(change({ type: undefined }), 1);
  assert.equal(change(), 0, "many browsers report no type");
  for (const connectionState of ["disconnected", "failed"]) {
    connection.connectionState = connectionState;
    assert.equal(change(), 1, connectionState);
  }
  connection.connectionState = "connecting";
  assert.equal(change(), 0, "restarts with each estimate would never finish");
  connection.connectionState = "connected";
  const before = connection.restarts;
  page.dispatchEvent(new Event("online"));
  assert.equal(connection.restarts, before + 1);
});

/** Two connected pages, and the events that the second page tells its app about the first. */
async function pair(context) {
  const { given, devices } = browser(context);
  const alice = await joined(context, "alice", "bob");
  const bob = await joined(context, "bob", "alice");
  [alice.to, bob.to] = [bob, alice];
  for (const page of [alice, bob]) {
    page.media.on("status", ({ muted, camera }) => (page.told = { muted, camera }));
    page.setOnline(true);
  }
  await settled();
  return { alice, bob, given, devices };
}

test("what was switched while a page was offline is told when it is online again, both ways", async (context) => {
  if (!context.mock.timers) return context.skip("Node 18 has no mocked timers");
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { alice, bob } = await pair(context);
  const collected = async () => {
    context.mock.timers.tick(250);
    await settled();
  };
  await collected();
  assert.deepEqual([alice.told, bob.told], [{ muted: false, camera: true }, { muted: false, camera: true }]);
  alice.setOnline(false);
  alice.media.mute(true);
  await bob.media.setCamera(false);
  await settled();
  assert.deepEqual([alice.told, bob.told], [{ muted: false, camera: true }, { muted: false, camera: true }], "neither page can know of the other's change");
  alice.setOnline(true);
  await settled();
  assert.deepEqual(bob.told, { muted: true, camera: true }, "bob learns the changes of the page that was offline");
  await collected();
  assert.deepEqual(alice.told, { muted: false, camera: false }, "alice learns what changed during the absence");
  // Both pages are offline, then come back separately.
  for (const page of [alice, bob]) page.setOnline(false);
  alice.media.mute(false);
  bob.media.mute(true);
  for (const page of [alice, bob]) page.setOnline(true);
  await collected();
  assert.deepEqual([alice.told, bob.told], [{ muted: true, camera: false }, { muted: false, camera: true }]);
});

test("whoever asks for the status without end gets few answers, and no answer asks in turn", async (context) => {
  if (!context.mock.timers) return context.skip("Node 18 has no mocked timers");
  context.mock.timers.enable({ apis: ["setTimeout"] });
  browser(context);
  const { media, sent, receive } = await joined(context, "alice", "bob");
  sent.length = 0;
  for (let count = 0; count < 100; count += 1) receive("bob", { bellwire: 1, epoch: "e", asks: true });
  await settled();
  context.mock.timers.tick(250);
  assert.deepEqual(sent.map(({ status, asks }) => [status, asks]), [[{ muted: false, camera: true }, undefined]]);
  receive("bob", { bellwire: 1, epoch: "e", asks: true });
  await settled();
  media.stop();
  context.mock.timers.tick(1_000);
  assert.equal(sent.length, 1);
});

test("a camera that goes is off: the app and the others are told, and it can be switched on again", async (context) => {
  const { alice, bob, given } = await pair(context);
  const errors = [];
  let local = 0;
  alice.media.on("error", ({ code }) => errors.push(code));
  alice.media.on("local", () => (local += 1));
  await settled();
  local = 0;
  const camera = alice.media.local.getVideoTracks()[0];
  assert.equal(alice.connection.sending("video"), camera);
  camera.vanish();
  await settled();
  assert.deepEqual([alice.media.camera, errors, local, bob.told], [false, ["cameraLost"], 1, { muted: false, camera: false }]);
  assert.equal(alice.connection.sending("video"), null, "the last picture must not stay visible");
  assert.deepEqual(alice.media.local.getVideoTracks(), []);
  await alice.media.setCamera(true);
  await settled();
  assert.deepEqual([alice.media.camera, bob.told], [true, { muted: false, camera: true }]);
  assert.equal(alice.connection.sending("video"), given.at(-1));
  // The second camera is lost too; the first loss is not reported again.
  camera.vanish();
  given.at(-1).vanish();
  await settled();
  assert.deepEqual([alice.media.camera, errors], [false, ["cameraLost", "cameraLost"]]);
  // A device that the app turns off does not count as lost.
  await alice.media.setCamera(true);
  await alice.media.setCamera(false);
  given.at(-1).vanish();
  await settled();
  assert.equal(errors.length, 2);
});

test("a microphone that goes is muted until there is another one", async (context) => {
  const { alice, bob, given, devices } = await pair(context);
  const errors = [];
  alice.media.on("error", ({ code }) => errors.push(code));
  alice.media.local.getAudioTracks()[0].vanish();
  await settled();
  assert.deepEqual([alice.media.muted, errors, bob.told], [true, ["microphoneLost"], { muted: true, camera: true }]);
  assert.equal(alice.connection.sending("audio"), null);
  devices.refuse("NotFoundError");
  alice.media.mute(false);
  await settled();
  assert.deepEqual([alice.media.muted, errors], [true, ["microphoneLost", "noMicrophone"]], "there is no microphone yet");
  devices.refuse(undefined);
  alice.media.mute(false);
  await settled();
  assert.deepEqual([alice.media.muted, bob.told], [false, { muted: false, camera: true }]);
  assert.equal(alice.connection.sending("audio"), given.at(-1));
  given.at(-1).vanish();
  alice.media.mute(false);
  alice.media.mute(true);
  await settled();
  assert.deepEqual([alice.media.muted, given.at(-1).enabled, bob.told.muted], [true, false, true], "the user muted again while the browser asked");
  alice.media.mute(false);
  assert.deepEqual([alice.media.muted, given.at(-1).enabled], [false, true]);
  for (const { media } of [alice, bob]) media.stop();
  assert.ok(given.every(({ readyState }) => readyState === "ended"), "no device stays on after the call");
});
