// What an app finds in React Native, as far as the SDK could notice: no page, storage, worker or channel of a browser; no
// `crypto` and no `TextDecoder`; a `URL` that cannot be read. The WebSocket is that of the package `ws`.
import { webcrypto } from "node:crypto";
import WebSocket from "ws";

const missing = [
  "window", "document", "navigator", "localStorage", "sessionStorage", "BroadcastChannel", "Worker", "Blob", "location", "crypto",
  "TextDecoder", "addEventListener", "removeEventListener",
];
const define = (name, value) => Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
for (const name of missing) define(name, undefined);

class NativeURL {
  constructor(text) {
    this.text = text;
  }
}
for (const name of ["hash", "host", "hostname", "origin", "password", "pathname", "port", "protocol", "search", "username"]) {
  Object.defineProperty(NativeURL.prototype, name, { get: () => { throw new Error(`URL.${name} is not implemented`); } });
}
define("URL", NativeURL);
define("WebSocket", WebSocket);
// As react-native-get-random-values does.
define("crypto", { getRandomValues: (array) => webcrypto.getRandomValues(array) });

export const settings = JSON.parse(process.argv[2]);
export const say = (text) => console.log(text);
