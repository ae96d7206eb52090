"""The rights of users (docs/protocol.md, section 2): every request about a call, from every present or past member of
the call. The conformance suite tests the answers to strangers (section_2_refusals); test_tokens.py tests the rights at
the broker."""

from __future__ import annotations

import secrets
import statistics
import time
from typing import Any

import pytest

from harness import Request, World, call_id, ring, talk, wait_until

FIELDS: dict[str, dict[str, Any]] = {
    "call.cancel": {},
    "call.accept": {},
    "call.reject": {},
    "call.add": {"invitees": ["frank"]},
    "call.join": {},
    "call.quit": {},
    "call.end": {},
    "call.get": {},
    "call.trace": {},
    "call.signal": {"data": 1},
    "call.report": {"milestones": {"accepted": 5}},
}

# The roles in a live advanced call: alice invited, bob accepted, carol's phone rings, dave has quit.
ROLES = ("inviter", "member", "ringing", "past")
ALLOWED: dict[str, tuple[str, ...]] = {
    "call.cancel": ("ok", "notInviter", "notInviter", "notInviter"),
    "call.accept": ("invalidState", "invalidState", "ok", "invalidState"),
    "call.reject": ("invalidState", "invalidState", "ok", "invalidState"),
    "call.add": ("ok", "ok", "invalidState", "invalidState"),
    "call.join": ("ok", "ok", "ok", "ok"),
    "call.quit": ("ok", "ok", "invalidState", "invalidState"),
    "call.end": ("ok", "ok", "invalidState", "invalidState"),
    "call.get": ("ok", "ok", "ok", "ok"),
    "call.trace": ("ok", "ok", "ok", "ok"),
    "call.signal": ("ok", "ok", "invalidState", "invalidState"),
    "call.report": ("ok", "ok", "ok", "ok"),
}


def outcome(response: dict[str, Any]) -> str:
    return "ok" if response["ok"] else response["error"]["code"]


@pytest.mark.parametrize("request_type", ALLOWED)
def test_each_request_from_each_side(world: World, request_type: str) -> None:
    for place, role in enumerate(ROLES):
        alice, bob, carol, dave = people = world.phones("alice", "bob", "carol", "dave")
        call = talk(alice, bob, dave)
        dave.quit(call)
        alice.add(call, carol)
        alice.expect_change(call, carol, "received")
        before = alice.get(call)
        asking = people[place]
        response = asking.start(request_type, callID=call, **FIELDS[request_type]).wait()
        assert outcome(response) == ALLOWED[request_type][place], (role, response)
        if not response["ok"]:
            assert alice.get(call) == before, "what is refused changes nothing"
        for phone in people:
            phone.close()


def test_nothing_can_be_learned_from_how_long_an_answer_takes(world: World) -> None:
    """An answer about a call of others takes as long as an answer about an unknown call: the difference is lost in the
    time of any answer."""
    alice, bob, erin = world.phones("alice", "bob", "erin")
    call = talk(alice, bob)

    def asked(id: str) -> float:
        began = time.perf_counter()
        erin.start("call.get", callID=id).wait()
        erin.messages.clear()
        return time.perf_counter() - began

    def is_alike() -> bool:
        theirs, nobodys = zip(*[(asked(call), asked(call_id())) for _ in range(400)], strict=True)
        print(f"median of a call of others {statistics.median(theirs) * 1e6:.0f} µs, of none {statistics.median(nobodys) * 1e6:.0f} µs")
        return 0.8 < statistics.median(theirs) / statistics.median(nobodys) < 1.25

    # A busy machine may disturb a measurement; a difference would be there each time.
    wait_until(is_alike, 40, "the answers take the same time")


# Limits


def flood(requests: list[Request]) -> list[str]:
    return [outcome(request.wait()) for request in requests]


def test_who_rings_somebody_without_end_is_told_to_wait(world: World) -> None:
    """Section 2, Rate limits: five invitations may ring at the same time. Twenty invitations that are taken back at
    once are allowed, and then an invitation a second."""
    mallory, victim, friend = world.phones("mallory", "victim", "friend")
    victim.auto_ack = False
    began = time.monotonic()
    pending = [mallory.start("call.invite", invitees=[victim.user], callID=call_id()) for _ in range(40)]
    codes = [outcome(request.wait(20)) for request in pending]
    assert set(codes) == {"ok", "rateLimited"}
    assert codes.count("ok") == 5
    for request, code in zip(pending, codes, strict=True):
        if code == "ok":
            mallory.ok("call.cancel", callID=request.wait()["callID"])
    made = 5
    while (asked := mallory.start("call.invite", invitees=[victim.user], callID=call_id()).wait(20))["ok"]:
        mallory.ok("call.cancel", callID=asked["callID"])
        made += 1
    free = 20 + (time.monotonic() - began)
    assert 20 <= made <= free + 1, (made, free)
    assert friend.invite(victim), "a friend still reaches the victim"


def test_a_device_that_floods_is_stopped_and_others_are_not(deploy: Any) -> None:
    world = deploy(device_rate="100/500")
    mallory, alice, bob = world.phones("mallory", "alice", "bob")
    since, began = mallory.mark, time.monotonic()
    for number in range(2_000):
        mallory.publish(mallory.up, b"garbage %d" % number, bad=True)
    assert bob.accept(ring(alice, bob))["ok"]

    def codes() -> list[str] | None:
        found = [m.body["error"]["code"] for m in mallory.messages[since:] if m.type == "error"]
        return found if len(found) >= 2_000 else None

    found = mallory.wait_for(codes, 40, "each is answered")
    assert set(found) <= {"badRequest", "rateLimited"}
    assert 500 <= found.count("badRequest") <= 501 + 100 * (time.monotonic() - began)


def test_the_limits_are_settings(deploy: Any) -> None:
    world = deploy(pair_rate="1/2", callee_rate="1/3", device_rate="5/30", presence_rate="1/2")
    alice, bob, carol, *others = world.phones("alice", "bob", "carol", "dave", "erin", "frank", "grace")
    # Each limit lets one through a second besides: requests are sent at once, and more than a second's.
    codes = flood([alice.start("call.invite", invitees=[bob.user]) for _ in range(5)])
    assert codes[:2] == ["ok", "ok"] and "rateLimited" in codes
    assert carol.invite(bob)
    codes = flood([other.start("call.invite", invitees=[bob.user]) for other in others])
    assert "rateLimited" in codes
    dave = others[codes.index("rateLimited")]

    def group() -> dict[str, Any] | None:
        made = dave.ok("call.invite", invitees=[bob.user, carol.user])
        return made if made.get("errors") else None

    made = wait_until(group, 10, "a part of a call is refused")
    assert made["errors"] == [{"userID": bob.user, "code": "rateLimited"}]
    assert [m["userID"] for m in made["call"]["members"]] == [dave.user, carol.user]
    codes = flood([carol.start("call.get", callID=secrets.token_hex(8)) for _ in range(60)])
    assert codes[0] == "callNotFound" and "rateLimited" in codes
