import { BellwireError } from "./errors.js";

/*
 * What is on the wire (docs/protocol.md), and the one place where what others send is looked at before anything is done with it:
 * a message that is not of its form is no message, and unknown fields are left behind.
 */

/** How long a call lives (section 3): `common` ends with the answer, `advanced` lives on after it. */
export type CallMode = "common" | "advanced";
/** `ringing`: nobody but the inviter accepted. */
export type CallState = "ringing" | "active" | "ended";
export type MemberState =
  | "inviting" | "notYetReceived" | "received" | "accepted" | "rejected" | "cancelled" | "timeout" | "quit";
export type EventName =
  | "call.created" | "call.invited" | "call.userStateChanged" | "call.cancelled" | "call.timeout" | "call.ended"
  | "call.handledElsewhere";

/** A member within a call object (section 4). Times are milliseconds since the epoch by the service's clock. */
export interface Member {
  userID: string;
  name?: string;
  avatarURL?: string;
  state: MemberState;
  /** Where the user accepted, rejected or joined. */
  device?: string;
  invitedBy?: string;
  expiresAt?: number;
  updatedAt: number;
  reason?: string;
  extendedData?: string;
}

/** The call object: all that anybody may see of a call at one revision (section 4). */
export interface CallObject {
  callID: string;
  revision: number;
  mode: CallMode;
  state: CallState;
  media?: string;
  inviter: string;
  createdAt: number;
  acceptedAt?: number;
  endedAt?: number;
  endReason?: string;
  endedBy?: string;
  /** Seconds. */
  timeout: number;
  extendedData?: string;
  /** In the order in which they were invited; the inviter is the first. */
  members: Member[];
}

/** One entry of an event's `changes`: a member's state after the change (section 5). */
export interface MemberChange {
  userID: string;
  state: MemberState;
  device?: string;
  reason?: string;
  extendedData?: string;
}

/** A per-user problem in an otherwise successful request (section 2). */
export interface UserError {
  userID: string;
  code: string;
}

/** What a device is owed of a call (section 5). */
export interface CallEvent {
  type: "event";
  event: EventName;
  callID: string;
  revision: number;
  /** When this revision was made. */
  time: number;
  actor?: string;
  changes: MemberChange[];
  call: CallObject;
  /** With `call.invited`: milliseconds until the invitation expires. */
  expiresIn?: number;
  /** With `call.cancelled` and `call.timeout`: the user never responded on any device. */
  missed?: boolean;
}

/** An event of a later protocol: all that can be done with it is to ack it. */
export interface UnknownEvent {
  type: "unknownEvent";
  callID: string;
  revision: number;
}

/** The one outcome of a request (section 2). `body` is the whole message, to be judged by whoever asked. */
export interface Response {
  type: "response";
  id: string;
  error?: BellwireError;
  call?: CallObject;
  /** With `call`: when its revision was made. */
  time: number;
  body: Readonly<Record<string, unknown>>;
}

/** One of `RTCConfiguration.iceServers`. */
export interface IceServer {
  urls: string[];
  username?: string;
  credential?: string;
}

/** The answer to a device that came online (section 1). */
export interface Welcome {
  type: "welcome";
  session: string;
  serverTime: number;
  /** Seconds. */
  heartbeatInterval: number;
  calls: CallObject[];
  /** How many live calls were left out because the message would have been too large. */
  omittedCalls: number;
  /** Seconds after which a silent device no longer counts as online. */
  presenceLease?: number;
  tokenExpiresAt?: number;
  iceServers?: IceServer[];
}

/** What a member of a call sent with `call.signal`. */
export interface Signal {
  type: "signal";
  callID: string;
  from: string;
  fromDevice: string;
  seq?: number;
  stream?: string;
  data: unknown;
}

/** What a user sent with `message.send`. */
export interface Message {
  type: "message";
  messageID: string;
  from: string;
  fromDevice: string;
  /** When it was sent, by the service's clock. */
  time: number;
  seq?: number;
  stream?: string;
  data: unknown;
}

/** What has become of a message that this device sent. */
export interface Receipt {
  type: "receipt";
  messageID: string;
  to: string;
  state: "delivered" | "expired";
  time: number;
}

export interface ServiceError {
  type: "error";
  error: BellwireError;
}

export interface TokenWillExpire {
  type: "tokenWillExpire";
}

/** What the service publishes to a device. */
export type DownMessage =
  | Response | CallEvent | UnknownEvent | Welcome | Signal | Message | Receipt | ServiceError | TokenWillExpire;

/** A request: what stands on the wire, with its id (section 2). */
export interface Request {
  type: string;
  id: string;
  callID?: string;
  [field: string]: unknown;
}

/** A signal as it is sent, without an id: nothing answers it. */
export interface OutgoingSignal {
  type: "call.signal";
  callID: string;
  to?: string[];
  seq?: number;
  stream?: string;
  data: unknown;
}

