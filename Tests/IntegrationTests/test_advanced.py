"""Advanced calls: they live on after the answer; add, join, hand-over, quit, end, auto-end (§2, §3, §5)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import Deploy, Device, World, change_in, member, now_ms, ring, talk, wait_until


@pytest.fixture(scope="module")
def quick_deployment(deploy: Deploy) -> World:
    """Forgets an empty call after 1 s instead of 60."""
    return deploy(store="memory:", empty_call_timeout="1s")


@pytest.fixture
def quick(quick_deployment: World) -> Iterator[World]:
    yield from quick_deployment.borrow()


# Answering


def test_an_answered_advanced_call_is_active_and_stays(world: World) -> None:
    """§3: `ringing` → `active`; only common calls end with the answer."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    assert alice.get(call)["state"] == "ringing"
    response = bob.accept(call)
    assert (response["call"]["state"], response["call"].get("endReason")) == ("active", None)
    assert response["call"]["acceptedAt"] == response["time"]
    told = alice.expect_change(call, bob, "accepted")
    assert (told.event, told["call"]["state"]) == ("call.userStateChanged", "active")


@pytest.mark.parametrize("cause", ["rejected", "busy", "cancelled", "timeout"])
def test_a_call_without_an_answer_ends_by_itself(world: World, cause: str) -> None:
    """§3: with `autoEnd` it ends as soon as accepted + pending < 2, for the last cause."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, mode="advanced", timeout=1 if cause == "timeout" else 60)
    match cause:
        case "rejected":
            bob.reject(call)
        case "busy":
            bob.reject(call, reason="busy")
        case "cancelled":
            alice.cancel(call)
            bob.expect("call.cancelled", call)
        case "timeout":
            assert bob.expect("call.timeout", call)["missed"] is True
    if cause != "cancelled":
        ended = alice.expect("call.ended", call)
        assert ended["call"]["endReason"] == cause
        assert change_in(ended, bob)["state"] == {"busy": "rejected"}.get(cause, cause)
    got = alice.get(call)
    assert (got["state"], got["endReason"]) == ("ended", cause)


# Adding


def test_any_accepted_member_may_add_others(world: World) -> None:
    """§2 `call.add`: new pending members, who ring; the others are told."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob)
    response = bob.add(call, carol, timeout=30, extendedData="come")
    assert response["offline"] == []
    added = member(response["call"], carol)
    assert (added["state"], added["invitedBy"]) == ("inviting", bob.user)
    assert added["expiresAt"] == response["time"] + 30_000
    assert [m["userID"] for m in response["call"]["members"]] == [alice.user, bob.user, carol.user]
    invited = carol.expect("call.invited", call)
    assert (invited["actor"], invited["call"]["inviter"]) == (bob.user, alice.user)
    assert 29_000 < invited["expiresIn"] <= 30_000
    assert alice.expect_change(call, carol, "inviting")["call"]["state"] == "active"
    alice.expect_change(call, carol, "received")
    carol.accept(call)
    for other in (alice, bob):
        other.expect_change(call, carol, "accepted")


def test_adding_tells_who_is_offline_and_who_cannot_be_added(world: World) -> None:
    """§2: `offline` and `errors`; who is live cannot be invited again."""
    alice, bob = world.phones("alice", "bob")
    dave = World.user("dave")
    call = talk(alice, bob)
    response = alice.add(call, bob, alice, dave)
    assert response["offline"] == [dave]
    errors = {entry["userID"]: entry["code"] for entry in response["errors"]}
    assert errors == {bob.user: "invalidState", alice.user: "invalidState"}
    assert member(response["call"], dave)["state"] == "inviting"


def test_adding_nobody_new_is_refused(world: World) -> None:
    """§2: every invitee failed → `noInvitees`, nothing changes."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    before = alice.get(call)
    alice.refused("call.add", "noInvitees", callID=call, invitees=[bob.user])
    assert alice.get(call) == before


@pytest.mark.parametrize("left", ["rejected", "cancelled", "timeout", "quit"])
def test_one_who_left_may_be_invited_again(world: World, left: str) -> None:
    """§2 `call.add`: a user who left before may be invited again, and rings anew."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.add(call, carol, timeout=1 if left == "timeout" else 60)
    alice.expect_change(call, carol, "received")
    match left:
        case "rejected":
            carol.reject(call)
        case "cancelled":
            alice.cancel(call, carol)
        case "timeout":
            carol.expect("call.timeout", call)
        case "quit":
            carol.accept(call)
            carol.quit(call)
    assert member(bob.get(call), carol)["state"] == left
    again = bob.add(call, carol, timeout=60)
    entry = member(again["call"], carol)
    assert (entry["state"], entry["invitedBy"], entry.get("reason")) == ("inviting", bob.user, None)
    assert entry["expiresAt"] == again["time"] + 60_000
    carol.expect("call.invited", call, after=again["revision"] - 1)
    alice.expect_change(call, carol, "received", after=again["revision"])
    carol.accept(call)
    assert member(alice.get(call), carol)["state"] == "accepted"


