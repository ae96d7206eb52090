import { BellwireClient, BellwireError, type Call } from "../src/index.js";
import { CallPush } from "../src/push.js";
import { CallView, type CallViewHost, longestCall, namesIn } from "./callview.js";
import { byID, make, setText } from "./dom.js";
import { History, headOf } from "./history.js";
import { IncomingCalls } from "./incoming.js";
import { forget, keptToken, remember, remembered } from "./memory.js";
import { Notices } from "./notices.js";
import { PushSwitch } from "./pushswitch.js";
import { leaveFor } from "./second.js";
import { type Settings, loadSettings } from "./settings.js";
import { Tones } from "./tones.js";
import { whyOf } from "./why.js";
import { callerOf, commonText, endText, insecureText, problemText, unsupportedText } from "./words.js";

/** The wait in milliseconds after which the page shows a notice about the reason of the wait. */
const longWait = 1_500;
/**
 * The time limit in milliseconds for telling the service that the user leaves a call. Going offline waits for at most
 * this time.
 */
const longestGoodbye = 1_000;

const notices = new Notices();
const tones = new Tones();

/** An online user of this tab, with the user's calls. */
class Session {
  readonly client: BellwireClient;
  readonly notices = notices;
  readonly tones = tones;
  private readonly listeners = new AbortController();
  private readonly incoming: IncomingCalls;
  private readonly history: History;
  /** The switch for ringing while the page is closed; undefined when the deployment or the browser has no push. */
  private readonly push: PushSwitch | undefined;
  private view: CallView | undefined;
  /** The request that leaves the last call. The next call waits for its response. */
  private leaving: Promise<unknown> = Promise.resolve();
  private lastText: string | undefined;
  private isOnline = false;
  /** Passes on the token that the user pastes in place of a token that ends. */
  private giveToken: ((token: string) => void) | undefined;
  isStopped = false;

  constructor(
    private readonly settings: Settings,
    readonly user: string,
    token: string | undefined,
    /** Shows the start form for a name, or with `isTokenAlone` only for another token. */
    private readonly askAgain: (isTokenAlone: boolean) => void,
  ) {
    this.client = new BellwireClient({
      url: settings.url.split(","), user,
      ...(settings.tokens ? { token: token ?? "", getToken: () => this.newToken() } : {}),
    });
    this.incoming = new IncomingCalls({
      user, tones,
      isTalking: () => this.view !== undefined,
      accept: (call) => void this.accept(call),
      decline: (call) => void this.decline(call),
      over: (call, reason) => void this.ended(call, reason),
      changed: () => this.changed(),
    }, this.listeners.signal);
    this.history = new History(
      this.client, (error) => this.problem(error), (error) => notices.show("history", this.problem(error)), this.listeners.signal);
    this.listen();
    const { applicationServerKey } = settings;
    byID("push-field").hidden = true;
    if (applicationServerKey !== undefined && CallPush.isSupported) {
      this.push = new PushSwitch(this.client, applicationServerKey, this.listeners.signal, {
        notices, problem: (error) => this.problem(error),
        accept: (call) => this.incoming.accept(call),
        show: (callID) => this.showCall(callID),
      });
    }
  }

  /** Shows a call of a notification. A ringing call has its dialog; for any other call the page opens the history. */
  private showCall(callID: string): void {
    const show = () => {
      if (!this.isStopped && !this.client.calls.some(({ id }) => id === callID)) this.history.reveal();
    };
    if (this.isOnline) return show();
    const unlisten = this.client.on("state", (state) => {
      if (state !== "online") return;
      unlisten();
      show();
    });
  }

