import type { Trace, TraceEntry } from "../src/index.js";
import { shorten } from "./dom.js";

/*
 * A call's timeline in words (docs/protocol.md, section 6). The entries come from the service, but partly contain data
 * of other devices, so each field is checked before use.
 */

export interface Step {
  /** Milliseconds since the call was created. */
  at: number;
  /** The user of the step; undefined for a step of the service itself. */
  user?: string;
  who: string;
  what: string;
  /** `in` is from the user to the service, `out` from the service to the user. */
  direction: "in" | "out" | "none";
  /** Whether the step shows a problem or a delay. */
  isTrouble: boolean;
  coordinator: string;
}

/** The bound on displayed entries, above the number of entries that the service keeps. */
const longestStory = 250;
/** The bound on members that the text of an event names. */
const longestNews = 4;

const requests: Record<string, string> = {
  "call.invite": "call", "call.cancel": "cancel the call", "call.accept": "accept", "call.reject": "decline", "call.add": "add a user",
  "call.join": "join", "call.quit": "leave", "call.end": "end the call", "call.report": "report how fast the call was set up", "call.get": "get the state of the call",
};
const sent: Record<string, string> = {
  "call.created": "was told that this user makes the call on another device", "call.invited": "was sent the invitation",
  "call.userStateChanged": "was told the new state of a member", "call.cancelled": "was told that the invitation was cancelled",
  "call.timeout": "was told that the invitation has expired", "call.ended": "was told that the call has ended",
  "call.handledElsewhere": "was told that another device of this user has answered",
};
/**
 * The shortest time in milliseconds between a first send and a resend because of loss. A second send that comes earlier
 * answers a stale ack.
 */
const firstResend = 900;
const states: Record<string, string> = {
  inviting: "is being called", notYetReceived: "has not received the call yet", received: "has received the call and rings", accepted: "is in the call",
  rejected: "declined", cancelled: "is no longer invited", timeout: "did not answer in time", quit: "left the call",
};
const ends: Record<string, string> = {
  answered: "it was answered", rejected: "declined", busy: "busy", timeout: "no invitee answered in time", cancelled: "the inviter cancelled the call",
  callerLost: "the inviter's connection was lost", hangup: "hung up", quit: "the others left", heartbeatTimeout: "a device sent no sign of life for too long",
};
const presences: Record<string, string> = { online: "came online", lost: "lost its connection", logout: "went offline" };

const text = (value: unknown): string => (typeof value === "string" || typeof value === "number" ? shorten(String(value), 70) : "");
const known = (table: Record<string, string>, value: unknown): string =>
  (typeof value === "string" && Object.prototype.hasOwnProperty.call(table, value) ? table[value] : undefined) ?? text(value);

export function storyOf({ entries, reports }: Pick<Trace, "entries" | "reports">): Step[] {
  // An ack names only a revision, so the events are remembered by user and revision.
  const events = new Map<string, { event: string; at: number }>();
  const news = new Map<string, News[]>();
  const steps = entries.slice(-longestStory).map((entry) => stepOf(entry, events, news));
  for (const { userID, device, milestones } of reports.slice(0, 50)) {
    const times = Object.entries(milestones).filter(([, time]) => Number.isFinite(time)).slice(0, 32);
    if (times.length === 0) continue;
    const said = times.sort(([, a], [, b]) => a - b).map(([name, time]) => `${shorten(name, 40)} after ${time} ms`).join(", ");
    const at = entries[entries.length - 1]?.at ?? 0;
    steps.push({ at, user: text(userID), who: person(userID, device), what: `reported: ${said}`, direction: "none", isTrouble: false, coordinator: "" });
  }
  return steps;
}

/** A member's new state at a revision. */
interface News {
  user: string;
  state: string;
}

function stepOf(entry: TraceEntry, events: Map<string, { event: string; at: number }>, news: Map<string, News[]>): Step {
  const { kind, userID, device } = entry;
  const isOf = typeof userID === "string";
  const step: Step = {
    at: entry.at, who: isOf ? person(userID, device) : "The service", what: "", direction: "none", isTrouble: false,
    coordinator: text(entry.coordinator), ...(isOf ? { user: text(userID) } : {}),
  };
  switch (kind) {
    case "request": {
      const isDone = entry.outcome === "ok";
      step.what = `asked to ${known(requests, entry.type)}${isDone ? "" : `: refused, ${text(entry.outcome)}`}`;
      step.direction = "in";
      step.isTrouble = !isDone;
      break;
    }
    case "transition":
      news.set(text(entry.revision), newsOf(entry));
      step.what = transition(entry);
      step.isTrouble = ["timeout", "callerLost", "heartbeatTimeout"].includes(text(entry.endReason)) || /has not received|in time/.test(step.what);
      break;
    case "send":
    case "resend": {
      const { online } = entry;
      const key = `${text(userID)}/${text(entry.revision)}`;
      const before = events.get(key);
      events.set(key, { event: text(entry.event), at: entry.at });
      const isAway = online === 0;
      step.what = isAway ? `had no device online for ${entry.event === "call.invited" ? "the invitation" : "an event"}`
        : `${told(entry, news)}${kind === "resend" ? " again" : ""}` +
        (typeof online === "number" && online > 1 && device === undefined ? ` on ${online} devices` : "");
      step.direction = "out";
      // Without an earlier send the resend answers a stale ack.
      step.isTrouble = isAway || (kind === "resend" && before !== undefined && entry.at - before.at >= firstResend);
      break;
    }
    case "ack": {
      const { event } = events.get(`${text(userID)}/${text(entry.revision)}`) ?? {};
      step.what = event === "call.invited" ? "has got the invitation" : "has got the last event";
      step.direction = "in";
      break;
    }
    case "presence":
      step.what = known(presences, entry.state);
      step.direction = "in";
      step.isTrouble = entry.state === "lost";
      break;
    case "deadline":
      step.what = `a time limit was reached${typeof entry.late === "number" && entry.late > 1000 ? `, ${entry.late} ms late` : ""}`;
      break;
    case "push":
      step.what = `push attempt (${text(entry.push)} by ${text(entry.platform)}): ${text(entry.outcome)}` +
        (text(entry.reason) === "" ? "" : `, ${text(entry.reason)}`);
      step.direction = "out";
      step.isTrouble = entry.outcome !== "ok" && entry.outcome !== "sent" && entry.outcome !== "accepted";
      break;
    case "media":
      step.what = `got a token for its room at ${text(entry.server)}`;
      step.direction = "out";
      break;
    default:
      step.what = text(kind);
  }
  return step;
}

