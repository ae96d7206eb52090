/** What a connection to the broker is made with. */
export interface ConnectionSettings {
  /** The broker, as `wss://host:port/path`. */
  url: string;
  clientID: string;
  username: string;
  password?: string;
  /** Seconds: the broker may take a silent connection for lost after one and a half times as long. */
  keepAlive: number;
  /** What the broker publishes when the connection breaks. */
  will: { topic: string; payload: string };
  /** To be subscribed to with QoS 1. */
  subscriptions: string[];
}

/** With this reason a broker disconnects a client whose id another one has connected under (MQTT 5, 3.14.2.1). */
export const sessionTakenOver = 0x8e;

/** Why a connection ended. */
export interface ConnectionFailure {
  /** The broker answered CONNECT or SUBSCRIBE with a refusal: with the same token it will not do better. */
  isRefused: boolean;
  /** Another client has connected under this device's id: who connected again would take the connection from that one. */
  isTakenOver?: boolean;
  /**
   * The broker had accepted the connection, and closed it without a reason: it neither fell silent nor was given up here. A transport that
   * leaves it out never learns of another client at brokers that do not tell.
   */
  isDropped?: boolean;
  /** For people. */
  message: string;
}

/** What a transport tells. Nothing is told any more after `closed`, or after the connection's own `close`. */
export interface ConnectionHandlers {
  /** The broker accepted the connection. */
  accepted(): void;
  /** It has granted all subscriptions. */
  subscribed(): void;
  /** A message on one of the topics that were subscribed to. A retained one is not told: nothing of the service is. */
  message(payload: string): void;
  /** The connection is lost, or was never made. Once. */
  closed(failure: ConnectionFailure): void;
}

/** One connection to the broker; it never reconnects by itself. */
export interface Connection {
  /**
   * Publishes with QoS 0 or 1, never retained. `expiry` in seconds. False: the message is larger than the broker takes, and nothing
   * was sent.
   */
  publish(topic: string, payload: string, expiry?: number): boolean;
  /** Bytes that wait to be sent. */
  readonly backlog: number;
  /** Asks the broker for a sign of life: without one in a few seconds the connection is told to be closed. */
  ask(): void;
  /** Ends the connection in order: the broker drops the will. */
  close(): void;
}

/**
 * Makes a connection: MQTT 5, clean start, no session expiry. The one of this SDK is `webSocketTransport`; an app may put another
 * library under the client instead.
 */
export type Transport = (settings: ConnectionSettings, handlers: ConnectionHandlers) => Connection;
