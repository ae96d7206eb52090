"""Several coordinators on the same Redis: the shared work, and the consequences when a coordinator or Redis goes
away."""

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

from harness import (
    UNLIMITED,
    Deploy,
    Device,
    RedisServer,
    Request,
    Service,
    Wire,
    World,
    call_id,
    member,
    now_ms,
    ring,
    talk,
    wait_until,
)

REPLICAS = 3
TAKEOVER_MS = 1500
"""The greatest lateness of a timer whose owner died."""
PATIENCE = 25
"""Seconds that a client goes on sending its request again before the test gives up."""


@pytest.fixture(scope="module")
def own_deployment(deploy: Deploy, redis_server: RedisServer) -> World:
    return deploy(REPLICAS, store=redis_server.url, **UNLIMITED)


@pytest.fixture
def world(own_deployment: World) -> Iterator[World]:
    for service in own_deployment.services:
        if not service.running:
            service.start()
    yield from own_deployment.borrow()


def handled(service: Service) -> float:
    return service.metrics()["bellwire_messages_received_total"]


def all_answer(world: World) -> None:
    """Waits until every replica says that it can serve."""
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


@pytest.mark.alone
def test_a_timer_fires_once(world: World) -> None:
    """§3 `timeout`: three coordinators know the deadline, and the deadline makes a single revision."""
    alice, bob = world.phones("alice", "bob")
    calls = [alice.invite(bob, timeout=1) for _ in range(20)]
    for call in calls:
        told = alice.expect_change(call, bob, "timeout", 3)
        final = alice.get(call)
        assert told["revision"] == final["revision"]
        assert 0 <= told["time"] - member(final, bob)["expiresAt"] <= 50


# Coordinators that go away


@pytest.mark.alone
def test_a_killed_coordinators_timers_are_served_by_another(world: World) -> None:
    """§5: no call depends on a replica that stays alive."""
    alice, bob = world.phones("alice", "bob")
    calls = [ring(alice, bob, timeout=2) for _ in range(12)]
    world.services[0].kill()
    world.services[1].kill()
    for call in calls:
        told = alice.expect_change(call, bob, "timeout", 2 + TAKEOVER_MS / 1000 + 1)
        assert told["time"] - member(told["call"], bob)["expiresAt"] <= TAKEOVER_MS


@pytest.mark.waits
def test_a_frozen_coordinator_delays_and_then_disturbs_nobody(world: World) -> None:
    """The frozen coordinator leaves the share group within 8 s; awake again, the coordinator drops the requests that it
    had."""
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
# On a busy machine a coordinator may leave the share group for a moment, since Redis seems to be away. While the other
# is being restarted, a request then reaches nobody and must be sent again.
@pytest.mark.alone
def test_a_rolling_restart_under_load_shows_no_error(world: World) -> None:
    """Each coordinator drains and comes back in turn; no device has to send a request twice."""
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
    """§2 `unavailable`: the answer comes quickly, and no request hangs; the same request succeeds later."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    redis_server.freeze()
    try:
        requests: list[Request] = []

        def answered() -> Request | None:
            requests.append(alice.start("call.get", callID=call))
            return next((request for request in requests if request.done), None)

        # Several requests: an answer that comes too late is not sent.
        first = wait_until(answered, 1.5, "an answer", every=0.05)
        assert first.wait()["error"]["code"] == "unavailable"
        for service in world.services:
            # No coordinator can serve, so no coordinator keeps a request from the others.
            wait_until(lambda service=service: service.metrics().get("bellwire_listening") == 0, 10, "it leaves the group")
            assert service.status("/readyz") == 503
            assert service.status("/healthz") == 200
    finally:
        redis_server.wake()
    all_answer(world)
    assert first.again().ok(PATIENCE)["call"]["state"] == "active"
    alice.end(call)
    bob.expect("call.ended", call)


def test_a_killed_redis_loses_nothing_that_was_answered(world: World, redis_server: RedisServer) -> None:
    """Redis runs with `appendfsync always`."""
    alice, bob = world.phones("alice", "bob")
    for _ in range(3):
        call = ring(alice, bob, mode="advanced")
        accepted = bob.accept(call)
        redis_server.kill()
        for service in world.services:
            wait_until(lambda service=service: service.status("/readyz") == 503, 10, "the replica knows")
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
    """The coordinator is not ready and gives Redis's own words; the password appears nowhere."""
    url = redis_server.url.replace("redis://", "redis://:open-sesame@")
    world = deploy(store=url, start=False)
    service = world.service
    service.start(ready=False)
    wait_until(lambda: service.status("/readyz") == 503, 10, "the coordinator answers")
    wait_until(lambda: "AUTH" in service.get("/readyz")[1], 10, "the coordinator tells why the store refuses it")
    assert "open-sesame" not in service.log.read_text() + service.get("/metrics")[1] + service.get("/readyz")[1]
    service.stop()