/** What a device publishes on its up topic. */
export type UpMessage =
  | Request
  | OutgoingSignal
  | { type: "ack"; callID: string; revision: number }
  | { type: "ack"; messageID: string }
  | { type: "call.heartbeat"; callID: string };

/** What it publishes on its presence topic. */
export type PresenceMessage =
  | { online: true; session: string }
  | { online: false; reason: "lost" | "logout"; session: string };

/** The bounds of section 2, in bytes of UTF-8. */
export const limits = { request: 65_536, data: 32_768 };

export const byteLength = (text: string): number => new TextEncoder().encode(text).length;

/** Requests after which the next one on the same call has to wait for the response (section 2). */
export const changesCall = (type: string): boolean =>
  /^call\.(invite|cancel|accept|reject|add|join|quit|end)$/.test(type);

const pending = new Set<string>(["inviting", "notYetReceived", "received"]);
const memberStates = new Set<string>([...pending, "accepted", "rejected", "cancelled", "timeout", "quit"]);
const eventNames = new Set<string>([
  "call.created", "call.invited", "call.userStateChanged", "call.cancelled", "call.timeout", "call.ended",
  "call.handledElsewhere",
]);

/** The invitation stands and is not answered. */
export const isPending = (state: MemberState): boolean => pending.has(state);

export const memberOf = (call: CallObject, user: string): Member | undefined =>
  call.members.find((member) => member.userID === user);

// Topics (section 1)

