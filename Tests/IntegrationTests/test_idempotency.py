"""Requests that are sent again, calls named by the client, the fast cancel (§2)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness import World, call_id, member, ring, talk


def test_a_repeated_invite_is_the_same_call_and_rings_once(world: World) -> None:
    """§2: a repeated request that succeeded changes nothing and gets the same outcome."""
    alice, bob = world.phones("alice", "bob")
    dave = World.user("dave")
    fields = {"id": "invite-1", "invitees": [bob.user, dave]}
    first = alice.ok("call.invite", **fields)
    alice.expect_change(first["callID"], bob, "received")
    with bob.silent(0.4):
        again = alice.ok("call.invite", **fields)
    assert again["callID"] == first["callID"]
    assert again["offline"] == first["offline"] == [dave]
    # The call is shown as it is now.
    assert (first["revision"], again["revision"]) == (1, 2)
    assert member(again["call"], bob)["state"] == "received"
    assert again["call"] == alice.get(first["callID"])


def test_a_call_id_left_out_is_derived_from_user_device_and_request(world: World) -> None:
    """§2: so that a resend is the same call, and nobody else's is."""
    alice, bob = world.phones("alice", "bob")
    web = world.another(alice, "web")
    first = alice.ok("call.invite", id="one", invitees=[bob.user])["callID"]
    assert re.fullmatch(r"[0-9a-f]{32}", first)
    assert alice.ok("call.invite", id="one", invitees=[bob.user])["callID"] == first
    others = {
        alice.ok("call.invite", id="two", invitees=[bob.user])["callID"],
        web.ok("call.invite", id="one", invitees=[bob.user])["callID"],
        bob.ok("call.invite", id="one", invitees=[alice.user])["callID"],
    }
    assert len(others) == 3 and first not in others


@pytest.mark.parametrize("request_type", ["call.accept", "call.reject", "call.cancel"])
def test_a_repeated_answer_gets_the_same_outcome(world: World, request_type: str) -> None:
    """§2: however late it comes; it is not judged as a new request, which would be refused."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    sender = alice if request_type == "call.cancel" else bob
    fields = {"callID": call, "id": "again"} | ({"invitees": [bob.user]} if sender is alice else {})
    first = sender.ok(request_type, **fields)
    assert sender.ok(request_type, **fields)["call"] == first["call"]
    carol.accept(call)
    late = sender.ok(request_type, **fields)
    assert late["call"] == alice.get(call)
    assert member(late["call"], bob) == member(first["call"], bob)
    code = "invalidState" if sender is alice else "callEnded"
    sender.refused(request_type, code, **(fields | {"id": "new"}))


@pytest.mark.parametrize("request_type", ["call.add", "call.join", "call.quit", "call.end"])
def test_a_repeated_request_in_an_advanced_call_gets_the_same_outcome(world: World, request_type: str) -> None:
    """§2: the same `offline` and `errors`, and no second effect."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    tablet = world.another(bob, "tablet")
    dave = World.user("dave")
    call = talk(alice, bob, carol)
    sender = tablet if request_type == "call.join" else bob
    fields: dict[str, Any] = {"callID": call, "id": "again"}
    if request_type == "call.add":
        fields |= {"invitees": [dave, carol.user]}
    first = sender.ok(request_type, **fields)
    with alice.silent(0.3, call, "call.ended" if request_type != "call.end" else "call.userStateChanged"):
        again = sender.ok(request_type, **fields)
    assert again == first
    if request_type == "call.add":
        assert (again["offline"], again["errors"]) == ([dave], [{"userID": carol.user, "code": "invalidState"}])
    assert alice.get(call) == first["call"]


def test_repeats_at_once_have_one_effect(world: World) -> None:
    """§2: the same request many times in a row, as an impatient client sends it."""
    alice, bob = world.phones("alice", "bob")
    pending = [alice.start("call.invite", id="burst", invitees=[bob.user]) for _ in range(10)]
    calls = {handle.ok()["callID"] for handle in pending}
    assert len(calls) == 1
    (call,) = calls
    bob.expect("call.invited", call)
    alice.expect_state(call, bob, "received")
    assert alice.get(call)["revision"] == 2


def test_a_refused_request_is_judged_again(world: World) -> None:
    """§2: only successes are remembered."""
    alice, bob = world.phones("alice", "bob")
    call = call_id()
    bob.refused("call.accept", "callNotFound", id="again", callID=call)
    alice.invite(bob, callID=call)
    assert member(bob.accept(call, id="again")["call"], bob)["state"] == "accepted"