@pytest.mark.waits
def test_a_write_counts_only_when_enough_replicas_have_it(deploy: Deploy, tmp_path: Path) -> None:
    """`--redis-wait-replicas 1`: without the replica requests are `unavailable`; with the replica they succeed
    again."""
    primary = RedisServer(tmp_path / "primary")
    replica = RedisServer(tmp_path / "replica", replica_of=primary)
    wait_until(lambda: b"state=online" in primary.command("INFO", "replication"), 20, "the replica follows")
    world = deploy(store=primary.url, redis_wait_replicas="1")
    try:
        alice, bob = world.phones("alice", "bob")
        call = talk(alice, bob)
        replica.kill()
        # Writes wait for the replica one after the other, also the writes of other requests. An answer that comes too
        # late is not sent, like any late answer.
        refused = alice.start("call.end", callID=call, id="end").wait(PATIENCE)
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
    """A call and its due entry have the same slot of a Redis Cluster; the data of a user have the user's slot."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    keys = redis_server.command("KEYS", f"bellwire:*:call:{call}").decode()
    (key,) = [line for line in keys.splitlines() if line.endswith(f":call:{call}")]
    tag = key[key.index("{") : key.index("}") + 1]
    for name in (f"bellwire:{tag}:due", f"bellwire:{{u:{alice.user}}}:active"):
        assert redis_server.command("EXISTS", name) == b":1\r\n", name
    alice.cancel(call)


# Redis that takes no writes, or that a single coordinator cannot reach


def demote(server: RedisServer) -> None:
    """Demotes the server as a failover does: the former master takes no writes any more."""
    server.command("REPLICAOF", "127.0.0.1", "1")


def ready(service: Service) -> bool:
    return service.status("/readyz") == 200


def test_a_demoted_master_is_left_for_the_new_one(deploy: Deploy, tmp_path: Path) -> None:
    """Another connection, and another look for the address, at once: the old server still answers, and refuses writes."""
    old, new = RedisServer(tmp_path / "old"), RedisServer(tmp_path / "new")
    wire = Wire(old.port)
    world = deploy(1, store=f"redis://127.0.0.1:{wire.port}")
    try:
        talk(*world.phones("alice", "bob"))
        wire.target = new.port
        demote(old)
        wait_until(lambda: new.command("EXISTS", "bellwire:clock") == b":1\r\n", 10, "the coordinator writes to the new one")
        wait_until(lambda: ready(world.service), 10, "the coordinator is ready")
        talk(*world.phones("carol", "dave"))
    finally:
        world.close()
        world.service.stop()
        wire.close()
        old.stop()
        new.stop()


@pytest.mark.parametrize("refusal", ["READONLY", "OOM"])
def test_while_redis_takes_no_writes_a_coordinator_says_so_steadily(
    deploy: Deploy, tmp_path: Path, refusal: str
) -> None:
    """Successful reads do not prove that writes succeed: the coordinator is not ready, does not flap, and logs the
    state once."""
    server = RedisServer(tmp_path / "redis")
    world = deploy(1, store=server.url)
    try:
        alice, bob = world.phones("alice", "bob")
        call = talk(alice, bob)
        if refusal == "OOM":
            server.command("CONFIG", "SET", "maxmemory", "1")
        else:
            demote(server)
        wait_until(lambda: world.service.status("/readyz") == 503, 10, "the coordinator is not ready")
        until = time.monotonic() + 3
        seen = set()
        while time.monotonic() < until:
            seen.add(ready(world.service))
        assert seen == {False}, "it never says that it is ready"
        log = world.service.log.read_text()
        assert log.count("the store cannot answer") == 1 and log.count("answers again") == 0, log
        assert refusal in log or "replica" in log, log
        if refusal == "OOM":
            server.command("CONFIG", "SET", "maxmemory", "0")
        else:
            server.command("REPLICAOF", "NO", "ONE")
        wait_until(lambda: ready(world.service), 10, "the coordinator is ready again")
        assert alice.start("call.get", callID=call).ok(PATIENCE)["call"]["state"] == "active"
        alice.end(call)
    finally:
        world.close()
        world.service.stop()
        server.stop()


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_redis_that_evicts_keys_is_warned_of_once(deploy: Deploy, tmp_path: Path, policy: str) -> None:
    server = RedisServer(tmp_path / "redis", maxmemory_policy=policy)
    world = deploy(1, store=server.url)
    service = world.service

    def warnings() -> int:
        return service.log.read_text().count(f"maxmemory-policy is {policy}")

    try:
        wait_until(lambda: warnings() == 1, 10, "the log says so")
        wait_until(lambda: f"maxmemory-policy is {policy}" in service.get("/readyz")[1], 10, "so does /readyz")
        metrics = service.metrics()
        assert metrics['bellwire_store_hazard{hazard="evicts"}'] == 1
        assert metrics['bellwire_store_hazard{hazard="keepsNothing"}'] == 0
        server.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
        server.command("CLIENT", "KILL", "TYPE", "normal")
        wait_until(lambda: ready(service), 10, "the coordinator is ready again")
        alice, bob = world.phones("alice", "bob")
        alice.end(talk(alice, bob))
        assert warnings() == 1
    finally:
        world.close()
        service.stop()
        server.stop()


@pytest.mark.alone
def test_a_coordinator_that_is_cut_off_from_the_store_leaves_its_work_to_the_others(
    rig: Any, redis_server: RedisServer
) -> None:
    """The coordinator leaves the share group within a second, and comes back by itself."""
    wire = Wire(redis_server.port)
    broker = rig.broker()
    near = rig.service(broker, "near", store=redis_server.url, **UNLIMITED)
    far = rig.service(broker, "far", store=f"redis://127.0.0.1:{wire.port}", **UNLIMITED)
    world = rig.people(broker, near, far)
    alice, bob = world.phones("alice", "bob")
    try:
        for _ in range(10):
            alice.end(talk(alice, bob))
        wire.cut()
        cut = time.monotonic()
        wait_until(lambda: far.metrics().get("bellwire_listening") == 0, 3, "it leaves the group")
        left = time.monotonic() - cut
        assert left < 1.2, f"it left after {left:.2f} s"
        for _ in range(20):
            asked = time.monotonic()
            call = call_id()
            response = alice.start("call.invite", callID=call, invitees=[bob.user], mode="advanced").wait(resend=False)
            assert response["ok"], response
            bob.expect("call.invited", call)
            assert time.monotonic() - asked < 0.9, "nobody waits for a coordinator that cannot serve"
            alice.end(call)
        assert not ready(far) and far.status("/healthz") == 200
        wire.mend()
        wait_until(lambda: ready(far), 5, "it is back")
        handled_before = handled(far)
        for _ in range(10):
            alice.end(talk(alice, bob))
        assert handled(far) > handled_before, "it takes its share again"
    finally:
        wire.close()


# Remains of coordinators that died


def test_entries_without_a_call_keep_no_call_out_of_a_welcome(world: World, redis_server: RedisServer) -> None:
    """A welcome looks at the fifty newest calls of a user: list entries without a call must not take the places of
    calls."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    bob.drop()
    key = "bellwire:{u:" + bob.user + "}:calls"
    newer = int(now_ms()) + 1_000
    for number in range(120):
        redis_server.command("ZADD", key, "+inf", f"{newer + number}-gone{number}")
    bob.connect()
    welcome = bob.had("welcome")[-1]
    assert [listed["callID"] for listed in welcome["calls"]] == [call]
    assert not welcome.body.get("omittedCalls")
    wait_until(lambda: redis_server.command("ZCARD", key) == b":1\r\n", 5, "the entries without a call are removed")
    alice.cancel(call)


