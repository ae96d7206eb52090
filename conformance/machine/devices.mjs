// Devices of the conformance suite that are the web SDK: its machine, its driver and its MQTT over a WebSocket. All
// devices are in a single process. Orders and reports are lines of JSON, which client/machines.py writes and reads.
import { createInterface } from "node:readline";
import { Driver } from "../../clients/web/src/driver.ts";
import { webSocketTransport } from "../../clients/web/src/websocket.ts";

const report = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const base64 = (bytes) => Buffer.from(bytes).toString("base64");

/** The page of the driver that is being made. Each device has a page of its own, to which its driver listens. */
let page;
globalThis.addEventListener = (name, listener) => page.addEventListener(name, listener);
// A page ends with its device.
globalThis.removeEventListener = () => undefined;

class Device {
  constructor(number, settings) {
    this.page = new EventTarget();
    this.isAway = false;
    const tell = (line) => report({ device: number, ...line });
    const transport = webSocketTransport(tapped(tell, (socket) => (this.socket = socket)));
    page = this.page;
    this.driver = new Driver(
      {
        ...settings, machine: {},
        transport: (connection, handlers) => {
          if (this.isAway) throw new Error("there is no network");
          const closed = (failure) => {
            tell({ closed: failure.message, refused: failure.isRefused });
            handlers.closed(failure);
          };
          return transport(connection, { ...handlers, closed });
        },
      },
      {
        told: ({ tell: what, event, message, signal }) => {
          if (what === "event") tell({ told: what, callID: event.callID, revision: event.revision });
          if (what === "message") tell({ told: what, messageID: message.messageID });
          if (what === "signal") tell({ told: what, signal });
        },
        succeeded: (id) => tell({ outcome: id }),
        failed: (id, { code }) => tell({ outcome: id, code }),
        lost: () => undefined,
        subscribed: () => undefined,
        refused: (callID) => tell({ noRoom: callID }),
      },
    );
  }

  /** Takes the network away: the broker receives no DISCONNECT, and the SDK learns that its connection broke. */
  lose() {
    this.isAway = true;
    this.socket.close();
    this.socket.onclose?.(new Event("close"));
  }

  /** Restores the network, and tells the page. */
  find() {
    this.isAway = false;
    this.page.dispatchEvent(new Event("online"));
  }
}

/** Returns a WebSocket class that reports its bytes, each message before its effects. */
function tapped(tell, made) {
  return class extends WebSocket {
    constructor(url, protocol) {
      super(url, protocol);
      made(this);
      this.addEventListener("message", ({ data }) => tell({ in: base64(data) }));
    }

    send(bytes) {
      tell({ out: base64(bytes) });
      super.send(bytes);
    }
  };
}

const devices = new Map();
const orders = {
  begin: (number, { settings }) => devices.set(number, new Device(number, settings)),
  request: (number, { text }) => devices.get(number).driver.send(JSON.parse(text)),
  signal: (number, { text }) => devices.get(number).driver.signal(JSON.parse(text)),
  lose: (number) => devices.get(number).lose(),
  find: (number) => devices.get(number).find(),
  /** Disconnects like `client.disconnect()`. */
  end: (number) => {
    devices.get(number).driver.stop();
    devices.delete(number);
  },
  /** Reports that all earlier orders are done, and that their immediate results have been reported. */
  sync: (_, { token }) => report({ sync: token }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { order, number, ...fields } = JSON.parse(line);
  try {
    orders[order](number, fields);
  } catch (error) {
    report({ device: number, raised: String(error?.stack ?? error) });
  }
}
process.exit(0);
