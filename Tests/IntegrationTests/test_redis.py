"""Several coordinators on one Redis: what is shared, and what happens when a coordinator or Redis goes away."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness import Deploy, Device, RedisServer, Service, World, call_id, member, ring, talk, wait_until

REPLICAS = 3
TAKEOVER_MS = 1500
"""How late a timer may fire whose owner died."""
PATIENCE = 25
"""Seconds that a client goes on sending its request again before the test gives up."""


@pytest.fixture(scope="module")
def own_deployment(deploy: Deploy, redis_server: RedisServer) -> World:
    return deploy(REPLICAS, store=redis_server.url)


@pytest.fixture
def world(own_deployment: World) -> Iterator[World]:
    for service in own_deployment.services:
        if not service.running:
            service.start()
    yield from own_deployment.borrow()


def handled(service: Service) -> float:
    return service.metrics()["bellwire_messages_received_total"]


def all_answer(world: World) -> None:
    """Every replica says that it can serve."""
    for service in world.services:
        wait_until(lambda service=service: service.status("/readyz") == 200, 10, "the replica is ready")


# Sharing


def test_the_replicas_share_the_load(world: World) -> None:
    """Each takes a part of the messages, and every call comes to its end."""
    before = [handled(service) for service in world.services]
    alice, bob = world.phones("alice", "bob")
    for _ in range(30):
        call = talk(alice, bob)
        assert bob.end(call)["call"]["endReason"] == "hangup"
        assert alice.expect("call.ended", call)["call"] == bob.get(call)
    shares = [handled(service) - was for service, was in zip(world.services, before)]
    assert all(share > sum(shares) / (3 * REPLICAS) for share in shares), shares


def test_a_timer_fires_once(world: World) -> None:
    """§3 `timeout`: three coordinators know the deadline; one revision comes of it."""
    alice, bob = world.phones("alice", "bob")
    calls = [alice.invite(bob, timeout=1) for _ in range(20)]
    for call in calls:
        told = alice.expect_change(call, bob, "timeout", 3)
        final = alice.get(call)
        assert told["revision"] == final["revision"]
        assert 0 <= told["time"] - member(final, bob)["expiresAt"] <= 50


# Coordinators that go away


def test_a_killed_coordinators_timers_are_served_by_another(world: World) -> None:
    """§5: nothing depends on any replica staying alive."""
    alice, bob = world.phones("alice", "bob")
    calls = [ring(alice, bob, timeout=2) for _ in range(12)]
    world.services[0].kill()
    world.services[1].kill()
    for call in calls:
        told = alice.expect_change(call, bob, "timeout", 2 + TAKEOVER_MS / 1000 + 1)
        assert told["time"] - member(told["call"], bob)["expiresAt"] <= TAKEOVER_MS


def test_a_frozen_coordinator_delays_and_then_disturbs_nobody(world: World) -> None:
    """It leaves the share group within 8 s; awake again, it throws away what it had."""
    alice, bob = world.phones("alice", "bob")
    frozen = world.services[2]
    os.kill(frozen.pid, signal.SIGSTOP)
    try:
        calls = [call_id() for _ in range(12)]
        for call in calls:
            alice.start("call.invite", callID=call, invitees=[bob.user]).ok(PATIENCE)
            bob.start("call.reject", callID=call).ok(PATIENCE)
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    wait_until(lambda: frozen.status("/readyz") == 200, 15, "the coordinator is back")
    for call in calls:
        assert alice.get(call)["endReason"] == "rejected"


@pytest.mark.timeout(120)
def test_a_rolling_restart_under_load_shows_no_error(world: World) -> None:
    """Each coordinator drains and comes back in turn; nobody has to send a request twice."""
    pairs = [world.phones("alice", "bob") for _ in range(4)]
    stop = threading.Event()

    def converse(alice: Device, bob: Device) -> int:
        count = 0
        while not stop.is_set():
            call = call_id()
            alice.start("call.invite", callID=call, invitees=[bob.user], mode="advanced").ok(resend=False)
            bob.expect("call.invited", call)
            bob.start("call.accept", callID=call).ok(resend=False)
            alice.expect_change(call, bob, "accepted")
            alice.start("call.end", callID=call).ok(resend=False)
            bob.expect("call.ended", call)
            count += 1
        return count

    with ThreadPoolExecutor(len(pairs)) as pool:
        talks = [pool.submit(converse, alice, bob) for alice, bob in pairs]
        try:
            for service in world.services:
                status, seconds = service.terminate()
                assert (status, seconds < 5) == (0, True)
                service.start()
        finally:
            stop.set()
        assert all(done.result() > 0 for done in talks)


# Redis that goes away


def test_while_redis_does_not_answer_requests_are_unavailable_and_then_all_is_well(
    world: World, redis_server: RedisServer
) -> None:
    """§2 `unavailable`: quickly, and nothing hangs; the same request succeeds later."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    redis_server.freeze()
    try:
        for number in range(6):
            sent = time.monotonic()
            error = alice.start("call.get", callID=call, id=f"frozen-{number}").wait(resend=False)["error"]
            assert error["code"] == "unavailable"
            assert time.monotonic() - sent < 1.5
        asked = [service for service in world.services if service.status("/readyz") == 503]
        assert asked, "those that were asked say that they are not ready"
        assert all(service.status("/healthz") == 200 for service in world.services)
    finally:
        redis_server.wake()
    all_answer(world)
    assert alice.start("call.get", callID=call, id="frozen-0").ok(PATIENCE)["call"]["state"] == "active"
    alice.end(call)
    bob.expect("call.ended", call)


