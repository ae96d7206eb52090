import { BellwireError } from "./errors.js";

/** Scheme, host, port, and the path with the query. The `URL` of React Native cannot read these. */
const addressForm =
  /^([a-z][a-z\d+.-]*):\/\/(?:[^\s/?#@]*@)?(\[[\da-f:.]+\]|[^\s/?#@:[\]\\]+)(?::(\d{1,5}))?(\/[^\s?#]*)?(\?[^\s#]*)?$/i;

/** Returns the addresses of the brokers. Throws when the list is empty, or an entry is empty, malformed or repeated. */
export function checkURLs(urls: unknown[], isWebSocket: boolean): string[] {
  if (urls.length === 0) throw new BellwireError("badRequest", "url names no broker");
  const named = new Set<string>();
  return urls.map((url, place) => {
    const [, scheme = "", host = "", port, path = "/", query = ""] = addressForm.exec(String(url)) ?? [];
    const isSecure = scheme.toLowerCase() === "wss";
    if (host === "" || Number(port ?? 0) > 65_535 || (isWebSocket && !/^wss?$/i.test(scheme))) {
      // The text may have a password, so the error does not repeat the text.
      throw new BellwireError("badRequest", `url: entry ${place + 1} is no address such as wss://host:port/path`);
    }
    const name = `${host.toLowerCase()}:${Number(port ?? (isSecure ? 443 : 80))}`;
    if (named.has(name + path + query)) throw new BellwireError("badRequest", `url: ${name} is named twice`);
    named.add(name + path + query);
    return String(url);
  });
}