def test_due_records_that_nobody_can_read_stop_no_take_over(rig: Any, tmp_path: Path) -> None:
    """The records are damaged, or of a later version, and more than a coordinator looks at in a batch."""
    server = RedisServer(tmp_path / "redis")
    broker = rig.broker()
    service = rig.service(broker, "first", store=server.url, **UNLIMITED)
    world = rig.people(broker, service)
    alice, bob = world.phones("alice", "bob")
    left = 300
    while left:
        invitations = [alice.start("call.invite", invitees=[World.user("nobody")], timeout=600) for _ in range(min(left, 20))]
        # A busy machine refuses some (`unavailable`).
        left -= sum(invitation.wait()["ok"] for invitation in invitations)
    script = """
        for _, key in ipairs(redis.call('KEYS', 'bellwire:*:call:*')) do
          local partition, id = string.match(key, '^(bellwire:{p%d+}:)call:(.*)$')
          redis.call('HSET', key, 'r', 'damaged')
          redis.call('ZADD', partition .. 'due', 1, id)
        end
        return 1
        """
    assert server.command("EVAL", script, "0") == b":1\r\n"
    call = ring(alice, bob, timeout=4)
    service.kill()
    second = rig.service(broker, "second", store=server.url, **UNLIMITED)
    world = rig.people(broker, second)
    began = time.monotonic()
    bob.expect("call.timeout", call, 12)
    assert time.monotonic() - began < 4 + TAKEOVER_MS / 1000 + 1
    second.stop()
    server.stop()
