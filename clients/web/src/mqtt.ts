/*
 * The part of MQTT 5 that a device needs: the packets that a device sends, and a parser of the packets that a device
 * may receive. QoS 0 and 1 only; every size is bounded.
 */

import { decodeText } from "./utf8.js";

/** A packet violates MQTT 5 or exceeds this client's maximum size. The connection cannot be used any more. */
export class PacketError extends Error {
  override readonly name = "PacketError";
}

export interface ConnectFields {
  clientID: string;
  username?: string | undefined;
  password?: string | undefined;
  /** Seconds. */
  keepAlive: number;
  will?: { topic: string; payload: string } | undefined;
  /** The largest packet that the broker may send, in bytes. */
  maximumPacketSize: number;
}

export interface PublishFields {
  topic: string;
  payload: string;
  /** The packet id for QoS 1; without a packet id the message has QoS 0. */
  packetID?: number | undefined;
  /** Seconds after which the broker drops the message undelivered. */
  messageExpiry?: number | undefined;
  /** Data that the service returns with the response. */
  correlationData?: Uint8Array | undefined;
}

export type InboundPacket =
  | {
      type: "connack";
      reason: number;
      /** The broker's description of the reason. */
      reasonString?: string;
      /** The number of unacknowledged QoS 1 messages that the broker accepts. */
      receiveMaximum: number;
      /** The largest packet that the broker accepts, in bytes. */
      maximumPacketSize: number;
      /** 0 when the broker does not accept QoS 1. */
      maximumQoS: number;
      /** The broker's own keep-alive in seconds; absent when the broker accepts the client's keep-alive. */
      serverKeepAlive?: number;
    }
  | { type: "suback"; packetID: number; reasons: number[] }
  | { type: "publish"; topic: string; payload: Uint8Array; qos: number; retain: boolean; packetID: number }
  | { type: "puback"; packetID: number; reason: number }
  | { type: "pingresp" }
  | { type: "disconnect"; reason: number; reasonString?: string };

const encoder = new TextEncoder();

// Writing

const uint16 = (value: number): number[] => [(value >> 8) & 255, value & 255];
const uint32 = (value: number): number[] => [...uint16(value >>> 16), ...uint16(value & 0xffff)];

function variableInteger(value: number): number[] {
  const bytes: number[] = [];
  do {
    bytes.push((value & 127) | (value > 127 ? 128 : 0));
    value >>>= 7;
  } while (value > 0);
  return bytes;
}

type Part = ArrayLike<number>;

