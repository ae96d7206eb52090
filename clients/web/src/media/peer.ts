import { candidatesPerSignal, longestDescription } from "./signals.js";

export type PeerState = "connecting" | "connected" | "disconnected" | "failed";

/** Candidates that are taken from a remote user in one generation of ICE, and sent to it. */
const longestCandidates = 200;
/** Candidates are collected for so long, in milliseconds: one signal for many. */
const collecting = 50;
/** A connection may be gone for so long, in milliseconds, before ICE begins anew. */
const patience = 2_000;
/** Between two restarts of ICE, in milliseconds: doubled from the first to the longest. */
const firstRestart = 5_000;
const longestRestart = 30_000;
/** An offer without an answer is sent again after so long, in milliseconds, so many times: signals are best effort. */
const answerLimit = 3_000;
const longestOffers = 10;
/** Signals of a remote user that wait for the one before to be taken in. */
const longestTurns = 64;
/** Offers that are made anew because what came in between could not be understood. */
const longestRepairs = 5;
/** Questions for the own status are collected for so long, in milliseconds: whoever asks more often gets fewer answers. */
const statusPause = 250;

export interface PeerSettings {
  /** Of two offers at once the own one gives way. */
  isPolite: boolean;
  configuration(): RTCConfiguration;
  /** What is sent. */
  local: MediaStream;
  /** Takes a picture, also when none is sent. */
  wantsVideo: boolean;
  status(): object;
  send(content: object): boolean;
  stateChanged(state: PeerState): void;
  streamChanged(stream: MediaStream): void;
}

/**
 * The connection to one remote user, by the perfect-negotiation pattern (WebRTC 1.0, section 10.7): either side may offer at any
 * time, and of two offers at once the one of the polite side gives way.
 */
