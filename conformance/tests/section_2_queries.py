"""Section 2, Queries: `call.query`."""

from __future__ import annotations

import time
from typing import Any

from ..client import Device
from ..expect import between, equal, names, true
from ..scene import Scene
from ..suite import sentence
from .steps import new_id, ring, talk

MOST_PAGES = 100


def _pages(device: Device, **extra: Any) -> list[list[str]]:
    """Returns the callIDs of all pages, from the first page to the page with the cursor "0"."""
    pages = []
    cursor = None
    while cursor != "0":
        response = device.ok("call.query", cursor=cursor, **extra)
        cursor = response["cursor"]
        pages.append([call["callID"] for call in response["calls"]])
        true(f"the pages end within {MOST_PAGES}", len(pages) < MOST_PAGES)
    return pages


def _calls(caller: Device, user: str, count: int) -> list[str]:
    """Creates calls in different milliseconds. Returns them, the newest first."""
    made = []
    for _ in range(count):
        made.append(caller.invite(user))
        time.sleep(0.002)
    return made[::-1]


def _calls_of_many(scene: Scene, caller: Device, count: int) -> list[str]:
    """Creates calls to different users, since a user may not be invited so often. The calls are cancelled, so that few
    are live."""
    made = []
    for number in range(count):
        made += _calls(caller, scene.absent(f"guest{number}"), 1)
        caller.cancel(made[-1])
    return made[::-1]


