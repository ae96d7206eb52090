/*
 * What a service worker does with the pushes of a Bellwire deployment (docs/protocol.md, section 7). `worker.ts` is the script that a
 * browser runs; here is what it does, on a browser that the tests may play.
 *
 * Browsers let a page be pushed for what its user sees: Chrome shows a notification of its own after a push that showed none, and Safari
 * takes the subscription away. So each push shows something, and what ends a ringing replaces it, silently, under the same tag. The one
 * exception is a page that is visible and rings: it has been seen, and browsers that look ask for no more.
 */

import { isSeen, plain } from "./text.js";

/** What may be set for the worker, as `self.bellwire`, before its script runs. */
export interface WorkerOptions {
  /** What is opened for who accepts while no page is open; the worker's scope when left out. `?acceptCall=` or `?showCall=` is added. */
  page?: string;
  /**
   * The caller's user id before the text, where the title is another one: title and text are what the caller has written, the id is what
   * nobody can choose freely. For apps whose users know each other by it.
   */
  showsInviter?: boolean;
  texts?: Partial<WorkerTexts>;
}

/** What it says by itself; what the deployment says of a call comes with the push. */
export interface WorkerTexts {
  accept: string;
  decline: string;
  /** Of a call whose caller has neither a name nor an id. */
  call: string;
  missed: string;
  answeredElsewhere: string;
  rejected: string;
  over: string;
  /** Of a push that is about no call. */
  other: string;
}

const standardTexts: WorkerTexts = {
  accept: "Accept",
  decline: "Decline",
  call: "Call",
  missed: "Missed call",
  answeredElsewhere: "Answered on another device",
  rejected: "Declined",
  over: "The call is over",
  other: "Notifications work",
};

/** What the worker says to open pages. */
export interface PageMessage {
  /**
   * `rings`: does this call ring here? `takes`: would this page show the call? Both are answered `true` through the port that comes with
   * them, or not at all. Then `accept` or `show` to one of those that do. `renew`: the subscription has changed.
   */
  bellwire: "rings" | "takes" | "accept" | "show" | "renew";
  callID: string;
}

/** With these a page is opened, and the call's id. */
export const addressFields = { accept: "acceptCall", show: "showCall" } as const;

/** Milliseconds. */
const limits = {
  /** For the ring check: whoever is called waits. */
  check: 3_000,
  /** For an open page: after a click a browser opens a page only for so long. */
  page: 400,
};
/** Between the attempts to decline, in milliseconds. */
const pauses = [500, 1_500, 4_000];
/** Characters: a notification shows less. */
const longest = { title: 200, body: 400, url: 4_096 };

/** Where a page that is opened finds which call its user has accepted: only this origin's own scripts can write there. */
export const acceptedCache = "bellwire-accepted";
export const acceptedPath = (callID: string): string => `/bellwire-accepted/${callID}`;

// The browser, as far as it is used here. TypeScript knows a page's interfaces or a worker's, not both.

interface WorkerEvent {
  waitUntil(work: Promise<unknown>): void;
}

interface PushedEvent extends WorkerEvent {
  readonly data: { text(): string } | null;
}

interface ClickedEvent extends WorkerEvent {
  readonly action: string;
  readonly notification: Notification;
}

interface SubscriptionEvent extends WorkerEvent {
  readonly oldSubscription?: PushSubscription | null;
  readonly newSubscription?: PushSubscription | null;
}

export interface OpenPage {
  readonly visibilityState: string;
  postMessage(message: unknown, transfer: Transferable[]): void;
  focus(): Promise<unknown>;
}

export interface WorkerScope {
  readonly registration: Pick<ServiceWorkerRegistration, "scope" | "getNotifications" | "showNotification" | "pushManager">;
  readonly clients: {
    matchAll(options: { type: "window"; includeUncontrolled: boolean }): Promise<readonly OpenPage[]>;
    openWindow(url: string): Promise<unknown>;
  };
  readonly caches: Pick<CacheStorage, "open">;
  fetch(url: string, options: RequestInit): Promise<Response>;
  skipWaiting(): Promise<void>;
  addEventListener(name: "push", handler: (event: PushedEvent) => void): void;
  addEventListener(name: "notificationclick", handler: (event: ClickedEvent) => void): void;
  addEventListener(name: "pushsubscriptionchange", handler: (event: SubscriptionEvent) => void): void;
  addEventListener(name: "install", handler: (event: WorkerEvent) => void): void;
}

