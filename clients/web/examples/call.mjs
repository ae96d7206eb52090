// Calls a user, prints each change, and hangs up 1 s after the answer.
//   node --experimental-websocket call.mjs ws://127.0.0.1:8083 alice bob
import { BellwireClient } from "../dist/index.js";

const [url, user, callee] = process.argv.slice(2);
if (!callee) {
  console.error("call.mjs URL USER CALLEE");
  process.exit(2);
}
const client = new BellwireClient({ url, user, token: process.env.BELLWIRE_TOKEN });
client.on("error", (error) => console.error(`${error.code}: ${error.message}`));
await client.connect();
const call = await client.call([callee], { media: "voice", mode: "advanced", notReceivedCheck: true });
console.log(`${call.id}: calling ${callee}`);
call.on("ended", (reason) => console.log(`ended: ${reason}`));
for await (const { userID, state, reason } of call) {
  console.log(`${userID}: ${state}${reason ? ` (${reason})` : ""}`);
  if (userID === callee && state === "accepted") setTimeout(() => call.end(), 1000);
}
await client.disconnect();