  private listen(): void {
    const { client, listeners: { signal } } = this;
    client.on("state", (state) => {
      const wasOnline = this.isOnline;
      this.isOnline = state === "online";
      if (this.isStopped) return;
      if (this.isOnline) notices.clear("connection");
      else this.lastText = undefined;
      if (wasOnline && state === "offline") {
        notices.show("connection", "The connection to the service is lost; this page keeps trying to connect. The sound and video of a call continue meanwhile.");
      }
      this.changed();
    });
    client.on("incoming", (call) => this.incoming.add(call));
    client.on("resumed", (call) => this.resume(call));
    client.on("error", (error) => {
      // These errors end only the current connection. The next connection solves the problem, so the page shows no
      // notice.
      if (["refused", "tokenExpired", "tokenRevoked"].includes(error.code) && settingsHaveTokens(this.settings)) return;
      if (["refused", "flooding", "slowReader", "userDisabled"].includes(error.code)) notices.show("connection", this.problem(error));
    });
    byID("call-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const { submitter } = event as SubmitEvent;
      const media = submitter instanceof HTMLButtonElement && submitter.value === "voice" ? "voice" : "video";
      void this.place(byID<HTMLInputElement>("callees"), media);
    }, { signal });
  }

  problem(error: unknown): string { return problemText(error, this.settings); }

  /**
   * Connects. Returns false when the broker refuses this name and token; otherwise the page is online or keeps trying.
   */
  async start(): Promise<boolean> {
    try {
      await this.client.connect();
    } catch (error) {
      if (this.isStopped) return true;
      notices.show("connection", this.problem(error));
      return !(error instanceof BellwireError && error.code === "refused");
    }
    return true;
  }

  /**
   * Stops the session like `stop`, and also ends the registration for pushes and leaves the call. `stop` alone keeps
   * both, for a start with another token.
   */
  async goOffline(): Promise<void> {
    this.view?.leave();
    await Promise.all([this.push?.goOffline(), Promise.race([this.leaving, new Promise((done) => setTimeout(done, longestGoodbye))])]);
    await this.stop();
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    this.listeners.abort();
    this.incoming.clear();
    this.view?.close();
    this.view = undefined;
    await this.client.disconnect();
  }

  // Tokens

  /** Asks the user for a new token, a minute before the token ends and when the broker refuses the token. */
  private newToken(): Promise<string> {
    if (this.isStopped) return Promise.reject(new Error("offline"));
    notices.show("token", "Your token has ended or will end soon. Paste a new one below to stay online; calls continue meanwhile.");
    this.askAgain(true);
    return new Promise((resolve) => (this.giveToken = resolve));
  }

  /** Returns true when the session was waiting for a token. */
  takeToken(token: string): boolean {
    if (!this.giveToken) return false;
    this.giveToken(token);
    this.giveToken = undefined;
    notices.clear("token");
    remember({ token });
    this.push?.keepToken(token);
    return true;
  }

  // Calls

  private get viewHost(): CallViewHost { return this; }

  private open(callees: readonly string[], cancel: () => void): CallView {
    notices.clear("call", "history");
    this.lastText = undefined;
    byID("after").hidden = true;
    const view: CallView = new CallView(this.viewHost, callees, {
      cancel,
      hangUp: () => this.hangUp(view),
    });
    this.view = view;
    this.changed();
    return view;
  }

  private async place(field: HTMLInputElement, media: "video" | "voice"): Promise<void> {
    const callees = namesIn(field.value);
    const wrong = this.wrongIn(callees);
    if (wrong !== undefined) {
      notices.show("call", wrong);
      field.setAttribute("aria-invalid", "true");
      return field.focus();
    }
    field.removeAttribute("aria-invalid");
    if (this.view) return;
    const abort = new AbortController();
    const view = this.open(callees, () => {
      abort.abort();
      this.cancel(view);
    });
    try {
      await this.leaving;
      const call = await this.client.call(callees, {
        media, mode: "advanced", notReceivedCheck: true, ifBusy: "reject", glare: "merge", signal: abort.signal,
      });
      if (abort.signal.aborted) return this.leave(call);
      const failed = call.invited.errors.map(({ userID }) => userID).join(", ");
      if (failed !== "") notices.show("call", `${failed} could not be called: check the name.`);
      this.enter(view, call);
      void view.begin();
    } catch (error) {
      if (view !== this.view) return;
      this.close(view, undefined);
      if (error instanceof BellwireError && error.code === "alreadyInCall" && error.callID !== undefined) {
        this.offerToLeave(error.callID, "Leave that call and call", () => void this.place(field, media));
      } else {
        notices.show("call", this.problem(error));
      }
    }
  }

  private wrongIn(callees: readonly string[]): string | undefined {
    if (callees.length === 0) return "Enter the person to call: a name, or several names separated by commas.";
    if (callees.includes(this.user)) return "This is your own name. Call another person; in another tab you can go online under another name.";
    if (callees.length >= longestCall) return `Up to ${longestCall} people can be in a call: enter at most ${longestCall - 1} names.`;
    return undefined;
  }

  /**
   * Offers to leave a call of the same user in another tab, or on a device that is gone, because that call prevents the
   * new call.
   */
  private offerToLeave(callID: string, text: string, then: () => void): void {
    notices.show("call", "You are in a call on another device or in another tab.", {
      text,
      act: () => void this.client.request("call.quit", { callID }).then(then, (error: unknown) => notices.show("call", this.problem(error))),
    });
  }

  /** Follows the call from now on. */
  private enter(view: CallView, call: Call): void {
    view.follow(call);
    call.on("ended", (reason) => void this.ended(call, reason, view));
  }

  /** Resumes the call after a reload of the page. */
  private resume(call: Call): void {
    if (this.view) return this.leave(call);
    const view = this.open([], () => this.cancel(view));
    this.enter(view, call);
    void view.begin();
  }

  private async accept(call: Call): Promise<void> {
    if (this.view && !(await this.leaveFor(call))) return;
    // Another call may have begun meanwhile.
    this.view?.leave();
    const view = this.open([], () => this.cancel(view));
    this.enter(view, call);
    this.push?.dismiss(call);
    try {
      await this.leaving;
      await call.accept();
    } catch (error) {
      // When the call is over or answered elsewhere, the call's own end shows the text.
      if (call.endReason !== undefined || view !== this.view) return;
      this.close(view, undefined);
      if (error instanceof BellwireError && error.code === "alreadyInCall" && error.callID !== undefined) {
        this.offerToLeave(error.callID, "Leave that call and accept", () => void this.accept(call));
      } else {
        notices.show("call", this.problem(error));
      }
      return;
    }
    void view.begin();
  }

  /**
   * Leaves the current call for `call`. Returns false when `call` is over or its state is unknown; the current call
   * then goes on.
   */
  private async leaveFor(call: Call): Promise<boolean> {
    try {
      if (await leaveFor(call, this.client, () => this.view?.leave())) return !this.isStopped;
      this.push?.dismiss(call);
      const snapshot = await this.client.get(call.id).catch(() => call.snapshot);
      notices.show("call", `The call from ${callerOf(snapshot, this.user)} is over: ${endText(snapshot, this.user, call.endReason ?? "gone", call.isMissed)}. You are still in the first call.`);
    } catch (error) {
      if (this.isStopped) return false;
      if (call.endReason !== undefined) notices.show("call", this.problem(error));
      else notices.show("call", this.problem(error), { text: `Accept the call from ${callerOf(call.snapshot, this.user)}`, act: () => void this.accept(call) });
    }
    return false;
  }

  private async decline(call: Call): Promise<void> {
    const ending = this.ended(call, "rejected");
    try {
      await call.reject(this.view ? "busy" : "declined");
    } catch (error) {
      if (call.endReason === undefined) notices.show("call", this.problem(error));
    }
    await ending;
  }

  private cancel(view: CallView): void {
    const call = view.current;
    this.close(view, "Call ended");
    if (!call) return;
    this.leaving = call.cancel().catch((error: unknown) => {
      // An invitee has answered meanwhile.
      if (error instanceof BellwireError && error.code === "invalidState") this.leave(call);
    });
    this.leaving.then(() => this.history.refresh(), () => undefined);
  }

  private hangUp(view: CallView): void {
    const call = view.current;
    this.close(view, "Call ended");
    if (call) this.leave(call);
  }

  /** Leaves the call. With at least two other members the call goes on. */
  private leave(call: Call): void {
    const others = call.members.filter(({ userID, state }) =>
      userID !== this.user && ["accepted", "inviting", "notYetReceived", "received"].includes(state));
    this.leaving = (others.length > 1 ? call.quit() : call.end()).catch((error: unknown) => {
      if (call.endReason === undefined && !this.isStopped) notices.show("call", this.problem(error));
    });
    this.leaving.then(() => this.history.refresh(), () => undefined);
  }

  /** Handles the end of a call for this device. */
  private async ended(call: Call, reason: string, view?: CallView): Promise<void> {
    if (this.isStopped) return;
    this.push?.dismiss(call);
    let { snapshot } = call;
    if (reason === "gone") {
      // The call ended while this device was offline.
      try {
        snapshot = await this.client.get(call.id);
      } catch {
        // The page uses the last known state.
      }
    }
    // The user left this call earlier and has seen its end.
    if (view && view !== this.view) return;
    const text = endText(snapshot, this.user, reason, call.isMissed);
    if (view) {
      this.close(view, text);
      if (reason === "answered") notices.show("call", commonText(callerOf(snapshot, this.user)));
    } else if (this.view === undefined) {
      this.tellOfLast(call, text);
    }
    this.history.refresh();
  }

  /** `text`: the new status text. */
  private close(view: CallView, text: string | undefined): void {
    if (this.view !== view) return;
    const call = view.current;
    const wasFocused = byID("call").contains(document.activeElement) || document.activeElement === document.body;
    view.close();
    this.view = undefined;
    if (call && text !== undefined) this.tellOfLast(call, text);
    else this.lastText = text;
    this.changed();
    if (wasFocused) byID(byID("after").hidden ? "callees" : "after").focus({ preventScroll: true });
  }

  private tellOfLast(call: Call, text: string): void {
    this.lastText = text;
    const about = make("p", {}, ...headOf(call.snapshot, this.user), make("span", { class: "result", text }));
    about.className = "about";
    byID("after-call").replaceChildren(about, ...whyOf(this.client, call.id, about, (error) => this.problem(error)));
    byID("after").hidden = false;
    this.changed();
  }

  // Display

  changed(): void {
    if (this.isStopped) return;
    const text = this.view?.text ?? (this.isOnline ? this.lastText ?? "Online" : "Offline");
    setText(byID("status"), text);
    byID("status").dataset.kind = this.view ? "call" : this.isOnline ? "online" : "offline";
    const caller = this.incoming.caller;
    document.title = caller === undefined ? `${text} – Bellwire` : `${caller} calls – Bellwire`;
    byID("online").hidden = this.view !== undefined || !this.hasBeenOnline;
    if (this.view) byID("after").hidden = true;
  }

  private get hasBeenOnline(): boolean {
    this.wasOnline ||= this.isOnline;
    return this.wasOnline;
  }
  private wasOnline = false;
}

