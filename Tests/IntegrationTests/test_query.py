"""Lists of many calls, of calls of the same millisecond, and of large calls: `call.query` (§2, Queries)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from harness import STORES, UNLIMITED, Deploy, Device, RedisServer, World, answers, on_each_store, ring


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, deployments: dict[str, World]) -> Iterator[World]:
    yield from deployments[request.param].borrow()


def pages(device: Device, **fields: Any) -> list[dict[str, Any]]:
    """All responses, from the first page to the page with the cursor "0"."""
    found = [device.ok("call.query", **fields)]
    while (cursor := found[-1]["cursor"]) != "0":
        assert len(cursor) <= 128 and len(found) < 100
        found.append(device.ok("call.query", **fields, cursor=cursor))
    return found


def listed(device: Device, **fields: Any) -> list[str]:
    """The ids of all own calls, page by page."""
    return [call["callID"] for page in pages(device, **fields) for call in page["calls"]]


def place(caller: Device, count: int, *callees: Device | str) -> list[str]:
    """Places `count` common calls and cancels each, the newest first. Each call is answered before the next call
    begins."""
    calls: list[str] = []
    for _ in range(count):
        calls.insert(0, caller.invite(*callees))
        caller.cancel(calls[0])
    return calls


def settled(device: Device, calls: list[str]) -> list[str]:
    """The calls in the service's order, which also holds within a millisecond; the protocol leaves the order there
    open."""
    times = {call["callID"]: call["createdAt"] for page in pages(device) for call in page["calls"]}
    assert sorted(times.values(), reverse=True) == list(times.values()), "the newest first"
    assert sorted(times) == sorted(calls)
    return list(times)


def test_a_page_has_20_calls_unless_one_asks_for_more_and_never_more_than_100(deploy: Deploy) -> None:
    """§2: 20 calls by default, at most 100, as far as the calls fit into the answer."""
    world = deploy(**UNLIMITED)
    alice = world.phone("alice")
    invites = answers([alice.start("call.invite", invitees=["nobody"]) for _ in range(103)])
    calls = settled(alice, [invite["callID"] for invite in invites])
    first = alice.ok("call.query")
    assert [call["callID"] for call in first["calls"]] == calls[:20]
    for count in (100, 101):
        page = alice.ok("call.query", count=count)
        assert [call["callID"] for call in page["calls"]] == calls[:100]
        rest = alice.ok("call.query", count=count, cursor=page["cursor"])
        assert ([call["callID"] for call in rest["calls"]], rest["cursor"]) == (calls[100:], "0")
    world.close()


def test_calls_of_one_millisecond_are_neither_lost_nor_doubled(world: World) -> None:
    """Many invites at once have the same `createdAt`; a page may end between two such calls."""
    for _ in range(10):
        alice = world.phone("alice")
        answers([alice.start("call.invite", invitees=[f"nobody-{number % 4}"]) for number in range(20)])
        whole = pages(alice, count=100)[0]["calls"]
        times = [call["createdAt"] for call in whole]
        assert len(times) == 20
        assert listed(alice, count=3) == [call["callID"] for call in whole]
        # A busy machine may have served each invite in a millisecond of its own.
        if len(set(times)) < 20:
            return
    pytest.fail("no two calls were made in the same millisecond")


LARGE = "\x01" * 2048
"""Control characters take six bytes each."""


def large(caller: Device, count: int) -> None:
    """Makes `count` calls with 12 KiB of data for the call, and as much for its only invitee."""
    # Other invitees each time: a user may not be invited so often.
    invites = [caller.start("call.invite", invitees=[f"nobody-{number}"], extendedData=LARGE) for number in range(count)]
    calls = [response["callID"] for response in answers(invites)]
    answers([caller.start("call.cancel", callID=call, extendedData=LARGE) for call in calls])


@pytest.mark.alone
def test_a_page_of_large_calls_keeps_nobody_waiting(deploy: Deploy) -> None:
    """A page of a hundred large calls gets an answer, and other users' requests meanwhile get answers without delay."""
    world = deploy(store="memory:", trace="off", **UNLIMITED)
    alice, bob = world.phones("alice", "bob")
    large(alice, 100)
    question = alice.start("call.query", count=100)
    until = time.monotonic() + 3
    while not question.done and time.monotonic() < until:
        asked = time.monotonic()
        answer = bob.start("user.query", userIDs=[bob.user]).response(2, resend=False)
        assert answer.at - asked < 0.2
    assert question.response(0.1, resend=False)["calls"]
    world.close()


def test_ended_calls_are_kept_in_limited_number(deploy: Deploy, redis_server: RedisServer) -> None:
    """§2: the last 200 ended calls, here 3, beside all live calls. test_memory.py shows how long."""
    for world in on_each_store(deploy, redis_server, 1, history_per_user="3").values():
        alice, bob = world.phones("alice", "bob")
        live = ring(alice, bob)
        calls = place(alice, 5, bob)
        alive = ring(bob, alice)
        for device in (alice, bob):
            assert sorted(listed(device)) == sorted([*calls[:3], live, alive])
            assert listed(device, count=2) == listed(device)
        alice.cancel(live)
        # The oldest call by its start goes first, whenever the call ended.
        assert sorted(listed(alice)) == sorted([*calls[:3], alive])
        world.close()
