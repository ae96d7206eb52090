import type { BellwireClient, Call } from "../src/index.js";
import { isPending, memberOf } from "../src/protocol.js";

/**
 * Leaves the present call for one that was accepted: the service lets nobody into two. Only if that call still rings for this user, which
 * the service is asked first: what ended it may not have reached this page, and then there would be no call at all. False: it rings no
 * more, and nothing was left. Throws what the service answers, with nothing left either.
 */
export async function leaveFor(second: Call, client: Pick<BellwireClient, "user" | "get">, leave: () => void): Promise<boolean> {
  const snapshot = second.endReason === undefined ? await client.get(second.id) : second.snapshot;
  const own = memberOf(snapshot, client.user);
  // Its end may be told while the answer is on its way.
  const rings = second.endReason === undefined && snapshot.state !== "ended" && own !== undefined && isPending(own.state);
  if (rings) leave();
  return rings;
}
