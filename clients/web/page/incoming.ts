import type { Call } from "../src/index.js";
import { byID, setText, shorten } from "./dom.js";
import type { Tones } from "./tones.js";
import { callerOf, kindOf, othersOf } from "./words.js";

/** The pause between two dialogs, in milliseconds. A late click on the first dialog must not answer the next call. */
const pause = 500;

/** The incoming calls. The page shows a single dialog at a time; further calls wait. */
export class IncomingCalls {
  private readonly dialog = byID<HTMLDialogElement>("incoming");
  private readonly waiting: Call[] = [];
  private readonly ringing = new Set<string>();
  /** The call in the dialog. An answered call may still ring until the service has confirmed the answer. */
  private shown: Call | undefined;
  /** The timer of the pause between two dialogs. */
  private gap: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly host: {
      readonly user: string;
      readonly tones: Tones;
      /** Returns whether the user calls or is in a call. */
      readonly isTalking: () => boolean;
      accept(call: Call): void;
      decline(call: Call): void;
      /** Called when the call is over before this page answered. */
      over(call: Call, reason: string): void;
      changed(): void;
    },
    signal: AbortSignal,
  ) {
    byID("accept").addEventListener("click", () => this.respond((call) => host.accept(call)), { signal });
    byID("decline").addEventListener("click", () => this.respond((call) => this.decline(call)), { signal });
    // Escape must not answer the call.
    this.dialog.addEventListener("cancel", (event) => event.preventDefault(), { signal });
    this.dialog.addEventListener("keydown", (event) => {
      if (event.key === "Escape") event.preventDefault();
    }, { signal });
  }

  /** The user that calls now. */
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

  /** Accepts a call for which the user has pressed Accept in a notification. */
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

  /** Declines the call and all waiting calls of the same user, so that a hundred calls need only a single click. */
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
      // During a call the user must still be able to hang up and mute. The dialog is therefore not modal and does not
      // take the focus; a screen reader announces the dialog instead.
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
    // Users choose their profile names freely, so the profile name stands beside the user id, not in place of the id.
    if (name !== undefined && name !== caller) details.push(`by “${shorten(name, 60)}”`);
    if (others.length > 0) details.push(`with ${others.slice(0, 9).map(({ userID }) => userID).join(", ")}`);
    setText(byID("incoming-title"), `Incoming call from ${caller}`);
    setText(byID("incoming-detail"), details.join(" "));
  }
}
