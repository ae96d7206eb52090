/** What is missing for voice and video. */
export type MediaErrorCode =
  | "noCamera"
  | "noMicrophone"
  /** The user, or the browser's settings, do not permit it. */
  | "permissionDenied"
  /** Another program holds the device. */
  | "deviceBusy"
  /** It was there, and is gone: unplugged, or not permitted any more. */
  | "cameraLost"
  | "microphoneLost"
  | "insecureContext"
  | "unsupported";

export class MediaError extends Error {
  override readonly name = "MediaError";

  constructor(
    readonly code: MediaErrorCode,
    message: string,
  ) {
    super(message);
  }
}

/** What `getUserMedia` throws, in these terms. `otherwise`: when the device is not there. */
export function mediaErrorOf(error: unknown, otherwise: "noCamera" | "noMicrophone"): MediaError {
  if (error instanceof MediaError) return error;
  const device = otherwise === "noCamera" ? "camera" : "microphone";
  switch ((error as { name?: unknown } | undefined)?.name) {
    case "NotAllowedError":
    case "SecurityError":
      return new MediaError("permissionDenied", `the ${device} is not permitted to this page`);
    case "NotReadableError":
    case "AbortError":
      return new MediaError("deviceBusy", `the ${device} is in use by another program`);
    default:
      return new MediaError(otherwise, `there is no ${device}`);
  }
}
