import { candidatesPerSignal, longestDescription } from "./signals.js";

export type PeerState = "connecting" | "connected" | "disconnected" | "failed";

/** The bound on candidates per ICE generation, received from and sent to a remote user. */
const longestCandidates = 200;
/** The time for collecting candidates into a single signal, in milliseconds. */
const collecting = 50;
/** The time without a connection before an ICE restart, in milliseconds. */
const patience = 2_000;
/** The waits between two ICE restarts, in milliseconds. The wait doubles from the first to the longest. */
const firstRestart = 5_000;
const longestRestart = 30_000;
/**
 * The wait before an unanswered offer is sent again, in milliseconds, and the number of offers. Signals can get lost.
 */
const answerLimit = 3_000;
const longestOffers = 10;
/** The bound on a remote user's signals that wait for the processing of earlier signals. */
const longestTurns = 64;
/** The bound on new offers after invalid descriptions. */
const longestRepairs = 5;
/**
 * The time for collecting requests for the own status, in milliseconds. Frequent requests therefore get fewer answers.
 */
const statusPause = 250;

export interface PeerSettings {
  /** Whether this side's offer gives way when both sides offer at the same time. */
  isPolite: boolean;
  configuration(): RTCConfiguration;
  /** The stream that is sent. */
  local: MediaStream;
  /** Whether to receive video, even when no video is sent. */
  wantsVideo: boolean;
  status(): object;
  send(content: object): boolean;
  stateChanged(state: PeerState): void;
  streamChanged(stream: MediaStream): void;
}

/**
 * The connection to a single remote user, by the perfect-negotiation pattern (WebRTC 1.0, section 10.7): either side
 * may offer at any time, and when two offers meet, the polite side's offer gives way.
 */
export class Peer {
  readonly connection: RTCPeerConnection;
  readonly stream = new MediaStream();
  /** The name of the remote page; undefined before its first signal. */
  remoteEpoch: string | undefined;
  private hasTracks = false;
  private isOffering = false;
  private ignoresOffer = false;
  private isClosed = false;
  private lastState: PeerState = "connecting";
  /** The own candidates that wait to be sent. */
  private outgoing: RTCIceCandidateInit[] = [];
  private sent = 0;
  /** Remote candidates that came before their description. */
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
    // The polite side adds its tracks to the other side's offer. If both sides added tracks at once, the description
    // would have two lines of each kind.
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

  /** Announces this page to the other side. The other side may have known a former page and must then offer anew. */
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

  /** The other side announced its page, perhaps after this side's offers were sent. */
  greeted(): void {
    const { connection } = this;
    if (!connection.remoteDescription && connection.signalingState === "have-local-offer") this.describe();
  }

  /** Sets the track that is sent from now on; null stops sending. */
  show(kind: "audio" | "video", track: MediaStreamTrack | null, stream: MediaStream): void {
    const transceiver = this.connection.getTransceivers().find(({ receiver }) => receiver.track.kind === kind);
    if (!transceiver) {
      if (track && this.hasTracks) this.connection.addTrack(track, stream);
      return;
    }
    // The answer to an offer without an own track only receives, so the direction must change.
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
      // Another description changed the state meanwhile; the next negotiation follows from that description.
    } finally {
      this.isOffering = false;
    }
  }

  /** Sends the own description; an offer is repeated until its answer. */
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

  /** Handles the remote user's description. */
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
        // The description is invalid. The failed call may have rolled back the own offer, so the own offer is made
        // again.
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
      // The candidate is invalid, or belongs to an ignored offer. Other candidates can still work.
    }
  }

  /** Runs `act` after all earlier actions; drops `act` when too many actions wait. */
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

  /** Restarts ICE unless the connection comes back, and again with growing waits until the connection is back. */
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

  /** Whether the connection was lost or could not be made. */
  get isBroken(): boolean {
    return ["disconnected", "failed"].includes(this.connection.connectionState);
  }

  /** Restarts ICE now, because the network has changed; at most once a second. */
  restart(): void {
    const now = performance.now();
    if (this.isClosed || now - this.lastRestart < 1_000) return;
    this.lastRestart = now;
    this.sent = 0;
    try {
      this.connection.setConfiguration(this.settings.configuration());
    } catch {
      // The servers are invalid; the former servers stay in use.
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

  /**
   * This device was offline, so signals of both sides may be lost. Both sides may also have switched microphone or
   * camera.
   */
  recover(): void {
    this.send({ status: this.settings.status(), asks: true });
    if (!this.connection.remoteDescription) this.greet();
    if (this.connection.signalingState === "have-local-offer") this.describe();
    else if (this.connection.connectionState !== "connected") this.restart();
  }
}
