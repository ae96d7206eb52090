/*
 * What CallMedia sends through the call's signals: {"bellwire":1,"epoch","to"?,"description"?,"candidates"?,"status"?,"asks"?}. What
 * arrives is anybody's: it is read field by field, and whatever is not of this form is nothing.
 */

/** A signal is at most 32 KiB (docs/protocol.md, section 2); some room is left for the rest. In characters. */
export const longestDescription = 30_000;
/** Sounds and pictures in one description: CallMedia has one of each. A browser stands still for a second over a hundred. */
const longestSections = 8;
/** Candidates in one signal. */
export const candidatesPerSignal = 20;
const longestCandidate = 1_024;

export interface Envelope {
  /** Names the sender's page. */
  epoch: string;
  /** The receiver's, where the sender knows it. */
  to?: string;
  description?: RTCSessionDescriptionInit;
  candidates?: RTCIceCandidateInit[];
  status?: { muted: boolean; camera: boolean };
  /** The sender was away, and asks for the receiver's status. */
  asks?: true;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isShort = (value: unknown, longest: number): value is string => typeof value === "string" && value.length <= longest;

/** Undefined when it is no signal of CallMedia. */
export function readEnvelope(data: unknown): Envelope | undefined {
  if (!isObject(data) || data.bellwire !== 1 || !isShort(data.epoch, 32) || data.epoch === "") return undefined;
  const envelope: Envelope = { epoch: data.epoch };
  if (data.to !== undefined) {
    if (!isShort(data.to, 32)) return undefined;
    envelope.to = data.to;
  }
  const description = readDescription(data.description);
  if (description) envelope.description = description;
  if (Array.isArray(data.candidates)) {
    envelope.candidates = data.candidates.slice(0, candidatesPerSignal).flatMap((json) => readCandidate(json) ?? []);
  }
  if (isObject(data.status)) {
    envelope.status = { muted: data.status.muted === true, camera: data.status.camera === true };
  }
  if (data.asks === true) envelope.asks = true;
  return envelope;
}

function readDescription(json: unknown): RTCSessionDescriptionInit | undefined {
  if (!isObject(json) || (json.type !== "offer" && json.type !== "answer")) return undefined;
  if (!isShort(json.sdp, longestDescription)) return undefined;
  const sections = json.sdp.match(/^m=/gm) ?? [];
  return sections.length <= longestSections ? { type: json.type, sdp: json.sdp } : undefined;
}

function readCandidate(json: unknown): RTCIceCandidateInit | undefined {
  if (!isObject(json) || !isShort(json.candidate, longestCandidate)) return undefined;
  const { candidate, sdpMid, sdpMLineIndex, usernameFragment } = json;
  const index = Number.isInteger(sdpMLineIndex) && (sdpMLineIndex as number) >= 0 && (sdpMLineIndex as number) < 64;
  return {
    candidate,
    sdpMid: isShort(sdpMid, 64) ? sdpMid : null,
    sdpMLineIndex: index ? (sdpMLineIndex as number) : null,
    ...(isShort(usernameFragment, 256) ? { usernameFragment } : {}),
  };
}
