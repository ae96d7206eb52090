/** What the page's server says of the broker. */
export interface Settings {
  /** Where browsers reach it. */
  url: string;
  /** It checks tokens. */
  tokens: boolean;
  /** For whom browsers subscribe to pushes; left out where there are none for browsers. */
  applicationServerKey?: string;
}

/** `GET /page.json`, beside the page. */
export async function loadSettings(): Promise<Settings> {
  const response = await fetch("page.json", { cache: "no-store" });
  if (!response.ok) throw new Error(`page.json: ${response.status}`);
  const settings: unknown = await response.json();
  const { url, tokens, applicationServerKey } = settings as Record<string, unknown>;
  if (typeof url !== "string" || typeof tokens !== "boolean") throw new Error("page.json does not say url and tokens");
  return { url, tokens, ...(typeof applicationServerKey === "string" ? { applicationServerKey } : {}) };
}
