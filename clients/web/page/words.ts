import { BellwireError, type CallObject, type Member } from "../src/index.js";
import { MediaError } from "../src/media.js";
import { PushError } from "../src/push.js";
import { shorten } from "./dom.js";

/* The texts of the page. The status texts are fixed, because tests and screen reader users rely on them. */

const isPending = ({ state }: Member): boolean => state === "inviting" || state === "notYetReceived" || state === "received";
export const isLive = (member: Member): boolean => member.state === "accepted" || isPending(member);
export const othersOf = (call: CallObject, user: string): Member[] => call.members.filter(({ userID }) => userID !== user);
const names = (members: Member[]): string => members.map(({ userID }) => userID).join(", ");
const verb = (members: Member[], one: string, several: string): string => (members.length === 1 ? one : several);

/**
 * Returns the status of a live call; undefined while the user has not accepted the call, because then the dialog shows
 * the call.
 */
export function callText(call: CallObject, user: string): string | undefined {
  const own = call.members.find(({ userID }) => userID === user);
  if (own?.state !== "accepted") return undefined;
  const others = othersOf(call, user);
  const being = (state: string) => others.filter((member) => member.state === state);
  const [accepted, received, late] = [being("accepted"), being("received"), being("notYetReceived")];
  if (accepted.length > 0) return `In a call with ${names(accepted)}`;
  if (received.length > 0) return `Ringing ${names(received)}`;
  if (late.length > 0) return `${names(late)} ${verb(late, "has", "have")} not received the call yet`;
  const pending = others.filter(isPending);
  return callingText((pending.length > 0 ? pending : others).map(({ userID }) => userID));
}

export const callingText = (users: readonly string[]): string => `Calling ${users.join(", ")}`;

/** Returns the user who calls this user. The calling user can be another user than the inviter of the call. */
export function callerOf(call: CallObject, user: string): string {
  return call.members.find(({ userID }) => userID === user)?.invitedBy ?? call.inviter;
}

/**
 * Returns the status after a call. `reason` is the end for this device; `isMissed` is whether this user never responded
 * on any device.
 */
export function endText(call: CallObject, user: string, reason: string, isMissed: boolean): string {
  const own = call.members.find(({ userID }) => userID === user);
  if (reason === "answeredElsewhere") return "Answered on another device";
  const wasMissed = own?.state === "timeout" || (own?.state === "cancelled" && own.reason !== "declined");
  if (isMissed || (reason === "gone" && wasMissed)) return `Missed call from ${callerOf(call, user)}`;
  if (call.inviter !== user || call.acceptedAt !== undefined) return "Call ended";
  const others = othersOf(call, user);
  const rejected = others.filter(({ state }) => state === "rejected");
  const busy = rejected.filter((member) => member.reason === "busy");
  const declined = rejected.filter((member) => member.reason !== "busy");
  switch (call.endReason) {
    case "busy":
    case "rejected":
      // The last response ended the call, but a user who declined is more informative than a busy user.
      if (declined.length > 0) return `${names(declined)} declined`;
      if (busy.length > 0) return `${names(busy)} ${verb(busy, "is", "are")} busy`;
      return "Call ended";
    case "timeout":
      return "No answer";
    default:
      return "Call ended";
  }
}

/** The text for a call of mode `common`, which ends with its answer. */
export const commonText = (caller: string): string =>
  `${shorten(caller)} has your answer, and with it this call is over: the call was only made to ring. To talk here, call back.`;

/** Returns a member's state, for the list beside a call. */
export function memberText(member: Member): string {
  switch (member.state) {
    case "inviting": return "is being called";
    case "notYetReceived": return "has not received the call yet";
    case "received": return "is being rung";
    case "accepted": return "is in the call";
    case "rejected": return member.reason === "busy" ? "is busy" : "declined";
    case "cancelled": return "is no longer invited";
    case "timeout": return "did not answer";
    case "quit": return "has left";
  }
}

export const isVideo = ({ media }: { media?: string | undefined }): boolean => media === "video";
export const kindOf = (call: { media?: string | undefined }): string => (isVideo(call) ? "Video call" : "Voice call");