function join(parts: Part[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return bytes;
}

/** A string or binary field with its length prefix. */
function field(value: string | Uint8Array): Part[] {
  const bytes = typeof value === "string" ? encoder.encode(value) : value;
  if (bytes.length > 0xffff) throw new PacketError("a field is longer than 65,535 bytes");
  return [uint16(bytes.length), bytes];
}

function packet(header: number, ...parts: Part[]): Uint8Array {
  const length = parts.reduce((sum, part) => sum + part.length, 0);
  return join([[header], variableInteger(length), ...parts]);
}

/**
 * A CONNECT with clean start and without session expiry: the service, not the broker's queue, brings a device up to
 * date (section 1).
 */
export function connectPacket(fields: ConnectFields): Uint8Array {
  const { clientID, username, password, keepAlive, will, maximumPacketSize } = fields;
  const flags = 2 | (will ? 4 | 8 : 0) | (password === undefined ? 0 : 64) | (username === undefined ? 0 : 128);
  const parts: Part[] = [
    ...field("MQTT"), [5, flags], uint16(keepAlive),
    // The property Maximum Packet Size.
    [5, 0x27, ...uint32(maximumPacketSize)],
    ...field(clientID),
  ];
  if (will) parts.push([0], ...field(will.topic), ...field(will.payload));
  if (username !== undefined) parts.push(...field(username));
  if (password !== undefined) parts.push(...field(password));
  return packet(0x10, ...parts);
}

/** A SUBSCRIBE for all filters. */
export function subscribePacket(packetID: number, filters: string[], qos: 0 | 1): Uint8Array {
  return packet(0x82, uint16(packetID), [0], ...filters.flatMap((filter) => [...field(filter), [qos]]));
}

export function publishPacket(fields: PublishFields): Uint8Array {
  const { topic, payload, packetID, messageExpiry, correlationData } = fields;
  const properties = join([
    messageExpiry === undefined ? [] : [0x02, ...uint32(messageExpiry)],
    ...(correlationData ? [[0x09], ...field(correlationData)] : []),
  ]);
  return packet(
    0x30 | (packetID === undefined ? 0 : 2), ...field(topic), packetID === undefined ? [] : uint16(packetID),
    variableInteger(properties.length), properties, encoder.encode(payload),
  );
}

export const pubackPacket = (packetID: number): Uint8Array => packet(0x40, uint16(packetID));
export const pingreqPacket = (): Uint8Array => packet(0xc0);
/** A normal DISCONNECT; the broker drops the will. */
export const disconnectPacket = (): Uint8Array => packet(0xe0);

// Reading

/** A reader of a packet's fields, in order. */
class Reader {
  private offset = 0;

  constructor(private readonly bytes: Uint8Array) {}

  get isAtEnd(): boolean {
    return this.offset === this.bytes.length;
  }

  take(count: number): Uint8Array {
    if (count > this.bytes.length - this.offset) throw new PacketError("a packet ends too early");
    this.offset += count;
    return this.bytes.subarray(this.offset - count, this.offset);
  }

  integer(bytes: number): number {
    return this.take(bytes).reduce((value, byte) => value * 256 + byte, 0);
  }

  variableInteger(): number {
    let value = 0;
    for (let scale = 1; scale <= 128 ** 3; scale *= 128) {
      const byte = this.integer(1);
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
    throw new PacketError("a variable byte integer is too long");
  }

  string(): string {
    try {
      return decodeText(this.take(this.integer(2)));
    } catch {
      throw new PacketError("a string is not UTF-8");
    }
  }

  rest(): Uint8Array {
    return this.take(this.bytes.length - this.offset);
  }

  /**
   * Reads the properties by identifier (MQTT 5, section 2.2.2.2). The result has the numbers and the reason string;
   * other properties are skipped.
   */
  properties(): Map<number, number | string> {
    const found = new Map<number, number | string>();
    if (this.isAtEnd) return found;
    const inner = new Reader(this.take(this.variableInteger()));
    while (!inner.isAtEnd) {
      const id = inner.variableInteger();
      const form = propertyForms.get(id);
      if (form === undefined) throw new PacketError(`unknown property ${id}`);
      if (form === "text") found.set(id, inner.string());
      else if (form === "pair") [inner.string(), inner.string()];
      else if (form === "bytes") inner.take(inner.integer(2));
      else found.set(id, form === 0 ? inner.variableInteger() : inner.integer(form));
    }
    return found;
  }
}

type Form = 0 | 1 | 2 | 4 | "text" | "bytes" | "pair";

/**
 * The encoding of each property: the bytes of an integer (0 for a variable byte integer), a text, bytes, or a pair of
 * texts.
 */
const propertyForms = new Map<number, Form>();
const forms: [Form, number[]][] = [
  [0, [0x0b]],
  [1, [0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2a]],
  [2, [0x13, 0x21, 0x22, 0x23]],
  [4, [0x02, 0x11, 0x18, 0x27]],
  ["text", [0x03, 0x08, 0x12, 0x15, 0x1a, 0x1c, 0x1f]],
  ["bytes", [0x09, 0x16]],
  ["pair", [0x26]],
];
for (const [form, ids] of forms) for (const id of ids) propertyForms.set(id, form);

function readPacket(header: number, body: Uint8Array): InboundPacket {
  const reader = new Reader(body);
  const number = (properties: Map<number, number | string>, id: number, otherwise: number) =>
    (properties.get(id) as number | undefined) ?? otherwise;
  const reasonString = (properties: Map<number, number | string>) => {
    const text = properties.get(0x1f);
    return typeof text === "string" ? { reasonString: text } : {};
  };
  switch (header >> 4) {
    case 2: {
      reader.take(1);
      const reason = reader.integer(1);
      const properties = reader.properties();
      const serverKeepAlive = properties.get(0x13) as number | undefined;
      return {
        type: "connack", reason, ...reasonString(properties), receiveMaximum: number(properties, 0x21, 65_535),
        maximumPacketSize: number(properties, 0x27, Infinity), maximumQoS: number(properties, 0x24, 2),
        ...(serverKeepAlive === undefined ? {} : { serverKeepAlive }),
      };
    }
    case 3: {
      const qos = (header >> 1) & 3;
      // This client subscribes with QoS 0 or 1, so QoS 2 is an error.
      if (qos > 1) throw new PacketError("a PUBLISH has QoS 2");
      const topic = reader.string();
      const packetID = qos > 0 ? reader.integer(2) : 0;
      reader.properties();
      return { type: "publish", topic, payload: reader.rest(), qos, retain: (header & 1) === 1, packetID };
    }
    case 4:
      return { type: "puback", packetID: reader.integer(2), reason: reader.isAtEnd ? 0 : reader.integer(1) };
    case 9: {
      const packetID = reader.integer(2);
      reader.properties();
      return { type: "suback", packetID, reasons: Array.from(reader.rest()) };
    }
    case 13:
      return { type: "pingresp" };
    case 14: {
      const reason = reader.isAtEnd ? 0 : reader.integer(1);
      return { type: "disconnect", reason, ...reasonString(reader.properties()) };
    }
    default:
      throw new PacketError(`unexpected packet of type ${header >> 4}`);
  }
}

/** A parser that takes bytes in pieces of any size and returns whole packets. */
export class PacketParser {
  private pieces = new Uint8Array(0);

  /** `maximumPacketSize` in bytes. The parser does not buffer larger packets. */
  constructor(private readonly maximumPacketSize: number) {}

  /** Throws `PacketError`. The parser cannot be used afterwards. */
  push(bytes: Uint8Array): InboundPacket[] {
    const input = this.pieces.length === 0 ? bytes : join([this.pieces, bytes]);
    const packets: InboundPacket[] = [];
    let offset = 0;
    for (;;) {
      const frame = this.frame(input, offset);
      if (!frame) break;
      packets.push(readPacket(input[offset] as number, input.subarray(frame.start, frame.end)));
      offset = frame.end;
    }
    // A copy keeps only the rest, instead of the whole input.
    this.pieces = input.slice(offset);
    return packets;
  }

  /** Returns the body's range of the packet at `offset`; undefined while the packet is incomplete. */
  private frame(input: Uint8Array, offset: number): { start: number; end: number } | undefined {
    let length = 0;
    for (let index = 1; index <= 4; index += 1) {
      const byte = input[offset + index];
      if (byte === undefined) return undefined;
      length += (byte & 127) * 128 ** (index - 1);
      if (length > this.maximumPacketSize) throw new PacketError(`a packet is larger than ${this.maximumPacketSize} bytes`);
      if (byte < 128) {
        const start = offset + index + 1;
        return start + length <= input.length ? { start, end: start + length } : undefined;
      }
    }
    throw new PacketError("a packet length is too long");
  }
}
