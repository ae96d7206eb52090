"""Webhooks and pushes while Redis fails over (docs/redis-failover.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Rig
from harness import UNLIMITED, call_id, wait_until
from harness.cancelled_calls import CancelledCalls
from harness.gateway import Gateway
from harness.push_providers import PushProviders
from harness.pushing import Pushing
from harness.receiver import Receiver
from harness.redis_cluster import RedisCluster
from harness.sentinels import SentinelFleet

pytestmark = pytest.mark.stores


@pytest.fixture(params=[SentinelFleet, RedisCluster])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SentinelFleet | RedisCluster]:
    fleet = request.param(tmp_path / "fleet")
    yield fleet
    fleet.stop()


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    receiver = Receiver(tmp_path / "receiver")
    yield receiver
    receiver.stop()
    assert not receiver.problems


def await_new_master(fleet: SentinelFleet | RedisCluster) -> None:
    dead = fleet.servers[0]
    if isinstance(fleet, SentinelFleet):
        wait_until(lambda: fleet.master() not in (None, dead), 30, "another master")
    else:
        wait_until(lambda: len(set(fleet.masters()) - {dead}) == 3, 30, "another master")
        # Writes need a replica of the new master.
        dead.start()


@pytest.mark.timeout(180)
def test_every_webhook_of_an_answered_call_arrives(rig: Rig, receiver: Receiver, fleet: SentinelFleet | RedisCluster) -> None:
    """None is lost with the master, and none is left there."""
    options = {"store": fleet.url, "redis_wait_replicas": "1", "webhooks": str(receiver.settings(events=["call.*"]))}
    world = rig.world(2, **options, **UNLIMITED)
    load = CancelledCalls(world)
    try:
        wait_until(lambda: len(load.answered) > 30, 20, "calls go through")
        fleet.servers[0].kill()
        await_new_master(fleet)
        count = len(load.answered)
        wait_until(lambda: len(load.answered) > count + 30, 30, "calls go on")
    finally:
        load.stop()
    for alice, call in load.answered:
        last = alice.get(call)["revision"]

        def arrived(call: str = call, last: int = last) -> bool:
            return {event.body["data"]["revision"] for event in receiver.of_call(call)} == set(range(1, last + 1))

        wait_until(arrived, 30, f"all webhooks of {call}")


@pytest.mark.timeout(180)
def test_every_answered_call_pushes(rig: Rig, tmp_path: Path, fleet: SentinelFleet | RedisCluster) -> None:
    providers = PushProviders(tmp_path / "providers")
    flags = {"push": str(providers.settings())}
    world = rig.world(2, store=fleet.url, redis_wait_replicas="1", **flags, **UNLIMITED)
    gateway = Gateway(tmp_path, world.broker.url, fleet.url, **flags).start()
    push = Pushing(world, gateway, providers)
    try:
        alice = world.phone("alice")
        sleepers = [push.sleeper(f"bob{number}", "fcm") for number in range(6)]
        calls = []
        for number, sleeper in enumerate(sleepers):
            if number == 3:
                fleet.servers[0].kill()
            call = call_id()

            def answered(call: str = call, user: str = sleeper.user) -> bool:
                try:
                    answer = alice.start("call.invite", callID=call, invitees=[user]).wait(0.5, resend=False)
                except AssertionError:
                    return False
                assert answer["ok"] or answer["error"]["code"] == "unavailable", answer
                return bool(answer["ok"])

            if number == 3:
                await_new_master(fleet)
            wait_until(answered, 30, f"call {number} is answered")
            calls.append((sleeper.only, call))
        for target, call in calls:
            wait_until(lambda target=target, call=call: bool(providers.of(target, "ring", call)), 30, "the push")
    finally:
        gateway.stop()
        providers.close()
        providers.expect_no_problems()
