/** The reasons why voice or video is missing. */
export type MediaErrorCode =
  | "noCamera"
  | "noMicrophone"
  /** The user or the browser's settings do not permit the device. */
  | "permissionDenied"
  /** Another program uses the device. */
  | "deviceBusy"
  /** The device was lost: unplugged, or no longer permitted. */
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

/** Converts an error of `getUserMedia`. `otherwise` is the code for a device that does not exist. */
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
