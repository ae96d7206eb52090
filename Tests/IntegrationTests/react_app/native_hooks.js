// The hooks in the environment of React Native, in a renderer without a DOM.
import { say, settings } from "./native_environment.js";
import { BellwireProvider, IncomingCall, useBellwire, useCall, useIncomingCall } from "@bellwire/client/react";
import { createElement, useEffect, useState } from "react";
import { create } from "react-test-renderer";

function Phone() {
  const { client, state } = useBellwire();
  const ringing = useIncomingCall();
  const [shown, setShown] = useState();
  const view = useCall(shown);
  useEffect(() => {
    say(state);
    // As `AppState` and NetInfo let an app do.
    client.networkChanged();
  }, [state]);
  useEffect(() => say(`rings ${ringing?.inviter}`), [ringing]);
  useEffect(() => say(`shows ${view?.state} ${view?.others} ${view?.isHere} ${view?.endReason}`), [view]);
  return createElement(IncomingCall, { onAccepted: setShown }, ({ view: { call }, accept }) =>
    createElement("Pressable", { onPress: accept }, call.inviter));
}

const root = create(
  createElement(BellwireProvider, { options: { ...settings, device: "native" }, onError: say }, createElement(Phone)),
  { unstable_isConcurrent: true },
);
process.stdin.on("data", (order) => {
  if (`${order}`.startsWith("press")) root.root.findByType("Pressable").props.onPress();
  else root.unmount();
});