def test_a_killed_redis_loses_nothing_that_was_answered(world: World, redis_server: RedisServer) -> None:
    """With `appendfsync always`."""
    alice, bob = world.phones("alice", "bob")
    for _ in range(3):
        call = ring(alice, bob, mode="advanced")
        accepted = bob.accept(call)
        redis_server.kill()
        redis_server.start()
        all_answer(world)
        shown = alice.start("call.get", callID=call).ok(PATIENCE)["call"]
        assert shown == accepted["call"]
        alice.start("call.end", callID=call).ok(PATIENCE)
        bob.expect("call.ended", call, PATIENCE)


def test_an_ack_that_redis_could_not_take_is_given_again(world: World, redis_server: RedisServer) -> None:
    """§5: the event is resent until its ack is known."""
    alice, bob = world.phones("alice", "bob")
    bob.auto_ack = False
    call = alice.invite(bob)
    revision = bob.expect("call.invited", call)["revision"]
    redis_server.freeze()
    try:
        bob.ack(call, revision)
        alice.start("call.get", callID=call).wait(resend=False)
    finally:
        redis_server.wake()
    bob.auto_ack = True
    alice.expect_change(call, bob, "received", 10)


def test_a_script_cache_that_was_emptied_is_filled_again(world: World, redis_server: RedisServer) -> None:
    alice, bob = world.phones("alice", "bob")
    assert redis_server.command("SCRIPT", "FLUSH").startswith(b"+OK")
    call = talk(alice, bob)
    assert alice.end(call)["call"]["state"] == "ended"


def test_a_wrong_password_is_said_and_never_shown(deploy: Deploy, redis_server: RedisServer, tmp_path: Path) -> None:
    """Not ready, with Redis's own words; the password stands nowhere."""
    url = redis_server.url.replace("redis://", "redis://:open-sesame@")
    world = deploy(store=url, start=False)
    service = world.service
    service.start(ready=False)
    wait_until(lambda: service.status("/readyz") == 503, 10, "the coordinator answers")
    wait_until(lambda: "store" in service.get("/readyz")[1], 10, "it tells of the store")
    assert "AUTH" in service.get("/readyz")[1]
    assert "open-sesame" not in service.log.read_text() + service.get("/metrics")[1] + service.get("/readyz")[1]
    service.stop()


def test_a_write_counts_only_when_enough_replicas_have_it(deploy: Deploy, tmp_path: Path) -> None:
    """`--redis-wait-replicas 1`: without the replica requests are `unavailable`, with it they succeed again."""
    primary = RedisServer(tmp_path / "primary")
    replica = RedisServer(tmp_path / "replica", replica_of=primary)
    wait_until(lambda: b"state=online" in primary.command("INFO", "replication"), 20, "the replica follows")
    world = deploy(store=primary.url, redis_wait_replicas="1")
    try:
        alice, bob = world.phones("alice", "bob")
        call = talk(alice, bob)
        replica.kill()
        refused = alice.start("call.end", callID=call, id="end").wait(resend=False)
        assert refused["error"]["code"] == "unavailable"
        replica.start()
        wait_until(lambda: b"state=online" in primary.command("INFO", "replication"), 20, "the replica follows again")
        all_answer(world)
        # A replica that has just come back may take its time over the first write: `unavailable` means "send again".
        answers: list[dict[str, Any]] = []

        def is_ended() -> bool:
            answers.append(alice.start("call.end", callID=call, id="end").wait(PATIENCE, resend=False))
            return bool(answers[-1]["ok"])

        wait_until(is_ended, 10, "the call is ended", every=0.1)
        assert answers[-1]["call"]["state"] == "ended"
        assert {answer["error"]["code"] for answer in answers[:-1]} <= {"unavailable"}
        bob.expect("call.ended", call, PATIENCE)
    finally:
        world.close()
        for service in world.services:
            service.stop()
        replica.stop()
        primary.stop()


def test_keys_of_one_commit_share_a_hash_tag(world: World, redis_server: RedisServer) -> None:
    """A call and its due entry lie in one slot of a Redis Cluster; what belongs to a user lies in the user's."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    keys: Any = redis_server.command("KEYS", "*").decode()
    (key,) = [line for line in keys.splitlines() if line.endswith(f":call:{call}")]
    tag = key[key.index("{") : key.index("}") + 1]
    assert f"bellwire:{tag}:due" in keys.splitlines()
    assert f"bellwire:{{u:{alice.user}}}:active" in keys.splitlines()
    alice.cancel(call)
