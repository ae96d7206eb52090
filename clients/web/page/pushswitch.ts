import type { BellwireClient, Call } from "../src/index.js";
import { CallPush } from "../src/push.js";
import { byID } from "./dom.js";
import { keepToken, remembered } from "./memory.js";
import type { Notices } from "./notices.js";
import { pushText } from "./words.js";

/** The wait in milliseconds after which the page shows a notice about the reason of the wait. */
const longWait = 1_500;
/** The time limit in milliseconds for ending the registration for pushes. Going offline waits for at most this time. */
const longestGoodbye = 1_000;

/** The switch for ringing while the page is closed, and the handling of clicks on notifications. */
export class PushSwitch {
  private readonly push: CallPush;
  private readonly button = byID<HTMLButtonElement>("push");
  private isBusy = false;

  constructor(
    client: BellwireClient, applicationServerKey: string, listeners: AbortSignal,
    private readonly host: {
      readonly notices: Notices;
      problem(error: unknown): string;
      accept(call: Call): void;
      show(callID: string): void;
    },
  ) {
    this.push = new CallPush(client, { applicationServerKey, worker: "worker.js" });
    this.button.addEventListener("click", () => void this.toggle(), { signal: listeners });
    listeners.addEventListener("abort", () => this.push.close());
    this.push.on("change", () => this.show());
    this.push.on("accept", (call) => host.accept(call));
    this.push.on("over", () => host.notices.show("call", "The call that you accepted is over."));
    this.push.on("show", (callID) => host.show(callID));
    this.push.on("error", (error) => this.failed(error));
    byID("push-field").hidden = false;
    this.show();
  }

  /** Removes the notification of a call that the page has answered, or that ended in the page. */
  dismiss(call: Call): void {
    this.push.dismiss(call.id).catch(() => undefined);
  }

  /** Replaces the stored token. */
  keepToken(token: string | undefined): void {
    if (this.push.isEnabled) keepToken(token);
  }

  /** Ends the registration for pushes, because a user who goes offline must not be rung. */
  async goOffline(): Promise<void> {
    if (!this.push.isEnabled) return;
    keepToken(undefined);
    const done = this.push.disable().catch(() => undefined);
    await Promise.race([done, new Promise((resolve) => setTimeout(resolve, longestGoodbye))]);
  }

  private async toggle(): Promise<void> {
    if (this.isBusy) return;
    this.isBusy = true;
    const { notices } = this.host;
    notices.clear("push");
    const wait = setTimeout(() => notices.show("push", "Waiting for the browser and its push service …"), longWait);
    try {
      if (this.push.isEnabled) await this.push.disable();
      else await this.push.enable();
      keepToken(this.push.isEnabled ? remembered().token : undefined);
      notices.clear("push");
    } catch (error) {
      this.failed(error);
    }
    clearTimeout(wait);
    this.isBusy = false;
    this.show();
  }

  private failed(error: unknown): void {
    this.host.notices.show("push", pushText(error) ?? this.host.problem(error));
    this.show();
  }

  private show(): void {
    this.button.setAttribute("aria-pressed", String(this.push.isEnabled));
  }
}