// Problems and remedies

/** Returns the text for a failed request. */
export function problemText(error: unknown, of: { url: string; tokens: boolean }): string {
  if (!(error instanceof BellwireError)) return `An error occurred in this page: ${shorten(String(error), 200)}. Reload the page.`;
  const said = shorten(error.message, 200);
  switch (error.code) {
    case "refused":
      return of.tokens
        ? `The token is not taken (${said}). The token may have ended, or may be for another name: check the name, or get a new token.`
        : `The broker does not let this page in (${said}). If the broker checks tokens, this page's server must be configured for tokens.`;
    case "notConnected":
      return `No connection to ${of.url} (${said}). Check your network, and whether the service is running. This page keeps trying.`;
    case "noResponse":
    case "unavailable":
      return "The service does not answer at the moment. Try again soon.";
    case "rateLimited":
      return `Too many requests. Try again in ${Math.max(1, Math.ceil((error.retryAfter ?? 1000) / 1000))} s.`;
    case "noInvitees":
    case "userNotRegistered":
      return "None of these people can be called: check the names.";
    case "alreadyInCall":
      return "You are in a call on another device or in another tab.";
    case "callFull":
      return "The call is full.";
    case "callNotFound":
      return "The service no longer knows this call.";
    case "tokenExpired":
    case "tokenRevoked":
      return "Your token has ended. Paste a new one.";
    case "userDisabled":
      return "Your account is disabled. Ask the operator of this service.";
    case "flooding":
    case "slowReader":
      return "This page sent or received too much data at once, and the broker disconnected the page. The page connects again by itself.";
    default:
      return `The service refused: ${said}.`;
  }
}

/** Returns the text for a problem with microphone or camera. */
export function mediaText(error: unknown): string {
  if (!(error instanceof MediaError)) return `Voice and video do not work: ${shorten(String(error), 200)}. Reload the page.`;
  const device = error.message.includes("camera") ? "camera" : "microphone";
  switch (error.code) {
    case "noCamera":
      return "No camera was found: the others hear you but do not see you. Connect a camera, then press Camera.";
    case "noMicrophone":
      return "No microphone was found: the others do not hear you. Connect a microphone, then reload the page; you come back into the call.";
    case "cameraLost":
      return "The camera was lost: the others hear you but do not see you. Connect or allow the camera again, then press Camera.";
    case "microphoneLost":
      return "The microphone was lost: the others do not hear you. Connect or allow the microphone again, then press Mute.";
    case "permissionDenied":
      return `The browser does not let this page use the ${device}. Allow it beside the address of the page, then ` +
        (device === "camera" ? "press Camera." : "reload the page; you come back into the call.");
    case "deviceBusy":
      return `Another program uses the ${device}. Close that program, then ` +
        (device === "camera" ? "press Camera." : "reload the page; you come back into the call.");
    case "insecureContext":
      return insecureText;
    case "unsupported":
      return unsupportedText;
  }
}

/**
 * Returns the text for a problem with ringing while the page is closed; undefined when the browser is not the cause.
 */
export function pushText(error: unknown): string | undefined {
  if (!(error instanceof PushError)) return undefined;
  switch (error.code) {
    case "permissionDenied":
      return "The browser does not let this page show notifications. Allow them beside the address of the page, then press the button again.";
    case "noPushService":
      return `The browser's push service cannot be reached, or refuses (${shorten(error.message, 200)}). Check your network, then press the button again.`;
    case "noWorker":
      return `The browser could not start the service worker for calls (${shorten(error.message, 200)}). Reload the page, then press the button again.`;
    case "insecureContext":
    case "unsupported":
      return "This browser cannot be rung while the page is closed. On an iPhone, put the page on the home screen first.";
  }
}

export const insecureText =
  "The browser allows microphone and camera only for secure pages: open this page by https://, or on this computer as http://127.0.0.1.";
export const unsupportedText =
  "This browser has no WebRTC, so a call has no sound and no video. Use a current Firefox, Chrome, Edge or Safari, or allow WebRTC in its settings.";
