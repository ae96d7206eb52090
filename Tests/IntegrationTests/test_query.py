"""One's own calls, the newest first: `call.query` (§2, Queries)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from harness import STORES, UNLIMITED, Deploy, Device, RedisServer, World, answers, on_each_store, ring, talk, wait_until

LARGEST = 256 * 1024
"""Bytes of anything that the service sends."""


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, deployments: dict[str, World]) -> Iterator[World]:
    yield from deployments[request.param].borrow()


def pages(device: Device, **fields: Any) -> list[dict[str, Any]]:
    """All responses, from the first page to the one whose cursor is "0"."""
    found = [device.ok("call.query", **fields)]
    while (cursor := found[-1]["cursor"]) != "0":
        assert len(cursor) <= 128 and len(found) < 100
        found.append(device.ok("call.query", **fields, cursor=cursor))
    return found


def listed(device: Device, **fields: Any) -> list[str]:
    """The ids of all own calls, page by page."""
    return [call["callID"] for page in pages(device, **fields) for call in page["calls"]]


def place(caller: Device, count: int, *callees: Device | str) -> list[str]:
    """So many common calls, cancelled again, the newest first. Each is answered before the next one begins."""
    calls: list[str] = []
    for _ in range(count):
        calls.insert(0, caller.invite(*callees))
        caller.cancel(calls[0])
    return calls


def settled(device: Device, calls: list[str]) -> list[str]:
    """In the order that holds also within one millisecond, which the protocol leaves open."""
    times = {call["callID"]: call["createdAt"] for page in pages(device) for call in page["calls"]}
    assert sorted(times.values(), reverse=True) == list(times.values()), "the newest first"
    assert sorted(times) == sorted(calls)
    return list(times)


# What is listed


def test_own_calls_are_listed_as_they_are_now(world: World) -> None:
    """§2: in which the user is or was a member, live and ended, whoever called; and nobody else's."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    assert (alice.ok("call.query")["calls"], alice.ok("call.query")["cursor"]) == ([], "0")
    only_of_others = ring(bob, carol)
    ended = ring(alice, bob)
    bob.reject(ended, reason="busy", extendedData="later")
    talking = talk(bob, alice, carol)
    carol.quit(talking)
    ringing = ring(carol, alice)
    for device, calls in (
        (alice, [ringing, talking, ended]),
        (bob, [only_of_others, talking, ended]),
        (carol, [only_of_others, ringing, talking]),
    ):
        response = device.ok("call.query")
        assert response["cursor"] == "0"
        assert sorted(call["callID"] for call in response["calls"]) == sorted(calls)
        for call in response["calls"]:
            assert call == device.get(call["callID"])
    bob.end(talking)
    (call,) = [call for call in alice.ok("call.query")["calls"] if call["callID"] == talking]
    assert (call["state"], call["endReason"], call["endedBy"]) == ("ended", "hangup", bob.user)


def test_a_call_is_listed_as_soon_as_it_is_answered_for(world: World) -> None:
    """Whichever coordinator is asked: for the inviter with the response, for the invitee when it rings."""
    alice, bob = world.phones("alice", "bob")
    for _ in range(10):
        call = alice.invite(bob)
        assert call in listed(alice, count=1000)
        bob.expect("call.invited", call)
        assert call in listed(bob, count=1000)
        alice.cancel(call)
        assert alice.ok("call.query", count=1)["calls"][0]["state"] == "ended"


