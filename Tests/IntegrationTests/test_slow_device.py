"""A phone on a line of 64 KiB/s, and users who call this phone again and again within every limit: a friend's call
rings all the same (section 5, Slow devices; section 2, Rate limits). A real broker, and a wire that passes so many
bytes per second."""

from __future__ import annotations

import threading
import time

import pytest

from conftest import Rig
from harness import Device, Wire, World

pytestmark = pytest.mark.alone

LINE = 64 * 1024
"""Bytes per second."""
SECONDS = 10
LONG = "\x01" * 2_000
"""Each of these takes six bytes in JSON, so that an invitation takes more than 12 KB."""


class Nuisance:
    """A user who invites the victim with four others and cancels at once with as long a text, once a second."""

    def __init__(self, world: World, victim: Device) -> None:
        self.refused = 0
        self.failures: list[str] = []
        self._phone = world.phone("nuisance")
        self._others = [World.user("nobody") for _ in range(4)]
        self._victim = victim
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for _ in range(SECONDS):
            began = time.monotonic()
            response = self._phone.start("call.invite", invitees=[self._victim.user, *self._others], extendedData=LONG).wait()
            if response["ok"]:
                self.refused += any(error["code"] == "rateLimited" for error in response.get("errors", []))
                self._phone.start("call.cancel", callID=response["callID"], extendedData=LONG).wait()
            elif response["error"]["code"] == "rateLimited":
                self.refused += 1
            else:
                self.failures.append(str(response))
            time.sleep(max(0, began + 1 - time.monotonic()))

    def end(self) -> None:
        self._thread.join()
        assert not self.failures, self.failures
        assert self.refused > 0, "nothing was refused: the test has proved nothing"


@pytest.mark.parametrize(("users", "replicas", "patience"), [(1, 3, 2), pytest.param(10, 3, 15, marks=pytest.mark.long)])
def test_a_friend_reaches_a_phone_on_a_slow_line(rig: Rig, users: int, replicas: int, patience: float) -> None:
    world = rig.world(replicas)
    wire = Wire(world.broker.port, rate=LINE)
    victim = world.phone("victim", port=wire.port)
    friend = world.phone("friend")
    nuisances = [Nuisance(world, victim) for _ in range(users)]
    longest = 0.0
    for _ in range(3):
        time.sleep(SECONDS / 4)
        began = time.monotonic()
        call = friend.ok("call.invite", invitees=[victim.user])["callID"]
        victim.expect("call.invited", call, 60)
        longest = max(longest, time.monotonic() - began)
        friend.ok("call.cancel", callID=call)
    for nuisance in nuisances:
        nuisance.end()
    wire.close()
    assert longest < patience, f"the friend's call rang after {longest:.1f} s"
    print(f"beside {users}: at most {longest:.2f} s")
