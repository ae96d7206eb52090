"""Coordinators and brokers that stop, die and come back (architecture: kill any coordinator at any instant)."""

from __future__ import annotations

import os
import random
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness import UNLIMITED, Device, Terminal, World, call_id, change_in, encode, member, now_ms, ring, talk, wait_until, welcomes

PATIENCE = 25
"""Seconds that a client goes on sending its request again before the test gives up."""


@pytest.fixture
def dice() -> random.Random:
    """Random instants. A failure shows the seed, and BELLWIRE_TEST_SEED repeats the run."""
    seed = int(os.environ.get("BELLWIRE_TEST_SEED") or random.SystemRandom().randrange(2**32))
    print(f"BELLWIRE_TEST_SEED={seed}")
    return random.Random(seed)


# kill -9


def converse(alice: Device, bob: Device, stop: threading.Event) -> list[dict[str, Any]]:
    """Calls, answers and hangs up again and again, as patient clients do; the calls as they ended."""
    ended = []
    while not stop.is_set():
        call = call_id()
        alice.start("call.invite", callID=call, invitees=[bob.user], mode="advanced").ok(PATIENCE)
        bob.expect("call.invited", call, PATIENCE)
        accepted = bob.start("call.accept", callID=call).ok(PATIENCE)
        assert accepted["call"]["state"] == "active"
        alice.expect_change(call, bob, "accepted", PATIENCE)
        final = alice.start("call.end", callID=call).ok(PATIENCE)["call"]
        assert (final["state"], final["endReason"], final["endedBy"]) == ("ended", "hangup", alice.user)
        told = bob.expect("call.ended", call, PATIENCE)
        assert told["call"] == final
        ended.append(final)
    return ended


@pytest.mark.timeout(120)
def test_kills_at_random_instants_lose_no_call(rig: Any, dice: random.Random) -> None:
    """SQLite: ten kill -9 under load; every conversation goes on, and every answered request still holds. The ledger
    also checks that no revision that a device saw is made a second time with other content.
    """
    world = rig.world(**UNLIMITED)
    pairs = [world.phones("alice", "bob") for _ in range(4)]
    stop = threading.Event()
    with ThreadPoolExecutor(len(pairs)) as pool:
        talks = [pool.submit(converse, alice, bob, stop) for alice, bob in pairs]
        try:
            for _ in range(10):
                # The test varies the instant of the kill, so the kill waits for no condition.
                time.sleep(dice.uniform(0.02, 0.4))
                world.service.restart()
        finally:
            stop.set()
        for (alice, bob), conversation in zip(pairs, talks):
            ended = conversation.result()
            assert ended
            for call in ended:
                assert alice.get(call["callID"]) == bob.get(call["callID"]) == call


def test_an_answered_request_survives_a_kill_at_once(rig: Any) -> None:
    """A response goes out only after the commit."""
    world = rig.world()
    alice, bob = world.phones("alice", "bob")
    for _ in range(4):
        invited = alice.ok("call.invite", invitees=[bob.user])
        world.service.restart()
        call = invited["callID"]
        bob.expect("call.invited", call, PATIENCE)
        alice.expect_change(call, bob, "received", PATIENCE)
        accepted = bob.accept(call)
        world.service.restart()
        assert alice.get(call) == accepted["call"]
        assert accepted["revision"] > invited["revision"]


def test_requests_answered_before_a_kill_are_still_known(rig: Any) -> None:
    """§2: the same outcome for a repeat, also after a restart; a fast cancel is remembered."""
    world = rig.world()
    alice, bob = world.phones("alice", "bob")
    dave = World.user("dave")
    first = alice.ok("call.invite", id="one", invitees=[bob.user, dave])
    alice.expect_change(first["callID"], bob, "received")
    bob.accept(first["callID"], id="yes")
    fast = call_id()
    alice.refused("call.cancel", "callNotFound", callID=fast)
    world.service.restart()
    again = alice.ok("call.invite", id="one", invitees=[bob.user, dave])
    assert (again["callID"], again["offline"]) == (first["callID"], [dave])
    assert bob.accept(first["callID"], id="yes")["call"] == again["call"]
    with bob.silent(0.3):
        assert alice.ok("call.invite", callID=fast, invitees=[bob.user])["call"]["endReason"] == "cancelled"


