"""Redis Cluster: `--store redis-cluster://…` (docs/redis-failover.md)."""

from __future__ import annotations

import binascii
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import PROJECT, UNLIMITED, Deploy, SteppedClock, World, call_id, run, talk, wait_until
from harness.cancelled_calls import CancelledCalls
from harness.redis import RedisServer
from harness.redis_cluster import SLOTS, RedisCluster

alone = pytest.mark.alone
stores = pytest.mark.stores


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    cluster = RedisCluster(tmp_path)
    yield cluster
    cluster.stop()


def check(load: CancelledCalls) -> None:
    for alice, call in load.answered:
        assert alice.ok("call.get", callID=call)["call"]["state"] == "ended", call


@alone
def test_calls_use_all_servers(deploy: Deploy, cluster: RedisCluster) -> None:
    """The service's user has only the rights that docs/redis-failover.md names."""
    rights = re.search(r"~bellwire:\* .*", (PROJECT / "deploy/bellwire-secrets").read_text())
    assert rights
    for server in cluster.servers:
        user = ["ACL", "SETUSER", "app", "on", ">secret", *rights[0].split(), "+cluster|slots", "+cluster|info"]
        assert server.command(*user) == b"+OK\r\n"
    world = deploy(2, store=cluster.url.replace("://", "://app:secret@"), redis_wait_replicas="1", **UNLIMITED)
    load = CancelledCalls(world)
    load.go_on(100)
    load.stop()
    check(load)
    for server in cluster.masters():
        assert b"keys=" in server.command("INFO", "keyspace")
    world.close()


@pytest.mark.parametrize("place", [pytest.param(0, marks=alone), pytest.param(1, marks=stores), pytest.param(2, marks=stores)])
def test_the_death_of_a_master_loses_no_answered_request(deploy: Deploy, cluster: RedisCluster, place: int) -> None:
    """With `--redis-wait-replicas 1`. Requests are served again within a second of the moment when all servers know the
    new master, for calls whose keys lie elsewhere: the new master has no replica, and refuses writes until a replica
    follows."""
    world = deploy(2, store=cluster.url, redis_wait_replicas="1", **UNLIMITED)
    dead = cluster.servers[place]
    elsewhere = Elsewhere(_slots(dead))
    before, other = CancelledCalls(world), CancelledCalls(world, users=elsewhere.users, new_id=elsewhere.call_id)
    try:
        wait_until(lambda: min(len(before.answered), len(other.answered)) > 20, 20, "calls go through")
        dead.kill()
        # A call with keys at the new master would fail the calls of its batch as well.
        before.stop()
        wait_until(lambda: len(set(cluster.masters()) - {dead}) == 3, 30, "all servers know another master", every=0.02)
        known = time.monotonic()
        wait_until(lambda: other.moments[-1] > known, 10, "requests are answered again")
        assert next(moment for moment in other.moments if moment > known) - known < 1
    finally:
        other.stop()
    # With `--redis-wait-replicas 1` the new master refuses writes until the former master is its replica.
    dead.start()
    after = CancelledCalls(world)
    try:
        after.go_on()
    finally:
        after.stop()
    for load in (before, other, after):
        assert load.refusals <= {"unavailable"}
        check(load)
    world.close()


class Elsewhere:
    """Two users and ids of calls, with keys (docs/redis.md) in other slots than these."""

    def __init__(self, slots: set[int]) -> None:
        self._slots = slots
        while True:
            self.users = (World.user("alice"), World.user("bob"))
            alice, bob = self.users
            if all(map(self._holds, [f"u:{alice}", f"u:{bob}", f"pair:{len(alice)}:{alice}:{bob}"])):
                break

    def _holds(self, tag: str) -> bool:
        return binascii.crc_hqx(tag.encode(), 0) % SLOTS not in self._slots

    def call_id(self) -> str:
        while True:
            call, number = call_id(), 0xCBF29CE484222325
            for byte in call.encode():
                number = (number ^ byte) * 0x100000001B3 % 2**64
            if self._holds(f"p{number % 64}"):
                return call


def promote_by_hand(cluster: RedisCluster, load: CancelledCalls) -> None:
    for master in cluster.masters():
        replica = cluster.replica_of(master)
        assert replica.command("CLUSTER", "FAILOVER") == b"+OK\r\n"
        wait_until(lambda replica=replica: replica in cluster.masters(), 20, "the replica is the master")