def test_the_last_16_requests_of_a_device_are_remembered(world: World) -> None:
    """§2: per call; the invite is the first of 16 here."""
    alice = world.phone("alice")
    bob, carol = World.user("bob"), World.user("carol")
    first = alice.ok("call.invite", id="invite", invitees=[bob], mode="advanced")
    call = first["callID"]
    for number in range(7):
        alice.add(call, carol, id=f"add-{number}")
        alice.cancel(call, carol, id=f"cancel-{number}")
    before = alice.add(call, carol, id="add-7")["call"]
    assert alice.ok("call.invite", id="invite", invitees=[bob], mode="advanced")["call"] == before
    assert alice.add(call, carol, id="add-0")["call"] == before
    assert alice.cancel(call, carol, id="cancel-6")["call"] == before
    assert member(alice.get(call), carol)["state"] == "inviting"


def test_request_ids_belong_to_one_device(world: World) -> None:
    """§2: another device's request of the same id is another request."""
    alice, bob = world.phones("alice", "bob")
    tablet = world.another(bob, "tablet")
    call = ring(alice, bob)
    bob.accept(call, id="same")
    tablet.refused("call.accept", "answeredElsewhere", id="same", callID=call)
    bob.accept(call, id="same")


def test_a_call_id_of_ones_own_choice_is_used(world: World) -> None:
    """§2 `callID` of an invite."""
    alice, bob = world.phones("alice", "bob")
    call = call_id()
    assert alice.invite(bob, callID=call, id="one") == call
    assert alice.invite(bob, callID=call, id="one") == call


def test_a_call_id_already_used_is_refused(world: World) -> None:
    """§2 `callExists`: another request, another device, another user; also after the call is over."""
    alice, bob, mallory = world.phones("alice", "bob", "mallory")
    web = world.another(alice, "web")
    call = call_id()
    alice.invite(bob, callID=call, id="one")
    alice.expect_change(call, bob, "received")
    before = alice.get(call)
    alice.refused("call.invite", "callExists", id="two", callID=call, invitees=[bob.user])
    web.refused("call.invite", "callExists", id="one", callID=call, invitees=[bob.user])
    mallory.refused("call.invite", "callExists", id="one", callID=call, invitees=[bob.user])
    assert alice.get(call) == before
    alice.cancel(call)
    alice.refused("call.invite", "callExists", id="three", callID=call, invitees=[bob.user])


def test_a_fast_cancel_wins_over_the_invite_that_follows(world: World) -> None:
    """§2: `callNotFound`, and remembered; the later invite creates the call cancelled and rings nobody."""
    alice, bob = world.phones("alice", "bob")
    call = call_id()
    alice.refused("call.cancel", "callNotFound", callID=call)
    with bob.silent(1.2, call):
        response = alice.ok("call.invite", callID=call, invitees=[bob.user])
    assert (response["call"]["state"], response["call"]["endReason"]) == ("ended", "cancelled")
    assert member(response["call"], bob)["state"] == "cancelled"
    bob.refused("call.accept", "callEnded", callID=call)
    # The next call of the two is not touched.
    ring(alice, bob)


def test_a_fast_cancel_is_the_users_own(world: World) -> None:
    """§2: it touches an invite of the same user only, from any device."""
    alice, bob, mallory = world.phones("alice", "bob", "mallory")
    web = world.another(alice, "web")
    call, other = call_id(), call_id()
    mallory.refused("call.cancel", "callNotFound", callID=call)
    assert alice.ok("call.invite", callID=call, invitees=[bob.user])["call"]["state"] == "ringing"
    bob.expect("call.invited", call)
    web.refused("call.cancel", "callNotFound", callID=other)
    assert alice.ok("call.invite", callID=other, invitees=[bob.user])["call"]["endReason"] == "cancelled"


def test_a_fast_cancel_in_the_same_breath_leaves_nobody_ringing(world: World) -> None:
    """§2: cancel and invite sent together; whichever is handled first, the call ends cancelled."""
    alice, bob = world.phones("alice", "bob")
    for number in range(20):
        call = call_id()
        order = ["call.invite", "call.cancel"] if number % 2 else ["call.cancel", "call.invite"]
        pending = {
            kind: alice.start(kind, callID=call, invitees=[bob.user] if kind == "call.invite" else None)
            for kind in order
        }
        assert pending["call.invite"].wait()["ok"]
        cancel = pending["call.cancel"].wait()
        assert cancel["ok"] or cancel["error"]["code"] == "callNotFound"
        ended = alice.get(call)
        assert (ended["state"], ended["endReason"]) == ("ended", "cancelled")
        if bob.events(call, "call.invited"):
            bob.expect("call.cancelled", call)