def test_who_only_could_have_joined_has_no_such_call(world: World) -> None:
    """§2: a stranger's list is empty until it joins; one who left keeps the call."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob, joinPolicy="anyone")
    assert listed(carol) == []
    carol.join(call)
    assert listed(carol) == [call]
    carol.quit(call)
    assert listed(carol) == [call]


# Pages


def test_pages_give_each_call_once_and_the_newest_first(world: World) -> None:
    """§2: `cursor` leads to the next page, "0" says that there is none. More than 100 is treated as 100."""
    alice, bob = world.phones("alice", "bob")
    calls = settled(alice, place(alice, 7, bob))
    for count in (1, 3, 6, 7, 10**15):
        found = pages(alice, count=count)
        assert [call["callID"] for page in found for call in page["calls"]] == calls
        assert len(found) == -(-7 // count)
        assert all(len(page["calls"]) <= count for page in found)
    assert listed(bob, count=2) == calls


def test_a_page_has_20_calls_unless_one_asks_for_more_and_never_more_than_100(deploy: Deploy) -> None:
    """§2: default 20, at most 100; `"0"` and null stand for the beginning."""
    world = deploy(**UNLIMITED)
    alice = world.phone("alice")
    invites = answers([alice.start("call.invite", invitees=["nobody"]) for _ in range(103)])
    calls = settled(alice, [invite["callID"] for invite in invites])
    first = alice.ok("call.query")
    assert [call["callID"] for call in first["calls"]] == calls[:20]
    assert alice.ok("call.query", cursor="0")["calls"] == first["calls"]
    for count in (100, 101):
        page = alice.ok("call.query", count=count)
        assert [call["callID"] for call in page["calls"]] == calls[:100]
        rest = alice.ok("call.query", count=count, cursor=page["cursor"])
        assert ([call["callID"] for call in rest["calls"]], rest["cursor"]) == (calls[100:], "0")
    alice.send(b'{"type":"call.query","id":"nulls","count":null,"cursor":null}')
    assert alice.expect_type("response", id="nulls")["calls"] == first["calls"]


def test_a_call_that_starts_meanwhile_does_not_shift_later_pages(world: World) -> None:
    """§2; nor does one that ends."""
    alice, bob = world.phones("alice", "bob")
    live = ring(alice, bob)
    calls = settled(alice, [*place(alice, 5, bob), live])
    first = alice.ok("call.query", count=2)
    newer = [*place(alice, 3, bob), alice.invite(bob)]
    second = alice.ok("call.query", count=2, cursor=first["cursor"])
    alice.cancel(live)
    third = alice.ok("call.query", count=2, cursor=second["cursor"])
    found = [call["callID"] for page in (first, second, third) for call in page["calls"]]
    assert (found, third["cursor"]) == (calls, "0")
    # A cursor can be used again.
    assert alice.ok("call.query", count=2, cursor=first["cursor"])["calls"] == second["calls"]
    assert set(listed(alice, count=4)) == {*calls, *newer}


def test_calls_of_one_millisecond_are_neither_lost_nor_doubled(world: World) -> None:
    """Many invites at once have the same `createdAt`; pages may end between them."""
    alice = world.phone("alice")
    answers([alice.start("call.invite", invitees=[f"nobody-{number % 4}"]) for number in range(20)])
    whole = pages(alice, count=100)[0]["calls"]
    times = [call["createdAt"] for call in whole]
    assert len(times) == 20 and len(set(times)) < 20
    assert listed(alice, count=3) == [call["callID"] for call in whole]


def test_a_cursor_that_the_service_did_not_give_is_refused(world: World) -> None:
    """§2: `badRequest` naming the field."""
    alice = world.phone("alice")
    place(alice, 2, "nobody")
    cursor = alice.ok("call.query", count=1)["cursor"]
    assert cursor != "0"
    for bad in (
        " ", "1", "-", "00", "0 ", "null", "next", "-1", "1-", "-c", "ä", "a" * 128,
        cursor + " ", " " + cursor, cursor + "!", "-" + cursor, cursor[: len(cursor) // 4],
    ):  # fmt: skip
        error = alice.refused("call.query", "badRequest", cursor=bad)
        assert "cursor" in error["message"], bad
    assert len(alice.ok("call.query", cursor=cursor)["calls"]) == 1


def test_another_spelling_of_a_cursor_is_none(world: World) -> None:
    """§2: only what the service gave."""
    alice = world.phone("alice")
    place(alice, 2, "nobody")
    cursor = alice.ok("call.query", count=1)["cursor"]
    for bad in ("0" + cursor, "+" + cursor):
        alice.refused("call.query", "badRequest", cursor=bad)


# Size


LARGE = "\x01" * 2048
"""Control characters take six bytes each."""


def large(caller: Device, count: int, members: int) -> list[str]:
    """So many calls of 12 KiB, and as much for each of their members."""
    # Others each time: one user is not invited so often.
    invitees = [[f"nobody-{call}-{number}" for number in range(members)] for call in range(count)]
    invites = [caller.start("call.invite", invitees=named, extendedData=LARGE) for named in invitees]
    calls = [response["callID"] for response in answers(invites)]
    answers([caller.start("call.cancel", callID=call, extendedData=LARGE) for call in calls])
    return calls


def test_a_page_is_never_too_large(world: World) -> None:
    """§1: at most 256 KiB, fewer calls rather than more bytes; all calls come, each whole."""
    alice = world.phone("alice")
    calls = large(alice, 25, members=1)
    found = []
    fields: dict[str, Any] = {"count": 100}
    while fields.get("cursor") != "0":
        message = alice.start("call.query", **fields).received()
        assert len(message.raw) <= LARGEST
        assert message["cursor"] == "0" or len(message["calls"]) == 10
        found += message["calls"]
        fields["cursor"] = message["cursor"]
    assert sorted(call["callID"] for call in found) == sorted(calls)
    for call in found:
        assert (call["extendedData"], call["members"][1]["extendedData"]) == (LARGE, LARGE)


@pytest.mark.alone
def test_a_page_of_large_calls_keeps_nobody_waiting(deploy: Deploy) -> None:
    """A hundred of them is answered at all, and other users' requests meanwhile without delay."""
    world = deploy(store="memory:", trace="off", **UNLIMITED)
    alice, bob = world.phones("alice", "bob")
    large(alice, 100, members=1)
    question = alice.start("call.query", count=100)
    until = time.monotonic() + 3
    while not question.done and time.monotonic() < until:
        asked = time.monotonic()
        answer = bob.start("user.query", userIDs=[bob.user]).received(2, resend=False)
        assert answer.at - asked < 0.2
    assert question.received(0.1, resend=False)["calls"]
    world.close()


# What is kept


def test_ended_calls_are_kept_in_limited_number_and_time(deploy: Deploy, redis_server: RedisServer) -> None:
    """§2: the last 200, here 3, beside all that live; and for 7 days, here 1 s."""
    forgetful = deploy(store=redis_server.url, redis_prefix="forgetful", retain_history="1s")
    carol, dave = forgetful.phones("carol", "dave")
    short = place(carol, 2, dave)
    lasting = ring(carol, dave)
    assert sorted(listed(carol)) == sorted([*short, lasting])
    for world in on_each_store(deploy, redis_server, 1, history_per_user="3").values():
        alice, bob = world.phones("alice", "bob")
        live = ring(alice, bob)
        calls = place(alice, 5, bob)
        alive = ring(bob, alice)
        for device in (alice, bob):
            assert sorted(listed(device)) == sorted([*calls[:3], live, alive])
            assert listed(device, count=2) == listed(device)
        alice.cancel(live)
        # The oldest by its start goes first, whenever it ended.
        assert sorted(listed(alice)) == sorted([*calls[:3], alive])
        world.close()
    wait_until(lambda: listed(carol) == [lasting], 3, "the ended calls are forgotten", every=0.05)
    forgetful.close()