export class Peer {
  readonly connection: RTCPeerConnection;
  readonly stream = new MediaStream();
  /** Names the remote page; undefined until something came from it. */
  remoteEpoch: string | undefined;
  private hasTracks = false;
  private isOffering = false;
  private ignoresOffer = false;
  private isClosed = false;
  private lastState: PeerState = "connecting";
  /** Own candidates that wait to be sent. */
  private outgoing: RTCIceCandidateInit[] = [];
  private sent = 0;
  /** Remote candidates that came before the description they belong to. */
  private early: RTCIceCandidateInit[] = [];
  private taken = 0;
  private turns: Promise<void> = Promise.resolve();
  private waiting = 0;
  private repairs = 0;
  private restartPause = firstRestart;
  private lastRestart = -Infinity;
  private collector: ReturnType<typeof setTimeout> | undefined;
  private restarter: ReturnType<typeof setTimeout> | undefined;
  private offers: ReturnType<typeof setTimeout> | undefined;
  private statusAnswer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly settings: PeerSettings) {
    const connection = new RTCPeerConnection(settings.configuration());
    this.connection = connection;
    connection.onnegotiationneeded = () => void this.offer();
    connection.onicecandidate = ({ candidate }) => candidate && this.collect(candidate.toJSON());
    connection.onconnectionstatechange = () => this.follow(connection.connectionState);
    connection.ontrack = ({ track }) => {
      this.stream.addTrack(track);
      settings.streamChanged(this.stream);
    };
    // The other side adds its tracks to what this one offers: both at once would make two lines of each kind.
    if (!settings.isPolite) this.addTracks();
    this.greet();
  }

  private addTracks(): void {
    const { isPolite, local, wantsVideo } = this.settings;
    this.hasTracks = true;
    for (const kind of ["audio", "video"] as const) {
      const track = local.getTracks().find((each) => each.kind === kind);
      if (track) this.connection.addTrack(track, local);
      else if (!isPolite && (kind === "audio" || wantsVideo)) this.connection.addTransceiver(kind);
    }
  }

  /** Tells the other side that this page is there: it may have known a former one, and has to offer anew then. */
  private greet(attempt = 1): void {
    this.send({ status: this.settings.status() });
    clearTimeout(this.offers);
    if (this.isClosed || !this.settings.isPolite || attempt >= longestOffers) return;
    this.offers = setTimeout(() => {
      if (!this.connection.remoteDescription) this.greet(attempt + 1);
    }, answerLimit);
  }

  send(content: object): void {
    if (!this.isClosed) this.settings.send(content);
  }

  /** The other side is there, perhaps later than the offers that were sent. */
  greeted(): void {
    const { connection } = this;
    if (!connection.remoteDescription && connection.signalingState === "have-local-offer") this.describe();
  }

  /** What the camera films, or the microphone hears, from now on; null: nothing. */
  show(kind: "audio" | "video", track: MediaStreamTrack | null, stream: MediaStream): void {
    const transceiver = this.connection.getTransceivers().find(({ receiver }) => receiver.track.kind === kind);
    if (!transceiver) {
      if (track && this.hasTracks) this.connection.addTrack(track, stream);
      return;
    }
    // What answered an offer without a picture of its own only receives.
    if (track && transceiver.direction === "recvonly") transceiver.direction = "sendrecv";
    void transceiver.sender.replaceTrack(track).catch(() => undefined);
  }

  close(): void {
    this.isClosed = true;
    for (const timer of [this.collector, this.restarter, this.offers, this.statusAnswer]) clearTimeout(timer);
    const { connection } = this;
    connection.onnegotiationneeded = connection.onicecandidate = null;
    connection.onconnectionstatechange = connection.ontrack = null;
    connection.close();
    for (const track of this.stream.getTracks()) track.stop();
  }

  // Negotiation

  private async offer(): Promise<void> {
    if (this.isClosed) return;
    try {
      this.isOffering = true;
      await this.connection.setLocalDescription();
      this.describe();
    } catch {
      // The state changed meanwhile: what changed it is negotiated next.
    } finally {
      this.isOffering = false;
    }
  }

  /** Sends the own description, an offer again until there is an answer. */
  private describe(attempt = 1): void {
    const description = this.connection.localDescription;
    if (this.isClosed || !description || description.sdp.length > longestDescription) return;
    this.send({ description: { type: description.type, sdp: description.sdp } });
    clearTimeout(this.offers);
    if (description.type !== "offer" || attempt >= longestOffers) return;
    this.offers = setTimeout(() => {
      if (this.connection.signalingState === "have-local-offer") this.describe(attempt + 1);
    }, answerLimit);
  }

  /** The remote user's description. */
  described(description: RTCSessionDescriptionInit): void {
    this.inTurn(async () => {
      const { connection } = this;
      const isOffer = description.type === "offer";
      const collides = isOffer && (this.isOffering || connection.signalingState !== "stable");
      this.ignoresOffer = !this.settings.isPolite && collides;
      if (this.ignoresOffer || (!isOffer && connection.signalingState !== "have-local-offer")) return;
      try {
        await connection.setRemoteDescription(description);
      } catch {
        // No description, whatever it says it is. What it may have undone is offered again.
        if (connection.signalingState === "stable" && this.repairs++ < longestRepairs) await this.offer();
        return;
      }
      if (isOffer) {
        this.taken = 0;
        if (!this.hasTracks) this.addTracks();
        await connection.setLocalDescription();
        this.describe();
      } else {
        clearTimeout(this.offers);
      }
      const early = this.early;
      this.early = [];
      for (const candidate of early) await this.take(candidate);
    });
  }

  addCandidates(candidates: RTCIceCandidateInit[]): void {
    this.inTurn(async () => {
      for (const candidate of candidates) {
        if (this.taken >= longestCandidates) return;
        this.taken += 1;
        if (this.connection.remoteDescription) await this.take(candidate);
        else this.early.push(candidate);
      }
    });
  }

  private async take(candidate: RTCIceCandidateInit): Promise<void> {
    try {
      await this.connection.addIceCandidate(candidate);
    } catch {
      // One that is none, or belongs to an offer that was ignored: others will do.
    }
  }

  /** One after another; what comes when too much waits is dropped. */
  private inTurn(act: () => Promise<void>): void {
    if (this.isClosed || this.waiting >= longestTurns) return;
    this.waiting += 1;
    this.turns = this.turns
      .then(() => (this.isClosed ? undefined : act()))
      .catch(() => undefined)
      .finally(() => (this.waiting -= 1));
  }

  private collect(candidate: RTCIceCandidateInit): void {
    if (this.sent >= longestCandidates) return;
    this.sent += 1;
    this.outgoing.push(candidate);
    this.collector ??= setTimeout(() => {
      this.collector = undefined;
      while (this.outgoing.length > 0) this.send({ candidates: this.outgoing.splice(0, candidatesPerSignal) });
    }, collecting);
  }

  // Connectivity

  private follow(state: RTCPeerConnectionState): void {
    if (state === "closed") return;
    const now: PeerState = state === "new" ? "connecting" : state;
    if (now === "connected") {
      clearTimeout(this.restarter);
      this.restarter = undefined;
      this.restartPause = firstRestart;
    } else if (now !== "connecting") {
      this.restartLater(now === "failed" ? 0 : patience);
    }
    if (now === this.lastState) return;
    this.lastState = now;
    this.settings.stateChanged(now);
  }

  /** Begins ICE anew unless the connection comes back, and again with pauses until it does. */
  private restartLater(delay: number): void {
    if (this.restarter !== undefined) return;
    this.restarter = setTimeout(() => {
      this.restarter = undefined;
      if (this.isClosed || this.connection.connectionState === "connected") return;
      this.restart();
      this.restartLater(this.restartPause);
      this.restartPause = Math.min(this.restartPause * 2, longestRestart);
    }, delay);
  }

  /** It has been connected, or has tried, and is not. */
  get isBroken(): boolean {
    return ["disconnected", "failed"].includes(this.connection.connectionState);
  }

  /** Begins ICE anew now: the network is another one. Not more than once a second. */
  restart(): void {
    const now = performance.now();
    if (this.isClosed || now - this.lastRestart < 1_000) return;
    this.lastRestart = now;
    this.sent = 0;
    try {
      this.connection.setConfiguration(this.settings.configuration());
    } catch {
      // Servers that are none: those of before will do.
    }
    this.connection.restartIce();
  }

  /** The other side asks for the own status. */
  asked(): void {
    this.statusAnswer ??= setTimeout(() => {
      this.statusAnswer = undefined;
      this.send({ status: this.settings.status() });
    }, statusPause);
  }

  /** This device was away: what it sent then, or was sent, may be lost. Microphone and camera may have been switched on both sides. */
  recover(): void {
    this.send({ status: this.settings.status(), asks: true });
    if (!this.connection.remoteDescription) this.greet();
    if (this.connection.signalingState === "have-local-offer") this.describe();
    else if (this.connection.connectionState !== "connected") this.restart();
  }
}
