/** The settings from the page's server. */
export interface Settings {
  /** The broker's WebSocket address for browsers, or the addresses of several brokers with commas. */
  url: string;
  /** Whether the broker checks tokens. */
  tokens: boolean;
  /** The public VAPID key for browser pushes; absent when the deployment has no pushes for browsers. */
  applicationServerKey?: string;
}

/** Loads `page.json` from the page's folder. */
export async function loadSettings(): Promise<Settings> {
  const response = await fetch("page.json", { cache: "no-store" });
  if (!response.ok) throw new Error(`page.json: ${response.status}`);
  const settings: unknown = await response.json();
  const { url, tokens, applicationServerKey } = settings as Record<string, unknown>;
  if (typeof url !== "string" || typeof tokens !== "boolean") throw new Error("page.json does not say url and tokens");
  return { url, tokens, ...(typeof applicationServerKey === "string" ? { applicationServerKey } : {}) };
}