const settingsHaveTokens = ({ tokens }: Settings): boolean => tokens;

/** The start form, and the session of the online user. */
class Page {
  private session: Session | undefined;
  private readonly name = byID<HTMLInputElement>("name");
  private readonly token = byID<HTMLInputElement>("token");

  constructor(private readonly settings: Settings) {
    byID("token-field").hidden = !settings.tokens;
    byID("start-form").addEventListener("submit", (event) => {
      event.preventDefault();
      void this.goOnline(this.name.value.trim(), this.token.value.trim(), true);
    });
    byID("go-offline").addEventListener("click", () => void this.goOffline());
  }

  /** Restores the session after a reload. A page that a notification opened goes online as the rung user. */
  begin(): void {
    const opened = this.settings.applicationServerKey === undefined ? undefined : CallPush.openedFor;
    const { user, token } = opened === undefined ? remembered() : { user: opened, token: keptToken() };
    if (user !== undefined) void this.goOnline(user, token ?? "", false);
    else this.name.focus();
  }

  private async goOnline(user: string, token: string, byHand: boolean): Promise<void> {
    const { settings } = this;
    if (user === "") return this.refuse(this.name, "Say who you are: enter a name by which other people can call you.");
    if (settings.tokens && token === "") return this.refuse(this.token, "This service lets people in by tokens alone: paste your token. The operator of the service gives you a token.");
    if (user === this.session?.user && this.session.takeToken(token)) return this.show(true);
    await this.session?.stop();
    notices.clear("connection", "push", "start", "token");
    for (const field of [this.name, this.token]) field.removeAttribute("aria-invalid");
    this.name.value = user;
    let session: Session;
    try {
      session = new Session(settings, user, token, () => this.askForToken());
    } catch (error) {
      return this.refuse(this.name, error instanceof BellwireError && error.code === "badRequest"
        ? "This name cannot be used: a name has at most 64 bytes and no control characters." : problemText(error, settings));
    }
    this.session = session;
    this.token.value = "";
    const unlisten = session.client.on("state", (state) => {
      if (state !== "online" || session !== this.session) return;
      unlisten();
      remember({ user, ...(settings.tokens ? { token } : {}) });
      this.show(true);
      if (byHand) byID("callees").focus();
    });
    const wait = setTimeout(() => {
      if (session === this.session) notices.show("connection", `Connecting to ${settings.url} …`);
    }, longWait);
    const isGoingOn = await session.start();
    clearTimeout(wait);
    if (!isGoingOn && session === this.session) {
      await session.stop();
      this.session = undefined;
      notices.clear("token");
      this.token.value = token;
      this.show(false);
      (settings.tokens ? this.token : this.name).focus();
    }
  }

