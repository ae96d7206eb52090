import type { Call } from "./call.js";
import type { BellwireClient } from "./client.js";
import { Emitter } from "./emitter.js";
import { isID, isPending, memberOf } from "./protocol.js";
import { type PageMessage, acceptedCache, acceptedPath, addressFields } from "./ringing.js";
import { readWoken, wokenKey } from "./tab.js";

export type PushErrorCode =
  /** This browser has no push. */
  | "unsupported"
  /** Push is given to `https://` and to this computer alone. */
  | "insecureContext"
  /** The user, or the browser's settings, do not let this page show notifications. */
  | "permissionDenied"
  /** The script of the service worker cannot be had, or does not run. */
  | "noWorker"
  /** The browser's push service refuses, or cannot be reached. */
  | "noPushService";

export class PushError extends Error {
  override readonly name = "PushError";

  constructor(
    readonly code: PushErrorCode,
    message: string,
  ) {
    super(message);
  }
}

export interface PushOptions {
  /** The public half of the deployment's VAPID key, in base64url: what `bellwire push keys` prints. */
  applicationServerKey: string;
  /** The script of the service worker; `/worker.js` by default. Its scope has to contain the page. */
  worker?: string;
  /** In place of `worker`: a worker of the page's own, which has taken the SDK's script in. */
  registration?: ServiceWorkerRegistration;
  /** Which of the deployment's apps this page is; `default` by default. */
  app?: string;
}

export interface PushEvents {
  /** The user has pressed Accept in a notification: once, and when the client knows the call. */
  accept: Call;
  /** The user has pressed a notification about this call: what rings, or was missed, is to be shown. */
  show: string;
  /** What the user has accepted is over. */
  over: string;
  /** Whether this user is rung in this browser; another page of it may have changed that. */
  change: boolean;
  /** What nobody waits for: a registration that could not be renewed. */
  error: Error;
}

/** For so long, in milliseconds, a call that was accepted in a notification may take to be known here: until then it has rung out. */
const patience = 60_000;
/** A worker that has not begun after so many milliseconds will not. */
const workerPatience = 10_000;
/** A push service that has not answered after so many milliseconds is not waited for. */
const servicePatience = 20_000;
/** An acceptance is good for so many milliseconds. */
const acceptedLife = 120_000;

/**
 * Rings while no page is open: registers this device for pushes, again with each connection, and takes what its notifications are pressed
 * for. One user at a time is rung in a browser.
 */
