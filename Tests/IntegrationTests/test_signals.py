"""What the members of a call tell each other with `call.signal` (§2, Signals)."""

from __future__ import annotations

import json
import re
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness import (
    STORES,
    VERBATIM,
    Deploy,
    Device,
    RedisServer,
    World,
    call_id,
    now_ms,
    on_each_store,
    ring,
    talk,
    wait_until,
)

KIB = 1024
CANDIDATES = 50


@pytest.fixture(scope="module")
def deployments(deploy: Deploy, redis_server: RedisServer) -> dict[str, World]:
    """Two coordinators on each store; and one alone, which keeps the order."""
    return on_each_store(deploy, redis_server) | {"alone": deploy()}


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, deployments: dict[str, World]) -> Iterator[World]:
    yield from deployments[request.param].borrow()


@pytest.fixture
def alone(deployments: dict[str, World]) -> Iterator[World]:
    yield from deployments["alone"].borrow()


def signals(device: Device, call: str, since: int = 0) -> list[Any]:
    """The data of all signals that the device has had in the call."""
    return [message["data"] for message in device.had("signal", since=since, callID=call)]


def candidate(number: int) -> dict[str, Any]:
    """An ICE candidate of 1 KiB."""
    body = {"candidate": f"candidate:{number} 1 udp 2122260223 192.0.2.7 54321 typ host", "sdpMid": "0", "pad": ""}
    return body | {"pad": "x" * (KIB - len(json.dumps(body, separators=(",", ":"))))}


