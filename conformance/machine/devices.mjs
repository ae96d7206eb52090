// Devices of the conformance suite that are the web SDK: its machine, its driver and its MQTT over a WebSocket, many of them in one
// process. Orders come in and reports go out as lines of JSON; client/machines.py is the other end.
import { createInterface } from "node:readline";
import { Driver } from "../../clients/web/src/driver.ts";
import { webSocketTransport } from "../../clients/web/src/websocket.ts";

const report = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const base64 = (bytes) => Buffer.from(bytes).toString("base64");

/** Where the driver that is being made listens for what happens to its page: each device has one of its own. */
let page;
globalThis.addEventListener = (name, listener) => page.addEventListener(name, listener);
// A page goes with its device.
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

  /** The network is gone: the broker hears no DISCONNECT, and the SDK that its connection broke. */
  lose() {
    this.isAway = true;
    this.socket.close();
    this.socket.onclose?.(new Event("close"));
  }

  /** The network is there again, and the page is told. */
  find() {
    this.isAway = false;
    this.page.dispatchEvent(new Event("online"));
  }
}

/** A WebSocket that reports what goes through it, each thing before what follows from it. */
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
  /** As `client.disconnect()` does. */
  end: (number) => {
    devices.get(number).driver.stop();
    devices.delete(number);
  },
  /** All that was ordered before is done, and what came of it at once has been reported. */
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
