import {
  type InboundPacket, PacketError, PacketParser, connectPacket, disconnectPacket, pingreqPacket, pubackPacket,
  publishPacket, subscribePacket,
} from "./mqtt.js";
import { after } from "./timers.js";
import {
  type Connection, type ConnectionFailure, type ConnectionHandlers, type ConnectionSettings, type Transport, sessionTakenOver,
} from "./transport.js";
import { decodeText } from "./utf8.js";

/** The time limit for the broker's answers to CONNECT and SUBSCRIBE, in milliseconds. */
const handshakeLimit = 10_000;
/** The time limit for the broker's sign of life, in milliseconds. */
const longestAnswer = 5_000;
/** The largest accepted packet, in bytes. The service sends at most 256 KiB (docs/protocol.md, section 1). */
const maximumPacketSize = 524_288;
/** The number of unsent bytes beyond which the broker counts as not reading. */
const longestBacklog = 4_194_304;
/** The bound on own QoS 1 messages without an acknowledgement of the broker. */
const inflightLimit = 1_000;
const firstPacketID = 1;

/** A WebSocket class: the class of the browser, of Node, or of the package `ws`. */
export type WebSocketConstructor = new (url: string, protocols: string) => WebSocket;

/** Returns a transport with MQTT over a WebSocket. `implementation` is the global `WebSocket` by default. */
export function webSocketTransport(implementation?: WebSocketConstructor): Transport {
  const constructor = implementation ?? (globalThis as { WebSocket?: WebSocketConstructor }).WebSocket;
  if (!constructor) {
    throw new TypeError("there is no WebSocket here: give one as the option WebSocket (Node 20: --experimental-websocket)");
  }
  return (settings, handlers) =>
    new WebSocketConnection(new constructor(settings.url, "mqtt"), settings, handlers);
}

const words: Record<number, string> = {
  0x80: "unspecified error", 0x84: "unsupported protocol version", 0x85: "client id not valid",
  0x86: "bad user name or password", 0x87: "not authorized", 0x88: "server unavailable", 0x89: "server busy",
  0x8a: "banned", 0x8b: "server shutting down", 0x8d: "keep alive timeout", 0x8e: "session taken over",
  0x93: "receive maximum exceeded", 0x95: "packet too large", 0x97: "quota exceeded", 0x98: "administrative action",
  0x9c: "use another server", 0x9f: "connection rate exceeded",
};
const reasonText = (reason: number, text?: string): string => text ?? words[reason] ?? `reason 0x${reason.toString(16)}`;

/** Whether the refusal concerns this device, not the broker's state. */
const isPersonal = (reason: number): boolean => [0x84, 0x85, 0x86, 0x87, 0x8a, 0x8c].includes(reason);

class WebSocketConnection implements Connection {
  private readonly parser = new PacketParser(maximumPacketSize);
  private isClosed = false;
  private isAccepted = false;
  private isSubscribed = false;
  private readonly cancelHandshakeLimit: () => void;
  private cancelPing: (() => void) | undefined;
  /** Cancels the time limit of the awaited sign of life; undefined when no sign is awaited. */
  private cancelAnswerLimit: (() => void) | undefined;
  private receiveMaximum = inflightLimit;
  private maximumOut = Infinity;
  /** The packet ids of own messages without an acknowledgement of the broker. */
  private readonly inflight = new Set<number>();
  private packetID = firstPacketID;

  constructor(
    private readonly socket: WebSocket,
    private readonly settings: ConnectionSettings,
    private readonly handlers: ConnectionHandlers,
  ) {
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.send(connectPacket({ ...settings, maximumPacketSize }));
    socket.onmessage = (event: MessageEvent) => this.receive(event.data);
    // A browser does not reveal the cause of a failure. In some environments no close follows an error.
    socket.onclose = socket.onerror = () =>
      this.end(this.isSubscribed ? "the connection broke" : `${settings.url} cannot be reached`, { isDropped: this.isAccepted });
    this.cancelHandshakeLimit = after(handshakeLimit, () => this.end(`${settings.url} does not answer`));
  }

  get backlog(): number {
    return this.socket.bufferedAmount;
  }

