// The SDK in the environment of React Native, without React.
import { say, settings } from "./native_environment.js";
import { BellwireClient } from "@bellwire/client";

const client = new BellwireClient({ ...settings, device: "native" });
client.on("incoming", async (call) => {
  call.on("ended", async (reason) => {
    say(`ended ${reason}`);
    await client.disconnect();
    process.exit(0);
  });
  await call.accept();
});
client.connect().then(() => say("online"));
