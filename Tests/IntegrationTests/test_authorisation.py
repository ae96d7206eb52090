"""Who may ask for what (docs/protocol.md, section 2): every request about a call, from everybody who has or had to do with
it, and from strangers, who learn nothing. What the broker holds back stands in test_tokens.py."""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

from harness import Device, World, call_id, ring, talk

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

# Of a live advanced call: alice invited, bob accepted, carol's phone rings, dave has quit, erin has nothing to do with it.
ROLES = ("inviter", "member", "ringing", "past", "stranger")
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
        alice, bob, carol, dave, erin = people = world.phones("alice", "bob", "carol", "dave", "erin")
        call = talk(alice, bob, dave)
        dave.quit(call)
        alice.add(call, carol)
        alice.expect_change(call, carol, "received")
        before = alice.get(call)
        asking = people[place]
        response = asking.start(request_type, callID=call, **FIELDS[request_type]).wait()
        if role != "stranger":
            assert outcome(response) == ALLOWED[request_type][place], (role, response)
        else:
            assert_says_nothing(erin, request_type, response)
        if not response["ok"]:
            assert alice.get(call) == before, "what is refused changes nothing"
        for phone in people:
            phone.close()


def assert_says_nothing(stranger: Device, request_type: str, response: dict[str, Any]) -> None:
    """The very same, but for its id, as of a call that does not exist."""
    nothing = stranger.start(request_type, callID=call_id(), **FIELDS[request_type]).wait()
    assert response | {"id": ""} == nothing | {"id": ""}
    assert outcome(response) == "callNotFound"


@pytest.mark.parametrize("mode", ["common", "advanced"])
@pytest.mark.parametrize("state", ["ringing", "ended"])
def test_a_stranger_cannot_tell_a_call_from_none(world: World, mode: str, state: str) -> None:
    alice, bob, erin = world.phones("alice", "bob", "erin")
    call = ring(alice, bob, mode=mode)
    if state == "ended":
        alice.cancel(call)
    since = erin.mark
    for request_type, fields in FIELDS.items():
        assert_says_nothing(erin, request_type, erin.start(request_type, callID=call, **fields).wait())
    # What has no answer has no effect either.
    before = alice.get(call)
    for message in (
        {"type": "ack", "callID": call, "revision": 1},
        {"type": "call.heartbeat", "callID": call},
    ):
        erin.send(message)
    erin.signal(call, {"sdp": "x"})
    assert erin.ok("call.query")["calls"] == []
    assert [m.type for m in erin.messages[since:]].count("event") == 0
    assert alice.get(call) == before
    # The one stated exception: ids are 128 random bits in the SDK.
    erin.refused("call.invite", "callExists", callID=call, invitees=["frank"])
    assert alice.get(call) == before


def test_a_call_open_to_all_is_open_to_who_has_its_id(world: World) -> None:
    alice, bob, erin = world.phones("alice", "bob", "erin")
    call = talk(alice, bob, joinPolicy="anyone")
    for request_type in ("call.get", "call.trace", "call.end", "call.add", "call.signal"):
        assert outcome(erin.start(request_type, callID=call, **FIELDS[request_type]).wait()) == "callNotFound"
    assert erin.join(call)["ok"] and erin.get(call)["state"] == "active"


def test_messages_and_profiles_are_ones_own(world: World) -> None:
    alice, bob, erin = world.phones("alice", "bob", "erin")
    message = alice.message(bob, ttl=30)
    bob.wait(lambda m: next((x for x in m if x.type == "message"), None), 3, "the message")
    erin.ack_message(message)
    # Under the same id to the same user: of another sender.
    erin.refused("message.send", "badRequest", to=bob.user, data="x", messageID=message)
    erin.ok("user.update", name="Erin")
    assert "name" not in erin.ok("user.query", userIDs=[alice.user])["users"][0]
    assert erin.ok("user.blockList")["blocked"] == []
    bob.ok("user.block", userID=erin.user)
    assert erin.ok("user.blockList")["blocked"] == []