/** What a push says, as far as it is used; also what a notification carries. */
interface Content {
  kind: string;
  callID: string;
  revision: number;
  title: string;
  body: string;
  /** The caller's name, else the user id: what stands above it once it is over, when the title may speak of a call that rings. */
  caller: string;
  createdAt?: number;
  expiresIn?: number;
  check?: string;
}

/** The answer of the ring check. Undefined instead: nobody knows. */
interface RingState {
  ringing: boolean;
  reason?: string;
}

/** Takes the events of a service worker. */
export class RingWorker {
  private readonly texts: WorkerTexts;

  constructor(private readonly scope: WorkerScope, private readonly options: WorkerOptions = {}) {
    this.texts = { ...standardTexts, ...options.texts };
    // It holds nothing of the one before, and answers no requests: a new one may take its place at once.
    scope.addEventListener("install", (event) => event.waitUntil(scope.skipWaiting()));
    scope.addEventListener("push", (event) => event.waitUntil(this.pushed(event.data)));
    scope.addEventListener("notificationclick", (event) => event.waitUntil(this.clicked(event)));
    scope.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(this.changed(event)));
  }

  // Pushes

  private async pushed(data: { text(): string } | null): Promise<void> {
    const content = this.read(data);
    if (content.callID === "") return this.show(content, { tag: "bellwire" });
    const shown = await this.shownInstead(content);
    switch (content.kind) {
      case "ring":
        return shown ? this.showAgain(shown, content) : this.ring(content);
      case "missed":
        return shown ? this.repeat(shown) : this.show(content);
      case "stop":
        return shown ? this.repeat(shown) : this.stop(content);
      default: {
        // A later service's. What is there of the call stays.
        const [present] = await this.notifications(content.callID);
        return present ? this.repeat(present) : this.show(content, { silent: true });
      }
    }
  }

  private async ring(content: Content): Promise<void> {
    if (await this.pageThat("rings", content.callID, (page) => page.visibilityState === "visible")) return;
    const state = await this.check(content);
    if (!state.ringing) return this.showOver(content, state.reason);
    // Without the link there is no way to decline but to open the page.
    const decline = content.check === undefined ? [] : [{ action: "decline", title: this.texts.decline }];
    await this.show(content, {
      renotify: true,
      requireInteraction: true,
      vibrate: [600, 400, 600, 400, 600],
      actions: [{ action: "accept", title: this.texts.accept }, ...decline],
    });
  }

  /**
   * Whether it is to ring. A push that nobody can be asked about rings, unless it said when it left that nothing of its time was left.
   * The push service does not deliver it after its time, and this computer's clock says nothing about the service's.
   */
  private async check(content: Content): Promise<RingState> {
    const state = content.check === undefined ? undefined : readState(await this.ask(content.check));
    if (state) return state;
    return content.expiresIn !== undefined && content.expiresIn <= 0 ? { ringing: false, reason: "timeout" } : { ringing: true };
  }

  private async stop(content: Content): Promise<void> {
    const [present] = await this.notifications(content.callID);
    // Whoever saw it ring in a page that is visible has seen it end there.
    if (!present && (await this.pages()).some((page) => page.visibilityState === "visible")) return;
    await this.showOver(content);
  }

  /** In the place of the ringing one, and without a sound. */
  private showOver(content: Content, reason = "over"): Promise<void> {
    const { texts } = this;
    const body = reason === "answeredElsewhere" || reason === "rejected" || reason === "over" ? texts[reason] : texts.missed;
    return this.show({ ...content, kind: "stop", title: content.caller, body }, { silent: true });
  }

  /** A push may come twice, or later than the next one: what is shown of the call already stays when it is as new. */
  private async shownInstead(content: Content): Promise<Notification | undefined> {
    const [present] = await this.notifications(content.callID);
    const shown = present && contentOf(present);
    if (!shown) return undefined;
    const isTwice = shown.kind === "ring" && content.kind === "ring" && content.check !== undefined && shown.check === content.check;
    const isLate = content.revision < shown.revision || (content.revision === shown.revision && shown.kind !== "ring");
    return isTwice || isLate ? present : undefined;
  }

  /** A ring that came again: it may be over meanwhile. */
  private async showAgain(present: Notification, content: Content): Promise<void> {
    if (contentOf(present)?.kind !== "ring") return this.repeat(present);
    const state = await this.check(content);
    return state.ringing ? this.repeat(present) : this.showOver(content, state.reason);
  }

  /** The same, silently. */
  private repeat({ title, tag, body, actions, requireInteraction, data }: Notification & Partial<NotificationOptions>): Promise<void> {
    return this.scope.registration.showNotification(title, {
      tag, body, data, silent: true, requireInteraction: requireInteraction ?? false, actions: [...(actions ?? [])],
    });
  }

  private show(content: Content, options: NotificationOptions = {}): Promise<void> {
    const { title, body, callID, createdAt } = content;
    return this.scope.registration.showNotification(title, {
      tag: callID, body, data: content, ...(createdAt === undefined ? {} : { timestamp: createdAt }), ...options,
    });
  }

  private async notifications(tag: string): Promise<Notification[]> {
    return this.scope.registration.getNotifications({ tag });
  }

  /** Whatever was pushed. `callID` is empty when it is about no call. */
  private read(data: { text(): string } | null): Content {
    let json: Record<string, unknown> = {};
    try {
      const value: unknown = JSON.parse(data?.text() ?? "{}");
      if (typeof value === "object" && value !== null) json = value as Record<string, unknown>;
    } catch {
      // Not the service's. It is shown that something came.
    }
    const text = (name: string, most: number) => {
      const value = json[name];
      const shown = typeof value === "string" ? plain(cut(value, most)) : "";
      return isSeen(shown) ? shown : "";
    };
    const kind = text("kind", 64);
    const callID = typeof json.callID === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(json.callID) && kind !== "test" ? json.callID : "";
    const inviter = text("inviter", longest.title);
    const caller = text("name", longest.title) || inviter;
    const name = text("title", longest.title) || caller;
    const body = text("body", longest.body);
    const isNamed = !this.options.showsInviter || inviter === "" || inviter === name;
    const content: Content = {
      kind, callID, revision: integer(json.revision) ?? 0,
      title: name || (callID === "" ? this.texts.other : this.texts.call),
      caller: caller || this.texts.call,
      // Before what may be long.
      body: isNamed ? body : `${inviter}: ${body}`,
    };
    const [createdAt, expiresIn, check] = [integer(json.createdAt), integer(json.expiresIn), linkOf(json.check)];
    if (createdAt !== undefined) content.createdAt = createdAt;
    if (expiresIn !== undefined) content.expiresIn = expiresIn;
    if (check !== undefined) content.check = check;
    return content;
  }

  // Clicks

  private async clicked({ action, notification }: ClickedEvent): Promise<void> {
    notification.close();
    const content = contentOf(notification);
    if (!content || content.callID === "") return this.open("show", "");
    if (action === "decline") return this.decline(content);
    // Firefox and Safari show no buttons: there a click shows the call, and the page asks.
    return this.open(content.kind === "ring" && action === "accept" ? "accept" : "show", content.callID);
  }

  /** In a page that is open and will do it, else in a new one. */
  private async open(wish: "accept" | "show", callID: string): Promise<void> {
    const taker = await this.pageThat("takes", callID);
    if (taker) {
      tell(taker, { bellwire: wish, callID });
      await taker.focus();
      return;
    }
    const url = new URL(this.options.page ?? "", this.scope.registration.scope);
    if (callID !== "") url.searchParams.set(addressFields[wish], callID);
    // An address alone must not accept: anybody may lead a browser to one.
    if (wish === "accept") await this.noteAccepted(callID);
    await this.scope.clients.openWindow(url.href);
  }

  private async noteAccepted(callID: string): Promise<void> {
    try {
      const cache = await this.scope.caches.open(acceptedCache);
      await cache.put(acceptedPath(callID), new Response(String(Date.now())));
    } catch {
      // A browser that stores nothing: the page then shows the call, and asks.
    }
  }

  private async decline({ check }: Content): Promise<void> {
    if (check === undefined) return;
    const url = new URL(check);
    url.pathname += "/reject";
    for (const pause of [...pauses, undefined]) {
      const answer = await this.ask(url.href, { method: "POST", keepalive: true });
      // Refused, it would be again.
      if (answer !== undefined || pause === undefined) return;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  /** The answer; null when it was refused for good, undefined when it may be asked again. */
  private async ask(url: string, options: RequestInit = {}): Promise<unknown> {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), limits.check);
    try {
      const answer = await this.scope.fetch(url, {
        ...options, credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer", signal: abort.signal,
      });
      if (answer.ok) return await answer.json();
      return answer.status === 429 || answer.status >= 500 ? undefined : null;
    } catch {
      return undefined;
    } finally {
      clearTimeout(timer);
    }
  }

  // Pages

  private pages(): Promise<readonly OpenPage[]> {
    return this.scope.clients.matchAll({ type: "window", includeUncontrolled: true });
  }

  /** The first page that says yes, of those that were used last; undefined when none does in time. */
  private async pageThat(
    bellwire: "rings" | "takes", callID: string, isAsked: (page: OpenPage) => boolean = () => true,
  ): Promise<OpenPage | undefined> {
    const pages = (await this.pages()).filter(isAsked).slice(0, mostPages);
    const answers = await Promise.all(pages.map((page) => asked(page, { bellwire, callID })));
    return pages.find((_, index) => answers[index]);
  }

  /** The browser has ended a subscription. Its page alone can register another; it does so now, or when it is opened next. */
  private async changed({ oldSubscription, newSubscription }: SubscriptionEvent): Promise<void> {
    const { pushManager } = this.scope.registration;
    const key = oldSubscription?.options.applicationServerKey;
    if (!newSubscription && key && !(await pushManager.getSubscription())) {
      await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    }
    for (const page of await this.pages()) tell(page, { bellwire: "renew", callID: "" });
  }
}

