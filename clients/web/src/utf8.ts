const decoder = (() => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  } catch {
    // React Native has no TextDecoder, or one without `fatal`.
    return undefined;
  }
})();

const escaped = (byte: number): string => "%" + byte.toString(16).padStart(2, "0");

/** Decodes UTF-8. Throws when the bytes are not UTF-8. */
export const decodeText = (bytes: Uint8Array): string =>
  decoder ? decoder.decode(bytes) : decodeURIComponent(Array.from(bytes, escaped).join(""));
