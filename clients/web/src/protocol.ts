import { BellwireError } from "./errors.js";

/*
 * The messages on the wire (docs/protocol.md). All received data is checked here before use: messages of another form
 * are ignored, and unknown fields are dropped.
 */

/**
 * The mode of a call (section 3): a `common` call ends with the answer, an `advanced` call lives on after the answer.
 */
export type CallMode = "common" | "advanced";
/** `ringing`: only the inviter has accepted. */
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
  /** The device on which the user accepted, rejected or joined. */
  device?: string;
  invitedBy?: string;
  expiresAt?: number;
  updatedAt: number;
  reason?: string;
  extendedData?: string;
}

/** The call object: all that members may see of a call at a revision (section 4). */
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
  /** The timeout of an invitation, in seconds. */
  timeout: number;
  extendedData?: string;
  /** The members in the order of their invitations; the inviter is the first. */
  members: Member[];
}

/** An entry of an event's `changes`: a member's state after the change (section 5). */
export interface MemberChange {
  userID: string;
  state: MemberState;
  device?: string;
  reason?: string;
  extendedData?: string;
}

/** A problem with a single user in an otherwise successful request (section 2). */
export interface UserError {
  userID: string;
  code: string;
}

/** An event about a call for a device (section 5). */
export interface CallEvent {
  type: "event";
  event: EventName;
  callID: string;
  revision: number;
  /** The creation time of this revision. */
  time: number;
  actor?: string;
  changes: MemberChange[];
  call: CallObject;
  /** With `call.invited`: milliseconds until the invitation expires. */
  expiresIn?: number;
  /** With `call.cancelled`, `call.timeout` and `call.ended`: whether the user never responded on any device. */
  missed?: boolean;
}

/** An event of a later protocol version. The client can only ack such an event. */
export interface UnknownEvent {
  type: "unknownEvent";
  callID: string;
  revision: number;
}

/** The response to a request (section 2). `body` is the whole message; the sender of the request checks the body. */
export interface Response {
  type: "response";
  id: string;
  error?: BellwireError;
  call?: CallObject;
  /** With `call`: the creation time of the call's revision. */
  time: number;
  body: Readonly<Record<string, unknown>>;
}

/** An entry of `RTCConfiguration.iceServers`. */
export interface IceServer {
  urls: string[];
  username?: string;
  credential?: string;
}

/**
 * The data with which a device enters the room of its call at a media server. The token admits its holder to the room,
 * so an app must not log or store the token.
 */
export interface MediaSession {
  /** The name of the media server in the operator's settings. */
  server: string;
  type: "livekit" | "jitsi" | "jwt" | (string & {});
  url: string;
  room: string;
  token: string;
  /** The end of the token, in milliseconds since the epoch. The device must have joined by then. */
  expiresAt: number;
}

/** The service's answer to a device that came online (section 1). */
export interface Welcome {
  type: "welcome";
  session: string;
  serverTime: number;
  /** The interval between heartbeats, in seconds. */
  heartbeatInterval: number;
  calls: CallObject[];
  /** The number of live calls that were left out because the message would have been too large. */
  omittedCalls: number;
  /** The time until a silent device no longer counts as online, in seconds. */
  presenceLease?: number;
  tokenExpiresAt?: number;
  iceServers?: IceServer[];
  /** The media sessions of the live calls in which this device is accepted. */
  mediaSessions?: { callID: string; session: MediaSession }[];
}

/** A signal of a member of a call (`call.signal`). */
export interface Signal {
  type: "signal";
  callID: string;
  from: string;
  fromDevice: string;
  seq?: number;
  stream?: string;
  data: unknown;
}

/** A peer message of a user (`message.send`). */
export interface Message {
  type: "message";
  messageID: string;
  from: string;
  fromDevice: string;
  /** The time of sending, by the service's clock. */
  time: number;
  seq?: number;
  stream?: string;
  data: unknown;
}

/** The receipt of a peer message of this device. */
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

/** A message that the service publishes to a device. */
export type DownMessage =
  | Response | CallEvent | UnknownEvent | Welcome | Signal | Message | Receipt | ServiceError | TokenWillExpire;

/** A request with its id, in the form of the wire (section 2). */
export interface Request {
  type: string;
  id: string;
  callID?: string;
  [field: string]: unknown;
}

