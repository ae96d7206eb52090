"""A master of Redis that its replicas and its sentinels cannot reach any more, and that coordinators still reach
(docs/redis-failover.md, What is lost)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import UNLIMITED, Deploy, Device, wait_until
from harness.cancelled_calls import CancelledCalls
from harness.sentinels import SentinelFleet

pytestmark = pytest.mark.stores

SILENCE = 3
"""The time without answers after which the coordinators have left the former master, in seconds."""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[SentinelFleet]:
    fleet = SentinelFleet(tmp_path / "fleet", divisible=True)
    yield fleet
    fleet.stop()


def final_answer(alice: Device, call: str) -> dict[str, Any] | None:
    answer = alice.start("call.get", callID=call).wait()
    return None if not answer["ok"] and answer["error"]["code"] == "unavailable" else answer


@pytest.mark.timeout(180)
@pytest.mark.parametrize("coordinators_are_cut_off", [False, True], ids=["sentinels reached", "sentinels not reached"])
@pytest.mark.parametrize("wait_replicas", ["0", "1"])
def test_a_partition(deploy: Deploy, fleet: SentinelFleet, wait_replicas: str, coordinators_are_cut_off: bool) -> None:
    """With `--redis-wait-replicas 1` no answered call is lost. Without the option the answers of the former master are
    lost: their number is printed."""
    world = deploy(2, store=fleet.url, redis_wait_replicas=wait_replicas, **UNLIMITED)
    load = CancelledCalls(world)
    try:
        load.go_on()
        fleet.cut(coordinators_are_cut_off)
        cut_at = time.monotonic()
        wait_until(lambda: fleet.master() not in (None, fleet.servers[0]), 30, "all sentinels name another master")
        promoted_at = time.monotonic()
        if coordinators_are_cut_off:
            wait_until(lambda: time.monotonic() - load.moments[-1] > SILENCE, 30, "the former master answers no more")
        else:
            load.go_on()
        last_at = load.moments[-1]
        fleet.heal()
        load.go_on()
    finally:
        load.stop()
    lost = []
    for alice, call in load.answered:
        answer = wait_until(lambda alice=alice, call=call: final_answer(alice, call), 30, f"an answer about {call}")
        if not answer["ok"] or answer["call"]["state"] != "ended":
            lost.append(call)
    print(
        f"\n{len(lost)} of {len(load.answered)} answered calls were lost; another master after {promoted_at - cut_at:.1f} s, "
        f"the last answer before the network was whole again {last_at - cut_at:.1f} s after the cut; {load.refusals}"
    )
    assert (len(lost) == 0) == (wait_replicas == "1")
    if lost:
        # The store has given revisions a second time, which the judge of the traffic does not expect.
        world.tap.settle()
        world.tap.take()
    world.close()
