"""Busy invitees, and two people who call each other (§3, Busy and Glare)."""

from __future__ import annotations

from harness import World, call_id, member, ring, talk

# Busy


def assert_busy(world: World, caller_name: str, busy_user: str) -> None:
    """An invite with `ifBusy: reject` ends at once as busy."""
    caller = world.phone(caller_name)
    response = caller.ok("call.invite", invitees=[busy_user], ifBusy="reject")
    call = response["call"]
    assert (call["state"], call["endReason"]) == ("ended", "busy")
    assert (member(call, busy_user)["state"], member(call, busy_user)["reason"]) == ("rejected", "busy")


def test_one_who_is_being_called_is_busy_and_does_not_ring(world: World) -> None:
    """§3: rejected at once, reason `busy`; the invitee hears nothing of it."""
    alice, bob = world.phones("alice", "bob")
    ring(alice, bob)
    with bob.silent(0.6):
        assert_busy(world, "carol", bob.user)


def test_one_who_is_calling_is_busy(world: World) -> None:
    """§3."""
    alice, bob = world.phones("alice", "bob")
    ring(alice, bob)
    with alice.silent(0.3):
        assert_busy(world, "carol", alice.user)


def test_one_in_an_advanced_call_is_busy(world: World) -> None:
    """§3: after the answer the service knows advanced calls."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    for user in (alice.user, bob.user):
        assert_busy(world, "carol", user)
    alice.end(call)
    carol = world.phone("carol")
    carol.invite(bob, ifBusy="reject")
    bob.expect("call.invited")


def test_one_whose_common_call_was_answered_is_not_busy(world: World) -> None:
    """§3: common calls end with the answer."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob)
    bob.accept(call)
    second = ring(carol, bob, ifBusy="reject")
    assert carol.get(second)["state"] == "ringing"


def test_one_who_did_not_answer_is_free_again(world: World) -> None:
    """§3: rejected, cancelled and expired invitations keep nobody busy."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    bob.reject(ring(alice, bob))
    alice.cancel(ring(alice, bob))
    expired = ring(alice, bob, timeout=1)
    alice.expect_change(expired, bob, "timeout")
    for caller, callee in ((carol, bob), (bob, alice)):
        call = ring(caller, callee, ifBusy="reject")
        caller.cancel(call)


def test_only_the_busy_ones_of_a_group_are_rejected(world: World) -> None:
    """§3: the others ring."""
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    ring(alice, bob)
    with bob.silent(0.3):
        response = dave.ok("call.invite", invitees=[bob.user, carol.user], ifBusy="reject")
        call = response["callID"]
        assert [m["state"] for m in response["call"]["members"]] == ["accepted", "rejected", "inviting"]
        carol.expect("call.invited", call)
    carol.accept(call)
    assert dave.expect_change(call, carol, "accepted")["call"]["endReason"] == "answered"


def test_busy_ones_ring_by_default(world: World) -> None:
    """§2: `ifBusy` is `ring` by default: call waiting."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    first = talk(alice, bob)
    second = ring(carol, bob)
    assert bob.get(second)["state"] == "ringing"
    bob.reject(second, reason="busy")
    assert carol.expect_change(second, bob, "rejected")["call"]["endReason"] == "busy"
    assert alice.get(first)["state"] == "active"


# Glare


def test_calling_back_while_it_rings_becomes_the_answer(world: World) -> None:
    """§3: with `glare: merge` the invite becomes the accept of the other's invitation."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    with alice.silent(0.4, event="call.invited"):
        response = bob.ok("call.invite", invitees=[alice.user], callID=call_id(), glare="merge")
    assert (response["callID"], response["merged"]) == (call, True)
    assert (response["call"]["state"], response["call"]["endReason"]) == ("ended", "answered")
    assert member(response["call"], bob)["device"] == "phone"
    assert alice.expect_change(call, bob, "accepted")["actor"] == bob.user


def test_glare_in_advanced_mode_leaves_one_active_call(world: World) -> None:
    """§3."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    response = bob.ok("call.invite", invitees=[alice.user], mode="advanced", glare="merge")
    assert (response["callID"], response["merged"], response["call"]["state"]) == (call, True, "active")
    alice.expect_change(call, bob, "accepted")
    assert alice.refused("call.invite", "alreadyInCall", invitees=[World.user("carol")])["callID"] == call


def test_the_callers_other_devices_stop_when_it_is_merged(world: World) -> None:
    """§5: the merge is an accept on this device."""
    alice, bob = world.phones("alice", "bob")
    tablet = world.another(bob, "tablet")
    call = ring(alice, bob)
    bob.ok("call.invite", invitees=[alice.user], glare="merge")
    assert member(tablet.expect("call.handledElsewhere", call)["call"], bob)["device"] == "phone"


def test_without_the_flag_both_calls_ring(world: World) -> None:
    """§2: `glare` is `ring` by default; §3: the later request's flag decides."""
    alice, bob = world.phones("alice", "bob")
    first = ring(alice, bob, glare="merge")
    response = bob.ok("call.invite", invitees=[alice.user])
    assert response["callID"] != first and not response.get("merged")
    alice.expect("call.invited", response["callID"])
    assert [alice.get(c)["state"] for c in (first, response["callID"])] == ["ringing", "ringing"]


def test_only_invitations_of_one_another_alone_are_merged(world: World) -> None:
    """§3: A inviting B alone while B's invitation of A alone is pending."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    group = ring(alice, bob, carol)
    response = bob.ok("call.invite", invitees=[alice.user], glare="merge")
    assert response["callID"] != group and not response.get("merged")
    alice.cancel(group)
    bob.cancel(response["callID"])
    single = ring(alice, bob)
    wide = bob.ok("call.invite", invitees=[alice.user, carol.user], glare="merge")
    assert wide["callID"] != single and not wide.get("merged")


def test_an_invitation_that_is_over_is_not_merged_with(world: World) -> None:
    """§3: only while it is pending."""
    alice, bob = world.phones("alice", "bob")
    first = ring(alice, bob)
    alice.cancel(first)
    response = bob.ok("call.invite", invitees=[alice.user], glare="merge")
    assert response["callID"] != first and not response.get("merged")
    alice.expect("call.invited", response["callID"])


def test_a_resent_invite_finds_the_merged_call(world: World) -> None:
    """§2: the inviter's own `callID` is an alias of the merged call."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    fields = {"id": "glare", "callID": call_id(), "invitees": [alice.user], "glare": "merge"}
    first = bob.ok("call.invite", **fields)
    again = bob.ok("call.invite", **fields)
    assert (again["callID"], again["merged"], again["call"]) == (call, True, first["call"])


def test_a_resent_invite_without_a_call_id_finds_the_merged_call(world: World) -> None:
    """§2: the derived `callID` is an alias as well."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    fields = {"id": "glare", "invitees": [alice.user], "mode": "advanced", "glare": "merge"}
    for _ in range(2):
        response = bob.ok("call.invite", **fields)
        assert (response["callID"], response["merged"]) == (call, True)
    with alice.silent(0.3, event="call.invited"):
        assert alice.get(call)["state"] == "active"


def test_a_cancel_of_the_own_call_id_ends_the_merged_call(world: World) -> None:
    """§2: one who hangs up before the response came knows only its own `callID`."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    own = call_id()
    bob.ok("call.invite", callID=own, invitees=[alice.user], mode="advanced", glare="merge")
    assert bob.cancel(own)["callID"] == call
    assert alice.expect("call.ended", call)["call"]["endedBy"] == bob.user
    assert alice.get(call)["state"] == "ended"