  publish(topic: string, payload: string, messageExpiry?: number): boolean {
    if (this.isClosed) return true;
    // Messages beyond the broker's limit have QoS 0: correctness rests on resends, not on QoS.
    const isAcknowledged = this.settings.qos === 1 && this.inflight.size < this.receiveMaximum;
    const packetID = isAcknowledged ? this.nextPacketID() : undefined;
    const packet = publishPacket({ topic, payload, packetID, messageExpiry });
    if (packet.length > this.maximumOut) return false;
    if (packetID !== undefined) this.inflight.add(packetID);
    this.send(packet);
    return true;
  }

  ask(): void {
    if (this.isClosed || !this.isSubscribed || this.cancelAnswerLimit) return;
    this.cancelAnswerLimit = after(longestAnswer, () => this.end("the broker no longer answers"));
    this.send(pingreqPacket());
  }

  close(): void {
    if (this.isClosed) return;
    if (this.socket.readyState === 1) this.send(disconnectPacket());
    this.release();
  }

  private nextPacketID(): number {
    do this.packetID = (this.packetID % 65_535) + 1;
    while (this.packetID === firstPacketID || this.inflight.has(this.packetID));
    return this.packetID;
  }

  private send(packet: Uint8Array): void {
    if (this.isClosed) return;
    if (this.socket.bufferedAmount > longestBacklog) return this.end("the broker no longer reads");
    try {
      this.socket.send(packet);
    } catch {
      this.end("the connection broke");
    }
  }

  private receive(data: unknown): void {
    if (this.isClosed) return;
    this.cancelAnswerLimit?.();
    this.cancelAnswerLimit = undefined;
    try {
      if (!(data instanceof ArrayBuffer)) throw new PacketError("a frame is not binary");
      for (const packet of this.parser.push(new Uint8Array(data))) {
        this.handle(packet);
        if (this.isClosed) return;
      }
    } catch (error) {
      if (!(error instanceof PacketError)) throw error;
      this.end(`the broker sent no MQTT 5: ${error.message}`);
    }
  }

  private handle(packet: InboundPacket): void {
    switch (packet.type) {
      case "connack":
        if (packet.reason !== 0) {
          const text = reasonText(packet.reason, packet.reasonString);
          return this.end(`the broker refuses this device: ${text}`, { isRefused: isPersonal(packet.reason) });
        }
        this.receiveMaximum = packet.maximumQoS === 0 ? 0 : Math.min(packet.receiveMaximum, inflightLimit);
        this.maximumOut = packet.maximumPacketSize;
        this.keepAlive(packet.serverKeepAlive ?? this.settings.keepAlive);
        this.isAccepted = true;
        this.handlers.accepted();
        return this.send(subscribePacket(firstPacketID, this.settings.subscriptions, this.settings.qos));
      case "suback":
        if (packet.reasons.some((reason) => reason >= 0x80)) {
          return this.end("the broker refuses this device its topics: not authorized", { isRefused: true });
        }
        this.cancelHandshakeLimit();
        this.isSubscribed = true;
        return this.handlers.subscribed();
      case "publish":
        if (packet.qos > 0) this.send(pubackPacket(packet.packetID));
        return packet.retain ? undefined : this.deliver(packet.payload);
      case "puback":
        this.inflight.delete(packet.packetID);
        return;
      case "pingresp":
        return;
      case "disconnect":
        return this.end(
          `the broker ended the connection: ${reasonText(packet.reason, packet.reasonString)}`,
          { isTakenOver: packet.reason === sessionTakenOver, isDropped: packet.reason === 0 });
    }
  }

  private deliver(payload: Uint8Array): void {
    let text: string;
    try {
      text = decodeText(payload);
    } catch {
      // The payload is not JSON, so the service has not sent it.
      return;
    }
    this.handlers.message(text);
  }

  /** Pings twice per keep-alive period, because without a worker a hidden page's timers may be a minute late. */
  private keepAlive(seconds: number): void {
    if (seconds <= 0) return;
    this.cancelPing = after(seconds * 500, () => {
      this.keepAlive(seconds);
      this.ask();
    });
  }

  private end(message: string, why: Partial<ConnectionFailure> = {}): void {
    if (this.isClosed) return;
    this.release();
    this.handlers.closed({ isRefused: false, isTakenOver: false, ...why, message });
  }

  private release(): void {
    this.isClosed = true;
    this.cancelHandshakeLimit();
    this.cancelPing?.();
    this.cancelAnswerLimit?.();
    const { socket } = this;
    socket.onclose = socket.onmessage = socket.onopen = null;
    // A socket that is closed before its opening emits an error.
    socket.onerror = () => undefined;
    socket.close();
  }
}