export class CallPush {
  private readonly events = new Emitter<PushEvents>(["accept", "show", "over", "error"]);
  private readonly listeners = new AbortController();
  private readonly unlisten: (() => void)[] = [];
  private readonly waiting = new Set<() => void>();
  /** One after another: what is on and off is what was wished last. */
  private turn: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly client: Pick<
      BellwireClient, "user" | "device" | "state" | "calls" | "on" | "get" | "registerPush" | "unregisterPush"
    >,
    private readonly options: PushOptions,
  ) {
    if (!CallPush.isSupported) return;
    const { signal } = this.listeners;
    navigator.serviceWorker.addEventListener("message", (event) => this.told(event), { signal });
    addEventListener("storage", ({ key }) => {
      if (key === wokenKey || key === null) this.events.emit("change", this.isEnabled);
    }, { signal });
    this.unlisten.push(client.on("state", (state) => {
      if (state === "online") this.renew();
    }));
    if (client.state === "online") this.renew();
    if (this.isEnabled) void this.takeAddress();
  }

  /** There is push here. Not outside a secure context, nor, on an iPhone, before the page was put on the home screen. */
  static get isSupported(): boolean {
    return "serviceWorker" in navigator && "PushManager" in globalThis && "Notification" in globalThis;
  }

  /** With whom to go online when this page was opened from a notification; undefined when it was not. */
  static get openedFor(): string | undefined {
    return readAddress() === undefined ? undefined : readWoken()?.user;
  }

  /** This user is rung in this browser, also while no page is open. It stays so until `disable`. */
  get isEnabled(): boolean {
    return CallPush.isSupported && readWoken()?.user === this.client.user && Notification.permission === "granted";
  }

  /** Calls `handler` with each such event from now on; returns how to stop that. What came before the first handler is told it. */
  on<Name extends keyof PushEvents>(name: Name, handler: (value: PushEvents[Name]) => void): () => void {
    return this.events.on(name, handler);
  }

  /**
   * Asks the user for the permission where there is none yet, so that it has to come from a click; then the device is registered, now or
   * when the client is online. Throws a `PushError`, or a `BellwireError` when the service refuses.
   */
  async enable(): Promise<void> {
    if (!globalThis.isSecureContext) throw new PushError("insecureContext", "push needs https://, or this computer");
    if (!CallPush.isSupported) throw new PushError("unsupported", "this browser has no push");
    // Before anything is waited for: browsers ask because of a click alone.
    const permission = Notification.permission === "default" ? await Notification.requestPermission() : Notification.permission;
    if (permission !== "granted") throw new PushError("permissionDenied", "notifications are not permitted to this page");
    await this.inTurn(async () => {
      const subscription = await this.subscribe();
      remember(this.client);
      try {
        if (this.client.state === "online") await this.register(subscription);
      } catch (error) {
        forget();
        throw error;
      } finally {
        this.events.emit("change", this.isEnabled);
      }
    });
  }

  /** As when the user logs out: to be done before the client is disconnected. */
  async disable(): Promise<void> {
    if (!CallPush.isSupported) return;
    // Of another user the browser may have become.
    const isOwn = readWoken()?.user === this.client.user;
    if (isOwn) forget();
    this.events.emit("change", false);
    await this.inTurn(async () => {
      try {
        if (this.client.state === "online") await this.client.unregisterPush({ platform: "webPush", ...this.app });
      } finally {
        // Also where the service cannot be told: it learns from the push service that nobody is there.
        if (isOwn && !this.isEnabled) await (await (await this.worker())?.pushManager.getSubscription())?.unsubscribe();
      }
    });
  }

  /** For each call that the user has answered, declined or seen end here: its notification has had its time. */
  async dismiss(callID: string): Promise<void> {
    if (!CallPush.isSupported) return;
    for (const notification of (await (await this.worker())?.getNotifications({ tag: callID })) ?? []) notification.close();
  }

  /** Listens no more. What is registered stays so. */
  close(): void {
    this.listeners.abort();
    for (const end of [...this.unlisten.splice(0), ...this.waiting]) end();
  }

  // Registering

  private get app(): { app?: string } {
    return this.options.app === undefined ? {} : { app: this.options.app };
  }

  private renew(): void {
    if (!this.isEnabled || this.listeners.signal.aborted) return;
    this.inTurn(async () => {
      // Another page may have ended it meanwhile.
      if (!this.isEnabled) return;
      await this.register(await this.subscribe());
      if (this.isEnabled) remember(this.client);
    }).catch((error: Error) => this.events.emit("error", error));
  }

  private register(subscription: PushSubscription): Promise<void> {
    return this.client.registerPush({ platform: "webPush", ...this.app, subscription: subscription.toJSON() });
  }

  private inTurn<Value>(work: () => Promise<Value>): Promise<Value> {
    const done = this.turn.then(work);
    this.turn = done.catch(() => undefined);
    return done;
  }

  /** The one there is, unless it is for another key. */
  private async subscribe(): Promise<PushSubscription> {
    const { pushManager } = await this.start();
    const key = bytesOf(this.options.applicationServerKey);
    try {
      const known = await pushManager.getSubscription();
      if (known && isKey(known.options.applicationServerKey, key)) return known;
      await known?.unsubscribe();
      return await within(servicePatience, pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key }));
    } catch (error) {
      const { name, message } = error as Error;
      if (name === "NotAllowedError") throw new PushError("permissionDenied", "notifications are not permitted to this page");
      throw new PushError("noPushService", message);
    }
  }

  private async start(): Promise<ServiceWorkerRegistration> {
    const { registration, worker = standardWorker } = this.options;
    try {
      const found = registration ?? (await navigator.serviceWorker.register(worker));
      await begun(found);
      return found;
    } catch (error) {
      throw new PushError("noWorker", (error as Error).message);
    }
  }

  /** The one that is there. */
  private async worker(): Promise<ServiceWorkerRegistration | undefined> {
    const { registration, worker = standardWorker } = this.options;
    return registration ?? navigator.serviceWorker.getRegistration(new URL(worker, location.href).href);
  }

  // Notifications

  private told({ data, ports: [port] }: MessageEvent): void {
    const { bellwire, callID } = (typeof data === "object" && data !== null ? data : {}) as Partial<PageMessage>;
    if (typeof callID !== "string" || (callID !== "" && !isID(callID))) return;
    if (bellwire === "rings") {
      if (this.ringing(callID)) port?.postMessage(true);
    } else if (this.isEnabled) {
      if (bellwire === "takes") port?.postMessage(true);
      if (bellwire === "accept") this.accept(callID);
      if (bellwire === "show") this.events.emit("show", callID);
      if (bellwire === "renew" && this.client.state === "online") this.renew();
    }
  }

  private ringing(callID: string): Call | undefined {
    return this.client.calls.find((call) => {
      const own = memberOf(call.snapshot, this.client.user);
      return call.id === callID && call.isIncoming && own !== undefined && isPending(own.state);
    });
  }

  /** This page was opened from a notification: once. */
  private async takeAddress(): Promise<void> {
    const asked = readAddress();
    if (!asked) return;
    const url = new URL(location.href);
    for (const field of Object.values(addressFields)) url.searchParams.delete(field);
    history.replaceState(history.state, "", url);
    if (await takeAccepted(asked)) this.accept(asked);
    else this.events.emit("show", asked);
  }

  /** Waits until the client knows the call, and that it rings. */
  private accept(callID: string): void {
    const { client } = this;
    const end = (): boolean => {
      clearTimeout(timer);
      for (const stop of unlisten) stop();
      return this.waiting.delete(end);
    };
    const over = () => {
      if (end()) this.events.emit("over", callID);
    };
    const look = () => {
      const call = this.ringing(callID);
      if (call && end()) this.events.emit("accept", call);
    };
    const ask = () => void client.get(callID).then((snapshot) => {
      const { state } = memberOf(snapshot, client.user) ?? {};
      if (state === undefined || !(state === "accepted" || isPending(state))) return over();
      if (state === "accepted" && end()) this.events.emit("show", callID);
    }, (error: { code?: unknown }) => {
      if (error.code === "callNotFound") over();
    });
    const timer = setTimeout(over, patience);
    const unlisten = [client.on("incoming", look), client.on("state", (state) => {
      if (state === "online") ask();
    })];
    this.waiting.add(end);
    look();
    if (client.state === "online" && this.waiting.has(end)) ask();
  }
}

