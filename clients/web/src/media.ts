import type { BellwireClient } from "./client.js";
import type { Call } from "./call.js";
import { Emitter } from "./emitter.js";
import { MediaError, type MediaErrorCode, mediaErrorOf } from "./media/errors.js";
import { Milestones } from "./media/milestones.js";
import { Peer, type PeerState } from "./media/peer.js";
import { type Envelope, readEnvelope } from "./media/signals.js";

export { MediaError };
export type { MediaErrorCode, PeerState };

export interface MediaOptions {
  /** Whether the camera is on at first; by default only when the call's `media` is `video`. */
  camera?: boolean;
  /** `relay` restricts the connections to TURN. */
  iceTransportPolicy?: RTCIceTransportPolicy;
  /** ICE servers in place of the deployment's servers (`client.iceServers`). */
  iceServers?: RTCIceServer[];
  /** The app's own audio and video in place of microphone and camera. The tracks are stopped with the call. */
  stream?: MediaStream;
}

/** The state of a remote user's microphone and camera, as reported by that user's page. */
export interface RemoteStatus {
  user: string;
  muted: boolean;
  camera: boolean;
}

export interface MediaEvents {
  /**
   * The own audio and video, for a muted `video` element. Emitted again when the camera goes on or off, and when a
   * device is lost.
   */
  local: MediaStream;
  /** A remote user's audio and video. The same stream is emitted again for each new track. */
  remote: { user: string; stream: MediaStream };
  /** The state of the connection to a remote user. */
  peer: { user: string; state: PeerState };
  status: RemoteStatus;
  /** The remote user has left the call, and its stream is over. */
  left: string;
  /** The own microphone or camera is missing or was lost; the call goes on without that device. */
  error: MediaError;
}

/** The bound on remote users. With this device's user a mesh has at most four users. */
const longestMesh = 3;
/**
 * The shortest time between two page changes of a remote user, in milliseconds. Signals of another page in this time
 * are dropped; the remote page sends these signals again.
 */
const replacementPause = 1_000;
/** The bound on remembered past pages of a remote user. Late signals of such a page begin no connection. */
const rememberedEpochs = 8;

/**
 * Voice and video between the accepted members of a call. The object has an RTCPeerConnection to each remote user,
 * negotiated through the call's signals. The connections begin with `start()` and end with the call; then all tracks
 * are stopped.
 */