def test_only_accepted_members_may_add(world: World) -> None:
    """§2: others get `invalidState` with their own state."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.add(call, carol)
    alice.expect_change(call, carol, "received")
    guest = World.user("guest")
    assert carol.refused("call.add", "invalidState", callID=call, invitees=[guest])["state"] == "received"
    carol.reject(call)
    assert carol.refused("call.add", "invalidState", callID=call, invitees=[guest])["state"] == "rejected"


def test_a_call_has_at_most_ten_live_members(world: World) -> None:
    """§2 `callFull`: who left does not count."""
    alice = world.phone("alice")
    guests = [World.user(f"guest{number}") for number in range(10)]
    call = alice.invite(*guests[:9], mode="advanced")
    alice.refused("call.add", "callFull", callID=call, invitees=[guests[9]])
    alice.cancel(call, guests[0])
    assert member(alice.add(call, guests[9])["call"], guests[9])["state"] == "inviting"
    alice.refused("call.add", "callFull", callID=call, invitees=[guests[0]])


def test_only_who_invited_may_cancel(world: World) -> None:
    """§2 `call.cancel`: per user `notInviter`; without names all that one has invited oneself."""
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    call = talk(alice, bob)
    alice.add(call, carol)
    bob.add(call, dave)
    bob.expect_state(call, carol, "received")
    bob.expect_state(call, dave, "received")
    alice.refused("call.cancel", "notInviter", callID=call, invitees=[dave.user])
    with dave.silent(0.3, call, "call.cancelled"):
        alice.cancel(call)
    carol.expect("call.cancelled", call)
    response = bob.cancel(call, dave)
    assert member(response["call"], dave)["state"] == "cancelled"
    assert (response["call"]["state"], dave.expect("call.cancelled", call)["actor"]) == ("active", bob.user)


def test_a_mixed_cancel_lists_those_whom_somebody_else_invited(world: World) -> None:
    """§2: `errors` with `notInviter`."""
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    call = talk(alice, bob)
    alice.add(call, carol)
    bob.add(call, dave)
    response = alice.cancel(call, carol, dave)
    assert response["errors"] == [{"userID": dave.user, "code": "notInviter"}]
    assert member(response["call"], carol)["state"] == "cancelled"


# Joining


@pytest.mark.parametrize("before", ["received", "rejected", "cancelled", "timeout", "quit"])
def test_an_invitee_past_or_pending_may_join(world: World, before: str) -> None:
    """§2 `call.join`; the others are told."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.add(call, carol, timeout=1 if before == "timeout" else 60)
    alice.expect_change(call, carol, "received")
    match before:
        case "rejected":
            carol.reject(call)
        case "cancelled":
            alice.cancel(call, carol)
        case "timeout":
            carol.expect("call.timeout", call)
        case "quit":
            carol.accept(call)
            carol.quit(call)
    assert member(bob.get(call), carol)["state"] == before
    revision = alice.get(call)["revision"]
    response = carol.join(call, extendedData="back")
    entry = member(response["call"], carol)
    assert (entry["state"], entry["device"], entry["extendedData"]) == ("accepted", "phone", "back")
    for other in (alice, bob):
        told = other.expect_change(call, carol, "accepted", after=revision)
        assert change_in(told, carol)["extendedData"] == "back"


