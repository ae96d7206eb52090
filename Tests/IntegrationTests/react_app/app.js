// An app on `@bellwire/client/react`, as its README shows: online users, calls, and the call that rings.
import { IncomingCall, BellwireProvider, useBellwire, useCall } from "@bellwire/client/react";
import { StrictMode, createElement as h, useState } from "react";
import { createRoot } from "react-dom/client";

const address = new URLSearchParams(location.search);
window.renderings = 0;

function Phone() {
  const { state, calls, call } = useBellwire();
  const [own, setOwn] = useState(undefined);
  const [problem, setProblem] = useState("");
  window.renderings += 1;
  const view = useCall(own ?? calls.find(({ isHere }) => isHere));
  const ring = () => call([address.get("callee")], { mode: "advanced", media: "video" }).then(setOwn, ({ code }) => setProblem(code));
  return h("main", null,
    h("output", { id: "state" }, state),
    h("output", { id: "call" }, view ? `${view.state} ${view.members.map(({ userID, state }) => `${userID}:${state}`).join(" ")} ${view.endReason ?? "goes on"}` : "none"),
    h("output", { id: "problem" }, problem),
    h("button", { onClick: ring }, "Call"),
    h("button", { onClick: () => view.call.end() }, "End"),
    h(IncomingCall, { className: "mine", onAccepted: setOwn, onError: ({ code }) => setProblem(code) }));
}

function Own() {
  return h(IncomingCall, null, ({ view, accept, isAnswering }) => h("button", { onClick: accept, disabled: isAnswering }, `Take ${view.call.inviter}`));
}

function App() {
  const [isThere, setThere] = useState(true);
  const [user, setUser] = useState(address.get("user"));
  const options = { url: address.get("url"), user, device: "react", getToken: () => "none" };
  return h("div", null,
    h("button", { onClick: () => setThere(!isThere) }, "Mount"),
    h("button", { onClick: () => setUser(address.get("other")) }, "Change user"),
    isThere ? h(BellwireProvider, { options, onError: ({ code }) => { window.failure = code; } }, h(address.get("own") ? Own : Phone)) : null);
}

createRoot(document.getElementById("root")).render(h(StrictMode, null, h(App)));