/** Percent-encodes exactly the bytes 0x00–0x1F, 0x7F, `%`, `+`, `/`, `#`, in upper-case hex. */
export const encodeUser = (user: string): string =>
  user.replace(/[\x00-\x1f\x7f%+/#]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0"));

/** A user id that no broker and no service would take is refused before it is sent anywhere. */
export function checkUser(user: unknown): string {
  const isUser =
    typeof user === "string" && user !== "" && user.length <= 64 && byteLength(user) <= 64 &&
    // No C1 controls, noncharacters or lone surrogates.
    !/[\x80-\x9f]|\p{Cs}|\p{Noncharacter_Code_Point}/u.test(user);
  if (!isUser) throw new BellwireError("badRequest", "a user id is 1 to 64 bytes of text");
  return user as string;
}

export const isDevice = (device: unknown): device is string =>
  typeof device === "string" && /^[A-Za-z0-9._~-]{1,64}$/.test(device);

export const isID = (id: unknown): id is string => typeof id === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(id);

/** 128 random bits in hex: unique without asking anybody. */
export function randomID(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Reading

type Fields = Record<string, unknown>;

const isObject = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
const integer = (value: unknown): number | undefined => (Number.isSafeInteger(value) ? (value as number) : undefined);
const isUser = (value: unknown): value is string => typeof value === "string" && value !== "" && value.length <= 64;

/** Sets those fields of `names` that are strings. */
function takeTexts(target: object, source: Fields, names: string): void {
  for (const name of names.split(" ")) {
    if (typeof source[name] === "string") (target as Fields)[name] = source[name];
  }
}

function takeIntegers(target: object, source: Fields, names: string): void {
  for (const name of names.split(" ")) {
    if (Number.isSafeInteger(source[name])) (target as Fields)[name] = source[name];
  }
}

function readAll<T>(value: unknown, read: (json: unknown) => T | undefined): T[] {
  const found: T[] = [];
  for (const json of Array.isArray(value) ? value : []) {
    const item = read(json);
    if (item !== undefined) found.push(item);
  }
  return found;
}

function readMember(json: unknown): Member | undefined {
  if (!isObject(json) || !isUser(json.userID) || !memberStates.has(json.state as string)) return undefined;
  const updatedAt = integer(json.updatedAt);
  if (updatedAt === undefined) return undefined;
  const member: Member = { userID: json.userID, state: json.state as MemberState, updatedAt };
  takeTexts(member, json, "name avatarURL device invitedBy reason extendedData");
  takeIntegers(member, json, "expiresAt");
  return member;
}

function readChange(json: unknown): MemberChange | undefined {
  if (!isObject(json) || !isUser(json.userID) || !memberStates.has(json.state as string)) return undefined;
  const change: MemberChange = { userID: json.userID, state: json.state as MemberState };
  takeTexts(change, json, "device reason extendedData");
  return change;
}

/** Undefined when `json` is not a call object of this version. */
export function readCall(json: unknown): CallObject | undefined {
  if (!isObject(json) || !isID(json.callID) || !isUser(json.inviter) || !Array.isArray(json.members)) return undefined;
  const { mode, state } = json;
  const [revision, createdAt, timeout] = [integer(json.revision), integer(json.createdAt), integer(json.timeout)];
  if (mode !== "common" && mode !== "advanced") return undefined;
  if (state !== "ringing" && state !== "active" && state !== "ended") return undefined;
  if (revision === undefined || createdAt === undefined || timeout === undefined) return undefined;
  const members = readAll(json.members, readMember);
  if (members.length !== json.members.length) return undefined;
  const call: CallObject = {
    callID: json.callID, revision, mode, state, inviter: json.inviter, createdAt, timeout, members,
  };
  takeTexts(call, json, "media endReason endedBy extendedData");
  takeIntegers(call, json, "acceptedAt endedAt");
  return call;
}

export function readError(json: unknown): BellwireError | undefined {
  if (!isObject(json) || typeof json.code !== "string") return undefined;
  const details = {};
  takeTexts(details, json, "state callID session");
  takeIntegers(details, json, "retryAfter");
  return new BellwireError(json.code, text(json.message) ?? "", details);
}

export const readUserErrors = (value: unknown): UserError[] =>
  readAll(value, (json) =>
    isObject(json) && isUser(json.userID) && typeof json.code === "string"
      ? { userID: json.userID, code: json.code }
      : undefined,
  );

export const readUsers = (value: unknown): string[] =>
  readAll(value, (json) => (isUser(json) ? json : undefined));

export const readCalls = (value: unknown): CallObject[] => readAll(value, readCall);

/** Those entries of a list that are objects. */
export const readObjects = (value: unknown): Fields[] => readAll(value, (json) => (isObject(json) ? json : undefined));

function readEvent(json: Fields): CallEvent | UnknownEvent | undefined {
  const revision = integer(json.revision);
  const time = integer(json.time);
  const call = readCall(json.call);
  if (!eventNames.has(json.event as string) || revision === undefined || time === undefined || !call) {
    return isID(json.callID) && revision !== undefined && revision >= 0
      ? { type: "unknownEvent", callID: json.callID, revision }
      : undefined;
  }
  const event: CallEvent = {
    type: "event", event: json.event as EventName, callID: call.callID, revision, time, call,
    changes: readAll(json.changes, readChange),
  };
  takeTexts(event, json, "actor");
  takeIntegers(event, json, "expiresIn");
  if (json.missed === true) event.missed = true;
  return event;
}

function readResponse(json: Fields): Response | undefined {
  if (!isID(json.id)) return undefined;
  const response: Response = { type: "response", id: json.id, time: 0, body: json };
  if (json.ok === true) {
    const call = readCall(json.call);
    const time = integer(json.time);
    if (call && time !== undefined) Object.assign(response, { call, time });
    return response;
  }
  const error = readError(json.error);
  return json.ok === false && error ? { ...response, error } : undefined;
}

function readIceServer(json: unknown): IceServer | undefined {
  if (!isObject(json)) return undefined;
  const urls = readAll(typeof json.urls === "string" ? [json.urls] : json.urls, text);
  if (urls.length === 0) return undefined;
  const server: IceServer = { urls };
  takeTexts(server, json, "username credential");
  return server;
}

function readWelcome(json: Fields): Welcome | undefined {
  const [serverTime, heartbeatInterval] = [integer(json.serverTime), integer(json.heartbeatInterval)];
  if (typeof json.session !== "string" || serverTime === undefined || heartbeatInterval === undefined) return undefined;
  const welcome: Welcome = {
    type: "welcome", session: json.session, serverTime, heartbeatInterval, calls: readCalls(json.calls),
    omittedCalls: Math.max(0, integer(json.omittedCalls) ?? 0),
  };
  takeIntegers(welcome, json, "presenceLease tokenExpiresAt");
  if (Array.isArray(json.iceServers)) welcome.iceServers = readAll(json.iceServers, readIceServer);
  return welcome;
}

function readPeer<T extends object>(json: Fields, made: T): T | undefined {
  if (!isUser(json.from) || !isDevice(json.fromDevice) || !("data" in json)) return undefined;
  Object.assign(made, { from: json.from, fromDevice: json.fromDevice, data: json.data });
  takeIntegers(made, json, "seq");
  takeTexts(made, json, "stream");
  return made;
}

/** Undefined for what this version does not know: a client ignores it. */
export function readDown(payload: string): DownMessage | undefined {
  let json: unknown;
  try {
    json = JSON.parse(payload);
  } catch {
    return undefined;
  }
  if (!isObject(json)) return undefined;
  const time = integer(json.time);
  switch (json.type) {
    case "response":
      return readResponse(json);
    case "event":
      return readEvent(json);
    case "welcome":
      return readWelcome(json);
    case "signal":
      return isID(json.callID) ? readPeer(json, { type: "signal", callID: json.callID } as Signal) : undefined;
    case "message":
      return isID(json.messageID) && time !== undefined
        ? readPeer(json, { type: "message", messageID: json.messageID, time } as Message)
        : undefined;
    case "receipt": {
      const { messageID, to, state } = json;
      const isFinal = state === "delivered" || state === "expired";
      return isID(messageID) && isUser(to) && isFinal && time !== undefined
        ? { type: "receipt", messageID, to, state, time }
        : undefined;
    }
    case "error": {
      const error = readError(json.error);
      return error && { type: "error", error };
    }
    case "tokenWillExpire":
      return { type: "tokenWillExpire" };
    default:
      return undefined;
  }
}