def test_a_stranger_may_not_join_unless_anyone_may(world: World) -> None:
    """§2: `joinPolicy` `invited` hides the call; `anyone` lets a new member in."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    closed = talk(alice, bob)
    carol.refused("call.join", "callNotFound", callID=closed)
    alice.end(closed)
    call = talk(alice, bob, joinPolicy="anyone")
    response = carol.join(call)
    assert [m["userID"] for m in response["call"]["members"]] == [alice.user, bob.user, carol.user]
    assert member(response["call"], carol)["state"] == "accepted"
    for other in (alice, bob):
        assert other.expect_change(call, carol, "accepted")["actor"] == carol.user
    carol.quit(call)
    assert member(alice.get(call), carol)["state"] == "quit"


def test_a_full_call_cannot_be_joined(world: World) -> None:
    """§2 `callFull` holds for `call.join` as well."""
    alice, bob = world.phones("alice", "bob")
    guests = [World.user(f"guest{number}") for number in range(9)]
    call = alice.invite(*guests, mode="advanced", joinPolicy="anyone")
    bob.refused("call.join", "callFull", callID=call)
    alice.cancel(call, guests[0])
    bob.join(call)


def test_joining_on_another_device_moves_the_call_there(world: World) -> None:
    """§2, §5: hand-over; the old device stops, other members are not told."""
    alice, bob = world.phones("alice", "bob")
    tablet = world.another(bob, "tablet")
    call = talk(alice, bob)
    tablet.expect("call.handledElsewhere", call)
    # An ack of an older revision than the hand-over's would be answered with that one.
    alice.get(call)
    with alice.silent(1.3, call):
        response = tablet.join(call)
        assert (member(response["call"], bob)["state"], member(response["call"], bob)["device"]) == (
            "accepted",
            "tablet",
        )
        bob.expect("call.handledElsewhere", call, after=response["revision"] - 1)
    # The new device is told of the call from now on, the old one is not.
    carol = world.phone("carol")
    with bob.silent(0.5, call):
        alice.add(call, carol)
        tablet.expect_change(call, carol, "received")
    assert member(alice.get(call), bob)["device"] == "tablet"


def test_joining_where_one_is_already_changes_nothing(world: World) -> None:
    """§2: `ok`, same revision."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    before = alice.get(call)
    assert bob.join(call)["call"] == before
    assert alice.join(call)["call"] == before


# Leaving


def test_the_others_go_on_when_one_quits(world: World) -> None:
    """§3: `accepted` → `quit`; the call lives while two are left."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob, carol)
    response = bob.quit(call, extendedData="bye")
    assert (member(response["call"], bob)["state"], response["call"]["state"]) == ("quit", "active")
    for other in (alice, carol):
        told = other.expect_change(call, bob, "quit")
        assert (told["actor"], change_in(told, bob)["extendedData"]) == (bob.user, "bye")
    assert bob.refused("call.quit", "invalidState", callID=call)["state"] == "quit"
    assert bob.refused("call.end", "invalidState", callID=call)["state"] == "quit"


def test_one_who_quit_hears_nothing_more(world: World) -> None:
    """§5: not a live member any more."""
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    call = talk(alice, bob, carol)
    revision = bob.quit(call)["revision"]
    with bob.silent(0.5, call):
        alice.add(call, dave)
        alice.expect_change(call, dave, "received")
        alice.end(call)
        carol.expect("call.ended", call)
    assert revision < alice.get(call)["revision"]


def test_the_last_but_one_to_quit_ends_the_call(world: World) -> None:
    """§3 `autoEnd`: accepted + pending < 2."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    response = bob.quit(call)
    assert (response["call"]["state"], response["call"]["endReason"]) == ("ended", "quit")
    ended = alice.expect("call.ended", call)
    assert (ended["call"]["endReason"], change_in(ended, bob)["state"]) == ("quit", "quit")
    assert member(ended["call"], alice)["state"] == "accepted"


def test_an_inviter_who_quits_takes_its_invitation_along(world: World) -> None:
    """§3 `autoEnd`: nobody is accepted → the call ends, pending members become `cancelled`."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, carol, mode="advanced")
    response = alice.quit(call)
    assert (response["call"]["state"], response["call"]["endReason"]) == ("ended", "quit")
    for invitee in (bob, carol):
        cancelled = invitee.expect("call.cancelled", call)
        assert cancelled["missed"] is True
        assert member(cancelled["call"], invitee)["state"] == "cancelled"


def test_pending_members_keep_a_call_alive(world: World) -> None:
    """§3: accepted + pending counts."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, carol, mode="advanced")
    bob.reject(call)
    assert alice.get(call)["state"] == "ringing"
    carol.accept(call)
    alice.add(call, bob)
    alice.expect_change(call, bob, "received")
    assert carol.quit(call)["call"]["state"] == "active"
    assert bob.reject(call)["call"]["endReason"] == "rejected"


# Ending


def test_any_accepted_member_may_end_the_call_for_all(world: World) -> None:
    """§2 `call.end`, §5 `call.ended` to every live member; user states stay."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.add(call, carol)
    alice.expect_change(call, carol, "received")
    response = bob.end(call, reason="done")
    for message in (response, alice.expect("call.ended", call), carol.expect("call.ended", call)):
        got = message["call"]
        assert (got["state"], got["endReason"], got["endedBy"]) == ("ended", "hangup", bob.user)
        assert got["endedAt"] == response["time"]
        assert [m["state"] for m in got["members"]] == ["accepted", "accepted", "received"]
    assert alice.expect("call.ended", call)["actor"] == bob.user


def test_only_accepted_members_may_end_or_quit(world: World) -> None:
    """§2: a pending member gets `invalidState` with its state."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, carol, mode="advanced")
    for request in ("call.end", "call.quit"):
        assert bob.refused(request, "invalidState", callID=call)["state"] == "received"
    assert alice.get(call)["state"] == "ringing"


