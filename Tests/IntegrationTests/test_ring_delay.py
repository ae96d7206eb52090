"""How long phones ring later when a coordinator or a gateway dies under load (docs/high-availability.md)."""

from __future__ import annotations

import secrets
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import UNLIMITED, Load, RedisServer, World, wait_until
from harness.gateway import Gateway
from harness.load import Ring

from conftest import Rig

pytestmark = pytest.mark.alone

DEATHS = 3
ADDED = 0.05
"""Seconds that a death may add to the longest ring of the calls around it."""
RESENT = 0.9
"""A ring that takes longer waited for the first resend of the client, a second after the request."""
WINDOW = 0.5
"""The seconds before and after a death in which calls are compared."""


def added_by(deaths: list[float], rings: list[Ring]) -> tuple[list[float], int]:
    """For each death by how much the longest ring after it exceeds the longest before it, without the rings that waited
    for a resend; and the number of the latter."""
    added, resent = [], 0
    for death in deaths:
        # A request may have been on its way when the process died.
        after = [ring.seconds for ring in rings if death - 0.02 <= ring.began < death + WINDOW]
        before = [ring.seconds for ring in rings if death - WINDOW <= ring.began < death - 0.02]
        late = [seconds for seconds in after if seconds > RESENT]
        resent += len(late)
        added.append(max(seconds for seconds in after if seconds <= RESENT) - max(before))
        print(f"before: {len(before)} rings, longest {max(before) * 1000:.1f} ms; after: {len(after)}, {added[-1] * 1000:+.1f} ms, resent: {late}")
    return added, resent


@pytest.mark.parametrize("qos", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_coordinator_that_dies_delays_only_the_requests_that_it_holds(rig: Rig, redis_server: RedisServer, qos: int) -> None:
    """A request that the dead coordinator has taken from the broker is the client's to send again, a second later: few
    of them, since a coordinator holds a request for some milliseconds."""
    world = rig.world(replicas=3, store=redis_server.url, redis_prefix=f"ring-delay-{qos}", **UNLIMITED)
    deaths = []
    with Load(world.broker, pairs=12, pause=0.05, qos=qos) as load:
        for number in range(DEATHS):
            go_on(lambda: load.calls, 200)
            victim = world.services[number % 3]
            victim.kill()
            deaths.append(time.monotonic())
            go_on(lambda: load.calls, 200)
            victim.start()
    assert not load.failures, "\n".join(load.failures)
    added, resent = added_by(deaths, load.rings)
    assert statistics.median(added) < ADDED, added
    assert resent <= 3 * DEATHS, "at most a few of some eighty calls around each death"


def go_on(count: Callable[[], int], calls: int) -> None:
    before = count()
    wait_until(lambda: count() > before + calls, 30, "calls go through")


@pytest.fixture
def gateways(rig: Rig, redis_server: RedisServer, tmp_path: Path) -> Iterator[tuple[World, list[Gateway]]]:
    world = rig.world(replicas=2, store=redis_server.url, redis_prefix="ring-delay-rest", **UNLIMITED)
    first = Gateway(tmp_path / "gateways", world.broker.url, world.service.store, "gateway-1", redis_prefix="ring-delay-rest")
    second = Gateway(
        tmp_path / "gateways", world.broker.url, world.service.store, "gateway-2", first.keys, redis_prefix="ring-delay-rest"
    )
    yield world, [first.start(), second.start()]
    first.stop()
    second.stop()


@pytest.mark.long
def test_a_gateway_that_dies_delays_no_call_of_a_backend_with_two(gateways: tuple[World, list[Gateway]]) -> None:
    """The backend asks the other gateway under the same `Idempotency-Key`: no call is lost, and none rings twice."""
    world, both = gateways
    rings: list[Ring] = []
    failures: list[str] = []
    stop = threading.Event()

    def calls(number: int) -> None:
        phone = world.phone(f"callee-{number}")
        while not stop.is_set():
            key, began = secrets.token_hex(8), time.monotonic()
            body = {"inviter": f"shop-{number}", "invitees": [phone.user]}
            answers = (gateway.post("/v1/calls", body, key=key) for gateway in (both if number % 2 else both[::-1]))
            answer = next((answer for answer in answers if answer.status != 0), None)
            if answer is None or answer.status not in (200, 201):
                failures.append(f"{number}: {answer}")
                return
            call = answer.body["callID"]
            rings.append(Ring(began, phone.expect("call.invited", call).at - began))
            phone.reject(call)
            phone.messages.clear()
            stop.wait(0.05)

    threads = [threading.Thread(target=calls, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    deaths = []
    try:
        for number in range(DEATHS):
            go_on(lambda: len(rings), 80)
            both[number % 2].kill()
            deaths.append(time.monotonic())
            go_on(lambda: len(rings), 80)
            both[number % 2].start()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures
    added, resent = added_by(deaths, rings)
    assert statistics.median(added) < ADDED and resent == 0, (added, resent)