def test_presence_survives_a_kill(rig: Any) -> None:
    """Devices stay connected to the broker and do not notice the kill; sessions go on."""
    world = rig.world()
    alice, bob = world.phones("alice", "bob")
    tablet = world.another(bob, "tablet")
    call = ring(alice, bob)
    world.service.restart()
    bob.accept(call)
    tablet.expect("call.handledElsewhere", call)
    assert alice.ok("call.invite", invitees=[bob.user])["offline"] == []


@pytest.mark.alone
def test_timers_that_came_due_meanwhile_fire_at_once(rig: Any) -> None:
    """A timer that did not come due fires when the timer is due."""
    world = rig.world()
    alice, bob = world.phones("alice", "bob")
    carol = world.phone("carol", auto_ack=False)
    expiring = ring(alice, bob, timeout=2)
    later = ring(alice, bob, timeout=5)
    unreached = alice.ok("call.invite", invitees=[carol.user], notReceivedCheck=True, notReceivedAfter=2)
    world.service.kill()
    due = unreached["time"] + 2000
    wait_until(lambda: now_ms() > due + 300, 10, "the timers are due")
    world.service.start()
    ready_at = now_ms()
    timeout = bob.expect("call.timeout", expiring, 2)
    assert timeout["missed"] is True
    assert alice.expect_change(expiring, bob, "timeout", 2).wall - ready_at < 500
    assert alice.expect_change(unreached["callID"], carol, "notYetReceived", 2).wall - ready_at < 500
    told = alice.expect_change(later, bob, "timeout", 6)
    assert 0 <= told["time"] - member(told["call"], bob)["expiresAt"] <= 50


@pytest.mark.alone
def test_all_timers_that_came_due_meanwhile_fire_though_there_are_many(rig: Any) -> None:
    """More timers than a coordinator takes from the store at once (256): the rest does not wait for the next sweep."""
    world = rig.world(**UNLIMITED)
    caller = world.phone("caller", presence=False)
    requests = [caller.start("call.invite", invitees=[f"nobody-{n}"], timeout=2) for n in range(700)]
    calls = {request.ok()["callID"] for request in requests}
    due = now_ms() + 2000
    world.service.kill()
    world.tap.settle()
    since = len(world.tap.messages)
    wait_until(lambda: now_ms() > due, 10, "the invitations are over")
    world.service.start()
    ready_at = time.monotonic()

    def expired() -> dict[str, float]:
        """The time when each call was first told to be over; the service repeats the event, since no device acks."""
        told = [m for m in world.tap.messages[since:] if m.body.get("event") == "call.timeout"]
        return {m.body["callID"]: m.at for m in reversed(told)}

    wait_until(lambda: expired().keys() >= calls, 10, "every invitation is timed out", every=0.05)
    times = sorted(expired().values())
    world.service.kill()
    world.tap.settle()
    # The ledger need not judge so many events.
    world.tap.take()
    assert times[-1] - ready_at < 2
    # The next regular sweep would come 500 ms later.
    assert max(later - earlier for earlier, later in zip(times, times[1:])) < 0.4


def test_what_was_not_acked_is_sent_again_after_a_kill(rig: Any) -> None:
    """§5: the store determines the deliveries that a device still has to get; no queue does."""
    world = rig.world()
    alice = world.phone("alice")
    bob = world.phone("bob", auto_ack=False)
    call = alice.invite(bob)
    bob.expect("call.invited", call)
    world.service.kill()
    mark = bob.mark
    world.service.start()
    resent = bob.expect("call.invited", call, 5, since=mark, stale=True)
    assert resent.topic == bob.device_topic
    bob.ack(call, resent["revision"])
    alice.expect_change(call, bob, "received")


def test_an_outage_of_the_service_ends_no_call(rig: Any) -> None:
    """§3: the heartbeat clock starts anew when the coordinator listens again."""
    world = rig.world(heartbeat_interval="1s", heartbeat_timeout="3s")
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    world.service.kill()
    over = now_ms() + 3300
    wait_until(lambda: now_ms() > over, 10, "longer than the heartbeat timeout")
    world.service.start()
    until = now_ms() + 1500
    while now_ms() < until:
        alice.heartbeat(call)
        bob.heartbeat(call)
        alice.expect_silence(0.3, call, stale=False)
    assert alice.get(call)["state"] == "active"


