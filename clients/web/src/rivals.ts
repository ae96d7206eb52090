import type { ConnectionFailure } from "./transport.js";

/**
 * The longest life of a displaced connection, in milliseconds. Two clients under the same device id displace each other
 * at once.
 */
const soon = 3_000;
/**
 * The number of displacements after which a client gives up. The client that connected first reaches this number first.
 */
const often = 3;

/** Detects another client under this device id, for brokers that do not report another client. */
export class RivalWatch {
  private displaced = 0;

  /**
   * Returns whether another client has taken this device's connection. The connection or attempt ended after `lasted`
   * milliseconds. `isUnexplained`: the broker had accepted the connection, and no message announced the end. A broker
   * that is about to start, or a proxy in front of a broker that is down, closes attempts silently.
   */
  isTakenOver({ isTakenOver = false, isRefused, isDropped = false }: ConnectionFailure, lasted: number, isUnexplained: boolean): boolean {
    if (isTakenOver) return true;
    if (isRefused || !isDropped) this.displaced = 0;
    if (isRefused || !isDropped || !isUnexplained) return false;
    this.displaced = lasted < soon ? this.displaced + 1 : 1;
    return this.displaced >= often;
  }
}