def test_nothing_can_be_learned_from_how_long_an_answer_takes(world: World) -> None:
    """A call of others takes as long as one that does not exist: the difference is lost in what an answer takes anyway."""
    alice, bob, erin = world.phones("alice", "bob", "erin")
    call = talk(alice, bob)
    times: dict[str, list[float]] = {"theirs": [], "nobody's": []}

    def ask(name: str, id: str) -> None:
        began = time.perf_counter()
        erin.start("call.get", callID=id).wait()
        times[name].append(time.perf_counter() - began)
        erin.messages.clear()

    for _ in range(400):
        ask("theirs", call)
        ask("nobody's", call_id())
    theirs, nobodys = (statistics.median(values) for values in times.values())
    print(f"median of a call of others {theirs * 1e6:.0f} µs, of none {nobodys * 1e6:.0f} µs")
    assert 0.8 < theirs / nobodys < 1.25


# Blocked users


def receipt(device: Device) -> dict[str, Any] | None:
    return next((m.body for m in device.messages if m.type == "receipt"), None)


def test_a_blocked_users_invitations_are_as_if_never_delivered(world: World) -> None:
    """Section 2, Blocked users."""
    alice, bob = world.phones("alice", "bob")
    bob.ok("user.block", userID=alice.user)
    since = bob.mark
    response = alice.ok(
        "call.invite", invitees=[bob.user], timeout=3, notReceivedCheck=True, notReceivedAfter=1
    )
    call = response["callID"]
    assert response["offline"] == [bob.user]
    alice.expect_change(call, bob, "notYetReceived")
    alice.expect_change(call, bob, "timeout", 5)
    message = alice.message(bob, ttl=1)
    alice.wait(lambda _: receipt(alice), 4, "the receipt")
    assert (receipt(alice) or {})["state"] == "expired" and (receipt(alice) or {})["messageID"] == message
    assert alice.ok("user.query", userIDs=[bob.user])["users"][0]["online"] is False
    bob.refused("call.get", "callNotFound", callID=call)
    assert bob.ok("call.query")["calls"] == []
    assert not [m for m in bob.messages[since:] if m.type in ("event", "message")]

    assert bob.ok("user.unblock", userID=alice.user)["blocked"] == []
    assert bob.accept(ring(alice, bob))["ok"]


def test_what_is_no_user_cannot_be_blocked(world: World) -> None:
    alice = world.phone("alice")
    for bad in ({}, {"userID": ""}, {"userID": 7}, {"userID": "x" * 65}):
        error = alice.start("user.block", bad=True, **bad).wait()["error"]
        assert error["code"] == "badRequest" and error["message"].startswith("userID")
    alice.refused("user.block", "badRequest", userID=alice.user)


# Limits


def flood(count: int, ask: Callable[[int], dict[str, Any]]) -> list[str]:
    return [outcome(ask(number)) for number in range(count)]


def test_who_rings_somebody_without_end_is_told_to_wait(world: World) -> None:
    """Section 2, Rate limits: five invitations ring at the same time; taken back at once there are twenty, then one a second."""
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
    since = mallory.mark
    for number in range(2_000):
        mallory.publish(mallory.up, b"garbage %d" % number, bad=True)
    assert bob.accept(ring(alice, bob))["ok"]

    def codes(_: list[Any]) -> list[str] | None:
        found = [m.body["error"]["code"] for m in mallory.messages[since:] if m.type == "error"]
        return found if len(found) >= 2_000 else None

    found = mallory.wait(codes, 20, "each is answered")
    assert found.count("badRequest") >= 500 and found.count("rateLimited") > 500


def test_the_limits_are_settings(deploy: Any) -> None:
    world = deploy(pair_rate="1/2", callee_rate="1/3", device_rate="20/30", presence_rate="1/2")
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    assert flood(3, lambda _: alice.start("call.invite", invitees=[bob.user]).wait()) == ["ok", "ok", "rateLimited"]
    assert carol.invite(bob)
    dave.refused("call.invite", "rateLimited", invitees=[bob.user])
    group = dave.ok("call.invite", invitees=[bob.user, carol.user])
    assert group["errors"] == [{"userID": bob.user, "code": "rateLimited"}]
    assert [m["userID"] for m in group["call"]["members"]] == [dave.user, carol.user]
    codes = flood(40, lambda _: carol.start("call.get", callID=secrets.token_hex(8)).wait())
    assert codes[0] == "callNotFound" and "rateLimited" in codes
