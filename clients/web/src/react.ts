import {
  BellwireClient, type Call, type CallOptions, type CallState, type ClientOptions, type ConnectionState, type MediaSession,
  type Member,
} from "@bellwire/client";
import {
  type ReactElement, type ReactNode, createContext, createElement, useContext, useEffect, useMemo, useState,
  useSyncExternalStore,
} from "react";

/** A value that components follow. */
class Store<Value> {
  private readonly listeners = new Set<() => void>();

  constructor(private value: Value) {}

  readonly get = (): Value => this.value;

  readonly subscribe = (changed: () => void): (() => void) => {
    this.listeners.add(changed);
    return () => void this.listeners.delete(changed);
  };

  set(value: Value): void {
    this.value = value;
    for (const changed of [...this.listeners]) changed();
  }
}

/** A call as a component shows it. Each change of the call makes another object. */
export interface CallView {
  /** The call itself, for `accept`, `reject`, `cancel`, `add`, `join`, `quit`, `end` and `signal`. */
  readonly call: Call;
  readonly state: CallState;
  readonly members: readonly Readonly<Member>[];
  /** The other members that are in the call now. */
  readonly others: readonly string[];
  /** Whether the user takes part in the call on this device. */
  readonly isHere: boolean;
  /** Whether another user calls, and this user has not responded. */
  readonly isRinging: boolean;
  /** Whether this tab must make the ringing sound: of several tabs only one must. */
  readonly isSounding: boolean;
  /** The reason why the call is over for this device; undefined before the end. */
  readonly endReason: string | undefined;
  readonly mediaSession: MediaSession | undefined;
}

const isRinging = (call: Call): boolean => call.isIncoming && call.endReason === undefined && !call.isHere;

const viewOf = (call: Call, isSounding: boolean): CallView => ({
  call, isSounding, state: call.state, members: call.members, others: call.others, isHere: call.isHere,
  isRinging: isRinging(call), endReason: call.endReason, mediaSession: call.mediaSession,
});

/** The stores of calls, which live as long as the calls. */
const callStores = new WeakMap<Call, Store<CallView>>();

function callStore(call: Call): Store<CallView> {
  const known = callStores.get(call);
  if (known) return known;
  let isSounding = false;
  const store = new Store(viewOf(call, isSounding));
  callStores.set(call, store);
  const changed = () => store.set(viewOf(call, isSounding));
  // The app's own handlers still get the earlier events.
  call.follow("change", changed);
  call.follow("ended", changed);
  call.follow("ring", (isOn) => {
    isSounding = isOn;
    changed();
  });
  return store;
}

/** The client as components show it. */
export interface Bellwire {
  readonly client: BellwireClient;
  readonly state: ConnectionState;
  /** The calls that ring here, and the calls in which this device takes part. */
  readonly calls: readonly Call[];
  /** Calls users, as `client.call` does. */
  readonly call: (users: string[], options?: CallOptions) => Promise<Call>;
}

/** The stores of clients, which live as long as the clients. */
const clientStores = new WeakMap<BellwireClient, Store<Bellwire>>();

function clientStore(client: BellwireClient): Store<Bellwire> {
  const known = clientStores.get(client);
  if (known) return known;
  const followed = new WeakSet<Call>();
  const call = async (users: string[], options: CallOptions = {}) => {
    const made = await client.call(users, options);
    changed();
    return made;
  };
  const view = (): Bellwire => ({ client, state: client.state, calls: client.calls, call });
  const store = new Store(view());
  clientStores.set(client, store);
  const changed = () => {
    for (const call of client.calls) {
      if (followed.has(call)) continue;
      followed.add(call);
      callStore(call).subscribe(changed);
    }
    store.set(view());
  };
  client.on("state", changed);
  client.on("incoming", changed);
  client.on("resumed", changed);
  changed();
  return store;
}

const Client = createContext<BellwireClient | undefined>(undefined);

export type BellwireProviderProps = { children?: ReactNode } & (
  | {
    /** The app's client, which the app connects. */
    client: BellwireClient;
    options?: undefined;
  }
  | {
    client?: undefined;
    /**
     * The options of a client, which the provider makes, connects, and disconnects when the provider goes. Another url,
     * user, device or topic root makes another client; `getToken` may be another function each time.
     */
    options: ClientOptions;
    /**
     * Called when the first connection fails: `refused` by the broker, or `notConnected` in time. The client keeps
     * trying, except after `refused` without `getToken`.
     */
    onError?: (error: unknown) => void;
  }
);

/** Gives a client to the components below. */
export function BellwireProvider(props: BellwireProviderProps): ReactElement {
  const own = useOwnClient(props);
  return createElement(Client.Provider, { value: props.client ?? own }, props.children);
}