def move_slots(cluster: RedisCluster, load: CancelledCalls) -> None:
    """Some slots go to a server that is new."""
    target = cluster.add_master()
    cluster.move_slots(cluster.servers[0], target, SLOTS // 24)
    assert len(_slots(target)) >= SLOTS // 24


def move_all_slots(cluster: RedisCluster, load: CancelledCalls) -> None:
    """A third of the slots, which are all slots of a server, goes to a server that is new."""
    source = cluster.servers[0]
    target = cluster.add_master()
    cluster.move_slots(source, target, len(_slots(source)))
    assert len(_slots(target)) >= SLOTS // 3


def _slots(server: RedisServer) -> set[int]:
    answer = server.command("CLUSTER", "NODES").decode()
    own = next(line for line in answer.splitlines() if "myself" in line).split()[8:]
    ranges = [part.partition("-") for part in own]
    return {slot for first, _, last in ranges for slot in range(int(first), int(last or first) + 1)}


@pytest.mark.parametrize(
    "cause",
    [pytest.param(move_slots, marks=alone), pytest.param(move_all_slots, marks=stores), pytest.param(promote_by_hand, marks=stores)],
)
def test_a_change_by_hand_fails_no_call(
    deploy: Deploy, cluster: RedisCluster, cause: Callable[[RedisCluster, CancelledCalls], None]
) -> None:
    world = deploy(2, store=cluster.url, **UNLIMITED)
    load = CancelledCalls(world)
    try:
        load.go_on()
        cause(cluster, load)
        load.go_on()
    finally:
        load.stop()
    assert not load.refusals
    check(load)
    for service in world.services:
        assert "out of reach" not in service.log.read_text()
    world.close()


@alone
def test_scripts_that_a_server_has_forgotten_are_loaded_again(deploy: Deploy, cluster: RedisCluster) -> None:
    world = deploy(1, store=cluster.url, **UNLIMITED)
    for server in cluster.masters():
        assert server.command("SCRIPT", "FLUSH") == b"+OK\r\n"
        talk(*world.phones("alice", "bob"))
    world.close()


@alone
def test_addresses(cluster: RedisCluster) -> None:
    refused = run("serve", "--store", "redis-cluster://u:secret@a,b/1")
    assert refused.returncode == 64 and "a Redis Cluster has no numbered databases" in refused.stderr
    assert "secret" not in refused.stderr
    # A single server of the list is enough.
    taken = run("webhooks", "list", "--store", f"redis-cluster://127.0.0.1:1,127.0.0.1:{cluster.servers[5].port}")
    assert taken.returncode == 0, taken


@alone
def test_a_clock_that_differs_is_told_and_refused(deploy: Deploy, tmp_path: Path) -> None:
    """Nodes that are more than 250 ms apart are told; a write at a node that is more than 500 ms away is refused, and works
    when the clock is right again."""
    clock = SteppedClock(tmp_path / "clock")
    cluster = RedisCluster(tmp_path, env=[clock.env, None, None, None, None, None])
    try:
        world = deploy(1, store=cluster.url, **UNLIMITED)
        alice, bob = world.phones("alice", "bob")
        for _ in range(20):
            alice.cancel(alice.invite(bob))
        clock.step(2)
        world.service.restart()
        name = f"127.0.0.1:{cluster.servers[0].port}"
        wait_until(lambda: "clocks of all servers" in world.service.get("/readyz")[1], 10, "the difference is told")
        told = world.service.get("/readyz")[1]
        assert f"behind that of {name}" in told, told
        refusals = {alice.start("call.invite", callID=call_id(), invitees=[bob.user]).wait()["ok"] for _ in range(20)}
        assert refusals == {True, False}
        clock.step(0)
        world.service.restart()
        wait_until(lambda: "clocks of all servers" not in world.service.get("/readyz")[1], 10, "the clocks agree")
        for _ in range(20):
            alice.cancel(alice.invite(bob))
        world.close()
    finally:
        cluster.stop()


@alone
@pytest.mark.long
def test_two_servers_are_compared_with_each_other(deploy: Deploy, tmp_path: Path) -> None:
    """The clocks of two masters differ from that of {p0} by 200 ms, in opposite directions, and so by 400 ms from each
    other. No write is refused."""
    clocks = [SteppedClock(tmp_path / f"clock-{number}") for number in range(3)]
    cluster = RedisCluster(tmp_path, env=[*(clock.env for clock in clocks), None, None, None])
    try:
        slot = int(cluster.servers[0].command("CLUSTER", "KEYSLOT", "{p0}")[1:])
        late, early = (number for number in range(3) if slot not in _slots(cluster.servers[number]))
        clocks[late].step(-0.2)
        clocks[early].step(0.2)
        world = deploy(1, store=cluster.url, **UNLIMITED)
        alice, bob = world.phones("alice", "bob")
        told = f"127.0.0.1:{cluster.servers[late].port} is 400 ms behind that of 127.0.0.1:{cluster.servers[early].port}"
        # A server's clock is read with an error of the round trip.
        wait_until(
            lambda: re.search(told.replace("400", "(300|400)"), world.service.get("/readyz")[1]),
            20,
            lambda: world.service.get("/readyz")[1],
        )
        for _ in range(20):
            alice.cancel(alice.invite(bob))
        clocks[late].step(0)
        wait_until(lambda: "clocks of all servers" not in world.service.get("/readyz")[1], 20, "200 ms are not told")
        world.close()
    finally:
        cluster.stop()


@alone
def test_a_server_without_a_cluster_is_named(tmp_path: Path) -> None:
    server = RedisServer(tmp_path / "redis")
    try:
        refused = run("webhooks", "list", "--store", f"redis-cluster://127.0.0.1:{server.port}")
        assert refused.returncode != 0 and "cluster support disabled" in refused.stderr, refused
    finally:
        server.stop()
