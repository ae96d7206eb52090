import { after, holdTimers } from "./timers.js";
import { type Connection, type ConnectionHandlers, type ConnectionSettings, type Transport, sessionTakenOver } from "./transport.js";
import { decodeText } from "./utf8.js";

/** The used fields of an MQTT.js packet. */
interface Packet {
  retain?: boolean;
  reasonCode?: number;
}

/** The used functions of an MQTT.js client (version 4 or 5). */
interface MQTTJSClient {
  on(event: "connect", handler: (packet: Packet) => void): unknown;
  on(event: "message", handler: (topic: string, payload: Uint8Array, packet: Packet) => void): unknown;
  on(event: "packetreceive", handler: (packet: Packet & { cmd?: string }) => void): unknown;
  on(event: "disconnect", handler: (packet: Packet) => void): unknown;
  on(event: "error", handler: (error: Error & { code?: unknown }) => void): unknown;
  on(event: "close", handler: () => void): unknown;
  subscribe(
    topics: Record<string, { qos: 0 | 1 }>,
    done: (error: Error | null | undefined, granted?: { qos: number }[]) => void,
  ): unknown;
  publish(topic: string, payload: string, options: object): unknown;
  end(force: boolean): unknown;
  /** Only in MQTT.js 5. */
  sendPing?(): void;
  /** MQTT.js 4 has no other way to send a ping immediately. */
  _sendPacket?(packet: object): void;
}

/** The library: `import mqtt from "mqtt"`. */
export interface MQTTJS {
  connect(url: string, options: object): MQTTJSClient;
}

/** The time limit for the broker's answer to the subscriptions, in milliseconds. */
const handshakeLimit = 10_000;
/** The time limit for the broker's sign of life, in milliseconds. */
const longestAnswer = 5_000;
/** MQTT 5 reason codes of refusals that concern this device (0x84 to 0x87, 0x8a, 0x8c), not the broker's state. */
const personal = new Set<unknown>([132, 133, 134, 135, 138, 140]);

/**
 * Returns a transport that uses MQTT.js, for an app that already contains MQTT.js: `new BellwireClient({ …, transport:
 * mqttTransport(mqtt) })`. In Node, addresses may then also begin with `mqtt://` and `mqtts://`.
 */
export function mqttTransport(mqtt: MQTTJS): Transport {
  return (settings, handlers) => new MQTTJSConnection(mqtt, settings, handlers);
}

class MQTTJSConnection implements Connection {
  /** MQTT.js does not reveal how much data waits to be sent. */
  readonly backlog = 0;
  private readonly client: MQTTJSClient;
  /** This file is bundled separately and so has its own timers. */
  private readonly releaseTimers: () => void;
  private readonly cancelHandshakeLimit: () => void;
  private cancelAnswerLimit: (() => void) | undefined;
  private readonly qos: 0 | 1;
  private isClosed = false;
  private problem = "the connection broke";
  private isTakenOver = false;
  private isAccepted = false;
  private isExplained = false;

  constructor(mqtt: MQTTJS, settings: ConnectionSettings, private readonly handlers: ConnectionHandlers) {
    const { url, clientID, username, password, keepAlive, will, qos } = settings;
    this.qos = qos;
    this.problem = `${url} cannot be reached`;
    this.client = mqtt.connect(url, {
      protocolVersion: 5, clean: true, clientId: clientID, username, keepalive: keepAlive, connectTimeout: handshakeLimit,
      // The client makes each connection anew, with its own session and will (docs/protocol.md, section 1).
      reconnectPeriod: 0, resubscribe: false, queueQoSZero: false,
      will: { topic: will.topic, payload: will.payload, qos: 1, retain: false },
      ...(password === undefined ? {} : { password }),
    });
    this.releaseTimers = holdTimers();
    this.cancelHandshakeLimit = after(handshakeLimit, () => this.end(`${url} does not answer`));
    this.client.on("error", (error) => {
      const isRefused = personal.has(error.code);
      this.end(isRefused ? `the broker refuses this device: ${error.message}` : error.message, isRefused);
    });
    this.client.on("disconnect", ({ reasonCode = 0 }) => {
      this.problem = `the broker ended the connection: reason 0x${reasonCode.toString(16)}`;
      this.isTakenOver = reasonCode === sessionTakenOver;
      this.isExplained = reasonCode !== 0;
    });
    this.client.on("close", () => this.end(this.problem, false, this.isAccepted && !this.isExplained));
    this.client.on("packetreceive", () => {
      this.cancelAnswerLimit?.();
      this.cancelAnswerLimit = undefined;
    });
    this.client.on("message", (_topic, payload, { retain }) => {
      if (!this.isClosed && retain !== true) this.receive(payload);
    });
    this.client.on("connect", () => this.subscribe(settings.subscriptions));
  }

  private subscribe(subscriptions: string[]): void {
    if (this.isClosed) return;
    this.problem = "the connection broke";
    this.isAccepted = true;
    this.handlers.accepted();
    const topics = Object.fromEntries(subscriptions.map((topic) => [topic, { qos: this.qos }]));
    this.client.subscribe(topics, (error, granted) => {
      if (this.isClosed) return;
      if (error || granted?.some(({ qos }) => qos >= 0x80)) {
        return this.end("the broker refuses this device its topics", true);
      }
      this.cancelHandshakeLimit();
      this.handlers.subscribed();
    });
  }

  private receive(payload: Uint8Array): void {
    let text: string;
    try {
      text = decodeText(payload);
    } catch {
      // The payload is not JSON, so the service has not sent it.
      return;
    }
    this.handlers.message(text);
  }

  publish(topic: string, payload: string, expiry?: number): boolean {
    if (this.isClosed) return true;
    const properties = expiry === undefined ? {} : { messageExpiryInterval: expiry };
    this.client.publish(topic, payload, { qos: this.qos, properties });
    return true;
  }

  ask(): void {
    if (this.isClosed || this.cancelAnswerLimit) return;
    if (this.client.sendPing) this.client.sendPing();
    else if (this.client._sendPacket) this.client._sendPacket({ cmd: "pingreq" });
    else return;
    this.cancelAnswerLimit = after(longestAnswer, () => this.end("the broker no longer answers"));
  }

  close(): void {
    if (this.release()) this.client.end(false);
  }

  private end(message: string, isRefused = false, isDropped = false): void {
    if (!this.release()) return;
    this.client.end(true);
    this.handlers.closed({ isRefused, isTakenOver: this.isTakenOver, isDropped, message });
  }

  /** Returns false when the connection is already closed. */
  private release(): boolean {
    if (this.isClosed) return false;
    this.isClosed = true;
    this.cancelHandshakeLimit();
    this.cancelAnswerLimit?.();
    this.releaseTimers();
    return true;
  }
}
