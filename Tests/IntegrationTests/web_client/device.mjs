// A device of test_web_client.py: the web SDK in Node, driven by lines of JSON. Every event goes out as a line, and the outcome of every
// order {"id", "code"}: the body of an async function of (client, calls).
import { createInterface } from "node:readline";

const { sdk, mqttjs, ...options } = JSON.parse(process.argv[2]);
const { BellwireClient } = await import(sdk);
const tell = (line) => process.stdout.write(JSON.stringify(line) + "\n");
if (mqttjs) {
  const [{ mqttTransport }, { default: mqtt }] = await Promise.all([import(mqttjs.adapter), import(mqttjs.library)]);
  options.transport = mqttTransport(mqtt);
}
if (options.tokens) {
  const { tokens } = options;
  // The tokens in turn; the last token again and again.
  options.getToken = async () => {
    tell({ event: "getToken" });
    return tokens.length > 1 ? tokens.shift() : tokens[0];
  };
}
const client = new BellwireClient(options);
const calls = {};
const follow = (event, call) => {
  calls[call.id] = call;
  tell({ event, call: call.id, inviter: call.inviter, state: call.state });
  call.on("change", (change) => tell({ event: "change", call: call.id, ...change }));
  call.on("ended", (reason) => tell({ event: "ended", call: call.id, reason, missed: call.isMissed }));
  call.on("ring", (on) => tell({ event: "ring", call: call.id, on }));
  call.on("signal", (signal) => tell({ event: "signal", call: call.id, ...signal }));
};
client.on("incoming", (call) => follow("incoming", call));
client.on("resumed", (call) => follow("resumed", call));
client.on("state", (state) => tell({ event: "state", state }));
client.on("message", (message) => tell({ event: "message", ...message }));
client.on("receipt", (receipt) => tell({ event: "receipt", ...receipt }));
client.on("error", ({ code, message }) => tell({ event: "error", code, message }));
const made = (call) => {
  follow("made", call);
  return call.id;
};
const AsyncFunction = (async () => undefined).constructor;
for await (const line of createInterface({ input: process.stdin })) {
  const { id, code } = JSON.parse(line);
  new AsyncFunction("client", "calls", "made", code)(client, calls, made).then(
    (value) => tell({ id, value: value ?? null }),
    ({ code, message, state, retryAfter }) => tell({ id, error: { code, message, state, retryAfter } }),
  );
}
process.exit(0);
