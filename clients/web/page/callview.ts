import type { BellwireClient, Call } from "../src/index.js";
import { BellwireError } from "../src/index.js";
import { CallMedia } from "../src/media.js";
import { byID, make, nameOf, setText } from "./dom.js";
import { remember, remembered } from "./memory.js";
import type { Notices } from "./notices.js";
import { Tiles } from "./tiles.js";
import type { Tones } from "./tones.js";
import { callText, callingText, isLive, isVideo, mediaText, memberText, othersOf } from "./words.js";

/** The bound on people in a call. In a mesh each page sends its media to every other page. */
export const longestCall = 4;

export interface CallViewHost {
  readonly client: BellwireClient;
  readonly notices: Notices;
  readonly tones: Tones;
  /** Returns the text for a failed request. */
  problem(error: unknown): string;
  /** Called after a change of the status text. */
  changed(): void;
}

/** The call that this page makes or takes part in, from the click to the end. A page has at most a single call view. */
export class CallView {
  private readonly element = byID("call");
  private readonly tiles: Tiles;
  private readonly listeners = new AbortController();
  private readonly unlisten: (() => void)[] = [];
  private call: Call | undefined;
  private media: CallMedia | undefined;
  private isClosed = false;
  /** Whether the start of the media has finished, with or without success. */
  private hasMedia = false;

  /** `callees`: the users of a call that is not made yet. */
  constructor(
    private readonly host: CallViewHost,
    private readonly callees: readonly string[],
    private readonly actions: { cancel(): void; hangUp(): void },
  ) {
    this.tiles = new Tiles((play) =>
      host.notices.show("sound", "The browser plays no sound before you click or tap on the page.", { text: "Play the sound", act: play }));
    this.listen();
    this.element.hidden = false;
    this.refresh();
    this.element.focus({ preventScroll: true });
  }

  get current(): Call | undefined { return this.call; }

  /** The status text. */
  get text(): string | undefined {
    return this.call ? callText(this.call.snapshot, this.host.client.user) : callingText(this.callees);
  }

  private listen(): void {
    const { signal } = this.listeners;
    const on = (id: string, name: string, act: (event: Event) => void) => byID(id).addEventListener(name, act, { signal });
    on("cancel", "click", () => this.actions.cancel());
    on("hang-up", "click", () => this.actions.hangUp());
    on("mute", "click", () => this.mute());
    on("camera", "click", () => void this.switchCamera());
    on("add-someone", "click", () => this.openAdding(byID("add-form").hidden));
    on("add-form", "submit", (event) => {
      event.preventDefault();
      void this.add();
    });
    on("add-form", "keydown", (event) => {
      if ((event as KeyboardEvent).key === "Escape") this.openAdding(false);
    });
  }

  /** Leaves the call like the visible button: cancels the invitation or hangs up. */
  leave(): void {
    if (this.isTakenBack) this.actions.cancel();
    else this.actions.hangUp();
  }

  private get isOwn(): boolean { return !this.call || this.call.inviter === this.host.client.user; }
  private get isTakenBack(): boolean { return this.call?.state !== "active" && this.isOwn; }

  /** Follows the call from now on. */
  follow(call: Call): void {
    this.call = call;
    this.unlisten.push(call.on("change", () => this.refresh()));
    this.refresh();
  }

  /** Opens microphone and camera, and connects to the other members. */
  async begin(): Promise<void> {
    const { call, host } = this;
    if (!call || call.endReason !== undefined || this.isClosed) return;
    const before = remembered().media;
    // A reloaded page restores the settings of the former page.
    const settings = before?.call === call.id ? before : { muted: false, camera: isVideo(call) };
    const media = new CallMedia(host.client, call, { camera: settings.camera });
    this.media = media;
    media.mute(settings.muted);
    media.on("local", (stream) => {
      this.tiles.you.show(stream);
      if (this.hasMedia) {
        // A device was switched, added or lost.
        this.tiles.you.told({ muted: media.muted, camera: media.camera });
        this.keepSettings();
        this.clearRecovered(media);
      }
      this.hasMedia = true;
      this.refresh();
    });
    media.on("remote", ({ user, stream }) => this.tiles.of(user).show(stream));
    media.on("peer", ({ user, state }) => {
      this.tiles.of(user).connected(state);
      if (state === "failed") {
        host.notices.show("media", `No connection for sound and video between you and ${user}: the service may need a TURN server. This page keeps trying.`);
      } else if (state === "connected") {
        host.notices.clear("media");
      }
    });
    media.on("status", ({ user, muted, camera }) => this.tiles.of(user).told({ muted, camera }));
    media.on("error", (error) => host.notices.show(`media-${error.code}`, mediaText(error)));
    try {
      await media.start();
      this.keepSettings();
    } catch (error) {
      host.notices.show("media", mediaText(error));
    }
    this.refresh();
  }