/** So many pages are asked. */
const mostPages = 8;

const tell = (page: OpenPage, message: PageMessage): void => page.postMessage(message, []);

/** Whether the page says yes. */
function asked(page: OpenPage, question: PageMessage): Promise<boolean> {
  const { port1, port2 } = new MessageChannel();
  return new Promise<boolean>((resolve) => {
    const timer = setTimeout(() => resolve(false), limits.page);
    port1.onmessage = ({ data }) => {
      clearTimeout(timer);
      resolve(data === true);
    };
    page.postMessage(question, [port2]);
  }).finally(() => port1.close());
}

/** Whole characters, and an end. */
function cut(text: string, most: number): string {
  const characters = [...text.slice(0, 2 * most)];
  return characters.length > most || text.length > 2 * most ? `${characters.slice(0, most - 1).join("")}…` : text;
}

const integer = (value: unknown): number | undefined => (Number.isSafeInteger(value) ? (value as number) : undefined);

/** A link that may be asked: by HTTPS, or on this computer. */
function linkOf(value: unknown): string | undefined {
  if (typeof value !== "string" || value.length > longest.url) return undefined;
  try {
    const { protocol, hostname } = new URL(value);
    const isHere = protocol === "http:" && ["127.0.0.1", "localhost", "[::1]"].includes(hostname);
    return protocol === "https:" || isHere ? value : undefined;
  } catch {
    return undefined;
  }
}

function readState(answer: unknown): RingState | undefined {
  const { ringing, reason } = (typeof answer === "object" && answer !== null ? answer : {}) as Record<string, unknown>;
  if (typeof ringing !== "boolean") return undefined;
  return typeof reason === "string" ? { ringing, reason } : { ringing };
}

/** What `show` left in a notification; undefined of one that somebody else has shown. */
function contentOf({ data }: Notification): Content | undefined {
  const content = data as Content | null;
  return typeof content?.callID === "string" && typeof content.kind === "string" ? content : undefined;
}