# The store


def test_while_another_process_holds_the_store_requests_are_unavailable(rig: Any) -> None:
    """§2 `unavailable`: send again. SQLite: the answer comes at once, not when the other process has done."""
    world = rig.world()
    alice, bob = world.phones("alice", "bob")
    with closing(sqlite3.connect(world.service.directory / "bellwire.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        released = time.monotonic() + 1.5
        answers = 0
        while time.monotonic() < released or answers < 2:
            refused = alice.start("call.invite", id="patient", invitees=[bob.user]).wait()
            assert refused["error"]["code"] == "unavailable"
            answers += 1
        other.execute("ROLLBACK")
    alice.settle()
    call = alice.ok("call.invite", id="patient", invitees=[bob.user])["callID"]
    bob.expect("call.invited", call)
    alice.expect_change(call, bob, "received")


def test_a_damaged_record_harms_its_own_call_alone(rig: Any) -> None:
    """§2 `internal`: other calls of the same users go on, also calls that came due at the same time."""
    world = rig.world()
    alice, bob, carol = world.phones("alice", "bob", "carol")
    damaged, other = ring(alice, bob, timeout=1), ring(carol, bob, timeout=1)
    live = talk(alice, bob)
    world.service.kill()
    with closing(sqlite3.connect(world.service.directory / "bellwire.db")) as store, store:
        changed = store.execute("UPDATE calls SET record=x'7b' WHERE call_id=?", (damaged.encode(),))
        assert changed.rowcount == 1
    due = now_ms() + 1000
    wait_until(lambda: now_ms() > due, 10, "both invitations are over")
    world.service.start()
    assert bob.expect("call.timeout", other, 10)["missed"] is True
    carol.expect_change(other, bob, "timeout", 10)
    tablet = world.another(bob, "tablet")
    assert [call["callID"] for call in welcomes(tablet, tablet.session)[0]["calls"]] == [live]
    for device, request in ((alice, "call.get"), (bob, "call.accept"), (bob, "call.get"), (alice, "call.cancel")):
        device.refused(request, "internal", callID=damaged)
    alice.refused("call.invite", "internal", callID=damaged, invitees=[bob.user])
    bob.quit(live)
    assert alice.expect("call.ended", live)["call"]["endReason"] == "quit"
    bob.accept(ring(alice, bob))


# The broker


def test_a_coordinator_waits_for_its_broker(rig: Any) -> None:
    """A coordinator that starts before its broker serves as soon as the broker is there."""
    broker = rig.broker(start=False)
    service = rig.service(broker, start=False)
    service.start(ready=False)
    wait_until(lambda: service.status("/healthz") == 200, 10, "healthy")
    assert service.status("/readyz") == 503
    broker.start()
    service.wait_ready()
    world = rig.people(broker, service)
    alice, bob = world.phones("alice", "bob")
    bob.accept(ring(alice, bob))


def test_a_coordinator_comes_back_to_a_restarted_broker(rig: Any) -> None:
    """The coordinator reconnects, subscribes again, and knows all calls; devices come back as new sessions."""
    world = rig.world()
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    pid = world.service.pid
    for _ in range(2):
        world.broker.stop()
        for device in (alice, bob):
            device.wait_disconnected()
        wait_until(lambda: world.service.status("/readyz") == 503, 10, "not ready without a broker")
        world.broker.start()
        world.service.wait_ready()
        for device in (alice, bob):
            device.connect()
        assert [c["callID"] for c in alice.messages[-1].body.get("calls", [])] in ([call], [])
        assert alice.get(call)["state"] == "active"
    assert world.service.pid == pid
    mark = alice.mark
    bob.quit(call)
    assert alice.expect("call.ended", call, since=mark)["call"]["endReason"] == "quit"
    bob.accept(ring(alice, bob))


def packet(kind: int, body: bytes) -> bytes:
    """An MQTT 3.1.1 control packet: first byte, remaining length in groups of seven bits, body."""
    length, left = b"", len(body)
    while left > 0x7F:
        length, left = length + bytes([left & 0x7F | 0x80]), left >> 7
    return bytes([kind]) + length + bytes([left]) + body


def publish_at_once(port: int, topic: str, payloads: list[bytes]) -> None:
    """QoS 0 in a single write: no client library fills a broker as fast."""

    def text(value: str) -> bytes:
        return len(value.encode()).to_bytes(2) + value.encode()

    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(packet(0x10, text("MQTT") + bytes([4, 0x02, 0, 60]) + text("burst")))
        assert raw.recv(4) == bytes([0x20, 2, 0, 0])
        raw.sendall(b"".join(packet(0x30, text(topic) + payload) for payload in payloads))
        raw.sendall(packet(0xE0, b""))


@pytest.mark.alone
@pytest.mark.parametrize("invitees", [1, pytest.param(9, marks=pytest.mark.long)])
def test_a_burst_of_requests_is_answered_in_full(rig: Any, invitees: int) -> None:
    """2000 requests at once: each request has a single response, though no request is sent twice. On a machine that
    serves the requests in time no request is refused or dropped as stale; on a slower machine the metrics tell of each
    such request (docs/bounds.md)."""
    world = rig.world(**UNLIMITED)
    caller = world.device(world.user("caller"), connect=False)
    users = [[f"nobody-{number}-{place}" for place in range(invitees)] for number in range(2000)]
    requests = [{"type": "call.invite", "id": f"r{number}", "invitees": named} for number, named in enumerate(users)]
    publish_at_once(world.broker.port, caller.up, [encode(request) for request in requests])

    def responses() -> list[dict[str, Any]]:
        return [m.body for m in list(world.tap.messages) if m.topic == caller.device_topic and "ok" in m.body]

    metrics: dict[str, float] = {}

    def answered_or_dropped() -> bool:
        # A service with much to do may not answer the scrape in time, and shows its counts some time after its responses.
        metrics.update(world.service.metrics())
        made = sum(value for name, value in metrics.items() if name.startswith("bellwire_responses_total"))
        return made >= len(requests) and (len(responses()) >= len(requests) or metrics["bellwire_publications_dropped_total"] > 0)

    try:
        # All traffic is looked through each time.
        wait_until(answered_or_dropped, 60, "a response to every request", every=0.5)
    finally:
        world.service.kill()
        world.tap.settle()
        answered = responses()
        world.tap.take()
        late = metrics.get('bellwire_refused_early_total{why="late"}', 0)
        dropped = {name: value for name, value in metrics.items() if "dropped" in name}
        print(f"{len(answered)} answered, {late} refused as late, {dropped}")
    publications = dropped.pop("bellwire_publications_dropped_total")
    assert set(dropped.values()) == {0}
    ids = [response["id"] for response in answered]
    assert len(ids) == len(set(ids)) and set(ids) <= {f"r{number}" for number in range(2000)}
    assert len(ids) >= 2000 - publications
    refusals = [response["error"]["code"] for response in answered if not response["ok"]]
    assert set(refusals) <= {"unavailable"} and late - publications <= len(refusals) <= late
    # Even a machine with much other work serves a part.
    assert len(answered) - len(refusals) >= 100


@contextmanager
def black_hole(port: int) -> Iterator[None]:
    """A port where connecting neither succeeds nor fails: the port listens, its backlog is full, and no process
    accepts."""
    with ExitStack() as sockets:

        def one() -> socket.socket:
            return sockets.enter_context(socket.socket())

        listener = one()
        listener.bind(("127.0.0.1", port))
        listener.listen(0)
        while True:
            client = one()
            client.settimeout(0.2)
            try:
                client.connect(("127.0.0.1", port))
            except TimeoutError:
                break
        yield


def test_a_broker_that_swallows_connections_holds_nothing_up(rig: Any) -> None:
    """The coordinator stays healthy while it tries to connect, and leaves within 5 s of SIGTERM."""
    broker = rig.broker(start=False)
    service = rig.service(broker, store="memory:", start=False)
    with black_hole(broker.port):
        service.start(ready=False)
        wait_until(lambda: service.status("/healthz") == 200, 10, "healthy")
        # Longer than an attempt to connect takes.
        until = time.monotonic() + 2
        while time.monotonic() < until:
            assert (service.status("/healthz"), service.status("/readyz")) == (200, 503)
            time.sleep(0.1)
        status, seconds = service.terminate()
        assert (status, seconds < 5) == (0, True)


# SIGTERM


def test_sigterm_drains_and_exits_with_0(rig: Any) -> None:
    """The drain takes at most 5 s, also under load; all data are there after the next start."""
    world = rig.world()
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    load = [alice.start("call.get", callID=call) for _ in range(100)]
    load[0].wait()
    status, seconds = world.service.terminate()
    assert status == 0
    assert seconds < 5
    answered = sum(handle.done for handle in load)
    assert answered >= 1
    world.service.start()
    for handle in load:
        if not handle.done:
            handle.send()
    assert all(handle.wait()["ok"] for handle in load)
    assert alice.get(call)["state"] == "active"


@pytest.mark.alone
def test_a_draining_replica_loses_no_request(rig: Any) -> None:
    """The replica leaves the shared subscription and finishes its requests: no client has to send a request twice."""
    world = rig.world(replicas=2)
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    for number in range(10):
        leaving, staying = world.services[number % 2], world.services[1 - number % 2]
        requests = [alice.start("call.get", callID=call) for _ in range(50)]
        requests[0].wait()
        leaving.begin_drain()
        requests += [alice.start("call.get", callID=call) for _ in range(200)]
        assert leaving.exit_status() == 0
        wait_until(lambda: all(handle.done for handle in requests), 5, f"all requests are answered in round {number}")
        assert all(handle.wait()["ok"] for handle in requests)
        assert staying.running
        leaving.start()
    bob.quit(call)
    assert alice.expect("call.ended", call)["call"]["endReason"] == "quit"


# Two replicas


def growth(before: dict[str, float], after: dict[str, float]) -> float:
    """The growth of the counters of handled messages."""
    return sum(
        value - before.get(name, 0)
        for name, value in after.items()
        if "_total" in name and ("request" in name or "inbound" in name or "received" in name)
    )


def test_two_replicas_share_the_load(rig: Any) -> None:
    """A share group and a SQLite file: both replicas work, and every call is right, whichever replica serves a
    message."""
    world = rig.world(replicas=2, **UNLIMITED)
    before = [service.metrics() for service in world.services]
    alice, bob = world.phones("alice", "bob")
    for number in range(40):
        call = ring(alice, bob, mode="advanced")
        bob.accept(call)
        alice.expect_change(call, bob, "accepted")
        bob.end(call) if number % 2 else alice.end(call)
        (alice if number % 2 else bob).expect("call.ended", call)
    shares = [growth(old, service.metrics()) for old, service in zip(before, world.services)]
    assert min(shares) > 0.2 * sum(shares), shares


def test_when_one_replica_dies_the_other_goes_on(rig: Any) -> None:
    """The clients send the dead replica's requests again, and the sweep of the other replica serves the dead replica's
    timers."""
    world = rig.world(replicas=2, **UNLIMITED)
    alice, bob = world.phones("alice", "bob")
    dead, alive = world.services
    calls = [alice.invite(bob, timeout=3) for _ in range(10)]
    active = talk(alice, bob)
    dead.kill()
    for call in calls:
        told = alice.expect_change(call, bob, "timeout", 8)
        assert told["time"] - member(told["call"], bob)["expiresAt"] < 3000
    quit_ = bob.start("call.quit", callID=active).ok(PATIENCE)
    assert quit_["call"]["endReason"] == "quit"
    ended = alice.expect("call.ended", active, PATIENCE)
    assert change_in(ended, bob)["state"] == "quit"
    assert alive.running


def test_a_broker_that_says_goodbye_is_found_again(rig: Any, tmp_path: Path) -> None:
    """A broker that is stopped in order tells its clients (MQTT 5, section 4.13): no client goes on with the dead
    connection."""
    broker = rig.broker()
    service = rig.service(broker)
    phone = Terminal(broker, tmp_path, "listen", "bob")
    wait_until(lambda: '"online"' in phone.output.read_text(), 10, "the phone is online")
    broker.terminate()
    wait_until(lambda: "broker connection lost" in service.log.read_text(), 10, "the coordinator knows")
    wait_until(lambda: service.status("/readyz") == 503, 10, "and says so")
    broker.start()
    service.wait_ready()
    wait_until(lambda: phone.output.read_text().count('"online"') == 2, 15, "the phone is online again")
    phone.close()