@sentence("2 call.query", 'own calls newest first: {"calls":[Call…],"cursor":"…"}; "0" = no more')
def a_query_lists_the_own_calls_newest_first(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    made = _calls(alice, bob, 5)
    response = alice.ok("call.query")
    equal("the calls", [call["callID"] for call in response["calls"]], made)
    equal("the cursor", response["cursor"], "0")
    equal("a call", response["calls"][0], alice.get(made[0]))
    equal("the invitee's calls", _pages(scene.device_of(bob)), [made])


@sentence("2 call.query", "count? 1–100 (more is treated as 100; default 20)")
def a_query_has_pages_of_count_calls(scene: Scene) -> None:
    alice = scene.device("alice")
    made = _calls_of_many(scene, alice, 25)
    for count, most in ((None, 20), (1, 1), (7, 7), (100, 100), (1000, 100)):
        pages = _pages(alice, count=count)
        between(f"the longest page for count {count}", max(map(len, pages)), 1, most)
        equal(f"all pages for count {count}", [call for page in pages for call in page], made)
    between("calls of the first page by default", len(_pages(alice)[0]), 1, 20)


@sentence("2 call.query", "more is treated as 100")
def a_count_above_100_is_treated_as_100(scene: Scene) -> None:
    alice = scene.device("alice")
    made = _calls_of_many(scene, alice, 102)
    pages = _pages(alice, count=100_000)
    between("the longest page", max(map(len, pages)), 1, 100)
    equal("all pages", [call for page in pages for call in page], made)


@sentence("2 call.query", 'cursor? (default "0") | anyone')
def anyone_may_query_from_the_beginning(scene: Scene) -> None:
    alice = scene.device("alice", presence=False)
    for cursor in (None, "0"):
        response = alice.ok("call.query", cursor=cursor)
        equal("the answer to a user without calls", (response["calls"], response["cursor"]), ([], "0"))


@sentence("2 Queries", "Listed are the calls that the user is or was a member of")
def a_query_lists_calls_that_one_is_or_was_a_member_of(scene: Scene) -> None:
    alice, bob, carol, mallory = scene.devices("alice", "bob", "carol", "mallory")
    rejected = ring(alice, bob)
    bob.reject(rejected)
    time.sleep(0.002)
    talking = talk(alice, bob, carol, joinPolicy="anyone")
    equal("bob's calls", _pages(bob), [[talking, rejected]])
    carol.quit(talking)
    equal("carol's calls", _pages(carol), [[talking]])
    equal("a stranger's calls", _pages(mallory), [[]])
    mallory.join(talking)
    equal("the calls of a user who joined", _pages(mallory), [[talking]])


@sentence("2 Queries", "of the ended ones the last 200")
def of_the_ended_calls_the_last_are_listed(scene: Scene) -> None:
    bob = scene.absent("bob")
    count = scene.limits.history + 10
    # A user may invite the same user at most twenty times at once.
    callers = scene.devices(*(f"caller{number}" for number in range(1 + count // 20)))
    made = []
    for number in range(count):
        caller = callers[number % len(callers)]
        made.append(caller.invite(bob))
        caller.cancel(made[-1])
    live = callers[-1].invite(bob)
    device = scene.device_of(bob, presence=False)
    listed = [call for page in _pages(device, count=100) for call in page]
    equal("the newest call", listed[0], live)
    equal("the number of listed ended calls", len(listed) - 1, scene.limits.history)
    equal("the listed ended calls", set(listed[1:]), set(made[-scene.limits.history :]))


@sentence("2 Queries", "by createdAt, the newest first")
def a_query_is_ordered_by_created_at(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    first = ring(alice, bob)
    second = ring(bob, alice)
    alice.cancel(first)  # a later change does not move the call
    calls = alice.ok("call.query")["calls"]
    equal("the order", [call["callID"] for call in calls], [second, first])
    true("createdAt falls", calls[0]["createdAt"] >= calls[1]["createdAt"], calls)


@sentence("2 Queries", "A call that starts meanwhile does not shift later pages.")
def a_call_that_starts_meanwhile_does_not_shift_later_pages(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    made = _calls(alice, scene.absent("carol"), 3)
    made = _calls(alice, scene.absent("dave"), 3) + made
    seen: list[str] = []
    cursor = None
    while cursor != "0":
        response = alice.ok("call.query", count=2, cursor=cursor)
        seen += [call["callID"] for call in response["calls"]]
        cursor = response["cursor"]
        alice.invite(bob)
    equal("the calls", seen, made)


@sentence("2 Queries", "cursor is opaque, at most 128 bytes; one that the service did not give is badRequest.")
def a_cursor_that_the_service_did_not_give_is_a_bad_request(scene: Scene) -> None:
    alice = scene.device("alice")
    _calls(alice, scene.absent("bob"), 3)
    cursor = alice.ok("call.query", count=1)["cursor"]
    between("the bytes of a cursor", len(cursor.encode()), 1, 128)
    changed = (f"{cursor} ", f" {cursor}", f"{cursor}!", f"-{cursor}", f"0{cursor}", f"+{cursor}", cursor[: len(cursor) // 4])
    for wrong in ("", " ", "00", "0 ", "1", "-1", "null", "nonsense", "é", "x" * 129, 5, [cursor], *changed):
        names(f"cursor {wrong!r}", alice.refused("call.query", "badRequest", cursor=wrong)["message"], "cursor")


@sentence("2 Queries", "count below 1 is badRequest.")
def a_count_below_1_is_a_bad_request(scene: Scene) -> None:
    alice = scene.device("alice")
    for wrong in (0, -1, 1.5, "20", True):
        names(f"count {wrong!r}", alice.refused("call.query", "badRequest", count=wrong)["message"], "count")


@sentence("2 Queries", 'A page may hold fewer calls than count although the cursor is not "0".')
def pages_follow_while_the_cursor_is_not_0(scene: Scene) -> None:
    alice = scene.device("alice")
    made = []
    for _ in range(26):
        made.append(alice.invite(scene.absent("bob"), callID=new_id(), extendedData="\u0001" * 2048))  # six bytes each in JSON
    pages = _pages(alice, count=26)
    true("several pages", len(pages) > 1, [len(page) for page in pages])
    equal("all calls", sorted(call for page in pages for call in page), sorted(made))
