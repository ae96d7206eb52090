/*
 * The service worker's handling of pushes (docs/protocol.md, section 7). `worker.ts` is the script for the browser;
 * this file has the logic and takes the browser as an argument, so that tests can replace the browser.
 *
 * Browsers require that the user sees each push: after a push without a notification Chrome shows its own notification,
 * and Safari ends the subscription. So each push shows a notification, and the end of the ringing silently replaces the
 * ringing notification under the same tag. The only exception is a visible page that rings: the user sees the page, and
 * browsers that check for a notification require no more.
 */

import { isSeen, plain } from "./text.js";

/** Settings of the worker, to be set as `self.bellwire` before the script runs. */
export interface WorkerOptions {
  /**
   * The page that is opened when the user accepts and no page is open; the worker's scope by default. The worker adds
   * `?acceptCall=` or `?showCall=`.
   */
  page?: string;
  /**
   * Whether the text begins with the inviter's user id when the title differs from the id. The inviter writes title and
   * text, but cannot choose the id freely. For apps in which users know each other by their ids.
   */
  showsInviter?: boolean;
  texts?: Partial<WorkerTexts>;
}

/** The worker's own texts. The deployment's texts about a call come with the push. */
export interface WorkerTexts {
  accept: string;
  decline: string;
  /** The title when the inviter has neither a name nor an id. */
  call: string;
  missed: string;
  answeredElsewhere: string;
  rejected: string;
  over: string;
  /** The title of a push that is not about a call. */
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

/** A message of the worker to open pages. */
export interface PageMessage {
  /**
   * `rings` asks whether the call rings in this page, `takes` whether the page would show the call. A page answers
   * `true` through the port of the message, or not at all. Then a page that answered gets `accept` or `show`. `renew`
   * tells a page that the subscription has changed.
   */
  bellwire: "rings" | "takes" | "accept" | "show" | "renew";
  callID: string;
}

/** The query fields that carry the call id to a newly opened page. */
export const addressFields = { accept: "acceptCall", show: "showCall" } as const;

/** Time limits in milliseconds. */
const limits = {
  /** The limit of the ring check; the user waits meanwhile. */
  check: 3_000,
  /** The limit of an open page's answer. After a click a browser lets the worker open a page only for a short time. */
  page: 400,
};
/** The waits between attempts to decline, in milliseconds. */
const pauses = [500, 1_500, 4_000];
/** The longest texts in characters; notifications show less. */
const longest = { title: 200, body: 400, url: 4_096 };

/**
 * The cache in which a newly opened page finds the call that the user has accepted. Only scripts of this origin can
 * write to the cache.
 */
export const acceptedCache = "bellwire-accepted";
export const acceptedPath = (callID: string): string => `/bellwire-accepted/${callID}`;

// The used parts of the browser's interfaces. TypeScript knows a page's interfaces or a worker's, but not both.

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

/** The used fields of a push; a notification carries the same fields. */
interface Content {
  kind: string;
  callID: string;
  revision: number;
  title: string;
  body: string;
  /**
   * The inviter's name, else the user id. This text is the title after the ringing, because the push's title may say
   * that a call rings.
   */
  caller: string;
  createdAt?: number;
  expiresIn?: number;
  check?: string;
}

/** The answer of the ring check. */
interface RingState {
  ringing: boolean;
  reason?: string;
}

/** The handler of a service worker's events. */
export class RingWorker {
  private readonly texts: WorkerTexts;