const standardWorker = "/worker.js";

function remember({ device, user }: { device: string; user: string }): void {
  try {
    localStorage.setItem(wokenKey, `${device} ${user}`);
  } catch {
    // A browser that lets a page store nothing lets it have no service worker either.
  }
}

function forget(): void {
  try {
    localStorage.removeItem(wokenKey);
  } catch {
    // Nothing was stored.
  }
}

/** The call that the page's address names. */
function readAddress(): string | undefined {
  const { searchParams } = new URL(location.href);
  const callID = searchParams.get(addressFields.accept) ?? searchParams.get(addressFields.show);
  return isID(callID) ? callID : undefined;
}

/** Whether the user has pressed Accept in the notification. An address alone says nothing: it may have come by mail. */
async function takeAccepted(callID: string): Promise<boolean> {
  try {
    const cache = await caches.open(acceptedCache);
    const noted = await cache.match(acceptedPath(callID));
    await cache.delete(acceptedPath(callID));
    return noted !== undefined && Date.now() - Number(await noted.text()) < acceptedLife;
  } catch {
    return false;
  }
}

/** Browsers go on trying for as long as there is no network. */
function within<Value>(limit: number, work: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("no answer")), limit);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Until the worker can be subscribed for. */
async function begun(registration: ServiceWorkerRegistration): Promise<void> {
  const worker = registration.installing ?? registration.waiting;
  if (registration.active || !worker) return;
  await within(workerPatience, new Promise<void>((resolve, reject) => {
    worker.addEventListener("statechange", () => {
      if (worker.state === "redundant") reject(new Error("the service worker could not be installed"));
      if (worker.state === "activated") resolve();
    });
  }));
}

function bytesOf(base64url: string): Uint8Array {
  const text = atob(base64url.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

const isKey = (buffer: ArrayBuffer | null, key: Uint8Array): boolean =>
  buffer !== null && buffer.byteLength === key.length && new Uint8Array(buffer).every((byte, index) => byte === key[index]);
