import type { ConnectionFailure } from "./transport.js";

/** Two clients under one device id take it from each other as soon as they have it, in milliseconds. */
const soon = 3_000;
/** The client that was there first is the first to have been displaced so often. */
const often = 3;

/** Whether another client has this device id, at brokers that do not say so. */
export class RivalWatch {
  private displaced = 0;

  /**
   * After `lasted` milliseconds a connection, or an attempt, came to its end. `isUnexplained`: the broker had accepted it, and nobody has
   * said why it was to end. A broker that is about to start, or a proxy before one that is not there, closes attempts without a word.
   */
  isTakenOver({ isTakenOver = false, isRefused, isDropped = false }: ConnectionFailure, lasted: number, isUnexplained: boolean): boolean {
    if (isTakenOver) return true;
    if (isRefused || !isDropped) this.displaced = 0;
    if (isRefused || !isDropped || !isUnexplained) return false;
    this.displaced = lasted < soon ? this.displaced + 1 : 1;
    return this.displaced >= often;
  }
}
