"""Click → first remote frame, over many calls between two real browsers. Run by scripts/bench-page."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from harness import Broker, Service, World
from harness.page import MISSING, Browser, Page, PageServer
from harness.web import build_sdk

WATCH = """
window.clicked = window.framed = 0;
const names = ["Video call", "Accept"];
addEventListener("click", ({target}) => { if (names.includes(target.textContent)) { window.clicked = performance.now(); window.framed = 0; } }, true);
new MutationObserver(() => {
  for (const video of document.querySelectorAll("#tiles video")) {
    if (video.getAttribute("aria-label") === "You" || video.watched) continue;
    video.watched = true;
    video.requestVideoFrameCallback(() => { window.framed = performance.now(); });
  }
  if (window.answers && document.querySelector("dialog[open]")) document.getElementById("accept").click();
}).observe(document, {subtree: true, childList: true, attributes: true});
"""
"""A script that notes the time of the click and of the first frame that could be painted. A called page answers at
once."""


def call(alice: Page, bob: Page) -> tuple[float, float]:
    """Milliseconds from “Video call” to the callee's first frame, and from “Accept” to the caller's."""
    alice.call(bob.user)
    for page, other in ((alice, bob), (bob, alice)):
        page.expect(f"In a call with {other.user}")
        page.wait(lambda page=page: page.js("return window.framed") > 0, 20, "the first frame")
    taken = tuple(page.js("return window.framed - window.clicked") for page in (alice, bob))
    alice.press("Hang up")
    for page in (alice, bob):
        page.expect("Call ended")
    return taken


def shown(name: str, times: list[float]) -> str:
    ordered = sorted(times)
    at = [ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.95)]
    return f"{name}: p50 {at[0]:.0f} ms, p95 {at[1]:.0f} ms, longest {ordered[-1]:.0f} ms over {len(ordered)} calls"


def main(calls: int) -> None:
    if MISSING:
        sys.exit(f"there is no {', '.join(MISSING)}")
    build_sdk()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        directory = Path(name)
        broker = Broker(directory / "broker")
        service = Service(broker.url, directory / "service")
        server = PageServer(f"ws://127.0.0.1:{broker.web_port}")
        browsers = [Browser(directory / user) for user in ("alice", "bob")]
        try:
            alice, bob = (each.tab(server.url, WATCH).go_online(World.user("user")) for each in browsers)
            bob.js("window.answers = true")
            taken = [call(alice, bob) for _ in range(calls)]
        finally:
            for browser in browsers:
                browser.quit()
            server.close()
            service.stop()
            broker.stop()
    print(shown("“Video call” → first remote frame (answered at once)", [caller for caller, _ in taken]))
    print(shown("“Accept” → first remote frame", [callee for _, callee in taken]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