  private refuse(field: HTMLInputElement, text: string): void {
    notices.show("start", text);
    field.setAttribute("aria-invalid", "true");
    field.focus();
  }

  private askForToken(): void {
    this.name.value = this.session?.user ?? this.name.value;
    this.name.disabled = true;
    byID("start").hidden = false;
  }

  private async goOffline(): Promise<void> {
    const { session } = this;
    this.session = undefined;
    forget();
    await session?.goOffline();
    this.show(false);
    this.name.focus();
  }

  private show(isOnline: boolean): void {
    byID("start").hidden = isOnline;
    byID("account").hidden = !isOnline;
    this.name.disabled = false;
    if (isOnline) {
      notices.clear("start");
      setText(byID("account-name"), this.session?.user ?? "");
      return;
    }
    for (const id of ["online", "after"]) byID(id).hidden = true;
    setText(byID("status"), "Offline");
    byID("status").dataset.kind = "offline";
    document.title = "Bellwire";
  }
}

async function main(): Promise<void> {
  if (!window.isSecureContext) notices.show("secure", insecureText);
  else if (typeof RTCPeerConnection === "undefined") notices.show("secure", unsupportedText);
  try {
    const settings = await loadSettings();
    byID<HTMLButtonElement>("go-online").disabled = false;
    new Page(settings).begin();
  } catch {
    byID<HTMLButtonElement>("go-online").disabled = true;
    notices.show("start", "This page's server does not say where the broker is. Check whether the service is running.", {
      text: "Try again", act: () => void main(),
    });
  }
}

void main();