/** Returns the text of an event. When the timeline has the event's revision, the text names the changed members. */
function told({ event, userID, revision }: TraceEntry, news: Map<string, News[]>): string {
  const others = (news.get(text(revision)) ?? []).filter(({ user }) => user !== text(userID)).slice(0, longestNews);
  if (event !== "call.userStateChanged" || others.length === 0) return known(sent, event);
  return `was told that ${others.map(({ user, state }) => `${user} ${state}`).join(" and ")}`;
}

function newsOf({ changes }: TraceEntry): News[] {
  const news: News[] = [];
  for (const change of Array.isArray(changes) ? (changes as unknown[]).slice(0, 30) : []) {
    const { userID, state, reason } = (change ?? {}) as Record<string, unknown>;
    if (typeof userID !== "string") continue;
    news.push({ user: text(userID), state: state === "rejected" && reason === "busy" ? "is busy" : known(states, state) });
  }
  return news;
}

function transition(entry: TraceEntry): string {
  const { state, endReason } = entry;
  const parts = newsOf(entry).map((each) => `${each.user} ${each.state}`);
  if (state === "ended") parts.push(`the call is over${endReason === undefined ? "" : `: ${known(ends, endReason)}`}`);
  return parts.join("; ") || `the call is ${text(state)}`;
}

const person = (user: unknown, device: unknown): string =>
  text(device) === "" ? text(user) : `${text(user)} (${shorten(text(device), 14)})`;

/**
 * Returns a line per invitee with the results of the call, and the reason why an invitation rang no device of the
 * invitee.
 */
export function summaryOf({ call, entries, omitted }: Pick<Trace, "call" | "entries" | "omitted">): string[] {
  // A dropped entry may have been an ack.
  const silences = omitted > 0 ? [] : silencesOf(entries);
  const moments = new Map<string, string[]>();
  for (const { kind, at, changes } of entries) {
    if (kind !== "transition" || !Array.isArray(changes)) continue;
    for (const change of (changes as unknown[]).slice(0, 30)) {
      const { userID, state, reason } = (change ?? {}) as Record<string, unknown>;
      const what = state === "rejected" && reason === "busy" ? "busy" : moment[text(state)];
      if (typeof userID !== "string" || userID === call.inviter || what === undefined) continue;
      moments.set(userID, [...(moments.get(userID) ?? []), `${what} after ${seconds(at)}`].slice(-6));
    }
  }
  for (const [user, why] of silences) moments.set(user, [...(moments.get(user) ?? []), why]);
  return [...moments].slice(0, 20).map(([user, said]) => `${shorten(user)}: ${said.join(", ")}`);
}

/**
 * Returns, for each invited user whose devices have not reacted, why the invitation rang no device. A reaction is an ack,
 * a request, or a ring check after a push, which makes the user `received`.
 */
function silencesOf(entries: TraceEntry[]): Map<string, string> {
  const invitations = new Map<string, { sends: number; online: number }>();
  const heard = new Set<unknown>();
  for (const { kind, userID, event, online, changes } of entries) {
    if (kind === "ack" || kind === "request") heard.add(userID);
    for (const change of kind === "transition" && Array.isArray(changes) ? (changes as unknown[]).slice(0, 30) : []) {
      const { userID: changed, state } = (change ?? {}) as Record<string, unknown>;
      if (state === "received" || state === "accepted" || state === "rejected") heard.add(changed);
    }
    if ((kind !== "send" && kind !== "resend") || event !== "call.invited" || typeof userID !== "string") continue;
    const known = invitations.get(userID) ?? { sends: 0, online: 0 };
    invitations.set(userID, { sends: known.sends + 1, online: Math.max(known.online, typeof online === "number" ? online : 0) });
  }
  const silences = new Map<string, string>();
  for (const [user, { sends, online }] of [...invitations].slice(0, 20)) {
    if (heard.has(user)) continue;
    silences.set(user, online === 0 ? "no device was online"
      : `${online === 1 ? "1 device was" : `${online} devices were`} online, sent ${sends === 1 ? "once" : `${sends} times`}, no ack`);
  }
  return silences;
}

const moment: Record<string, string | undefined> = {
  received: "rang", notYetReceived: "not received", accepted: "answered", rejected: "declined", cancelled: "cancelled", timeout: "no answer", quit: "left",
};

/** Formats a time such as 1.204 s. */
export const seconds = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(3)} s`;

/** Whether the timeline contains the end of the call. The service writes entries a little late. */
export const isComplete = ({ call, entries }: Trace): boolean =>
  call.state !== "ended" || entries.some(({ kind, state }) => kind === "transition" && state === "ended");