/** A signal without an id, which gets no response. */
export interface OutgoingSignal {
  type: "call.signal";
  callID: string;
  to?: string[];
  seq?: number;
  stream?: string;
  data: unknown;
}

/** A message that a device publishes on its up topic. */
export type UpMessage =
  | Request
  | OutgoingSignal
  | { type: "ack"; callID: string; revision: number }
  | { type: "ack"; messageID: string }
  | { type: "call.heartbeat"; callID: string };

/** A message that a device publishes on its presence topic. */
export type PresenceMessage =
  | { online: true; session: string }
  | { online: false; reason: "lost" | "logout"; session: string };

/** The bounds of section 2, in bytes of UTF-8. */
export const limits = { request: 65_536, data: 32_768 };

export const byteLength = (text: string): number => new TextEncoder().encode(text).length;

/** Whether a request may change its call. The next such request on the same call waits for the response (section 2). */
export const changesCall = (type: string): boolean =>
  /^call\.(invite|cancel|accept|reject|add|join|quit|end)$/.test(type);

const pending = new Set<string>(["inviting", "notYetReceived", "received"]);
const memberStates = new Set<string>([...pending, "accepted", "rejected", "cancelled", "timeout", "quit"]);
const eventNames = new Set<string>([
  "call.created", "call.invited", "call.userStateChanged", "call.cancelled", "call.timeout", "call.ended",
  "call.handledElsewhere",
]);

/** Whether the invitation is open and not answered. */
export const isPending = (state: MemberState): boolean => pending.has(state);

export const memberOf = (call: CallObject, user: string): Member | undefined =>
  call.members.find((member) => member.userID === user);

// Topics (section 1)

/** Percent-encodes exactly the bytes 0x00–0x1F, 0x7F, `%`, `+`, `/`, `#`, in upper-case hex. */
export const encodeUser = (user: string): string =>
  user.replace(/[\x00-\x1f\x7f%+/#]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0"));

/** Returns `user`. Throws when no broker and no service would accept the user id. */
export function checkUser(user: unknown): string {
  const isUser =
    typeof user === "string" && user !== "" && user.length <= 64 && byteLength(user) <= 64 &&
    // C1 controls, lone surrogates and noncharacters. (The engine of older React Natives has no `\p{…}`.)
    !/[\x80-\x9f\ud800-\udfff\ufdd0-\ufdef]/u.test(user) &&
    ![...user].some((character) => ((character.codePointAt(0) ?? 0) & 0xfffe) === 0xfffe);
  if (!isUser) throw new BellwireError("badRequest", "a user id is 1 to 64 bytes of text");
  return user as string;
}

export const isDevice = (device: unknown): device is string =>
  typeof device === "string" && /^[A-Za-z0-9._~-]{1,64}$/.test(device);

export const isID = (id: unknown): id is string => typeof id === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(id);

/** Returns 128 random bits in hex, an id that is unique without coordination. */
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

/** Copies the fields `names` that are strings. */
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
  takeTexts(details, json, "state callID session reason newerSession");
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

/** Returns the entries of a list that are objects. */
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

export function readMediaSession(json: unknown): MediaSession | undefined {
  if (!isObject(json)) return undefined;
  const [server, type, url, room, token] = [json.server, json.type, json.url, json.room, json.token].map(text);
  const expiresAt = integer(json.expiresAt);
  return server && type && url && room && token && expiresAt !== undefined
    ? { server, type, url, room, token, expiresAt }
    : undefined;
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
  if (Array.isArray(json.mediaSessions)) {
    welcome.mediaSessions = readAll(json.mediaSessions, (each) => {
      const session = readMediaSession(each);
      return session && isObject(each) && isID(each.callID) ? { callID: each.callID, session } : undefined;
    });
  }
  return welcome;
}

function readPeer<T extends object>(json: Fields, made: T): T | undefined {
  if (!isUser(json.from) || !isDevice(json.fromDevice) || !("data" in json)) return undefined;
  Object.assign(made, { from: json.from, fromDevice: json.fromDevice, data: json.data });
  takeIntegers(made, json, "seq");
  takeTexts(made, json, "stream");
  return made;
}

/** Reads a message of the service; undefined for a message that this version does not know. */
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