function useOwnClient(props: BellwireProviderProps): BellwireClient | undefined {
  // The newest properties, since a token provider or handler is a new function with each rendering.
  const [newest] = useState(() => ({ props }));
  newest.props = props;
  const { options } = props;
  const key = options && JSON.stringify([options.url, options.user, options.device, options.topicRoot]);
  const client = useMemo(() => {
    if (!options) return undefined;
    const { getToken } = options;
    if (!getToken) return new BellwireClient(options);
    return new BellwireClient({ ...options, getToken: () => (newest.props.options?.getToken ?? getToken)() });
  }, [key]);
  useEffect(() => {
    if (!client) return undefined;
    let isGone = false;
    client.connect().catch((error: unknown) => {
      // The provider itself has ended the attempt.
      if (!isGone && newest.props.options) newest.props.onError?.(error);
    });
    return () => {
      isGone = true;
      void client.disconnect();
    };
  }, [client]);
  return client;
}

/** Returns the client of the `BellwireProvider` above, its connection state and its calls. */
export function useBellwire(): Bellwire {
  const client = useContext(Client);
  if (!client) throw new Error("useBellwire: there is no BellwireProvider above");
  const store = clientStore(client);
  return useSyncExternalStore(store.subscribe, store.get, store.get);
}

/**
 * Returns the call that rings on this device, the earliest where several ring; undefined when none rings. The call of a
 * user who has answered, here or on another device, rings no more.
 */
export function useIncomingCall(): Call | undefined {
  return useBellwire().calls.find(isRinging);
}

const noCall = new Store<undefined>(undefined);

/** Returns the call as the component shows it, also after its end; undefined for no call. */
export function useCall(call: Call): CallView;
export function useCall(call: Call | undefined): CallView | undefined;
export function useCall(call: Call | undefined): CallView | undefined {
  const store: Store<CallView> | Store<undefined> = call ? callStore(call) : noCall;
  return useSyncExternalStore<CallView | undefined>(store.subscribe, store.get, store.get);
}

export interface IncomingCallActions {
  readonly view: CallView;
  /** Accepts the call. A further press does nothing while the service has not answered. */
  readonly accept: () => void;
  readonly reject: () => void;
  /** Whether an answer is under way. */
  readonly isAnswering: boolean;
}

export interface IncomingCallProps {
  /** The call to show; by default the call that rings. */
  call?: Call;
  /** Called once the service has accepted the answer. */
  onAccepted?: (call: Call) => void;
  /** Called when the service refuses an answer, for example because the call has ended. */
  onError?: (error: unknown, call: Call) => void;
  /** A class beside `bellwire-incoming-call`. The parts are `…-name`, `…-accept` and `…-reject`. */
  className?: string;
  /** The texts, for example in another language. `title` is given the inviter's user id and the call's media. */
  texts?: { title?: (inviter: string, media: string | undefined) => string; accept?: string; reject?: string };
  /** Renders the call in the app's own way. */
  children?: (actions: IncomingCallActions) => ReactNode;
}

/** Shows the call that rings, with buttons to accept and to reject; shows nothing while none rings. */
export function IncomingCall(props: IncomingCallProps): ReactElement | null {
  const ringing = useIncomingCall();
  const view = useCall(props.call ?? ringing);
  const [answering, setAnswering] = useState<Call | undefined>(undefined);
  if (!view?.isRinging) return null;
  const { call } = view;
  const isAnswering = answering === call;
  const answer = (send: () => Promise<void>, done?: (call: Call) => void) => {
    if (isAnswering) return;
    setAnswering(call);
    send().then(() => done?.(call), (error: unknown) => props.onError?.(error, call)).finally(() => setAnswering(undefined));
  };
  const actions: IncomingCallActions = {
    view, isAnswering,
    accept: () => answer(() => call.accept(), props.onAccepted),
    reject: () => answer(() => call.reject()),
  };
  if (props.children) return createElement(Rendered, { node: props.children(actions) });
  return createElement(Dialog, { ...actions, props });
}

function Rendered({ node }: { node: ReactNode }): ReactNode { return node; }

const named = "bellwire-incoming-call";

function Dialog({ view, accept, reject, isAnswering, props }: IncomingCallActions & { props: IncomingCallProps }): ReactElement {
  const { inviter, media } = view.call;
  const title = props.texts?.title?.(inviter, media) ?? `${inviter} calls${media === "video" ? " with video" : ""}`;
  const button = (part: string, text: string, onClick: () => void) =>
    createElement("button", { type: "button", className: `${named}-${part}`, disabled: isAnswering, onClick }, text);
  return createElement(
    "div", { role: "alertdialog", "aria-label": title, className: [named, props.className].filter(Boolean).join(" ") },
    createElement("p", { className: `${named}-name` }, title),
    button("accept", props.texts?.accept ?? "Accept", accept),
    button("reject", props.texts?.reject ?? "Reject", reject),
  );
}
