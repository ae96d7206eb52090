"""Redis whose master changes: `--store redis-sentinel://…` (docs/redis-failover.md)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import UNLIMITED, Deploy, run, talk, wait_until
from harness.cancelled_calls import CancelledCalls
from harness.redis import RedisServer
from harness.sentinels import NAME, SentinelFleet

pytestmark = pytest.mark.alone


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[SentinelFleet]:
    fleet = SentinelFleet(tmp_path)
    yield fleet
    fleet.stop()


def takes_writes(server: RedisServer) -> bool:
    try:
        return server.command("SET", "probe", "1", timeout=0.5) == b"+OK\r\n"
    except OSError:
        return False


def follows(server: RedisServer) -> bool:
    try:
        return b"role:slave" in server.command("INFO", "replication")
    except OSError:
        # Sentinel ends a demoted master's connections.
        return False


def kill_master(fleet: SentinelFleet) -> None:
    fleet.servers[0].kill()


def promote_another(fleet: SentinelFleet) -> None:
    assert fleet.sentinels[0].command("SENTINEL", "FAILOVER", NAME) == b"+OK\r\n"


@pytest.mark.parametrize("cause", [kill_master, pytest.param(promote_another, marks=pytest.mark.long)])
def test_a_failover_loses_no_answered_request(deploy: Deploy, fleet: SentinelFleet, cause: Callable[[SentinelFleet], None]) -> None:
    """With `--redis-wait-replicas 1`. Requests are served again within a second of the moment when all sentinels name the new
    master and the new master takes writes."""
    world = deploy(2, store=fleet.url, redis_wait_replicas="1", **UNLIMITED)
    old = fleet.servers[0]
    load = CancelledCalls(world)
    try:
        load.go_on()
        cause(fleet)
        wait_until(lambda: fleet.master() not in (None, old), 30, "all sentinels name another master", every=0.02)
        new = fleet.master()
        assert new is not None
        wait_until(lambda: takes_writes(new), 30, "the new master takes writes", every=0.02)
        known = time.monotonic()
        wait_until(lambda: load.moments[-1] > known, 10, "requests are answered again")
        assert next(moment for moment in load.moments if moment > known) - known < 1
        load.go_on()
    finally:
        load.stop()
    assert load.refusals <= {"unavailable"}
    for alice, call in load.answered:
        assert alice.ok("call.get", callID=call)["call"]["state"] == "ended", call
    if cause is promote_another:
        wait_until(lambda: follows(old), 20, "the old master follows the new one")
    world.close()


def test_a_coordinator_asks_the_sentinels_that_are_left(deploy: Deploy, fleet: SentinelFleet) -> None:
    """At the start, and for a failover after the sentinel of the subscription has died."""
    fleet.sentinels[0].kill()
    world = deploy(1, store=fleet.url, **UNLIMITED)
    talk(*world.phones("alice", "bob"))
    fleet.sentinels[0].start()
    wait_until(lambda: fleet.sentinels[0].knows(2, 3), 20, "the sentinel is back")
    fleet.sentinels[1].kill()
    fleet.servers[0].kill()
    wait_until(lambda: fleet.master() not in (None, fleet.servers[0]), 30, "the others name another master")
    wait_until(lambda: world.service.status("/readyz") == 200, 10, "the coordinator is ready")
    talk(*world.phones("carol", "dave"))
    world.close()


def test_a_replica_is_not_taken_for_the_master(deploy: Deploy, fleet: SentinelFleet) -> None:
    """Sentinels may name a server that was demoted a moment ago: its own role counts."""
    world = deploy(1, store=fleet.url, **UNLIMITED)
    talk(*world.phones("alice", "bob"))
    fleet.servers[0].command("REPLICAOF", "127.0.0.1", str(fleet.servers[1].port))
    wait_until(lambda: world.service.status("/readyz") == 503, 10, "the coordinator leaves the server")
    fleet.servers[0].command("REPLICAOF", "NO", "ONE")
    wait_until(lambda: world.service.status("/readyz") == 200, 20, "the coordinator is ready")
    talk(*world.phones("carol", "dave"))
    world.close()


def test_an_unknown_master_is_named(fleet: SentinelFleet) -> None:
    refused = run("webhooks", "list", "--store", fleet.url.replace(f"/{NAME}", "/other"))
    assert refused.returncode != 0 and "the master other: ERR No such master with that name" in refused.stderr
    refused = run("serve", "--store", "redis-sentinel://u:secret@a,a/m")
    assert refused.returncode == 64 and "a:26379 stands twice" in refused.stderr and "secret" not in refused.stderr
