/*
 * What this tab remembers over a reload: who is online in it, and how its microphone and camera were set. Another tab has a memory of
 * its own, and it ends with the tab.
 */

export interface Memory {
  user?: string;
  token?: string;
  /** Of one call: whoever was muted stays so. */
  media?: { call: string; muted: boolean; camera: boolean };
}

const key = "bellwire-page";
/** Of this browser, while it is rung with no page open: the token of who is rung. */
const tokenKey = "bellwire-page-token";

export function remembered(): Memory {
  try {
    const memory: unknown = JSON.parse(sessionStorage.getItem(key) ?? "{}");
    return typeof memory === "object" && memory !== null ? memory : {};
  } catch {
    // A page that may store nothing.
    return {};
  }
}

export function remember(change: Memory): void {
  try {
    sessionStorage.setItem(key, JSON.stringify({ ...remembered(), ...change }));
  } catch {
    // A reload then begins anew.
  }
}

export function forget(): void {
  try {
    sessionStorage.removeItem(key);
  } catch {
    // Nothing was stored.
  }
}

/** What a page that is opened from a notification goes online with. */
export function keptToken(): string | undefined {
  try {
    return localStorage.getItem(tokenKey) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Undefined: none any more. */
export function keepToken(token: string | undefined): void {
  try {
    if (token === undefined) localStorage.removeItem(tokenKey);
    else localStorage.setItem(tokenKey, token);
  } catch {
    // A page that is opened then asks for it.
  }
}
