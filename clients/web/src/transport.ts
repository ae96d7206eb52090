/** The settings of a connection to the broker. */
export interface ConnectionSettings {
  /** The broker's address, such as `wss://host:port/path`. */
  url: string;
  clientID: string;
  username: string;
  password?: string;
  /** The keep-alive in seconds. The broker may consider a connection lost after 1.5 times this period of silence. */
  keepAlive: number;
  /** The message that the broker publishes when the connection breaks. */
  will: { topic: string; payload: string };
  /** The topics to subscribe to. */
  subscriptions: string[];
  /** The QoS of the subscriptions and of published messages. The will has QoS 1. */
  qos: 0 | 1;
}

/**
 * The reason code with which a broker disconnects a client when another client connects under the same id (MQTT 5,
 * 3.14.2.1).
 */
export const sessionTakenOver = 0x8e;

/** The reason why a connection ended. */
export interface ConnectionFailure {
  /** Whether the broker refused CONNECT or SUBSCRIBE, so that another attempt with the same token is useless. */
  isRefused: boolean;
  /** Whether another client has connected under this device's id. Reconnecting would in turn displace that client. */
  isTakenOver?: boolean;
  /**
   * Whether the broker had accepted the connection and then closed the connection without a reason, as opposed to
   * silence and to an end by this client. Without this field the SDK cannot detect another client at brokers that do
   * not report another client.
   */
  isDropped?: boolean;
  /** A text for people. */
  message: string;
}

/** The functions that a transport calls. No call follows `closed` or the connection's own `close`. */
export interface ConnectionHandlers {
  /** The broker accepted the connection. */
  accepted(): void;
  /** The broker has granted all subscriptions. */
  subscribed(): void;
  /**
   * A message came on a subscribed topic. The transport drops retained messages, because the service retains no
   * messages.
   */
  message(payload: string): void;
  /** The connection is lost, or the attempt has failed. Called once. */
  closed(failure: ConnectionFailure): void;
}

/** A connection to the broker. The connection never reconnects by itself. */
export interface Connection {
  /**
   * Publishes with the QoS of the settings or with QoS 0, never retained. `expiry` in seconds. Returns false when the
   * message is larger than the broker accepts; the message then was not sent.
   */
  publish(topic: string, payload: string, expiry?: number): boolean;
  /** The number of bytes that wait to be sent. */
  readonly backlog: number;
  /** Asks the broker for a sign of life. Without an answer within a few seconds the transport calls `closed`. */
  ask(): void;
  /** Ends the connection normally; the broker drops the will. */
  close(): void;
}

/**
 * Makes a connection: MQTT 5, clean start, no session expiry. The SDK's own transport is `webSocketTransport`; an app
 * may use another library instead.
 */
export type Transport = (settings: ConnectionSettings, handlers: ConnectionHandlers) => Connection;
