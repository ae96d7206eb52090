"""Two people, common mode: every outcome, and what each side is told (§2–§5)."""

from __future__ import annotations

import re
import statistics
import time

import pytest

from harness import World, call_id, change_in, member, needs_full_speed, now_ms, ring


def test_an_invite_is_answered_with_the_new_call(world: World) -> None:
    """§2, §4: the response carries callID, revision, time, offline and the call."""
    alice, bob = world.phones("alice", "bob")
    before = now_ms()
    response = alice.ok("call.invite", invitees=[bob.user], media="video", extendedData="x")
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", response["callID"])
    assert response["revision"] == 1
    assert before - 2 <= response["time"] <= now_ms() + 2
    assert response["offline"] == []
    assert not response.get("errors")
    call = response["call"]
    assert (call["mode"], call["state"], call["inviter"]) == ("common", "ringing", alice.user)
    assert (call["media"], call["timeout"], call["extendedData"]) == ("video", 60, "x")
    assert call["createdAt"] == response["time"]
    for absent in ("acceptedAt", "endedAt", "endReason", "endedBy"):
        assert call.get(absent) is None
    assert [entry["userID"] for entry in call["members"]] == [alice.user, bob.user]
    inviter, invitee = call["members"]
    assert (inviter["state"], inviter["device"], inviter.get("invitedBy")) == ("accepted", "phone", None)
    assert (invitee["state"], invitee["invitedBy"]) == ("inviting", alice.user)
    assert invitee["expiresAt"] == call["createdAt"] + 60_000


def test_the_invitee_rings_with_what_the_caller_said(world: World) -> None:
    """§5: `call.invited` reaches all devices of the invitee, with the time left and the caller's data."""
    alice, bob = world.phones("alice", "bob")
    call = alice.invite(bob, timeout=30, media="voice", extendedData='{"room":"17"} ü😀')
    invited = bob.expect("call.invited", call)
    assert invited.topic == bob.user_topic
    assert invited["actor"] == alice.user
    assert 29_000 < invited["expiresIn"] <= 30_000
    assert (invited["call"]["media"], invited["call"]["extendedData"]) == ("voice", '{"room":"17"} ü😀')
    assert member(invited["call"], bob)["expiresAt"] == invited["call"]["createdAt"] + 30_000
    assert now_ms() - invited["time"] < 2000


def test_the_ack_of_the_invitation_makes_the_invitee_received(world: World) -> None:
    """§3: `received` means that some device of the invitee acked; the inviter is told."""
    alice, bob = world.phones("alice", "bob")
    call = alice.invite(bob)
    told = alice.expect("call.userStateChanged", call)
    assert [(c["userID"], c["state"]) for c in told["changes"]] == [(bob.user, "received")]
    assert told["revision"] == 2
    assert told["call"]["state"] == "ringing"


def test_an_accepted_call_ends_as_answered(world: World) -> None:
    """§3: a common call ends when nobody is pending, as answered if anybody accepted."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    response = bob.accept(call, extendedData="hello")
    assert response["revision"] == 3
    for state in (response["call"], alice.expect_change(call, bob, "accepted")["call"]):
        assert (state["state"], state["endReason"]) == ("ended", "answered")
        assert state["acceptedAt"] == state["endedAt"] == response["time"]
        assert (member(state, bob)["state"], member(state, bob)["device"]) == ("accepted", "phone")
        assert member(state, alice)["state"] == "accepted"
    told = alice.expect_change(call, bob, "accepted")
    assert told.event == "call.userStateChanged"
    assert (told["actor"], told["revision"]) == (bob.user, 3)
    change = change_in(told, bob)
    assert (change["device"], change["extendedData"]) == ("phone", "hello")


@pytest.mark.parametrize(
    ("given", "reason", "end_reason"),
    [
        (None, "declined", "rejected"),
        ("declined", "declined", "rejected"),
        ("busy", "busy", "busy"),
        ("in a meeting — später", "in a meeting — später", "rejected"),
    ],
)
def test_a_rejected_call_ends_with_its_reason(world: World, given: str | None, reason: str, end_reason: str) -> None:
    """§2: the reason of a reject is `declined`, `busy` or any text; §3: the call ends as `rejected` or `busy`."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    response = bob.reject(call, reason=given, extendedData="later")
    assert (response["call"]["state"], response["call"]["endReason"]) == ("ended", end_reason)
    told = alice.expect_change(call, bob, "rejected")
    assert told["call"]["endReason"] == end_reason
    change = change_in(told, bob)
    assert (change["reason"], change["extendedData"]) == (reason, "later")
    assert member(told["call"], bob)["reason"] == reason