  private clearRecovered({ muted, camera }: CallMedia): void {
    if (!muted) this.host.notices.clear("media-microphoneLost", "media-noMicrophone");
    if (camera) this.host.notices.clear("media-cameraLost");
  }

  private keepSettings(): void {
    if (!this.call || !this.media || this.isClosed) return;
    remember({ media: { call: this.call.id, muted: this.media.muted, camera: this.media.camera } });
  }

  // Controls

  private mute(): void {
    this.media?.mute(!this.media.muted);
    this.tiles.you.told({ muted: this.media?.muted ?? false, camera: this.media?.camera ?? false });
    this.keepSettings();
    this.refresh();
  }

  private async switchCamera(): Promise<void> {
    const { media } = this;
    if (!media) return;
    try {
      await media.setCamera(!media.camera);
      this.host.notices.clear("media-noCamera", "media-permissionDenied", "media-deviceBusy");
    } catch (error) {
      this.host.notices.show("media-noCamera", mediaText(error));
    }
    this.tiles.you.told({ muted: media.muted, camera: media.camera });
    this.keepSettings();
    this.refresh();
  }

  private openAdding(isOpen: boolean): void {
    byID("add-form").hidden = !isOpen;
    byID("add-someone").setAttribute("aria-expanded", String(isOpen));
    (isOpen ? byID("add") : byID("add-someone")).focus();
  }

  private async add(): Promise<void> {
    const { call, host } = this;
    const field = byID<HTMLInputElement>("add");
    const users = namesIn(field.value);
    if (!call || users.length === 0) return field.focus();
    const live = call.members.filter(isLive).length;
    if (live + users.length > longestCall) {
      return host.notices.show("add", `Up to ${longestCall} people can be in a call.`);
    }
    host.notices.clear("add");
    try {
      const { errors } = await call.add(users);
      if (this.isClosed) return;
      field.value = "";
      this.openAdding(false);
      const failed = errors.map(({ userID }) => userID).join(", ");
      if (failed !== "") host.notices.show("add", `${failed} could not be called: check the name.`);
    } catch (error) {
      if (error instanceof BellwireError && error.code === "noInvitees") {
        host.notices.show("add", `${users.join(", ")} could not be called: check the name, or whether this person is already in the call.`);
      } else if (!this.isClosed) {
        host.notices.show("add", host.problem(error));
      }
    }
    this.refresh();
  }

  // Display

  refresh(): void {
    if (this.isClosed) return;
    const { call, media, host, isOwn } = this;
    const isActive = call !== undefined && call.state === "active";
    for (const id of ["mute", "camera", "add-someone", "hang-up"]) byID(id).hidden = !isActive;
    byID("cancel").hidden = !this.isTakenBack;
    if (!isActive) byID("add-form").hidden = true;
    byID("mute").setAttribute("aria-pressed", String(media?.muted ?? false));
    byID("camera").setAttribute("aria-pressed", String(media?.camera ?? false));
    for (const id of ["mute", "camera"]) byID<HTMLButtonElement>(id).disabled = !this.hasMedia;
    setText(byID("call-title"), isActive ? "In a call" : isOwn ? "Calling" : "Answering");
    this.tiles.keep(call?.isHere ? call.others : []);
    this.listOthers();
    const rings = isOwn && call?.state === "ringing" && call.members.some(({ state }) => state === "received");
    host.tones.ringback(rings);
    host.changed();
  }

  /** Lists the members that are not in the call: ringing, gone or declined. */
  private listOthers(): void {
    const { call } = this;
    const members = call ? othersOf(call.snapshot, this.host.client.user) : [];
    const absent = members.filter(({ state }) => state !== "accepted");
    const list = byID("others");
    // A single absent user already stands in the status.
    list.hidden = absent.length === 0 || members.length < 2;
    const lines = absent.map((member) => `${member.userID}\n${memberText(member)}`);
    if (list.dataset.lines === lines.join("\n")) return;
    list.dataset.lines = lines.join("\n");
    list.replaceChildren(...absent.map((member) =>
      make("li", {}, nameOf(member.userID), document.createTextNode(` ${memberText(member)}`))));
  }

  /** Closes the view. All tracks stop at once, even before the service has confirmed the end. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.media?.stop();
    for (const unlisten of this.unlisten) unlisten();
    this.listeners.abort();
    this.tiles.close();
    this.host.tones.ringback(false);
    this.host.notices.clear("media", "sound", "add", "media-noCamera", "media-noMicrophone", "media-permissionDenied", "media-deviceBusy", "media-cameraLost", "media-microphoneLost");
    byID("others").replaceChildren();
    delete byID("others").dataset.lines;
    byID<HTMLInputElement>("add").value = "";
    byID("add-form").hidden = true;
    byID("add-someone").setAttribute("aria-expanded", "false");
    this.element.hidden = true;
  }
}

/** Splits a list of names at commas and removes duplicates. */
export function namesIn(text: string): string[] {
  return [...new Set(text.split(",").map((name) => name.trim()).filter((name) => name !== ""))];
}
