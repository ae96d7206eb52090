"""Common calls with several invitees: partial cancel, mixed outcomes, the call object (§2–§4)."""

from __future__ import annotations

import pytest

from harness import World, change_in, member, ring


def states(call: dict) -> list[str]:
    """The states of all members, in the order of the call object."""
    return [entry["state"] for entry in call["members"]]


def test_members_stand_in_the_order_in_which_they_were_invited(world: World) -> None:
    """§4: not sorted, not as they answered."""
    alice, zoe, bob, mia = world.phones("alice", "zoe", "bob", "mia")
    call = ring(alice, zoe, bob, mia)
    bob.accept(call)
    order = [entry["userID"] for entry in alice.get(call)["members"]]
    assert order == [alice.user, zoe.user, bob.user, mia.user]


def test_everybody_pending_hears_of_everybody_else(world: World) -> None:
    """§5: every live member, when another member's state changed."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    bob.expect_change(call, carol, "received")
    carol.expect_change(call, bob, "received")
    bob.accept(call)
    for other in (alice, carol):
        told = other.expect_change(call, bob, "accepted")
        assert told.event == "call.userStateChanged"
        assert told["call"]["state"] == "active"


def test_own_changes_are_not_told_to_oneself(world: World) -> None:
    """§5: `call.userStateChanged` tells of the other members."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    bob.accept(call)
    carol.reject(call)
    bob.expect_change(call, carol, "rejected")
    for device in (alice, bob, carol):
        for message in device.events(call, "call.userStateChanged", stale=True):
            assert device.user not in [change["userID"] for change in message["changes"]]


def test_a_group_call_is_active_after_the_first_answer_and_ends_after_the_last(world: World) -> None:
    """§3: `ringing` → `active` → `ended`; answered if any invitee accepted, whatever the others did."""
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    call = ring(alice, bob, carol, dave, timeout=2)
    assert alice.get(call)["state"] == "ringing"
    bob.accept(call)
    assert alice.get(call)["state"] == "active"
    carol.reject(call, reason="busy")
    still = alice.get(call)
    assert (still["state"], still.get("endReason")) == ("active", None)
    assert dave.expect("call.timeout", call)["missed"] is True
    told = alice.expect_change(call, dave, "timeout")
    assert (told["call"]["state"], told["call"]["endReason"]) == ("ended", "answered")
    assert bob.expect_change(call, dave, "timeout")["call"]["state"] == "ended"
    assert states(alice.get(call)) == ["accepted", "accepted", "rejected", "timeout"]


@pytest.mark.parametrize("last", ["rejected", "busy", "cancelled", "timeout"])
def test_without_an_answer_the_last_cause_is_the_reason(world: World, last: str) -> None:
    """§3: ends when no member is pending: `answered` if any invitee accepted, else the last cause."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, carol, timeout=1 if last == "timeout" else 60)
    if last == "rejected":
        alice.cancel(call, carol)
        bob.reject(call)
    else:
        carol.reject(call)
        if last == "busy":
            bob.reject(call, reason="busy")
        elif last == "cancelled":
            alice.cancel(call)
        else:
            alice.expect_change(call, bob, "timeout")
    ended = alice.get(call)
    assert (ended["state"], ended["endReason"]) == ("ended", last)


def test_a_partial_cancel_takes_back_only_the_named_invitees(world: World) -> None:
    """§2: `call.cancel` with `invitees`; the others go on ringing and are told."""
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    call = ring(alice, bob, carol, dave)
    with dave.silent(0.3, call, "call.cancelled"):
        response = alice.cancel(call, bob, carol)
    assert states(response["call"]) == ["accepted", "cancelled", "cancelled", "received"]
    assert response["call"]["state"] == "ringing"
    for gone in (bob, carol):
        assert gone.expect("call.cancelled", call)["missed"] is True
    told = dave.expect_change(call, bob, "cancelled")
    assert change_in(told, carol)["state"] == "cancelled"
    assert not response.get("errors")
    dave.accept(call)
    assert alice.expect_change(call, dave, "accepted")["call"]["endReason"] == "answered"


def test_a_cancelled_invitee_hears_nothing_more_of_the_call(world: World) -> None:
    """§5: it is no live member any more."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    alice.cancel(call, bob)
    cancelled = bob.expect("call.cancelled", call)
    with bob.silent(0.5, call):
        assert cancelled["call"]["state"] == "ringing"
        carol.accept(call)
        alice.expect_change(call, carol, "accepted")


