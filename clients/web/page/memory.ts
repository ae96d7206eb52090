/*
 * The data that this tab keeps over a reload: the user who is online, and the settings of microphone and camera. Each
 * tab has its own data, and the data ends with the tab.
 */

export interface Memory {
  user?: string;
  token?: string;
  /** The settings during a call, so that a muted user stays muted. */
  media?: { call: string; muted: boolean; camera: boolean };
}

const key = "bellwire-page";
/** The storage key for the token of the user for whom this browser rings while no page is open. */
const tokenKey = "bellwire-page-token";

export function remembered(): Memory {
  try {
    const memory: unknown = JSON.parse(sessionStorage.getItem(key) ?? "{}");
    return typeof memory === "object" && memory !== null ? memory : {};
  } catch {
    // The browser may forbid storage for this page.
    return {};
  }
}

export function remember(change: Memory): void {
  try {
    sessionStorage.setItem(key, JSON.stringify({ ...remembered(), ...change }));
  } catch {
    // Without storage a reload starts without these data.
  }
}

export function forget(): void {
  try {
    sessionStorage.removeItem(key);
  } catch {
    // The browser has no storage, so there are no data to remove.
  }
}

/** Returns the token for a page that a notification opened. */
export function keptToken(): string | undefined {
  try {
    return localStorage.getItem(tokenKey) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Stores the token; undefined removes the token. */
export function keepToken(token: string | undefined): void {
  try {
    if (token === undefined) localStorage.removeItem(tokenKey);
    else localStorage.setItem(tokenKey, token);
  } catch {
    // Without storage, a page that a notification opened asks for the token.
  }
}
