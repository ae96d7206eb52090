import type { BellwireClient, CallObject } from "../src/index.js";
import { byID, make, nameOf } from "./dom.js";
import { whyOf } from "./why.js";
import { callerOf, kindOf, othersOf } from "./words.js";

const pageLength = 20;

/** The list of the user's calls, newest first. */
export class History {
  private readonly element = byID("history");
  private readonly list = byID("history-list");
  private readonly opener = byID("history-button");
  private readonly more = byID<HTMLButtonElement>("history-more");
  private cursor: string | undefined;
  /** The number of times that the list was opened. Answers to requests of an earlier opening are dropped. */
  private generation = 0;

  constructor(
    private readonly client: BellwireClient,
    private readonly problem: (error: unknown) => string,
    private readonly failed: (error: unknown) => void,
    signal: AbortSignal,
  ) {
    this.opener.addEventListener("click", () => this.open(this.element.hidden), { signal });
    this.more.addEventListener("click", () => void this.load(this.cursor), { signal });
    this.open(false);
  }

  /** Reloads an open list after a call. */
  refresh(): void {
    if (!this.element.hidden) this.open(true);
  }

  /** Opens the list, or reloads an open list. */
  reveal(): void { this.open(true); }

  private open(isOpen: boolean): void {
    this.element.hidden = !isOpen;
    this.opener.setAttribute("aria-expanded", String(isOpen));
    this.generation += 1;
    if (isOpen) void this.load(undefined);
  }

  private async load(cursor: string | undefined): Promise<void> {
    const { generation } = this;
    // A second click would load the same calls twice.
    this.more.disabled = true;
    try {
      const page = await this.client.history({ count: pageLength, ...(cursor === undefined ? {} : { cursor }) });
      if (generation !== this.generation) return;
      if (cursor === undefined) this.list.replaceChildren();
      for (const call of page.calls) this.list.append(this.line(call));
      this.cursor = page.cursor;
      this.more.hidden = page.cursor === undefined;
      byID("history-empty").hidden = this.list.childElementCount > 0;
    } catch (error) {
      if (generation === this.generation) this.failed(error);
    } finally {
      if (generation === this.generation) this.more.disabled = false;
    }
  }

  private line(call: CallObject): HTMLElement {
    const when = make("time", { text: times.format(call.createdAt) });
    when.dateTime = new Date(call.createdAt).toISOString();
    const result = make("span", { class: "result", text: resultOf(call, this.client.user) });
    const about = make("div", { class: "about" }, ...headOf(call, this.client.user), when, result);
    return make("li", {}, about, ...whyOf(this.client, call.callID, about, this.problem));
  }
}

const times = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** Returns the other people and the kind of a call, for a heading. */
export function headOf(call: CallObject, user: string): Node[] {
  const isOwn = call.inviter === user;
  const people = isOwn ? othersOf(call, user).map(({ userID }) => userID) : [callerOf(call, user)];
  const names = make("span", { class: "names" });
  people.slice(0, 9).forEach((name, index) => {
    if (index > 0) names.append(", ");
    names.append(nameOf(name));
  });
  return [make("span", { class: "direction", text: isOwn ? "to " : "from " }), names, make("span", { class: "kind", text: kindOf(call) })];
}

function resultOf(call: CallObject, user: string): string {
  if (call.state !== "ended") return "going on";
  const own = call.members.find(({ userID }) => userID === user);
  if (call.acceptedAt !== undefined && (call.inviter === user || own?.state === "accepted" || own?.state === "quit")) {
    const length = Math.max(0, Math.round(((call.endedAt ?? call.acceptedAt) - call.acceptedAt) / 1000));
    return `${Math.floor(length / 60)}:${String(length % 60).padStart(2, "0")} min`;
  }
  if (call.inviter === user) {
    switch (call.endReason) {
      case "rejected": return "declined";
      case "busy": return "busy";
      case "timeout": return "no answer";
      default: return "cancelled";
    }
  }
  return own?.state === "rejected" ? "declined" : "missed";
}