def test_a_cancelled_invitee_is_told_and_has_missed_the_call(world: World) -> None:
    """§5: `call.cancelled`, with `missed` as the user never responded."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    response = alice.cancel(call, extendedData="sorry")
    assert (response["call"]["state"], response["call"]["endReason"]) == ("ended", "cancelled")
    assert member(response["call"], bob)["state"] == "cancelled"
    cancelled = bob.expect("call.cancelled", call)
    assert cancelled["missed"] is True
    assert cancelled["actor"] == alice.user
    assert cancelled["call"]["endReason"] == "cancelled"
    carried = [change_in(cancelled, bob), member(cancelled["call"], bob)]
    assert any(entry.get("extendedData") == "sorry" for entry in carried)


def test_an_invitation_that_expires_times_out_on_both_sides(world: World) -> None:
    """§3, §5: `timeout` for the invitee, who has missed it; the inviter is told; a timer has no actor."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, timeout=1)
    timeout = bob.expect("call.timeout", call)
    assert timeout["missed"] is True
    assert timeout.body.get("actor") is None
    assert (timeout["call"]["state"], timeout["call"]["endReason"]) == ("ended", "timeout")
    told = alice.expect_change(call, bob, "timeout")
    assert told.event == "call.userStateChanged"
    assert told["call"]["endReason"] == "timeout"
    error = bob.refused("call.accept", "callEnded", callID=call)
    assert error["state"] == "timeout"
    assert alice.refused("call.cancel", "invalidState", callID=call)["state"] == "timeout"


def test_nobody_gets_call_ended_in_common_mode(world: World) -> None:
    """§5: `call.ended` is of advanced calls; members of a common call learn its end from the last change."""
    alice, bob = world.phones("alice", "bob")
    for outcome in (bob.accept, bob.reject, alice.cancel):
        outcome(ring(alice, bob))
    alice.expect_silence(0.3, event="call.ended", since=0)
    bob.expect_silence(0, event="call.ended", since=0)


def test_one_who_rejected_hears_nothing_more(world: World) -> None:
    """§5: a state change goes to live members; the acting device has its response."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    with bob.silent(1.3, call):
        bob.reject(call)


def test_a_late_accept_or_reject_is_told_what_won(world: World) -> None:
    """§3: any move that is not open is refused, here with `callEnded` and the member's own state."""
    alice, bob = world.phones("alice", "bob")
    cancelled = ring(alice, bob)
    alice.cancel(cancelled)
    for request in ("call.accept", "call.reject"):
        assert bob.refused(request, "callEnded", callID=cancelled)["state"] == "cancelled"
    accepted = ring(alice, bob)
    bob.accept(accepted)
    for request in ("call.accept", "call.reject"):
        assert bob.refused(request, "callEnded", callID=accepted)["state"] == "accepted"
    rejected = ring(alice, bob)
    bob.reject(rejected)
    assert bob.refused("call.accept", "callEnded", callID=rejected)["state"] == "rejected"


def test_a_late_cancel_is_told_what_won(world: World) -> None:
    """§2: nobody pending → `invalidState`, with the state that stands in the way."""
    alice, bob = world.phones("alice", "bob")
    for answer, state in ((bob.accept, "accepted"), (bob.reject, "rejected")):
        call = ring(alice, bob)
        answer(call)
        assert alice.refused("call.cancel", "invalidState", callID=call)["state"] == state
        assert alice.refused("call.cancel", "invalidState", callID=call, invitees=[bob.user])["state"] == state
        assert member(alice.get(call), bob)["state"] == state


def test_only_the_inviter_may_cancel(world: World) -> None:
    """§2: `call.cancel` is for who invited them."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    bob.refused("call.cancel", "notInviter", callID=call)
    assert member(alice.get(call), bob)["state"] == "received"


def test_the_inviter_cannot_accept_or_reject_its_own_call(world: World) -> None:
    """§2: those are for a pending member; the inviter is accepted."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    for request in ("call.accept", "call.reject"):
        assert alice.refused(request, "invalidState", callID=call)["state"] == "accepted"
    assert alice.get(call)["state"] == "ringing"


