import type { PeerState } from "../src/media.js";
import { byID, make, nameOf, setText } from "./dom.js";

const stateTexts: Record<PeerState, string> = {
  connecting: "connecting", connected: "", disconnected: "connection lost, trying again", failed: "no connection",
};

/** A person in the call: video, name, and problems of the connection. */
class Tile {
  readonly element: HTMLElement;
  private readonly video = make("video");
  private readonly note = make("span", { class: "note" });
  private readonly watched = new Set<MediaStreamTrack>();
  private connection: PeerState | undefined;
  private isMuted = false;
  private hasCamera: boolean | undefined;

  constructor(label: string, isOwn: boolean, private readonly blocked: (play: () => void) => void) {
    this.video.setAttribute("aria-label", label);
    this.video.autoplay = true;
    this.video.playsInline = true;
    // Users must not hear their own sound.
    this.video.muted = isOwn;
    const initial = make("span", { class: "initial", text: [...label][0]?.toLocaleUpperCase() ?? "" });
    initial.setAttribute("aria-hidden", "true");
    const caption = make("figcaption", {}, nameOf(label), this.note);
    this.element = make("figure", { class: isOwn ? "tile own" : "tile" }, this.video, initial, caption);
    this.refresh();
  }

  show(stream: MediaStream): void {
    if (this.video.srcObject !== stream) this.video.srcObject = stream;
    for (const track of stream.getVideoTracks()) {
      if (this.watched.has(track)) continue;
      this.watched.add(track);
      for (const name of ["mute", "unmute", "ended"]) track.addEventListener(name, () => this.refresh());
    }
    this.play();
    this.refresh();
  }

  private play(): void {
    this.video.play().catch((error: unknown) => {
      // Browsers allow sound only after the user has touched the page.
      if ((error as { name?: unknown }).name === "NotAllowedError") this.blocked(() => this.play());
    });
  }

  connected(state: PeerState): void {
    this.connection = state;
    this.refresh();
  }

  told(status: { muted: boolean; camera: boolean }): void {
    this.isMuted = status.muted;
    this.hasCamera = status.camera;
    this.refresh();
  }

  private refresh(): void {
    const { srcObject } = this.video;
    const tracks = srcObject instanceof MediaStream ? srcObject.getVideoTracks() : [];
    const isSeen = tracks.some(({ readyState, muted }) => readyState === "live" && !muted) && this.hasCamera !== false;
    this.element.classList.toggle("unseen-face", !isSeen);
    const state = this.connection === undefined ? "" : stateTexts[this.connection];
    setText(this.note, [state, this.isMuted ? "muted" : ""].filter((text) => text !== "").join(", "));
  }

  close(): void {
    this.video.srcObject = null;
    this.element.remove();
  }
}

/** The videos of all people in the call. */
export class Tiles {
  private readonly region = byID("tiles");
  private readonly own: Tile;
  private readonly remote = new Map<string, Tile>();

  /**
   * `blocked` is called when the browser refuses to play sound before the user has touched the page. The argument
   * `play` starts the sound afterwards.
   */
  constructor(private readonly blocked: (play: () => void) => void) {
    this.own = new Tile("You", true, () => undefined);
    this.region.append(this.own.element);
    this.count();
  }

  get you(): Tile { return this.own; }

  of(user: string): Tile {
    const known = this.remote.get(user);
    if (known) return known;
    const tile = new Tile(user, false, this.blocked);
    this.remote.set(user, tile);
    this.region.insertBefore(tile.element, this.own.element);
    this.count();
    return tile;
  }

  /** Keeps exactly the tiles of these users. */
  keep(users: readonly string[]): void {
    for (const [user, tile] of this.remote) {
      if (users.includes(user)) continue;
      tile.close();
      this.remote.delete(user);
    }
    for (const user of users) this.of(user);
    this.count();
  }

  private count(): void {
    this.region.dataset.count = String(this.remote.size + 1);
  }

  close(): void {
    for (const tile of [this.own, ...this.remote.values()]) tile.close();
    this.remote.clear();
  }
}
