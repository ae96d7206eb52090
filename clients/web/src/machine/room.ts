import { type CallObject, changesCall, isPending, memberOf } from "../protocol.js";
import { type Action, type KnownCall, type PendingRequest, type State, deliver } from "./state.js";

/*
 * The table of known calls and its bound. Any user may ring this device, so other users' calls must not displace the
 * device's own calls: a live call in which the device takes part is never forgotten.
 */

export const knownCall = (state: State, callID: string): KnownCall | undefined =>
  state.calls.find((call) => call.snapshot.callID === callID);

export function isLiveFor(state: State, call: CallObject): boolean {
  const own = memberOf(call, state.user)?.state;
  return call.state !== "ended" && own !== undefined && (own === "accepted" || isPending(own));
}

/**
 * The importance of a call to this device, in the order of forgetting; `own` is never forgotten. `over`: the entry only
 * prevents a second ringing. `elsewhere`: the user is in the call on another device. `ringing`: calls of the inviter
 * with the most ringing calls are forgotten first. `own`: the device makes the call or takes part, or is about to.
 */
type Standing = "over" | "elsewhere" | "ringing" | "own";

function standing(state: State, call: CallObject, isLive: boolean): Standing {
  const own = memberOf(call, state.user);
  if (!isLive || !own) return "over";
  // The app has just asked to change this call.
  const isAsked = (entry: PendingRequest) =>
    entry.request.callID === call.callID && changesCall(entry.request.type);
  if (state.pending.some(isAsked)) return "own";
  if (isPending(own.state)) return "ringing";
  return own.device === state.device ? "own" : "elsewhere";
}

/**
 * Whether the machine may store the call. When false, the machine would have to forget the call at once, so the machine
 * must ignore the call.
 */
export const hasRoom = (state: State, call: CallObject): boolean => !isLiveFor(state, call) || room(state, call) !== "none";

/** Whether the device takes part in the call after this request. */
export const beginsCall = (entry: PendingRequest): boolean => /^call\.(invite|accept|join)$/.test(entry.request.type);

/**
 * Whether the app may begin another call. The table never forgets own calls, so the bound is the size of the table.
 * Other users' calls do not count.
 */
export function mayBegin(state: State, entry: PendingRequest): boolean {
  const isNew = ({ request }: PendingRequest) => request.callID === undefined || !knownCall(state, request.callID);
  if (!beginsCall(entry) || !isNew(entry)) return true;
  const own = state.calls.filter((call) => standing(state, call.snapshot, call.isLive) === "own").length;
  return own + state.pending.filter((each) => beginsCall(each) && isNew(each)).length < state.configuration.knownCalls;
}

/** Forgets another call if needed, and tells the app if that call was live. Returns undefined when there is no room. */
export function makeRoom(state: State, call: CallObject): Action[] | undefined {
  const found = room(state, call);
  if (found === "free") return [];
  if (found === "none") return undefined;
  state.calls.splice(state.calls.indexOf(found), 1);
  return found.isLive ? [deliver({ tell: "gone", call: found.snapshot })] : [];
}

/** Returns whether there is room, or the call to forget to make room. */
function room(state: State, call: CallObject): "free" | "none" | KnownCall {
  if (state.calls.length < state.configuration.knownCalls || knownCall(state, call.callID)) return "free";
  const standings = state.calls.map((known) => standing(state, known.snapshot, known.isLive));
  const added = standing(state, call, isLiveFor(state, call));
  for (const dispensable of ["over", "elsewhere"] as const) {
    const candidates = state.calls.filter((_, index) => standings[index] === dispensable);
    // The call with the longest time since its last news.
    if (candidates.length > 0) return candidates.reduce((a, b) => (b.heardAt < a.heardAt ? b : a));
    if (added === dispensable) return "none";
  }
  const ringing = state.calls.filter((_, index) => standings[index] === "ringing");
  const candidates = ringing.map((known) => known.snapshot);
  if (added === "ringing") candidates.push(call);
  const refused = leastMissed(state, candidates);
  return ringing.find((known) => known.snapshot === refused) ?? "none";
}

/**
 * Returns the newest ringing call of the inviter with the most ringing calls: the last call of a flood is forgotten,
 * and not another user's only call.
 */
function leastMissed(state: State, ringing: CallObject[]): CallObject | undefined {
  const caller = (call: CallObject) => memberOf(call, state.user)?.invitedBy ?? call.inviter;
  const counts = new Map<string, number>();
  for (const call of ringing) counts.set(caller(call), (counts.get(caller(call)) ?? 0) + 1);
  const isBefore = (a: CallObject, b: CallObject): boolean => {
    const difference = (counts.get(caller(a)) ?? 0) - (counts.get(caller(b)) ?? 0) || a.createdAt - b.createdAt;
    return difference === 0 ? a.callID < b.callID : difference < 0;
  };
  return ringing.length === 0 ? undefined : ringing.reduce((a, b) => (isBefore(a, b) ? b : a));
}