@pytest.mark.parametrize(
    "request_type",
    ["call.accept", "call.reject", "call.cancel", "call.get", "call.add", "call.join", "call.quit", "call.end"],
)
def test_a_stranger_cannot_tell_a_call_from_none(world: World, request_type: str) -> None:
    """§2: `callNotFound` for no such call and for one that this user was never invited to, in the same words."""
    alice, bob, mallory = world.phones("alice", "bob", "mallory")
    call = ring(alice, bob)
    before = alice.get(call)
    fields = {"invitees": [World.user("carol")]} if request_type == "call.add" else {}
    existing = mallory.refused(request_type, "callNotFound", callID=call, **fields)
    nothing = call_id()
    missing = mallory.refused(request_type, "callNotFound", callID=nothing, **fields)
    assert existing["message"].replace(call, "") == missing["message"].replace(nothing, "")
    assert existing.keys() == missing.keys()
    assert alice.get(call) == before


@pytest.mark.parametrize("request_type", ["call.add", "call.join", "call.quit", "call.end"])
def test_what_only_advanced_calls_have_is_the_wrong_mode_here(world: World, request_type: str) -> None:
    """§2: add, join, quit and end are of advanced mode, for the inviter and for the invitee."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    fields = {"invitees": [World.user("carol")]} if request_type == "call.add" else {}
    for device in (alice, bob):
        device.refused(request_type, "wrongMode", callID=call, **fields)
    assert alice.get(call)["revision"] == 2


def test_a_call_can_be_fetched_by_its_members_past_and_present(world: World) -> None:
    """§2: `call.get`; a response names its call, revision and time at the top as well."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    assert alice.get(call) == bob.get(call)
    rejected = bob.reject(call)
    for device in (alice, bob):
        response = device.ok("call.get", callID=call)
        assert response["call"] == rejected["call"]
        assert (response["callID"], response["revision"], response["time"]) == (call, 3, rejected["time"])


def test_the_two_can_call_each_other_again_at_once(world: World) -> None:
    """§3: a response or cancel touches the call that it names alone."""
    alice, bob = world.phones("alice", "bob")
    first = ring(alice, bob)
    alice.cancel(first)
    second = ring(alice, bob)
    alice.refused("call.cancel", "invalidState", callID=first)
    bob.refused("call.accept", "callEnded", callID=first)
    assert alice.get(second)["state"] == "ringing"
    third = ring(bob, alice)
    bob.accept(second)
    assert alice.get(third)["state"] == "ringing"


@pytest.mark.alone
@needs_full_speed
def test_an_invitation_arrives_without_delay(world: World) -> None:
    """Unloaded, from the caller's publish to the callee. The benchmark holds the service to 2 ms; with two Python
    clients in between this one only catches what waits for something: Nagle, a polling interval, a batch."""
    bob, *callers = world.phones("bob", "alice", "carol", "dave")
    taken = []
    for number in range(50):
        # One user invites another twenty times at once and no more.
        alice = callers[number % 3]
        started = time.monotonic()
        call = alice.invite(bob)
        taken.append(bob.expect("call.invited", call).at - started)
        alice.cancel(call)
    assert statistics.median(taken) < 0.01, sorted(taken)


def test_requests_at_qos_0_work_alike(world: World) -> None:
    """§1: QoS 0 or 1."""
    alice, bob = world.phones("alice", "bob", qos=0)
    call = ring(alice, bob)
    bob.accept(call)
    assert alice.expect_change(call, bob, "accepted")["call"]["endReason"] == "answered"


def test_unknown_fields_are_ignored_and_null_is_absent(world: World) -> None:
    """§1: unknown fields are ignored; null stands for a field that was left out."""
    alice, bob = world.phones("alice", "bob")
    known = alice.ok("call.invite", invitees=[bob.user], colour="red", nested={"a": [1]}, timeout=60.0)
    assert known["call"]["timeout"] == 60
    bob.expect("call.invited", known["callID"])
    mark = bob.mark
    alice.send(
        b'{"type":"call.invite","id":"nulls","invitees":["%s"],"mode":null,"timeout":null,"media":null,"callID":null,'
        b'"extendedData":null,"notReceivedCheck":null,"push":null}' % bob.user.encode()
    )
    invited = bob.expect("call.invited", since=mark)
    assert (invited["call"]["mode"], invited["call"]["timeout"]) == ("common", 60)
    assert invited["call"].get("media") is None


def test_identity_comes_from_the_topic_never_from_the_payload(world: World) -> None:
    """§1: naming somebody else in the payload changes nothing."""
    alice, bob, mallory = world.phones("alice", "bob", "mallory")
    call = ring(alice, bob)
    disguise = {"userID": bob.user, "from": bob.user, "user": bob.user, "device": "phone"}
    mallory.refused("call.accept", "callNotFound", callID=call, **disguise)
    other = mallory.ok("call.invite", invitees=[bob.user], inviter=alice.user, **disguise)["call"]
    assert other["inviter"] == mallory.user
    assert member(alice.get(call), bob)["state"] == "received"
