import { type CallObject, changesCall, isPending, memberOf } from "../protocol.js";
import { type Action, type KnownCall, type PendingRequest, type State, deliver } from "./state.js";

/*
 * Room in the table of known calls. Everybody may ring this device, so that nobody may push out of it what it is about: a call in
 * which the device takes part is never forgotten while it lives.
 */

export const knownCall = (state: State, callID: string): KnownCall | undefined =>
  state.calls.find((call) => call.snapshot.callID === callID);

export function isLiveFor(state: State, call: CallObject): boolean {
  const own = memberOf(call, state.user)?.state;
  return call.state !== "ended" && own !== undefined && (own === "accepted" || isPending(own));
}

/**
 * What a call is to this device, from what is forgotten first to what is never forgotten. `over`: what is remembered of it only
 * keeps it from ringing again. `elsewhere`: the user is in it on another device. `ringing`: whoever rings most often gives way
 * first. `own`: the device calls or talks in it, or is about to.
 */
type Standing = "over" | "elsewhere" | "ringing" | "own";

function standing(state: State, call: CallObject, isLive: boolean): Standing {
  const own = memberOf(call, state.user);
  if (!isLive || !own) return "over";
  // Calls that the app has just asked to change.
  const isAsked = (entry: PendingRequest) =>
    entry.request.callID === call.callID && changesCall(entry.request.type);
  if (state.pending.some(isAsked)) return "own";
  if (isPending(own.state)) return "ringing";
  return own.device === state.device ? "own" : "elsewhere";
}

/** The call would have to be forgotten as soon as it was remembered, and so must not be taken in, when this is false. */
export const hasRoom = (state: State, call: CallObject): boolean => !isLiveFor(state, call) || room(state, call) !== "none";

/** The device takes part in the call afterwards. */
export const beginsCall = (entry: PendingRequest): boolean => /^call\.(invite|accept|join)$/.test(entry.request.type);

/** The app may begin one more call: as many as can be known are never forgotten. What others do cannot use this up. */
export function mayBegin(state: State, entry: PendingRequest): boolean {
  const isNew = ({ request }: PendingRequest) => request.callID === undefined || !knownCall(state, request.callID);
  if (!beginsCall(entry) || !isNew(entry)) return true;
  const own = state.calls.filter((call) => standing(state, call.snapshot, call.isLive) === "own").length;
  return own + state.pending.filter((each) => beginsCall(each) && isNew(each)).length < state.configuration.knownCalls;
}

/** Forgets another call where that is needed, and tells the app if it lived; undefined when there is no room. */
export function makeRoom(state: State, call: CallObject): Action[] | undefined {
  const found = room(state, call);
  if (found === "free") return [];
  if (found === "none") return undefined;
  state.calls.splice(state.calls.indexOf(found), 1);
  return found.isLive ? [deliver({ tell: "gone", call: found.snapshot })] : [];
}

/** Free, none, or after a call is forgotten. */
function room(state: State, call: CallObject): "free" | "none" | KnownCall {
  if (state.calls.length < state.configuration.knownCalls || knownCall(state, call.callID)) return "free";
  const standings = state.calls.map((known) => standing(state, known.snapshot, known.isLive));
  const added = standing(state, call, isLiveFor(state, call));
  for (const dispensable of ["over", "elsewhere"] as const) {
    const candidates = state.calls.filter((_, index) => standings[index] === dispensable);
    // The one that was silent for longest.
    if (candidates.length > 0) return candidates.reduce((a, b) => (b.heardAt < a.heardAt ? b : a));
    if (added === dispensable) return "none";
  }
  const ringing = state.calls.filter((_, index) => standings[index] === "ringing");
  const candidates = ringing.map((known) => known.snapshot);
  if (added === "ringing") candidates.push(call);
  const refused = leastMissed(state, candidates);
  return ringing.find((known) => known.snapshot === refused) ?? "none";
}

/** Of calls that ring, the newest one of whoever rings most often: the last of a flood gives way, and not the one call of somebody else. */
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
