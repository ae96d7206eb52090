import type { BellwireClient, Call } from "../src/index.js";
import { isPending, memberOf } from "../src/protocol.js";

/**
 * Leaves the current call for a second, accepted call, because the service lets a user into a single call only. The
 * function first asks the service whether the second call still rings for this user: the news of its end may not have
 * reached this page, and then the user would lose both calls. Returns false when the second call no longer rings; the
 * current call then goes on. Throws the service's error; the current call then goes on too.
 */
export async function leaveFor(second: Call, client: Pick<BellwireClient, "user" | "get">, leave: () => void): Promise<boolean> {
  const snapshot = second.endReason === undefined ? await client.get(second.id) : second.snapshot;
  const own = memberOf(snapshot, client.user);
  // The news of the second call's end may have come during the request.
  const rings = second.endReason === undefined && snapshot.state !== "ended" && own !== undefined && isPending(own.state);
  if (rings) leave();
  return rings;
}