def test_not_pending_ones_are_listed_when_others_are_cancelled(world: World) -> None:
    """§2: per-user problems in an otherwise successful cancel come as `errors`."""
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    stranger = World.user("stranger")
    call = ring(alice, bob, carol, dave)
    bob.accept(call)
    carol.reject(call)
    response = alice.cancel(call, bob, carol, dave, stranger)
    errors = {entry["userID"]: entry["code"] for entry in response["errors"]}
    assert errors == {bob.user: "invalidState", carol.user: "invalidState", stranger: "callNotFound"}
    assert states(response["call"]) == ["accepted", "accepted", "rejected", "cancelled"]
    assert (response["call"]["state"], response["call"]["endReason"]) == ("ended", "answered")


def test_a_cancel_that_finds_nobody_pending_is_refused(world: World) -> None:
    """§2: nobody pending → `invalidState`; the rest of the call is untouched."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    bob.accept(call)
    before = alice.get(call)
    error = alice.refused("call.cancel", "invalidState", callID=call, invitees=[bob.user])
    assert error["state"] == "accepted"
    assert alice.get(call) == before


def test_a_cancel_without_names_takes_back_all_that_are_pending(world: World) -> None:
    """§2: default: all pending; who has answered stays."""
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    call = ring(alice, bob, carol, dave)
    bob.accept(call)
    response = alice.cancel(call)
    assert states(response["call"]) == ["accepted", "accepted", "cancelled", "cancelled"]
    assert response["call"]["endReason"] == "answered"
    assert not response.get("errors")


def test_one_who_answered_again_is_refused_while_others_ring(world: World) -> None:
    """§3: any move that is not open is refused; in a live call with `invalidState`."""
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    call = ring(alice, bob, carol, dave)
    bob.accept(call)
    carol.reject(call)
    assert bob.refused("call.reject", "invalidState", callID=call)["state"] == "accepted"
    assert bob.refused("call.accept", "invalidState", callID=call)["state"] == "accepted"
    assert carol.refused("call.accept", "invalidState", callID=call)["state"] == "rejected"


def test_nine_invitees_are_the_most(world: World) -> None:
    """§2: 1–9 distinct users, not the inviter; ten members fill a call."""
    alice = world.phone("alice")
    others = [World.user(f"guest{number}") for number in range(10)]
    call = alice.ok("call.invite", invitees=others[:9])
    assert [entry["userID"] for entry in call["call"]["members"]] == [alice.user, *others[:9]]
    assert sorted(call["offline"]) == sorted(others[:9])
    error = alice.refused("call.invite", "badRequest", invitees=others, bad=True)
    assert "invitees" in error["message"]


def test_each_invitee_keeps_its_own_answer(world: World) -> None:
    """§4: device, reason and extendedData belong to the member."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    tablet = world.another(carol, "tablet")
    call = ring(alice, bob, carol)
    bob.reject(call, reason="driving", extendedData="b")
    tablet.accept(call, extendedData="c")
    got = alice.get(call)
    assert (member(got, bob)["reason"], member(got, bob)["extendedData"]) == ("driving", "b")
    assert (member(got, carol)["device"], member(got, carol)["extendedData"]) == ("tablet", "c")
    assert member(got, alice).get("extendedData") is None
    assert member(got, bob)["updatedAt"] <= member(got, carol)["updatedAt"] == got["endedAt"]
