import type { Call } from "../src/index.js";
import { byID, setText, shorten } from "./dom.js";
import type { Tones } from "./tones.js";
import { callerOf, kindOf, othersOf } from "./words.js";

/** Between two dialogs, in milliseconds: a click that was meant for the one before must not answer the next. */
const pause = 500;

/** Whoever calls: one dialog at a time, the others wait behind it. */
export class IncomingCalls {
  private readonly dialog = byID<HTMLDialogElement>("incoming");
  private readonly waiting: Call[] = [];
  private readonly ringing = new Set<string>();
  /** A call that was answered here may still ring until the service has said so. */
  private shown: Call | undefined;
  /** Runs while the next one has to wait. */
  private gap: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly host: {
      readonly user: string;
      readonly tones: Tones;
      /** The user calls, or is in a call. */
      readonly isTalking: () => boolean;
      accept(call: Call): void;
      decline(call: Call): void;
      /** It is over before it was answered here. */
      over(call: Call, reason: string): void;
      changed(): void;
    },
    signal: AbortSignal,
  ) {
    byID("accept").addEventListener("click", () => this.respond((call) => host.accept(call)), { signal });
    byID("decline").addEventListener("click", () => this.respond((call) => this.decline(call)), { signal });
    // Escape answers nothing.
    this.dialog.addEventListener("cancel", (event) => event.preventDefault(), { signal });
    this.dialog.addEventListener("keydown", (event) => {
      if (event.key === "Escape") event.preventDefault();
    }, { signal });
  }

  /** Who calls now. */
  get caller(): string | undefined {
    return this.shown && callerOf(this.shown.snapshot, this.host.user);
  }

  add(call: Call): void {
    if (this.waiting.includes(call)) return;
    this.waiting.push(call);
    call.on("ring", (isOn) => this.ring(call, isOn));
    call.on("ended", (reason) => {
      this.ring(call, false);
      if (this.remove(call)) this.host.over(call, reason);
    });
    this.show();
  }

  /** It was accepted in a notification. */
  accept(call: Call): void {
    this.ring(call, false);
    this.remove(call);
    this.host.accept(call);
  }

  clear(): void {
    this.waiting.length = 0;
    this.ringing.clear();
    this.host.tones.ring(false);
    this.show();
  }

  private ring(call: Call, isOn: boolean): void {
    if (isOn && this.waiting.includes(call)) this.ringing.add(call.id);
    else this.ringing.delete(call.id);
    this.host.tones.ring(this.ringing.size > 0);
  }

  private respond(act: (call: Call) => void): void {
    const call = this.shown;
    if (!call) return;
    this.ring(call, false);
    this.remove(call);
    act(call);
  }

  /** And what the same user called besides: a hundred calls need no hundred clicks. */
  private decline(call: Call): void {
    const caller = callerOf(call.snapshot, this.host.user);
    const others = this.waiting.filter(({ snapshot }) => callerOf(snapshot, this.host.user) === caller);
    for (const each of [call, ...others]) {
      this.ring(each, false);
      this.remove(each);
      this.host.decline(each);
    }
  }

  private remove(call: Call): boolean {
    const index = this.waiting.indexOf(call);
    if (index < 0) return false;
    this.waiting.splice(index, 1);
    this.show();
    return true;
  }

  private show(): void {
    const [call] = this.waiting;
    if (call === this.shown || this.gap !== undefined) return;
    if (this.shown) {
      this.shown = undefined;
      this.dialog.close();
      this.gap = setTimeout(() => {
        this.gap = undefined;
        this.show();
      }, pause);
    } else if (call) {
      this.shown = call;
      const title = byID("incoming-title");
      // Who is in a call can hang up and mute, whoever else calls, and goes on with what they do: the focus stays, and what changes is said.
      if (this.host.isTalking()) {
        title.setAttribute("aria-live", "assertive");
        this.dialog.setAttribute("open", "");
        this.describe(call);
      } else {
        title.removeAttribute("aria-live");
        this.describe(call);
        this.dialog.showModal();
        title.focus();
      }
    }
    this.host.changed();
  }

  private describe(call: Call): void {
    const caller = callerOf(call.snapshot, this.host.user);
    const { name } = call.members.find(({ userID }) => userID === caller) ?? {};
    const others = othersOf(call.snapshot, this.host.user).filter(({ userID }) => userID !== caller);
    const details = [kindOf(call)];
    // A profile's name is whatever its owner wrote: beside the name that is known, not in its place.
    if (name !== undefined && name !== caller) details.push(`by “${shorten(name, 60)}”`);
    if (others.length > 0) details.push(`with ${others.slice(0, 9).map(({ userID }) => userID).join(", ")}`);
    setText(byID("incoming-title"), `Incoming call from ${caller}`);
    setText(byID("incoming-detail"), details.join(" "));
  }
}