  constructor(private readonly scope: WorkerScope, private readonly options: WorkerOptions = {}) {
    this.texts = { ...standardTexts, ...options.texts };
    // The worker keeps no state and answers no page requests, so a new version may replace the old version at once.
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
        // The push is of a kind that this version does not know. An existing notification about the call stays.
        const [present] = await this.notifications(content.callID);
        return present ? this.repeat(present) : this.show(content, { silent: true });
      }
    }
  }

  private async ring(content: Content): Promise<void> {
    if (await this.pageThat("rings", content.callID, (page) => page.visibilityState === "visible")) return;
    const state = await this.check(content);
    if (!state.ringing) return this.showOver(content, state.reason);
    // Without the link of the ring check the user can only decline in a page.
    const decline = content.check === undefined ? [] : [{ action: "decline", title: this.texts.decline }];
    await this.show(content, {
      renotify: true,
      requireInteraction: true,
      vibrate: [600, 400, 600, 400, 600],
      actions: [{ action: "accept", title: this.texts.accept }, ...decline],
    });
  }

  /**
   * Returns whether the push must ring. Without an answer of the ring check the push rings, unless no ringing time was
   * left when the push was sent. The push service does not deliver a push after its time, and this computer's clock
   * cannot be compared with the service's clock.
   */
  private async check(content: Content): Promise<RingState> {
    const state = content.check === undefined ? undefined : readState(await this.ask(content.check));
    if (state) return state;
    return content.expiresIn !== undefined && content.expiresIn <= 0 ? { ringing: false, reason: "timeout" } : { ringing: true };
  }

  private async stop(content: Content): Promise<void> {
    const [present] = await this.notifications(content.callID);
    // A user with a visible page has seen the end of the ringing in that page.
    if (!present && (await this.pages()).some((page) => page.visibilityState === "visible")) return;
    await this.showOver(content);
  }

  /** Replaces the ringing notification silently. */
  private showOver(content: Content, reason = "over"): Promise<void> {
    const { texts } = this;
    const body = reason === "answeredElsewhere" || reason === "rejected" || reason === "over" ? texts[reason] : texts.missed;
    return this.show({ ...content, kind: "stop", title: content.caller, body }, { silent: true });
  }

  /**
   * Returns the present notification of the call if the notification is as new as the push. A push may come twice, or
   * after a newer push.
   */
  private async shownInstead(content: Content): Promise<Notification | undefined> {
    const [present] = await this.notifications(content.callID);
    const shown = present && contentOf(present);
    if (!shown) return undefined;
    const isTwice = shown.kind === "ring" && content.kind === "ring" && content.check !== undefined && shown.check === content.check;
    const isLate = content.revision < shown.revision || (content.revision === shown.revision && shown.kind !== "ring");
    return isTwice || isLate ? present : undefined;
  }

  /** Handles a repeated ring push: the ringing may be over meanwhile. */
  private async showAgain(present: Notification, content: Content): Promise<void> {
    if (contentOf(present)?.kind !== "ring") return this.repeat(present);
    const state = await this.check(content);
    return state.ringing ? this.repeat(present) : this.showOver(content, state.reason);
  }

  /** Shows the same notification again, silently. */
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

  /** Reads a push. `callID` is empty when the push is not about a call. */
  private read(data: { text(): string } | null): Content {
    let json: Record<string, unknown> = {};
    try {
      const value: unknown = JSON.parse(data?.text() ?? "{}");
      if (typeof value === "object" && value !== null) json = value as Record<string, unknown>;
    } catch {
      // The push is not from the service. The worker still shows a notification.
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
      // The id stands in front, because the rest may be long.
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
    // Firefox and Safari show no buttons. There a click shows the call, and the page asks the user.
    return this.open(content.kind === "ring" && action === "accept" ? "accept" : "show", content.callID);
  }

  /** Opens the call in an open page that agrees, else in a new page. */
  private async open(wish: "accept" | "show", callID: string): Promise<void> {
    const taker = await this.pageThat("takes", callID);
    if (taker) {
      tell(taker, { bellwire: wish, callID });
      await taker.focus();
      return;
    }
    const url = new URL(this.options.page ?? "", this.scope.registration.scope);
    if (callID !== "") url.searchParams.set(addressFields[wish], callID);
    // The address alone must not accept a call, because any website can lead a browser to an address.
    if (wish === "accept") await this.noteAccepted(callID);
    await this.scope.clients.openWindow(url.href);
  }

  private async noteAccepted(callID: string): Promise<void> {
    try {
      const cache = await this.scope.caches.open(acceptedCache);
      await cache.put(acceptedPath(callID), new Response(String(Date.now())));
    } catch {
      // The browser has no storage; the page then shows the call and asks the user.
    }
  }

  private async decline({ check }: Content): Promise<void> {
    if (check === undefined) return;
    const url = new URL(check);
    url.pathname += "/reject";
    for (const pause of [...pauses, undefined]) {
      const answer = await this.ask(url.href, { method: "POST", keepalive: true });
      // A refused request would be refused again, so only missing answers are repeated.
      if (answer !== undefined || pause === undefined) return;
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  /** Returns the answer; null after a final refusal, undefined when another attempt makes sense. */
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

  /**
   * Returns the first page that answers yes, with the last used pages first; undefined when no page answers in time.
   */
  private async pageThat(
    bellwire: "rings" | "takes", callID: string, isAsked: (page: OpenPage) => boolean = () => true,
  ): Promise<OpenPage | undefined> {
    const pages = (await this.pages()).filter(isAsked).slice(0, mostPages);
    const answers = await Promise.all(pages.map((page) => asked(page, { bellwire, callID })));
    return pages.find((_, index) => answers[index]);
  }

  /**
   * The browser has ended a subscription. Only a page can register another subscription; an open page registers now,
   * else the next page that is opened.
   */
  private async changed({ oldSubscription, newSubscription }: SubscriptionEvent): Promise<void> {
    const { pushManager } = this.scope.registration;
    const key = oldSubscription?.options.applicationServerKey;
    if (!newSubscription && key && !(await pushManager.getSubscription())) {
      await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
    }
    for (const page of await this.pages()) tell(page, { bellwire: "renew", callID: "" });
  }
}

/** The bound on pages that the worker asks. */
const mostPages = 8;

const tell = (page: OpenPage, message: PageMessage): void => page.postMessage(message, []);

/** Returns whether the page answers yes. */
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

/** Cuts a text at whole characters and adds an ellipsis. */
function cut(text: string, most: number): string {
  const characters = [...text.slice(0, 2 * most)];
  return characters.length > most || text.length > 2 * most ? `${characters.slice(0, most - 1).join("")}…` : text;
}

const integer = (value: unknown): number | undefined => (Number.isSafeInteger(value) ? (value as number) : undefined);

/** Returns the link if the worker may request the link: an HTTPS link, or a link to this computer. */
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

/** Returns the content that `show` stored in a notification; undefined for notifications of other scripts. */
function contentOf({ data }: Notification): Content | undefined {
  const content = data as Content | null;
  return typeof content?.callID === "string" && typeof content.kind === "string" ? content : undefined;
}