export class CallMedia {
  private readonly events = new Emitter<MediaEvents>(["local", "remote", "peer", "status", "left", "error"]);
  private readonly peers = new Map<string, Peer>();
  private readonly pastEpochs = new Map<string, string[]>();
  /** The time of each remote user's last page change. */
  private readonly replaced = new Map<string, number>();
  private readonly milestones: Milestones;
  /**
   * The random name of this page's connections. A reloaded page has another name and drops signals to the former page.
   */
  private readonly epoch: string;
  private stream: MediaStream | undefined;
  private isMuted = false;
  private hasLostMicrophone = false;
  private wantsMicrophone = true;
  private wantsCamera: boolean;
  private isStarted = false;
  private isStopped = false;
  private readonly unlisten: (() => void)[] = [];
  /** A queue for device changes, because a camera needs time to start. */
  private turn: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly client: Pick<BellwireClient, "user" | "iceServers" | "on">,
    readonly call: Call,
    private readonly options: MediaOptions = {},
  ) {
    this.wantsCamera = options.camera ?? call.media === "video";
    this.milestones = new Milestones(call);
    this.epoch = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  /** The own audio and video; undefined before `start()`. */
  get local(): MediaStream | undefined { return this.stream; }
  get muted(): boolean { return this.isMuted; }
  /** Whether the camera is on. */
  get camera(): boolean { return this.stream?.getVideoTracks().some((track) => track.readyState === "live") ?? false; }
  /** The streams of the remote users. */
  get remotes(): ReadonlyMap<string, MediaStream> {
    return new Map([...this.peers].map(([user, peer]) => [user, peer.stream]));
  }

  on<Name extends keyof MediaEvents>(name: Name, handler: (value: MediaEvents[Name]) => void): () => void {
    return this.events.on(name, handler);
  }

  /**
   * Opens microphone and camera, and connects to all members that have accepted, now or later. Throws a MediaError when
   * the browser has no WebRTC (`unsupported`), or outside a secure context (`insecureContext`). When a camera or
   * microphone is missing or not permitted, `error` is emitted, and the call goes on without that device.
   */
  async start(): Promise<void> {
    if (this.isStarted) return;
    this.isStarted = true;
    if (typeof RTCPeerConnection === "undefined") throw new MediaError("unsupported", "this browser has no WebRTC");
    if (globalThis.isSecureContext === false) {
      throw new MediaError("insecureContext", "microphone and camera need a page from https:// or from this computer");
    }
    this.unlisten.push(
      this.call.on("ended", () => this.stop()),
      this.call.on("change", ({ userID, state }) => {
        // A single event may stand for both changes.
        const isReceived = userID !== this.client.user && (state === "received" || state === "accepted");
        if (isReceived) this.milestones.reached("remoteReceived");
        if (state === "accepted") this.milestones.reached("accepted");
        this.followMembers();
      }),
    );
    if (this.call.isIncoming && this.call.isHere) this.milestones.reached("accepted");
    const stream = this.options.stream ?? (await this.capture());
    if (this.isStopped) return stopTracks(stream);
    this.stream = stream;
    for (const track of stream.getTracks()) this.watch(track);
    this.applyMute();
    this.milestones.reached("joinedChannel");
    if (stream.getVideoTracks().length > 0) this.milestones.reached("firstFrameCaptured");
    this.events.emit("local", stream);
    this.unlisten.push(
      this.call.on("signal", ({ from, data }) => this.signalled(from, data)),
      // Signals may have been lost while this device was offline.
      this.client.on("state", (state) => {
        if (state === "online") for (const peer of this.peers.values()) peer.recover();
      }),
      this.listenToTheNetwork(),
    );
    this.followMembers();
  }

  /** Ends all connections and stops all tracks. The end of the call does the same. */
  stop(): void {
    if (this.isStopped) return;
    this.isStopped = true;
    for (const unlisten of this.unlisten.splice(0)) unlisten();
    for (const user of [...this.peers.keys()]) this.drop(user);
    if (this.stream) stopTracks(this.stream);
    this.milestones.stop();
  }

  // Microphone and camera

  /**
   * Mutes or unmutes. Unmuting after the loss of the microphone asks for a microphone again; until then the page stays
   * muted.
   */
  mute(muted: boolean): void {
    this.wantsMicrophone = !muted;
    if (!muted && this.hasLostMicrophone) {
      this.turn = this.turn.then(() => this.replaceMicrophone());
      return;
    }
    this.isMuted = muted;
    this.applyMute();
    this.tellStatus();
  }

  private async replaceMicrophone(): Promise<void> {
    const { stream } = this;
    // An audio track of the app is not replaced by a microphone, because the app has not asked for a microphone.
    if (!stream || this.options.stream || this.isStopped || !this.hasLostMicrophone) return;
    let track: MediaStreamTrack | undefined;
    try {
      [track] = (await userMedia({ audio: true })).getAudioTracks();
    } catch (error) {
      this.events.emit("error", mediaErrorOf(error, "noMicrophone"));
    }
    if (!track || this.isStopped) return track?.stop();
    this.hasLostMicrophone = false;
    // The user may have muted again while the browser asked for permission.
    this.isMuted = !this.wantsMicrophone;
    this.watch(track);
    stream.addTrack(track);
    this.applyMute();
    for (const peer of this.peers.values()) peer.show("audio", track, stream);
    this.events.emit("local", stream);
    this.tellStatus();
  }

  /** Watches for the loss of a track. A track emits no `ended` when the page itself stops the track. */
  private watch(track: MediaStreamTrack): void {
    track.addEventListener("ended", () => this.lost(track));
    // The track may have ended while the page waited for another track.
    if (track.readyState === "ended") queueMicrotask(() => this.lost(track));
  }

  private lost(track: MediaStreamTrack): void {
    const { stream } = this;
    if (!stream || this.isStopped || !stream.getTracks().includes(track)) return;
    stream.removeTrack(track);
    if (track.kind === "video") {
      this.wantsCamera = false;
      for (const peer of this.peers.values()) peer.show("video", null, stream);
    } else {
      this.hasLostMicrophone = this.isMuted = true;
      for (const peer of this.peers.values()) peer.show("audio", null, stream);
    }
    this.events.emit("local", stream);
    this.tellStatus();
    this.events.emit("error", track.kind === "video"
      ? new MediaError("cameraLost", "the camera is gone, or not permitted any more")
      : new MediaError("microphoneLost", "the microphone is gone, or not permitted any more"));
  }

  /**
   * Turns the camera on or off; a camera that is off is released. Throws a MediaError when the camera is missing or not
   * permitted.
   */
  setCamera(on: boolean): Promise<void> {
    const done = this.turn.then(() => this.switchCamera(on));
    this.turn = done.catch(() => undefined);
    return done;
  }

  private async switchCamera(on: boolean): Promise<void> {
    const { stream } = this;
    if (!stream || this.isStopped || on === this.camera) return;
    let track: MediaStreamTrack | null = null;
    if (on) {
      try {
        [track = null] = (await userMedia({ video: true })).getVideoTracks();
      } catch (error) {
        throw mediaErrorOf(error, "noCamera");
      }
      if (this.isStopped) return track?.stop();
    }
    for (const former of stream.getVideoTracks()) {
      former.stop();
      stream.removeTrack(former);
    }
    if (track) {
      stream.addTrack(track);
      this.watch(track);
    }
    this.wantsCamera = on;
    for (const peer of this.peers.values()) peer.show("video", track, stream);
    this.events.emit("local", stream);
    this.tellStatus();
  }

  private async capture(): Promise<MediaStream> {
    const stream = new MediaStream();
    // A single request for both devices lets the browser ask the user only once. When a device is missing, the page
    // asks for each device separately.
    const wishes: MediaStreamConstraints[] = this.wantsCamera
      ? [{ audio: true, video: true }, { audio: true }, { video: true }]
      : [{ audio: true }];
    for (const wish of wishes) {
      if (wish.audio && stream.getAudioTracks().length > 0) continue;
      try {
        for (const track of (await userMedia(wish)).getTracks()) stream.addTrack(track);
        if (wish.audio && wish.video) break;
      } catch (error) {
        if (wish.audio && wish.video) continue;
        this.events.emit("error", mediaErrorOf(error, wish.audio ? "noMicrophone" : "noCamera"));
      }
    }
    return stream;
  }

  private applyMute(): void {
    for (const track of this.stream?.getAudioTracks() ?? []) track.enabled = !this.isMuted;
  }

  private tellStatus(): void {
    for (const peer of this.peers.values()) peer.send({ status: this.status });
  }

  private get status(): { muted: boolean; camera: boolean } {
    return { muted: this.isMuted, camera: this.camera };
  }

  // Peers

  private followMembers(): void {
    if (this.isStopped) return;
    const others = this.call.others;
    for (const user of [...this.peers.keys()]) {
      if (!others.includes(user)) {
        this.drop(user);
        this.events.emit("left", user);
      }
    }
    for (const user of others) this.peer(user);
  }

  /** Returns the peer of that user, made if there is room. */
  private peer(user: string, remoteEpoch?: string): Peer | undefined {
    const known = this.peers.get(user);
    if (known) return known;
    if (this.isStopped || this.peers.size >= longestMesh || !this.stream) return undefined;
    const peer: Peer = new Peer({
      // Both sides compute the same polite side. The offer of the polite side gives way.
      isPolite: this.client.user > user,
      configuration: () => this.configuration,
      local: this.stream,
      wantsVideo: this.call.media === "video" || this.wantsCamera,
      status: () => this.status,
      send: (content) => {
        // For the first signal, `peers` does not know the remote page yet, so the argument `remoteEpoch` names the
        // page.
        const to = this.peers.get(user)?.remoteEpoch ?? remoteEpoch;
        return this.call.signal({ bellwire: 1, epoch: this.epoch, ...(to ? { to } : {}), ...content }, { to: [user] });
      },
      stateChanged: (state) => {
        if (state === "connected") this.connected(peer);
        this.events.emit("peer", { user, state });
      },
      streamChanged: (stream) => this.events.emit("remote", { user, stream }),
    });
    peer.remoteEpoch = remoteEpoch;
    this.peers.set(user, peer);
    return peer;
  }

  /** The configuration with the credentials of the last welcome. */
  private get configuration(): RTCConfiguration {
    const { iceTransportPolicy, iceServers = this.client.iceServers } = this.options;
    return iceTransportPolicy ? { iceServers, iceTransportPolicy } : { iceServers };
  }

  private connected(peer: Peer): void {
    this.milestones.reached("remoteJoinedChannel");
    this.milestones.watch(peer.connection);
  }

  private drop(user: string): void {
    const peer = this.peers.get(user);
    if (!peer) return;
    this.peers.delete(user);
    if (peer.remoteEpoch !== undefined) {
      const past = this.pastEpochs.get(user) ?? [];
      this.pastEpochs.set(user, [...past, peer.remoteEpoch].slice(-rememberedEpochs));
    }
    peer.close();
  }

  /** Handles a signal of a member. Signals of other kinds are for the app. */
  private signalled(user: string, data: unknown): void {
    const envelope = readEnvelope(data);
    const isMember = this.call.members.some((member) => member.userID === user) && user !== this.client.user;
    if (!envelope || !isMember || this.isStopped) return;
    if (envelope.to !== undefined && envelope.to !== this.epoch) return;
    if (this.pastEpochs.get(user)?.includes(envelope.epoch)) return;
    let peer = this.peers.get(user);
    if (peer?.remoteEpoch !== undefined && peer.remoteEpoch !== envelope.epoch) {
      // The remote page was reloaded, or the user continues on another device. A page that keeps sending new names is
      // ignored.
      const now = performance.now();
      if (now - (this.replaced.get(user) ?? -Infinity) < replacementPause) return;
      this.replaced.set(user, now);
      this.drop(user);
      peer = undefined;
    }
    peer ??= this.peer(user, envelope.epoch);
    if (!peer) return;
    peer.remoteEpoch = envelope.epoch;
    this.handle(user, peer, envelope);
  }

  private handle(user: string, peer: Peer, { description, candidates, status, asks }: Envelope): void {
    if (status) {
      this.events.emit("status", { user, ...status });
      peer.greeted();
    }
    if (asks) peer.asked();
    if (description) peer.described(description);
    if (candidates) peer.addCandidates(candidates);
  }

  private listenToTheNetwork(): () => void {
    const restart = (isAnother: boolean) => {
      for (const peer of this.peers.values()) if (isAnother || peer.isBroken) peer.restart();
    };
    // Some browsers report the type of the network. These browsers also report each new estimate of the bandwidth as a
    // change, and such a change needs no restart.
    const network = (navigator as { connection?: EventTarget & { type?: unknown } }).connection;
    let type = network?.type;
    const changed = () => {
      const isAnother = network?.type !== type;
      type = network?.type;
      restart(isAnother);
    };
    const back = () => restart(true);
    globalThis.addEventListener?.("online", back);
    network?.addEventListener?.("change", changed);
    return () => {
      globalThis.removeEventListener?.("online", back);
      network?.removeEventListener?.("change", changed);
    };
  }
}

function userMedia(constraints: MediaStreamConstraints): Promise<MediaStream> {
  // `mediaDevices` is absent outside a secure context.
  const devices = navigator.mediaDevices as MediaDevices | undefined;
  if (!devices) throw new MediaError("insecureContext", "this page cannot ask for microphone and camera");
  return devices.getUserMedia(constraints);
}

function stopTracks(stream: MediaStream): void {
  for (const track of stream.getTracks()) track.stop();
}
