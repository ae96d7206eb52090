/*
 * The form of CallMedia's signals: {"bellwire":1,"epoch","to"?,"description"?,"candidates"?,"status"?,"asks"?}. Any
 * member can send any data, so the code reads received signals field by field and ignores all data of another form.
 */

/**
 * The longest description, in characters. A signal has at most 32 KiB (docs/protocol.md, section 2), and the other
 * fields need some room.
 */
export const longestDescription = 30_000;
/**
 * The bound on media sections in a description. CallMedia uses two; a hundred sections would block the browser for a
 * second.
 */
const longestSections = 8;
/** The bound on candidates per signal. */
export const candidatesPerSignal = 20;
const longestCandidate = 1_024;

export interface Envelope {
  /** The random name of the sender's page. */
  epoch: string;
  /** The name of the receiver's page, when the sender knows this name. */
  to?: string;
  description?: RTCSessionDescriptionInit;
  candidates?: RTCIceCandidateInit[];
  status?: { muted: boolean; camera: boolean };
  /** Whether the sender was offline and asks for the receiver's status. */
  asks?: true;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isShort = (value: unknown, longest: number): value is string => typeof value === "string" && value.length <= longest;

/** Reads a signal; undefined when the signal is not from CallMedia. */
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