def test_an_ended_call_refuses_everything_but_get(world: World) -> None:
    """§2 `callEnded`."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.add(call, carol)
    alice.expect_change(call, carol, "received")
    before = alice.end(call)["call"]
    alice.refused("call.add", "callEnded", callID=call, invitees=[World.user("guest")])
    for request in ("call.quit", "call.end", "call.join", "call.accept", "call.reject"):
        bob.refused(request, "callEnded", callID=call)
    assert carol.refused("call.accept", "callEnded", callID=call)["state"] == "received"
    carol.refused("call.join", "callEnded", callID=call)
    alice.refused("call.cancel", "callEnded", callID=call)
    assert alice.get(call) == bob.get(call) == carol.get(call) == before


def test_the_inviter_may_end_while_it_rings(world: World) -> None:
    """§2: the inviter is an accepted member."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    alice.end(call)
    ended = bob.expect("call.ended", call)
    assert (ended["call"]["endReason"], member(ended["call"], bob)["state"]) == ("hangup", "received")


# One live call per user


def test_one_is_accepted_in_one_advanced_call_at_a_time(world: World) -> None:
    """§3, §2 `alreadyInCall` with the callID of one's own live call."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob)
    refused = bob.refused("call.invite", "alreadyInCall", invitees=[carol.user], mode="advanced")
    assert refused["callID"] == call
    second = ring(carol, bob, mode="advanced")
    assert bob.refused("call.accept", "alreadyInCall", callID=second)["callID"] == call
    assert bob.refused("call.join", "alreadyInCall", callID=second)["callID"] == call
    assert member(carol.get(second), bob)["state"] == "received"
    bob.quit(call)
    bob.accept(second)
    assert carol.expect_change(second, bob, "accepted")["call"]["state"] == "active"


def test_a_caller_of_an_advanced_call_is_in_it_while_it_rings(world: World) -> None:
    """§3: the inviter is accepted from the start, until the call ends."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = alice.invite(bob, mode="advanced")
    assert alice.refused("call.invite", "alreadyInCall", invitees=[carol.user])["callID"] == call
    alice.cancel(call)
    second = alice.invite(carol, mode="advanced")
    carol.expect("call.invited", second)


# autoEnd: false


def test_without_auto_end_the_call_stays_until_it_is_ended(world: World) -> None:
    """§3: `autoEnd: false`."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob, autoEnd=False)
    assert bob.quit(call)["call"]["state"] == "active"
    assert alice.expect_change(call, bob, "quit").event == "call.userStateChanged"
    bob.join(call)
    alice.expect_change(call, bob, "accepted", after=alice.get(call)["revision"] - 1)
    alice.end(call)
    assert bob.expect("call.ended", call)["call"]["endReason"] == "hangup"


def test_without_auto_end_an_unanswered_call_stays(world: World) -> None:
    """§3: all invitees rejected, the inviter is alone and may add others."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, mode="advanced", autoEnd=False)
    bob.reject(call)
    assert alice.get(call)["state"] == "ringing"
    alice.add(call, carol)
    carol.expect("call.invited", call)
    assert carol.accept(call)["call"]["state"] == "active"


@pytest.mark.alone
def test_an_empty_call_ends_after_its_time(quick: World) -> None:
    """§3: until nobody is live for 60 s, here 1 s."""
    alice, bob = quick.phones("alice", "bob")
    call = talk(alice, bob, autoEnd=False)
    bob.quit(call)
    empty_since = alice.quit(call)
    assert empty_since["call"]["state"] != "ended"
    ended = wait_until(lambda: _ended(alice, call), 3, "the empty call ends", every=0.05)
    assert ended["endReason"] == "quit"
    assert 1000 <= ended["endedAt"] - empty_since["time"] <= 1050


def test_a_join_in_time_keeps_an_empty_call(quick: World) -> None:
    """§3: the clock counts only while nobody is live."""
    alice, bob = quick.phones("alice", "bob")
    call = talk(alice, bob, autoEnd=False)
    bob.quit(call)
    due = alice.quit(call)["time"] + 1000
    bob.join(call)
    wait_until(lambda: now_ms() > due + 300, 5, "the time is over")
    assert alice.get(call)["state"] == "active"


def _ended(device: Device, call: str) -> dict | None:
    got = device.get(call)
    return got if got["state"] == "ended" else None
