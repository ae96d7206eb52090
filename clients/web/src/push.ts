import type { Call } from "./call.js";
import type { BellwireClient } from "./client.js";
import { Emitter } from "./emitter.js";
import { isID, isPending, memberOf } from "./protocol.js";
import { type PageMessage, acceptedCache, acceptedPath, addressFields } from "./ringing.js";
import { readWoken, wokenKey } from "./tab.js";

export type PushErrorCode =
  /** This browser has no push. */
  | "unsupported"
  /** Browsers allow push only for `https://` and for this computer. */
  | "insecureContext"
  /** The user or the browser's settings do not let this page show notifications. */
  | "permissionDenied"
  /** The service worker's script cannot be loaded, or does not run. */
  | "noWorker"
  /** The browser's push service refuses or cannot be reached. */
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
  /** The public half of the deployment's VAPID key, in base64url, as `bellwire push keys` prints this key. */
  applicationServerKey: string;
  /** The path of the service worker's script; `/worker.js` by default. Its scope must contain the page. */
  worker?: string;
  /** In place of `worker`: the page's own service worker, which must include the SDK's script. */
  registration?: ServiceWorkerRegistration;
  /** The name of this page's app in the deployment; `default` by default. */
  app?: string;
}

export interface PushEvents {
  /** The user has pressed Accept in a notification. Emitted once, when the client knows the call. */
  accept: Call;
  /** The user has pressed a notification about this call. The page should show the ringing or missed call. */
  show: string;
  /** The call that the user accepted in a notification is over. */
  over: string;
  /** Whether this user is now rung in this browser (`isEnabled`). Another page may cause the change. */
  change: boolean;
  /** A registration could not be renewed. */
  error: Error;
}

/**
 * The wait for news of a call that was accepted in a notification, in milliseconds. After this time the call has
 * stopped ringing.
 */
const patience = 60_000;
/** The time limit for the start of the service worker, in milliseconds. */
const workerPatience = 10_000;
/** The time limit for the answer of the push service, in milliseconds. */
const servicePatience = 20_000;
/** The validity of an acceptance in a notification, in milliseconds. */
const acceptedLife = 120_000;

/**
 * Rings while no page is open. The class registers this device for pushes, again after each connect, and handles clicks
 * on its notifications. A browser is rung for a single user at a time.
 */
export class CallPush {
  private readonly events = new Emitter<PushEvents>(["accept", "show", "over", "error"]);
  private readonly listeners = new AbortController();
  private readonly unlisten: (() => void)[] = [];
  private readonly waiting = new Set<() => void>();
  /** A queue of changes, so that the user's last choice wins. */
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

  /** Whether this browser has push. Push needs a secure context, and on an iPhone a page on the home screen. */
  static get isSupported(): boolean {
    return "serviceWorker" in navigator && "PushManager" in globalThis && "Notification" in globalThis;
  }

  /** The user for whom a notification opened this page; undefined when the page was opened otherwise. */
  static get openedFor(): string | undefined {
    return readAddress() === undefined ? undefined : readWoken()?.user;
  }

  /** Whether this user is rung in this browser, also while no page is open. The value stays true until `disable`. */
  get isEnabled(): boolean {
    return CallPush.isSupported && readWoken()?.user === this.client.user && Notification.permission === "granted";
  }

  /**
   * Calls `handler` with each such event from now on, and first with the events from before the first handler. Returns
   * a function that removes the handler.
   */
  on<Name extends keyof PushEvents>(name: Name, handler: (value: PushEvents[Name]) => void): () => void {
    return this.events.on(name, handler);
  }

  /**
   * Asks the user for permission if needed; the app must therefore call this method from a click. Then registers the
   * device, now or when the client is online. Throws a `PushError`, or a `BellwireError` when the service refuses.
   */
  async enable(): Promise<void> {
    if (!globalThis.isSecureContext) throw new PushError("insecureContext", "push needs a page from https:// or from this computer");
    if (!CallPush.isSupported) throw new PushError("unsupported", "this browser has no push");
    // The request comes before any wait, because browsers only ask the user in response to a click.
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

  /** Ends the registration, as at a logout. The app calls this method before disconnecting the client. */
  async disable(): Promise<void> {
    if (!CallPush.isSupported) return;
    // The browser may have been enabled for another user meanwhile.
    const isOwn = readWoken()?.user === this.client.user;
    if (isOwn) forget();
    this.events.emit("change", false);
    await this.inTurn(async () => {
      try {
        if (this.client.state === "online") await this.client.unregisterPush({ platform: "webPush", ...this.app });
      } finally {
        // Unsubscribe even when the service cannot be told: the service later learns from the push service that the
        // subscription has ended.
        if (isOwn && !this.isEnabled) await (await (await this.worker())?.pushManager.getSubscription())?.unsubscribe();
      }
    });
  }

  /**
   * Closes the notification of a call. The page calls this for each call that was answered, declined or over in the
   * page.
   */
  async dismiss(callID: string): Promise<void> {
    if (!CallPush.isSupported) return;
    for (const notification of (await (await this.worker())?.getNotifications({ tag: callID })) ?? []) notification.close();
  }

  /** Stops listening. The registration stays. */
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
      // Another page may have ended the registration meanwhile.
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

  /** Returns the existing subscription, or a new subscription when the existing subscription has another key. */
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

  /** Returns the existing service worker registration. */
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

  /** Handles the address of a page that a notification opened. The address works once. */
  private async takeAddress(): Promise<void> {
    const asked = readAddress();
    if (!asked) return;
    const url = new URL(location.href);
    for (const field of Object.values(addressFields)) url.searchParams.delete(field);
    history.replaceState(history.state, "", url);
    if (await takeAccepted(asked)) this.accept(asked);
    else this.events.emit("show", asked);
  }

  /** Waits until the client knows the call and the call rings. */
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
    // A browser without storage for pages also has no service workers.
  }
}

function forget(): void {
  try {
    localStorage.removeItem(wokenKey);
  } catch {
    // The browser has no storage.
  }
}

/** Returns the call in the page's address. */
function readAddress(): string | undefined {
  const { searchParams } = new URL(location.href);
  const callID = searchParams.get(addressFields.accept) ?? searchParams.get(addressFields.show);
  return isID(callID) ? callID : undefined;
}

/**
 * Returns whether the user has pressed Accept in the notification. The address alone does not prove this: a link in a
 * mail may have the same address.
 */
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

/** Rejects after `limit` milliseconds. Browsers otherwise keep trying while the network is down. */
function within<Value>(limit: number, work: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("no answer")), limit);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Waits until the service worker is ready for a subscription. */
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
