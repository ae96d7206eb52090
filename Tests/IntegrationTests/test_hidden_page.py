"""A page in a background tab of a real browser. The browser lets the page's timers fire once a minute."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from conftest import Rig
from harness import member, wait_until
from harness.heartbeats import beating
from harness.page import CHROMIUM
from harness.unwatched import unwatched_page
from harness.web import MISSING, build_sdk

pytestmark = [
    pytest.mark.skipif(bool(MISSING) or CHROMIUM is None, reason=f"there is no {', '.join(MISSING) or 'chromium'}"),
    pytest.mark.timeout(150),
]

_SCRIPT = """
const client = new BellwireClient(%s);
client.on("incoming", async (call) => {
    call.on("ended", (reason) => tell("ended: " + reason));
    await call.accept();
    tell("in the call");
});
await client.connect();
tell("online");
"""


@pytest.mark.long
def test_a_page_whose_timers_are_slowed_down_stays_in_its_call(rig: Rig, tmp_path: Path) -> None:
    build_sdk()
    world = rig.world(heartbeat_interval="1s", heartbeat_timeout="7s")
    alice, bob = world.user("alice"), world.phone("bob")
    options = {"url": f"ws://127.0.0.1:{world.broker.web_port}", "user": alice}
    with unwatched_page(tmp_path, _SCRIPT % json.dumps(options)) as page:
        wait_until(lambda: "online" in page.told, 30, "the page is online", every=0.05)
        call = bob.invite(alice, mode="advanced")
        with beating(call, bob):
            wait_until(lambda: "in the call" in page.told, 30, "the page is in the call", every=0.05)
            ticks = len(page.told)
            # The browser slows only timers down that were set by timers, five times over: so many heartbeats are sent.
            wait_until(lambda: len(page.told) > ticks + 14, 30, "seven seconds in the call", every=0.5)
            page.hide()
            # For longer than the service waits for a heartbeat. The browser's minute may end once while this waits.
            wait_until(lambda: time.monotonic() - page.ticked > 12, 60, "the browser slows the page's timers down", every=0.5)
            got = bob.get(call)
        assert (got["state"], member(got, alice)["state"]) == ("active", "accepted"), got
        assert not [what for what in page.told if what.startswith("ended")]
