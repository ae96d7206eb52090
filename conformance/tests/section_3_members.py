"""Section 3: the states of members and calls, and how calls end."""

from __future__ import annotations

from ..client import Device
from ..expect import between, change, equal, fields, member, states, true
from ..scene import Scene
from ..suite import sentence
from .steps import new_id, ring, talk

LATE_MS = 2000
"""How late a timer may be, in milliseconds: the protocol names no bound, and a slow machine is not an error."""

# Members


@sentence("3", "received: some device of the invitee acked the invitation.")
def an_ack_of_some_device_makes_the_invitee_received(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    tablet = scene.another(bob, "tablet", auto_ack=False)
    call = alice.invite(bob)
    revision = tablet.expect("call.invited", call)["revision"]
    equal("bob before any ack", member(alice.get(call), bob)["state"], "inviting")
    tablet.ack(call, revision)
    told = alice.expect_change(call, bob, "received")
    equal("bob and the call", (member(told["call"], bob)["state"], told["call"]["state"]), ("received", "ringing"))


@sentence(
    "3",
    "notYetReceived: with notReceivedCheck, no device acked within notReceivedAfter (5 s) of the invitation",
    waits=lambda t: t.not_received_after + 0.2,
)
def an_invitee_whom_nobody_acked_for_is_not_yet_received(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    away = scene.absent("away")
    response = alice.ok("call.invite", invitees=[bob.user, away], notReceivedCheck=True)
    call, after = response["callID"], scene.timings.not_received_after
    alice.expect_change(call, bob, "received")
    told = alice.expect_change(call, away, "notYetReceived", seconds=after + 3)
    between("milliseconds after the invitation", told["time"] - response["time"], after * 1000, after * 1000 + LATE_MS)
    equal("the states", states(told["call"]), ["accepted", "received", "notYetReceived"])


@sentence("3", "An ack before the invitation expires moves it on to received.", waits=1)
def a_late_ack_moves_not_yet_received_to_received(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    call = alice.invite(bob, notReceivedCheck=True, notReceivedAfter=1)
    told = alice.expect_change(call, bob, "notYetReceived")
    bob.ack(call, bob.expect("call.invited", call)["revision"])
    alice.expect_change(call, bob, "received", after=told["revision"])


@sentence("3", "timeout: still pending when the invitation expired.", waits=3)
def one_who_is_pending_when_the_invitation_expires_times_out(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob, timeout=3)
    told = alice.expect_change(call, bob, "timeout")
    fields("the call", told["call"], state="ended", endReason="timeout")
    equal("the state for a late cancel", alice.refused("call.cancel", "invalidState", callID=call)["state"], "timeout")
    late = told["time"] - member(told["call"], bob)["expiresAt"]
    between("milliseconds after the expiry", late, 0, LATE_MS)
    bob.expect("call.timeout", call)


@sentence("3", "Expiry is fixed when the user is invited.", waits=4)
def expiry_is_fixed_when_the_user_is_invited(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    first = alice.ok("call.invite", invitees=[bob.user], mode="advanced", timeout=4, autoEnd=False)
    call, expires = first["callID"], member(first["call"], bob)["expiresAt"]
    carol = scene.absent("carol")
    bob.ack(call, first["revision"])
    alice.expect_change(call, bob, "received")
    added = alice.add(call, carol, timeout=60)
    equal("bob's expiry after an ack and an add", member(alice.get(call), bob)["expiresAt"], expires)
    equal("carol's", member(added["call"], carol)["expiresAt"], added["time"] + 60_000)
    told = alice.expect_change(call, bob, "timeout")
    between("milliseconds after the expiry", told["time"] - expires, 0, LATE_MS)
    equal("carol's state", member(told["call"], carol)["state"], "inviting")


@sentence("3", "A pending member may accept or reject from any pending state.", waits=1)
def a_pending_member_may_answer_from_any_pending_state(scene: Scene) -> None:
    alice = scene.device("alice")
    for answer, state in (("call.accept", "accepted"), ("call.reject", "rejected")):
        inviting, late = (scene.device(name, auto_ack=False) for name in ("inviting", "late"))
        received = scene.device("received")
        call = alice.invite(inviting, late, received, notReceivedCheck=True, notReceivedAfter=1)
        inviting_state = member(inviting.expect("call.invited", call)["call"], inviting)["state"]
        equal("the first invitee's state", inviting_state, "inviting")
        equal("after the answer", member(inviting.ok(answer, callID=call)["call"], inviting)["state"], state)
        alice.expect_change(call, received, "received")
        alice.expect_change(call, late, "notYetReceived")
        for device in (late, received):
            equal("after the answer", member(device.ok(answer, callID=call)["call"], device)["state"], state)


@sentence("3", "Any other move is refused with invalidState, answeredElsewhere or callEnded.")
def any_other_move_is_refused(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    tablet = scene.another(bob, "tablet")
    call = talk(alice, bob, carol)
    before = alice.get(call)
    bob.refused("call.reject", "invalidState", callID=call)
    tablet.refused("call.reject", "answeredElsewhere", callID=call)
    alice.refused("call.cancel", "invalidState", callID=call)
    equal("the call", alice.get(call), before)
    alice.end(call)
    carol.refused("call.reject", "callEnded", callID=call)


# Calls


@sentence("3", "Call: ringing (nobody but the inviter accepted) → active → ended")
def a_call_is_ringing_then_active_then_ended(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    seen = []
    call = ring(alice, bob, carol, mode="advanced")
    seen.append(alice.get(call)["state"])
    carol.reject(call)
    seen.append(alice.get(call)["state"])
    seen.append(bob.accept(call)["call"]["state"])
    seen.append(bob.end(call)["call"]["state"])
    equal("the call's states", seen, ["ringing", "ringing", "active", "ended"])


@sentence(
    "3", "common: ends when no member is pending: answered if any invitee accepted, else the last cause.", waits=6
)
def a_common_call_ends_when_nobody_is_pending(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    bob.accept(call)
    fields("with a pending invitation", alice.get(call), state="active", endReason=None)
    fields("answered by an invitee", carol.reject(call)["call"], state="ended", endReason="answered")
    call = ring(alice, bob, carol)
    bob.accept(call)
    fields("one answered, the other cancelled", alice.cancel(call)["call"], state="ended", endReason="answered")
    call = ring(alice, bob, carol, timeout=3)
    bob.accept(call)
    told = alice.expect_change(call, carol, "timeout")
    fields("one answered, the other timed out", told["call"], state="ended", endReason="answered")
    call = ring(alice, bob, carol)
    bob.reject(call)
    fields("rejected last", carol.reject(call)["call"], state="ended", endReason="rejected")
    call = ring(alice, bob, carol)
    carol.reject(call)
    fields("rejected as busy last", bob.reject(call, reason="busy")["call"], state="ended", endReason="busy")
    call = ring(alice, bob, carol)
    bob.reject(call)
    fields("cancelled last", alice.cancel(call)["call"], state="ended", endReason="cancelled")
    call = ring(alice, bob, carol, timeout=3)
    bob.reject(call)
    fields("timed out last", alice.expect_change(call, carol, "timeout")["call"], state="ended", endReason="timeout")


@sentence("3", "advanced: ends on call.end (hangup, endedBy)")
def an_advanced_call_ends_on_call_end(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    for device in (alice, bob):
        call = talk(alice, bob)
        ended = device.end(call)
        expected = {"state": "ended", "endReason": "hangup", "endedBy": device.user, "endedAt": ended["time"]}
        fields("the call", ended["call"], **expected)
        for other in {alice, bob} - {device}:
            fields("the call in the other member's event", other.expect("call.ended", call)["call"], **expected)


@sentence(
    "3",
    "and, with autoEnd, as soon as nobody is accepted or accepted + pending < 2 (the last cause is the reason; pending"
    " members become cancelled)",
    waits=3,
)
def an_advanced_call_ends_by_itself(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.add(call, carol)
    equal("with an accepted and a pending member", bob.quit(call)["call"]["state"], "active")
    fields("after the pending member's rejection", carol.reject(call)["call"], state="ended", endReason="rejected")
    call = talk(alice, bob)
    fields("after a quit", bob.quit(call)["call"], state="ended", endReason="quit", endedBy=None)
    call = ring(alice, bob, mode="advanced")
    fields("after the rejection", bob.reject(call)["call"], state="ended", endReason="rejected")
    call = ring(alice, bob, mode="advanced")
    fields("after a rejection as busy", bob.reject(call, reason="busy")["call"], state="ended", endReason="busy")
    call = ring(alice, bob, mode="advanced")
    fields("after the cancel", alice.cancel(call)["call"], state="ended", endReason="cancelled")
    call = ring(alice, bob, mode="advanced", timeout=3)
    fields("after the timeout", bob.expect("call.timeout", call)["call"], state="ended", endReason="timeout")


@sentence("3", "as soon as nobody is accepted … pending members become cancelled")
def pending_members_are_cancelled_when_nobody_is_accepted(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol, mode="advanced")
    ended = alice.quit(call)["call"]
    fields("the call", ended, state="ended", endReason="quit")
    equal("the states", states(ended), ["quit", "cancelled", "cancelled"])
    for device in (bob, carol):
        device.expect("call.cancelled", call)


@sentence("3", "With autoEnd: false it stays until call.end")
def a_call_without_auto_end_stays(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob, autoEnd=False)
    equal("after bob's quit", bob.quit(call)["call"]["state"], "active")
    alice.quit(call)
    equal("after alice's quit", alice.get(call)["state"], "active")
    bob.join(call)
    equal("after call.end", bob.end(call)["call"]["state"], "ended")
    call = ring(alice, bob, mode="advanced", autoEnd=False)
    bob.reject(call)
    equal("with the inviter alone", alice.get(call)["state"], "ringing")
    carol = scene.device("carol")
    alice.add(call, carol)
    equal("after the answer of an added user", carol.accept(call)["call"]["state"], "active")


@sentence("3", "or until nobody is live for 60 s", waits=lambda t: t.empty_call_timeout + 1)
def a_call_without_auto_end_ends_when_nobody_is_live_for_its_time(scene: Scene) -> None:
    alice, bob, carol, dave = scene.devices("alice", "bob", "carol", "dave")
    kept = talk(carol, dave, autoEnd=False)
    dave.quit(kept)
    carol.quit(kept)
    dave.join(kept)
    call = talk(alice, bob, autoEnd=False)
    bob.quit(call)
    left = alice.quit(call)["time"]
    empty = scene.timings.empty_call_timeout
    alice.heard_nothing("end before the time", lambda m: m.is_event("call.ended", call), 0, empty - 1)
    equal("the call before the time", alice.get(call)["state"], "active")
    dave.send({"type": "call.heartbeat", "callID": kept})
    alice.heard_nothing("event", lambda m: m.is_event("call.invited"), alice.mark, 2)
    ended = alice.get(call)
    fields("the call after that time", ended, state="ended", endReason="quit")
    equal("a call that a user joined in time", dave.get(kept)["state"], "active")
    between("milliseconds until the end", ended["endedAt"] - left, empty * 1000, empty * 1000 + LATE_MS)


# Caller lost


@sentence(
    "3 Caller lost",
    "while nobody has accepted, the inviting device going offline cancels the invitation: at once on logout",
)
def a_logout_of_the_inviting_device_cancels_at_once(scene: Scene) -> None:
    for mode in ("common", "advanced"):
        alice, bob = scene.devices("alice", "bob")
        call = ring(alice, bob, mode=mode)
        alice.logout()
        fields("the call", bob.expect("call.cancelled", call)["call"], state="ended", endReason="callerLost")


@sentence(
    "3 Caller lost",
    "after a grace of 10 s (configurable) without coming back on lost.",
    waits=lambda t: t.caller_grace + 0.5,
)
def a_lost_inviting_device_cancels_after_the_grace(scene: Scene) -> None:
    alice, bob, carol, dave, erin = scene.devices("alice", "bob", "carol", "dave", "erin")
    call, answered = ring(alice, bob), ring(carol, dave, erin, mode="advanced")
    grace = scene.timings.caller_grace
    carol.drop()
    dave.accept(answered)
    alice.drop()
    bob.heard_nothing("end within the grace", lambda m: m.is_event("call.cancelled"), 0, grace * 0.8)
    fields("the call", bob.expect("call.cancelled", call, seconds=grace * 0.2 + 3)["call"], endReason="callerLost")
    equal("a call that was answered within the grace", _call_and_member(dave, answered, erin), ("active", "received"))


@sentence("3 Caller lost", "without coming back on lost", waits=lambda t: t.caller_grace + 2)
def a_caller_who_comes_back_within_the_grace_goes_on(scene: Scene) -> None:
    alice, bob, carol, dave = scene.devices("alice", "bob", "carol", "dave")
    carol.drop()
    call = ring(alice, bob, timeout=60)
    alice.drop()
    bob.heard_nothing(
        "end at once", lambda m: m.is_event("call.cancelled"), 0, min(1.0, scene.timings.caller_grace / 3)
    )
    alice.connect()
    carol.connect()
    begun = ring(carol, dave, timeout=60)
    seconds = scene.timings.caller_grace + 2
    bob.heard_nothing("end after the return", lambda m: m.is_event("call.cancelled"), 0, seconds)
    equal("a call that was begun after the return", dave.get(begun)["state"], "ringing")
    bob.accept(call)
    alice.expect_change(call, bob, "accepted")


@sentence("3 Caller lost", "Members become cancelled, reason callerLost.")
def members_of_a_lost_caller_become_cancelled(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    carol.reject(call)
    bob.expect_change(call, carol, "rejected")
    alice.logout()
    cancelled = bob.expect("call.cancelled", call)
    fields("bob", member(cancelled["call"], bob), state="cancelled", reason="callerLost")
    fields("carol", member(cancelled["call"], carol), state="rejected")
    fields("the event", cancelled.body, missed=True)


@sentence("3 Caller lost", "while nobody has accepted")
def a_caller_who_leaves_an_answered_call_does_not_cancel_it(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol, mode="advanced")
    bob.accept(call)
    with carol.hears_nothing("end", lambda m: m.is_event("call.cancelled")):
        alice.logout()
    equal("the call's and carol's state", _call_and_member(bob, call, carol), ("active", "received"))


@sentence("3 Caller lost", "the inviting device going offline")
def another_device_of_the_inviter_does_not_cancel(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    tablet = scene.another(alice, "tablet")
    call = ring(alice, bob, carol)
    with bob.hears_nothing("end", lambda m: m.is_event("call.cancelled")):
        tablet.logout()
        carol.logout()  # an invitee's logout does not end the call either
    equal("the call's and carol's state", _call_and_member(bob, call, carol), ("ringing", "received"))
    alice.logout()
    bob.expect("call.cancelled", call)


@sentence(
    "3 Caller lost",
    "(If that message is itself lost, the invitation's timeout, or in advanced mode the heartbeat, bounds the ringing",
    waits=4,
)
def the_timeout_bounds_the_ringing_when_nobody_says_that_the_caller_left(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob, timeout=4)
    alice.close()  # with a DISCONNECT, so that the will is not published, and without a logout
    told = bob.expect("call.timeout", call)
    fields("the call", told["call"], state="ended", endReason="timeout")


def _call_and_member(device: Device, call: str, user: Device) -> tuple[str, str]:
    now = device.get(call)
    return now["state"], member(now, user)["state"]


# Clarifications


@sentence(
    "3",
    "In common mode the state active exists only while somebody is still pending: the accept of a one-to-one call leads"
    " from ringing to ended with answered directly",
)
def the_accept_of_a_one_to_one_common_call_ends_it(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    accepted = bob.accept(call)
    expected = {"state": "ended", "endReason": "answered", "acceptedAt": accepted["time"], "endedAt": accepted["time"]}
    fields("the call", accepted["call"], **expected)
    equal("bob's state", member(accepted["call"], bob)["state"], "accepted")
    told = alice.expect_change(call, bob, "accepted")
    fields("alice's event", told["call"], **expected)


@sentence("3", "in a group call with others pending, the first accept leads to active")
def the_first_accept_of_a_common_group_call_makes_it_active(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    accepted = bob.accept(call)
    fields("the call", accepted["call"], state="active", acceptedAt=accepted["time"], endReason=None)
    second = carol.accept(call)
    fields("after the second accept", second["call"], state="ended", endReason="answered", acceptedAt=accepted["time"])


@sentence(
    "3",
    "On call.end user states stay: a member who was pending stays so in the ended call, and can no longer accept or"
    " reject (callEnded).",
)
def a_member_who_was_pending_at_call_end_stays_so(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.add(call, carol)
    bob.expect_change(call, carol, "received")
    bob.end(call)
    for type_ in ("call.accept", "call.reject"):
        equal("carol's state", carol.refused(type_, "callEnded", callID=call)["state"], "received")
    equal("in the call", member(carol.get(call), carol)["state"], "received")


@sentence("3", "Of an expiry, a not-received check or a heartbeat timeout nobody is the actor (section 5).", waits=2)
def nobody_is_the_actor_of_a_timer(scene: Scene) -> None:
    alice = scene.device("alice")
    bob = scene.absent("bob")
    call = alice.invite(bob, notReceivedCheck=True, notReceivedAfter=1, timeout=2)
    for state in ("notYetReceived", "timeout"):
        told = alice.expect_change(call, bob, state)
        equal(f"the actor of {state}", told.get("actor"), None)
        equal("the change", change(told, bob)["state"], state)


# Several calls of a user


@sentence(
    "3",
    "A response, cancel or end names its callID and touches that call alone: a late one can never hit the next call of"
    " the same two people.",
)
def a_late_request_does_not_hit_the_next_call(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    first = ring(alice, bob, mode="advanced")
    alice.end(first)
    second = ring(alice, bob, mode="advanced")
    before = alice.get(second)
    bob.refused("call.accept", "callEnded", callID=first)
    bob.refused("call.reject", "callEnded", callID=first)
    alice.refused("call.cancel", "callEnded", callID=first)
    alice.refused("call.end", "callEnded", callID=first)
    equal("the second call", alice.get(second), before)
    alice.end(second)
    third, fourth = ring(alice, bob), ring(bob, alice)
    bob.accept(third)
    equal("the fourth call's state", alice.get(fourth)["state"], "ringing")


@sentence("3", "A user is accepted in at most one live advanced call (configurable): alreadyInCall.")
def a_user_is_in_at_most_one_live_advanced_call(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    first, second = ring(alice, bob, mode="advanced"), ring(carol, bob, mode="advanced")
    bob.accept(first)
    equal("the own call", bob.refused("call.accept", "alreadyInCall", callID=second)["callID"], first)
    bob.quit(first)
    equal("bob's state", member(bob.accept(second)["call"], bob)["state"], "accepted")
    equal("the first call's state", alice.get(first)["state"], "ended")
    true("the invite of a user who is free again", alice.invite(scene.absent("dave"), callID=new_id()) != first)