def description(size: int) -> bytes:
    """A JSON string of this size in bytes, as a session description is one."""
    line = b"a=rtpmap:96 VP8/90000\\r\\n"
    return b'"' + (line * (size // len(line) + 1))[: size - 2].rstrip(b"\\").ljust(size - 2, b"x") + b'"'


def raw(call: str, data: bytes, rest: bytes = b"") -> bytes:
    """A `call.signal` in bytes."""
    return b'{"type":"call.signal","callID":"%s"%s,"data":%s}' % (call.encode(), rest, data)


# Order, size and bytes


def negotiate(world: World) -> tuple[Device, Device, str]:
    """Each side sends a description of 32 KiB and 50 candidates of 1 KiB, as fast as it can; then all is there."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    for device in (alice, bob):
        device.send(raw(call, description(32 * KIB), b',"seq":1'))
        for number in range(CANDIDATES):
            device.signal(call, candidate(number), seq=2 + number)
    for device, other in ((alice, bob), (bob, alice)):
        device.expect_type("signal", 5, callID=call, count=1 + CANDIDATES)
        assert {(m["from"], m["fromDevice"], m.topic) for m in device.had("signal", callID=call)} == {
            (other.user, "phone", device.device_topic)
        }
    return alice, bob, call


def test_one_coordinator_keeps_the_order_of_a_burst(alone: World) -> None:
    """§2: a session description and the candidates after it arrive as they were sent, complete and once."""
    *devices, call = negotiate(alone)
    for device in devices:
        assert [m["seq"] for m in device.had("signal", callID=call)] == list(range(1, CANDIDATES + 2))
        assert signals(device, call) == [json.loads(description(32 * KIB)), *map(candidate, range(CANDIDATES))]


def test_across_coordinators_the_receiver_orders_by_seq(world: World) -> None:
    """§2: nothing is lost or doubled, and `seq` brings it into order."""
    *devices, call = negotiate(world)
    for device in devices:
        ordered = sorted(device.had("signal", callID=call), key=lambda m: m["seq"])
        assert [m["seq"] for m in ordered] == list(range(1, CANDIDATES + 2))
        assert [m["data"] for m in ordered[1:]] == [candidate(number) for number in range(CANDIDATES)]
        assert ordered[0].carries(description(32 * KIB))


def test_data_has_at_most_32_kib_as_it_stands_in_the_request(alone: World) -> None:
    """§2: 32,768 bytes pass, with their blanks; one more is refused, and the blanks around the value do not count."""
    alice, bob = alone.phones("alice", "bob")
    call = talk(alice, bob)
    blanks = b'{"a":%s1}' % (b" " * (32 * KIB - 7))
    for count, data in enumerate((description(32 * KIB), blanks), 1):
        assert len(data) == 32 * KIB
        alice.send(raw(call, b" \n" + data + b"\t "))
        assert bob.expect_type("signal", callID=call, count=count).carries(data)
    mark = bob.mark
    for too_large in (description(32 * KIB + 1), blanks.replace(b"1", b" 1")):
        since = alice.mark
        alice.send(raw(call, too_large), bad=True)
        assert re.search(r"\bdata\b", alice.expect_error("badRequest", since)["message"])
        alice.send(raw(call, too_large, b',"id":"large"'), bad=True)
        answer = alice.expect_type("response", since=since, id="large")
        assert answer["error"]["code"] == "badRequest" and re.search(r"\bdata\b", answer["error"]["message"])
    alice.signal(call, "end")
    bob.expect_type("signal", callID=call, data="end")
    assert signals(bob, call, mark) == ["end"]


def test_data_is_passed_on_byte_for_byte(world: World) -> None:
    """§2: numbers, blanks, escapes, null, keys that stand twice: copied from the request, never written anew."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    for number, data in enumerate(VERBATIM):
        alice.send(raw(call, data, b',"seq":%d' % number))
    for number, data in enumerate(VERBATIM):
        assert bob.expect_type("signal", callID=call, seq=number).carries(data), data


def test_of_data_that_stands_twice_the_last_one_counts(alone: World) -> None:
    """§1, also where the bytes are copied; and wherever the field stands."""
    alice, bob = alone.phones("alice", "bob")
    call = talk(alice, bob)
    alice.send(b'{"data":1.0,"seq":1,"type":"call.signal","da\\u0074a":[ 2.0 ],"callID":"%s"}' % call.encode())
    assert bob.expect_type("signal", callID=call, seq=1).carries(b"[ 2.0 ]")


# Responses and refusals


def test_a_signal_is_answered_only_when_it_has_an_id(world: World) -> None:
    """§2: with `id` a response like all that are about a call; without it, or with null, none when it is served."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    before = alice.get(call)
    mark = alice.mark
    response = alice.start("call.signal", callID=call, data="asked", correlation=b"c").received()
    assert response.correlation == b"c" and "errors" not in response.body
    assert (response["ok"], response["callID"], response["revision"]) == (True, call, before["revision"])
    assert response["call"] == before
    alice.signal(call, "told")
    alice.signal(call, "told with null", id=None, to=None, seq=None, stream=None)
    bob.expect_type("signal", callID=call, count=3)
    assert sorted(signals(bob, call)) == ["asked", "told", "told with null"]
    assert alice.get(call) == before
    assert [m.type for m in alice.messages[mark:]] == ["response", "response"]


def expect_refusals(device: Device, call: str, code: str, state: str | None = None) -> None:
    """With `id` in a response, without it in a message of type `error`, in the same words and with the same state."""
    answered = device.refused("call.signal", code, callID=call, data=1)
    since = device.mark
    device.signal(call, 1)
    told = device.expect_error(code, since)
    assert answered.get("state") == told.get("state") == state
    assert answered == told


def test_only_accepted_members_of_a_live_call_may_signal(world: World) -> None:
    """§2: `callNotFound`, also for strangers; `invalidState` before one accepted and after one left; `callEnded`."""
    alice, bob, carol, dave, mallory = world.phones("alice", "bob", "carol", "dave", "mallory")
    call = ring(alice, bob, carol, dave, mode="advanced")
    bob.accept(call)
    carol.reject(call)
    mark = bob.mark
    nothing = call_id()
    expect_refusals(mallory, call, "callNotFound")
    expect_refusals(mallory, nothing, "callNotFound")
    missing, existing = (mallory.refused("call.signal", "callNotFound", callID=c, data=1) for c in (nothing, call))
    assert existing["message"].replace(call, "") == missing["message"].replace(nothing, "")
    expect_refusals(dave, call, "invalidState", "received")
    expect_refusals(carol, call, "invalidState", "rejected")
    dave.accept(call)
    dave.quit(call)
    expect_refusals(dave, call, "invalidState", "quit")
    assert not bob.had("signal", since=mark)
    alice.end(call)
    for device, state in ((alice, "accepted"), (bob, "accepted"), (carol, "rejected"), (dave, "quit")):
        expect_refusals(device, call, "callEnded", state)


def test_a_common_call_has_signals_while_it_lives(world: World) -> None:
    """§2: of a group in which one has accepted and another still rings; the answer to the last one ends it."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    assert alice.ok("call.signal", callID=call, data="nobody yet")["call"]["state"] == "ringing"
    bob.accept(call)
    alice.signal(call, "hello")
    bob.expect_type("signal", callID=call, data="hello")
    bob.signal(call, "hello yourself")
    alice.expect_type("signal", callID=call, data="hello yourself")
    carol.reject(call)
    expect_refusals(alice, call, "callEnded", "accepted")
    assert signals(carol, call) == []
    assert signals(bob, call) == ["hello"]


# Whom a signal reaches


def test_a_signal_reaches_the_accepted_devices_of_the_others(world: World) -> None:
    """§2: not the sender's own devices, not a member's other devices, not who rings; from any device of a member."""
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    call = talk(alice, bob, carol)
    alice.add(call, dave)
    dave.expect("call.invited", call)
    web, tablet = world.another(alice, "web"), world.another(bob, "tablet")
    web.signal(call, "from the web")
    for device in (bob, carol):
        reached = device.expect_type("signal", callID=call)
        assert (reached["from"], reached["fromDevice"], reached["data"]) == (alice.user, "web", "from the web")
        assert reached.topic == device.device_topic
    web.ok("call.signal", callID=call, data="end")
    bob.expect_type("signal", callID=call, data="end")
    for device in (alice, web, tablet, dave):
        device.ok("user.query", userIDs=[device.user])
        assert not device.had("signal")


def test_to_names_the_recipients_and_errors_those_it_cannot_reach(world: World) -> None:
    """§2: `invalidState` for who has not accepted and for the sender, `callNotFound` for who is no member; still ok."""
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    call = talk(alice, bob, carol)
    alice.add(call, dave)
    stranger = World.user("stranger")
    some = alice.ok(
        "call.signal", callID=call, data="some", to=[stranger, bob.user, dave.user, alice.user], seq=7, stream="s-1"
    )
    assert {(error["userID"], error["code"]) for error in some["errors"]} == {
        (stranger, "callNotFound"),
        (dave.user, "invalidState"),
        (alice.user, "invalidState"),
    }
    none = alice.ok("call.signal", callID=call, data="none", to=[dave.user])
    assert [error["code"] for error in none["errors"]] == ["invalidState"]
    alice.signal(call, "one", to=[carol.user])
    many = [World.user("guest") for _ in range(98)]
    assert len(alice.ok("call.signal", callID=call, data="all", to=[*many, bob.user, carol.user])["errors"]) == 98
    for device in (bob, carol):
        device.expect_type("signal", callID=call, count=2)
    assert sorted(signals(bob, call)) == ["all", "some"]
    assert sorted(signals(carol, call)) == ["all", "one"]
    assert not dave.had("signal")


def test_seq_and_stream_are_passed_on(world: World) -> None:
    """§2: as they are, and not there when they were left out."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    cases: list[dict[str, Any]] = [
        {},
        {"seq": 0},
        {"seq": 2**53 - 1, "stream": "a_Z-9"},
        {"stream": "s" * 64},
    ]
    for number, fields in enumerate(cases):
        alice.signal(call, number, **fields)
        told = bob.expect_type("signal", callID=call, data=number)
        assert {name: told.body[name] for name in ("seq", "stream") if name in told.body} == fields
        assert told.expiry in (59, 60)


def test_after_a_hand_over_signals_go_to_the_new_device(world: World) -> None:
    """§2: `call.join` moves the call; what the former device still sends counts as the user's."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    tablet = world.another(bob, "tablet")
    alice.signal(call, "to the phone")
    bob.expect_type("signal", callID=call, data="to the phone")
    tablet.join(call)
    mark = bob.mark
    alice.signal(call, "to the tablet")
    tablet.expect_type("signal", callID=call, data="to the tablet")
    bob.signal(call, "from the phone")
    assert alice.expect_type("signal", callID=call)["fromDevice"] == "phone"
    bob.get(call)
    assert signals(tablet, call) == ["to the tablet"] and signals(bob, call, mark) == []


def test_a_signal_to_a_device_that_is_away_is_lost(world: World) -> None:
    """§2: best effort, nothing is stored; the next one arrives."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    bob.drop()
    assert "errors" not in alice.ok("call.signal", callID=call, data="lost")
    bob.connect()
    alice.signal(call, "heard")
    bob.expect_type("signal", callID=call, data="heard")
    assert signals(bob, call) == ["heard"]


def test_who_signals_is_alive(deploy: Deploy) -> None:
    """§3: in advanced mode silence makes a member quit, here after 0.6 s; signals are no silence."""
    world = deploy(store="memory:", heartbeat_timeout="600ms", heartbeat_interval="200ms")
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob, carol)
    until = now_ms() + 1300
    while now_ms() < until:
        for device in (alice, bob):
            device.signal(call, "here")
        alice.expect_silence(0.1, event="call.ended")
    members = {entry["userID"]: (entry["state"], entry.get("reason")) for entry in alice.get(call)["members"]}
    assert members[carol.user] == ("quit", "heartbeatTimeout")
    assert {members[device.user][0] for device in (alice, bob)} == {"accepted"}
    world.close()


# What it costs


@pytest.fixture(scope="module")
def quiet_deployments(deploy: Deploy, redis_server: RedisServer) -> dict[str, World]:
    """Without timelines, which would be written some time after what they tell."""
    return on_each_store(deploy, redis_server, trace="off")


def changes_of(world: World, store: str, redis_server: RedisServer) -> Callable[[], Any]:
    """What every write changes: the store's own count, and the service's."""

    def commits() -> list[float]:
        return [service.metrics()["bellwire_commits_total"] for service in world.services]

    if store == "Redis":
        # All that a coordinator writes with, but for SET: what they agree on about the clock is written again and again.
        writes = re.compile(rb"cmdstat_(?:h(?:m?set|setnx|del)|z(?:add|rem\w*)|rpush|del|persist|pexpire\w*):calls=\d+")
        return lambda: (commits(), sorted(writes.findall(redis_server.command("INFO", "commandstats"))))
    path = world.service.store.removeprefix("sqlite:")
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    return lambda: (commits(), database.execute("PRAGMA data_version").fetchall())


@pytest.mark.parametrize("store", STORES)
def test_nothing_is_written_for_a_signal(
    quiet_deployments: dict[str, World], redis_server: RedisServer, store: str
) -> None:
    """§2: not stored. Once the call has come to rest, 200 signals leave the store as it is."""
    world = quiet_deployments[store]
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    changes = changes_of(world, store, redis_server)
    start = changes()

    def burst_without_a_write() -> bool:
        before, mark = changes(), bob.mark
        for number in range(200):
            alice.signal(call, candidate(number), seq=number)
        bob.expect_type("signal", callID=call, since=mark, count=200)
        return changes() == before

    wait_until(burst_without_a_write, 5, "a burst of signals without a write")
    alice.end(call)
    assert changes() != start, "a write would have shown"
    world.close()


def one_way(alice: Device, bob: Device, call: str, count: int) -> list[float]:
    """Milliseconds from alice's publish to bob's receipt of each of so many signals, one at a time, sorted."""
    taken = []
    for number in range(count):
        sent = time.monotonic()
        alice.signal(call, candidate(number), seq=number)
        taken.append((bob.expect_type("signal", callID=call, seq=number).at - sent) * 1000)
    return sorted(taken)


@pytest.mark.alone
def test_a_signal_arrives_without_delay(world: World) -> None:
    """With two Python clients in between this only catches what waits for something: Nagle, an interval, a write."""
    alice, bob = world.phones("alice", "bob")
    taken = one_way(alice, bob, talk(alice, bob), 100)
    assert statistics.median(taken) < 10, taken


def test_what_a_signal_takes(deployments: dict[str, World], capsys: pytest.CaptureFixture[str]) -> None:
    """Prints the one-way times, to be read: 1 KiB, QoS 1, one signal at a time, clients and broker included."""
    for name, deployment in deployments.items():
        alice, bob = deployment.phones("alice", "bob")
        taken = one_way(alice, bob, talk(alice, bob), 150)
        p50, p99 = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
        with capsys.disabled():
            print(f"\nsignal, one way, {name}: p50 {p50:.2f} ms, p99 {p99:.2f} ms, max {taken[-1]:.2f} ms", end="")
        deployment.close()
