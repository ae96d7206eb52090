"""Section 2, the table: the effects of requests about calls, and the members who may send them."""

from __future__ import annotations

import time
from typing import Any

from ..expect import between, change, equal, errors, fields, member, names, states, true
from ..scene import Scene
from ..suite import require, sentence
from .steps import need_members, new_id, ring, talk

# call.invite


@sentence("2 call.invite", "creates the call; inviter accepted, invitees inviting")
def an_invite_creates_the_call(scene: Scene) -> None:
    alice = scene.device("alice")
    bob, carol = scene.absent("bob"), scene.absent("carol")
    response = alice.ok("call.invite", invitees=[bob, carol])
    fields("the call", response["call"], revision=1, mode="common", state="ringing", inviter=alice.user)
    equal("its members", [m["userID"] for m in response["call"]["members"]], [alice.user, bob, carol])
    equal("their states", states(response["call"]), ["accepted", "inviting", "inviting"])
    equal("the inviter's device", member(response["call"], alice)["device"], alice.device)


@sentence("2 call.invite", "invitees (1–9 distinct users, not the inviter)")
def an_invite_takes_nine_invitees(scene: Scene) -> None:
    count = min(9, scene.limits.max_members - 1)
    alice = scene.device("alice")
    guests = scene.absentees(count)
    equal("the members", len(alice.ok("call.invite", invitees=guests)["call"]["members"]), 1 + count)


@sentence(
    "2 call.invite",
    "the inviter among the invitees, a duplicate, no invitee or more than 9 are badRequest",
)
def an_invite_refuses_a_wrong_list_of_invitees(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    ten = [scene.user("guest") for _ in range(10)]
    for wrong in ([bob, alice.user], [alice.user], [bob, bob], [], ten, None, bob, [5], [None], [""]):
        request = {"invitees": wrong} if wrong is not None else {}
        names(f"invitees {wrong}", alice.refused("call.invite", "badRequest", **request)["message"], "invitees")


@sentence("2 call.invite", "callID?")
def an_invite_may_name_its_call(scene: Scene) -> None:
    alice = scene.device("alice")
    call = new_id()
    equal("the callID", alice.invite(scene.absent("bob"), callID=call), call)


@sentence(
    "2 call.invite", "Without callID the service derives one from (user, device, id), so that a resend is the same call"
)
def an_invite_without_a_call_id_derives_one(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    request = alice.start("call.invite", invitees=[bob.user])
    call = request.ok()["callID"]
    alice.expect_change(call, bob, "received")
    equal("the resend's callID", request.again().ok()["callID"], call)
    tablet = scene.another(alice, "tablet")
    true("another device's request is another call", tablet.invite(bob, id=request.id) != call)
    carol = scene.device("carol")
    true("another user's request is another call", carol.invite(bob, id=request.id) != call)


@sentence(
    "2 call.invite", "A callID that is left out is derived as 32 hexadecimal digits from user, device and request id."
)
def a_derived_call_id_has_32_hexadecimal_digits(scene: Scene) -> None:
    call = scene.device("alice").invite(scene.absent("bob"))
    true("32 hexadecimal digits", len(call) == 32 and all(c in "0123456789abcdefABCDEF" for c in call), call)


@sentence("2 call.invite", "mode? common|advanced (default common)")
def a_call_is_common_unless_it_is_advanced(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    for mode, expected in ((None, "common"), ("common", "common"), ("advanced", "advanced")):
        equal(f"mode for {mode}", alice.ok("call.invite", invitees=[bob], mode=mode)["call"]["mode"], expected)
    for wrong in ("Common", "", "group", 1):
        names(
            f"mode {wrong!r}", alice.refused("call.invite", "badRequest", invitees=[bob], mode=wrong)["message"], "mode"
        )


@sentence("2 call.invite", "timeout? 1–600 s")
def a_timeout_has_1_to_600_seconds(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    for seconds in (1, 600):
        response = alice.ok("call.invite", invitees=[bob], timeout=seconds)
        equal("expiresAt", member(response["call"], bob)["expiresAt"], response["time"] + seconds * 1000)
    for wrong in (0, 601, -1, 2**63, 1e300):
        error = alice.refused("call.invite", "badRequest", invitees=[bob], timeout=wrong)
        names(f"timeout {wrong}", error["message"], "timeout")


@sentence("2 call.invite", "timeout? 1–600 s (default 60)")
def an_invitation_lasts_60_seconds_by_default(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    response = alice.ok("call.invite", invitees=[bob])
    expected = scene.timings.invitation_timeout
    equal("timeout", response["call"]["timeout"], expected)
    equal("expiresAt", member(response["call"], bob)["expiresAt"], response["time"] + expected * 1000)


@sentence("2 call.invite", "media? voice|video|any string ≤32 bytes")
def media_is_any_string_of_32_bytes(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    for media in ("voice", "video", "x" * 32, "😀" * 8):
        call = alice.invite(bob, media=media)
        equal("media that bob hears of", bob.expect("call.invited", call)["call"]["media"], media)
    for wrong in ("x" * 33, "é" * 17, 5):
        error = alice.refused("call.invite", "badRequest", invitees=[bob.user], media=wrong)
        names(f"media {wrong!r}", error["message"], "media")


@sentence("2 call.invite", "extendedData? ≤2048 bytes")
def extended_data_goes_with_the_call(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    for data in ('{"room":"7"}', '\u0000\n"\\ é😀', "x" * 2048):
        call = alice.invite(bob, extendedData=data)
        equal("extendedData that bob hears of", bob.expect("call.invited", call)["call"]["extendedData"], data)


@sentence("2 call.invite", "notReceivedCheck? bool (default false)", waits=2)
def nobody_is_checked_for_not_received_by_default(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    call = alice.invite(bob, notReceivedAfter=1)
    alice.heard_nothing("notYetReceived", lambda m: m.is_event(None, call), 0, 1.6)
    equal("bob's state", member(alice.get(call), bob)["state"], "inviting")


@sentence("2 call.invite", "notReceivedAfter? 1–30 s", waits=1)
def not_received_after_has_1_to_30_seconds(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    for wrong in (0, 31, -1):
        error = alice.refused(
            "call.invite", "badRequest", invitees=[bob], notReceivedCheck=True, notReceivedAfter=wrong
        )
        names(f"notReceivedAfter {wrong}", error["message"], "notReceivedAfter")
    alice.invite(bob, notReceivedCheck=True, notReceivedAfter=30)
    response = alice.ok("call.invite", invitees=[bob], notReceivedCheck=True, notReceivedAfter=1)
    told = alice.expect_change(response["callID"], bob, "notYetReceived")
    between("milliseconds after the invitation", told["time"] - response["time"], 1000, 2500)


@sentence("2 call.invite", "joinPolicy? invited|anyone (default invited)")
def strangers_may_join_only_where_anyone_may(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    for policy in (None, "invited"):
        call = alice.invite(bob, mode="advanced", joinPolicy=policy)
        carol.refused("call.join", "callNotFound", callID=call)
        alice.end(call)
    call = alice.invite(bob, mode="advanced", joinPolicy="anyone")
    equal("carol's state", member(carol.join(call)["call"], carol)["state"], "accepted")
    error = bob.refused("call.invite", "badRequest", invitees=[alice.user], joinPolicy="everyone")
    names("the error", error["message"], "joinPolicy")


@sentence("2 call.invite", "autoEnd? bool (default true)")
def a_call_ends_by_itself_unless_auto_end_is_off(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    for auto_end, state in ((None, "ended"), (True, "ended"), (False, "active")):
        call = talk(alice, bob, autoEnd=auto_end)
        equal(f"the call after the quit, autoEnd {auto_end}", bob.quit(call)["call"]["state"], state)
    wrongs: list[Any] = ["true", 1, []]
    for wrong in wrongs:
        error = bob.refused("call.invite", "badRequest", invitees=[scene.user("x")], autoEnd=wrong)
        names(f"autoEnd {wrong!r}", error["message"], "autoEnd")


@sentence("2 call.invite", "ifBusy? ring|reject (default ring)")
def busy_invitees_ring_by_default(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    ring(alice, bob)
    for choice in (None, "ring"):
        call = ring(carol, bob, ifBusy=choice)
        equal("bob's state", member(carol.get(call), bob)["state"], "received")
    error = carol.refused("call.invite", "badRequest", invitees=[bob.user], ifBusy="wait")
    names("the error", error["message"], "ifBusy")


@sentence("2 call.invite", "glare? ring|merge (default ring)")
def glare_rings_by_default(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    first = ring(alice, bob, glare="merge")
    response = bob.ok("call.invite", invitees=[alice.user])
    true("bob's call is another call", response["callID"] != first)
    equal("merged", response.get("merged"), None)
    alice.expect("call.invited", response["callID"])
    error = bob.refused("call.invite", "badRequest", invitees=[alice.user], glare="both")
    names("the error", error["message"], "glare")


@sentence("2 call.invite", "A deployment without push checks the field all the same.")
def push_is_checked(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    push = {"title": "Alice", "content": "Video call", "payload": "{}"}
    call = talk(alice, bob, push=push)
    alice.add(call, scene.absent("carol"), push=push)
    wrongs: list[Any] = ["x", 5, [], {"title": 5}, {"payload": {}}]
    for wrong in wrongs:
        error = bob.refused("call.invite", "badRequest", invitees=[alice.user], push=wrong)
        names(f"push {wrong!r} of call.invite", error["message"], "push")
        error = bob.refused("call.add", "badRequest", callID=call, invitees=[scene.user("x")], push=wrong)
        names(f"push {wrong!r} of call.add", error["message"], "push")


@sentence(
    "2 call.invite", "In push, title, content and payload are strings of at most 2048 bytes each; each may be left out."
)
def the_texts_of_push_have_at_most_2048_bytes(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    for field in ("title", "content", "payload"):
        alice.invite(bob, push={field: "x" * 2048})
        for wrong in ("x" * 2049, "é" * 1025):
            error = alice.refused("call.invite", "badRequest", invitees=[bob], push={field: wrong})
            names(f"a long {field}", error["message"], "push")
    alice.invite(bob, push={})


@sentence("2 call.invite", "anyone not accepted in another live advanced call")
def one_in_an_advanced_call_may_not_invite(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    for device in (alice, bob):
        error = device.refused("call.invite", "alreadyInCall", invitees=[scene.absent("carol")])
        equal("the own live call", error["callID"], call)
    bob.quit(call)
    bob.invite(scene.absent("carol"))
    ringing = alice.invite(scene.absent("dave"), mode="advanced")
    error = alice.refused("call.invite", "alreadyInCall", invitees=[scene.absent("carol")])
    equal("the own call that rings", error["callID"], ringing)
    alice.cancel(ringing)
    alice.invite(scene.absent("erin"), mode="advanced")


# call.cancel


@sentence("2 call.cancel", "invitees? (default: all pending) … these invitees become cancelled")
def a_cancel_takes_all_pending_invitations_back(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    bob.reject(call)
    cancelled = alice.cancel(call)["call"]
    equal("the states", states(cancelled), ["accepted", "rejected", "cancelled"])
    fields("the call", cancelled, state="ended", endReason="cancelled")
    carol.expect("call.cancelled", call)


@sentence("2 call.cancel", "invitees? (default: all pending), extendedData?")
def a_cancel_may_name_whom_it_takes_back(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    with carol.hears_nothing("call.cancelled", lambda m: m.is_event("call.cancelled")):
        cancelled = alice.cancel(call, bob)["call"]
        bob.expect("call.cancelled", call)
    equal("the states", states(cancelled), ["accepted", "cancelled", "received"])
    equal("the call's state", cancelled["state"], "ringing")


@sentence("2 call.cancel", "not-pending ones are listed in errors")
def a_cancel_lists_those_who_are_not_pending(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    bob.reject(call)
    response = alice.cancel(call, bob, carol)
    equal("errors", response["errors"], [{"userID": bob.user, "code": "invalidState"}])
    equal("carol's state", member(response["call"], carol)["state"], "cancelled")


@sentence("2 call.cancel", "nobody pending → invalidState")
def a_cancel_of_nobody_pending_is_refused(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    bob.reject(call)
    equal(
        "the state", alice.refused("call.cancel", "invalidState", callID=call, invitees=[bob.user])["state"], "rejected"
    )


@sentence("2 call.cancel", "who invited them, while they are pending")
def only_who_invited_them_may_cancel(scene: Scene) -> None:
    alice, bob, carol, dave = scene.devices("alice", "bob", "carol", "dave")
    call = talk(alice, bob)
    bob.add(call, carol)
    alice.expect_change(call, carol, "received")
    alice.refused("call.cancel", "notInviter", callID=call, invitees=[carol.user])
    alice.add(call, dave)
    with carol.hears_nothing("call.cancelled", lambda m: m.is_event("call.cancelled")):
        alice.cancel(call)
        dave.expect("call.cancelled", call)
    equal("carol's state", member(bob.cancel(call)["call"], carol)["state"], "cancelled")


# call.accept and call.reject


@sentence("2 call.accept", "a pending member … accepted on this device")
def an_accept_is_on_this_device(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(bob, "tablet")
    call = ring(alice, bob, mode="advanced")
    accepted = tablet.accept(call)["call"]
    fields("bob", member(accepted, bob), state="accepted", device="tablet")
    told = alice.expect_change(call, bob, "accepted")
    fields("the change alice hears of", change(told, bob), state="accepted", device="tablet")


@sentence("2 call.reject", "reason? declined|busy|string ≤256 bytes (default declined)")
def a_reject_has_a_reason(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    for reason, expected in ((None, "declined"), ("busy", "busy"), ("é" * 128, "é" * 128)):
        call = ring(alice, bob)
        fields("bob", member(bob.reject(call, reason=reason)["call"], bob), state="rejected", reason=expected)
        equal("the reason alice hears of", change(alice.expect_change(call, bob, "rejected"), bob)["reason"], expected)


@sentence("2 call.reject", "a pending member … rejected")
def only_a_pending_member_may_accept_or_reject(scene: Scene) -> None:
    alice, bob, mallory = scene.devices("alice", "bob", "mallory")
    call = ring(alice, bob, mode="advanced")
    for type_ in ("call.accept", "call.reject"):
        mallory.refused(type_, "callNotFound", callID=call)
        equal("the inviter's state", alice.refused(type_, "invalidState", callID=call)["state"], "accepted")
    equal("bob's state", member(bob.reject(call)["call"], bob)["state"], "rejected")


# call.add


@sentence("2 call.add", "an accepted member, advanced mode … new pending members")
def an_accepted_member_may_add_others(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    response = bob.add(call, carol, timeout=30)
    added = member(response["call"], carol)
    fields("carol", added, state="inviting", invitedBy=bob.user, expiresAt=response["time"] + 30_000)
    fields("carol's event", carol.expect("call.invited", call).body, actor=bob.user)
    alice.expect_change(call, carol, "received")


@sentence("2 call.add", "a user who left before (quit, rejected, timeout, cancelled) may be invited again", waits=1)
def one_who_left_may_be_invited_again(scene: Scene) -> None:
    need_members(scene, 6)
    alice, bob = scene.devices("alice", "bob")
    people = {state: scene.device(state) for state in ("quit", "rejected", "timeout", "cancelled")}
    call = talk(alice, bob)
    alice.add(call, people["timeout"], timeout=1)
    alice.add(call, people["quit"], people["rejected"], people["cancelled"])
    people["quit"].accept(call)
    people["quit"].quit(call)
    people["rejected"].reject(call)
    alice.cancel(call, people["cancelled"])
    people["timeout"].expect("call.timeout", call)
    for state, device in people.items():
        equal(f"the state of {state}", member(alice.get(call), device)["state"], state)
        response = bob.add(call, device, timeout=60)
        entry = member(response["call"], device)
        fields(state, entry, state="inviting", invitedBy=bob.user, reason=None, expiresAt=response["time"] + 60_000)
        device.expect("call.invited", call, after=response["revision"] - 1)
        device.accept(call)


@sentence("2 call.add", "call.add without timeout uses the call's own.")
def an_add_without_timeout_uses_the_calls_own(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob, timeout=77)
    carol = scene.absent("carol")
    response = alice.add(call, carol)
    equal("expiresAt", member(response["call"], carol)["expiresAt"], response["time"] + 77_000)


# call.join


@sentence("2 call.join", "a past or pending invitee", waits=1)
def a_past_or_pending_invitee_may_join(scene: Scene) -> None:
    need_members(scene, 7)
    alice, bob = scene.devices("alice", "bob")
    before = ("received", "rejected", "cancelled", "timeout", "quit")
    people = {state: scene.device(state) for state in before}
    call = talk(alice, bob)
    alice.add(call, people["timeout"], timeout=1)
    alice.add(call, *(people[state] for state in before if state != "timeout"))
    people["quit"].accept(call)
    people["quit"].quit(call)
    people["rejected"].reject(call)
    alice.cancel(call, people["cancelled"])
    people["timeout"].expect("call.timeout", call)
    bob.expect_change(call, people["received"], "received")
    for state, device in people.items():
        equal(f"the state of {state}", member(alice.get(call), device)["state"], state)
        joined = device.join(call)
        fields(state, member(joined["call"], device), state="accepted", device="phone")
        alice.expect_change(call, device, "accepted", after=joined["revision"] - 1)


@sentence("2 call.join", "or anyone under joinPolicy: anyone")
def anyone_may_join_under_join_policy_anyone(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob, joinPolicy="anyone")
    for type_ in ("call.get", "call.trace", "call.end", "call.add", "call.signal"):
        extra: dict[str, Any] = {"call.add": {"invitees": [scene.absent("x")]}, "call.signal": {"data": 1}}.get(type_, {})
        carol.refused(type_, "callNotFound", callID=call, **extra)
    joined = carol.join(call)["call"]
    fields("carol", member(joined, carol), state="accepted", device="phone", invitedBy=None, expiresAt=None)
    equal("the members", [m["userID"] for m in joined["members"]], [alice.user, bob.user, carol.user])
    for device in (alice, bob):
        equal("the actor", device.expect_change(call, carol, "accepted")["actor"], carol.user)


@sentence(
    "2 call.join",
    "an accepted user on another device | accepted on this device; for an accepted user it moves the call to this"
    " device and other members are not told",
)
def a_join_on_another_device_moves_the_call_there(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(bob, "tablet")
    call = talk(alice, bob)
    alice.settle()  # a stale ack would be answered with the hand-over's revision
    with alice.hears_nothing("event of the hand-over", lambda m: m.is_event(None, call) and m.fresh, 1.3):
        joined = tablet.join(call)["call"]
    fields("bob", member(joined, bob), state="accepted", device="tablet")
    equal("bob's device in the call", member(alice.get(call), bob)["device"], "tablet")


@sentence("2 call.join", "advanced mode, live")
def an_ended_call_is_not_joined(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob, carol)
    carol.quit(call)
    alice.end(call)
    equal("carol's state", carol.refused("call.join", "callEnded", callID=call)["state"], "quit")


# call.quit, call.end, call.get


@sentence("2 call.quit", "an accepted member, advanced mode | quit")
def a_member_who_quits_leaves_the_others_in_the_call(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob, carol)
    quit_ = bob.quit(call)["call"]
    equal("bob's and the call's state", (member(quit_, bob)["state"], quit_["state"]), ("quit", "active"))
    for device in (alice, carol):
        fields("the others' event", device.expect_change(call, bob, "quit").body, actor=bob.user)


@sentence("2 call.end", "the call ends for all; user states stay")
def an_end_ends_the_call_for_all(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.add(call, carol)
    alice.expect_change(call, carol, "received")
    ended = bob.end(call)["call"]
    fields("the call", ended, state="ended", endReason="hangup", endedBy=bob.user)
    equal("the members' states", states(ended), ["accepted", "accepted", "received"])
    for device in (alice, carol):
        device.expect("call.ended", call)


@sentence("2 call.end", "reason? string ≤256 bytes, extendedData?")
def an_end_may_have_a_reason(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    for wrong in ("x" * 257, 5):
        names("the error", alice.refused("call.end", "badRequest", callID=call, reason=wrong)["message"], "reason")
    entry = member(alice.end(call, reason="done", extendedData="data")["call"], alice)
    fields("the entry of the member who ended the call", entry, state="accepted", reason="done", extendedData="data")


@sentence("2 call.get", "a member, past or present | response with call")
def every_member_may_get_the_call(scene: Scene) -> None:
    alice, bob, carol, mallory = scene.devices("alice", "bob", "carol", "mallory")
    call = talk(alice, bob, carol)
    carol.quit(call)
    expected = alice.end(call)["call"]
    for device in (alice, bob, carol, scene.another(carol, "tablet")):
        equal(f"the call that {device} gets", device.get(call), expected)
    mallory.refused("call.get", "callNotFound", callID=call)


@sentence("2 call.heartbeat", "keeps the member alive; no id, no response")
def a_heartbeat_gets_no_response(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    with alice.hears_nothing("answer to a heartbeat", lambda m: m.type in ("response", "error")):
        alice.send({"type": "call.heartbeat", "callID": call})


@sentence(
    "2",
    'ack is not a request: {"type":"ack","callID":"…","revision":n} or {"type":"ack","messageID":"…"}. It gets no'
    " response.",
)
def an_ack_gets_no_response(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    call = alice.invite(bob)
    revision = bob.expect("call.invited", call)["revision"]
    with bob.hears_nothing("answer to an ack", lambda m: m.type in ("response", "error")):
        bob.ack(call, revision)
        bob.ack_message(new_id())
        bob.send({"type": "ack", "id": new_id(), "callID": call, "revision": revision})
    alice.expect_change(call, bob, "received")


# Bounds of members


@sentence("2", "callFull counts live members: an invite fails when 1 + its invitees are more than the limit.")
def a_call_has_at_most_its_limit_of_live_members(scene: Scene) -> None:
    limit = scene.limits.max_members
    require(limit <= 10, f"an invite cannot reach the limit of {limit} members")
    alice = scene.device("alice")
    guests = scene.absentees(limit)
    if limit < 10:
        alice.refused("call.invite", "callFull", invitees=guests)
    call = alice.invite(*guests[:-1], mode="advanced")
    alice.refused("call.add", "callFull", callID=call, invitees=[guests[-1]])
    alice.cancel(call, guests[0])
    alice.add(call, guests[-1])
    alice.refused("call.add", "callFull", callID=call, invitees=[guests[0]])


@sentence("2", "callFull | more than 10 members, configurable")
def a_full_call_is_not_joined(scene: Scene) -> None:
    limit = scene.limits.max_members
    require(limit <= 10, f"an invite cannot reach the limit of {limit} members")
    alice, bob = scene.devices("alice", "bob")
    guests = scene.absentees(limit - 1)
    call = alice.invite(*guests, mode="advanced", joinPolicy="anyone")
    bob.refused("call.join", "callFull", callID=call)
    alice.cancel(call, guests[0])
    bob.join(call)


@sentence(
    "2", "A call never has more than three times the live limit of members, past ones included: beyond it callFull."
)
def a_call_has_at_most_three_times_its_limit_of_members(scene: Scene) -> None:
    limit = scene.limits.max_members
    alice = scene.device("alice")
    guests = scene.absentees(3 * limit)
    size = min(9, limit - 1)
    call = alice.invite(guests[0], mode="advanced", autoEnd=False)
    room = 3 * limit - 2
    for start in range(1, 1 + room, size):
        batch = guests[start : min(start + size, 1 + room)]
        alice.cancel(call)
        last = alice.add(call, *batch)["call"]
    equal("the members", len(last["members"]), 3 * limit)
    alice.cancel(call)
    alice.refused("call.add", "callFull", callID=call, invitees=[guests[-1]])
    alice.add(call, guests[0])


@sentence(
    "2",
    "So request ids must be unique per device … a call.invite without callID that repeats an old id is a "
    "resend of the old call.",
)
def an_invite_that_repeats_an_old_id_is_a_resend(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    first = alice.ok("call.invite", id="first", invitees=[bob])["callID"]
    alice.cancel(first)
    time.sleep(0.01)
    again = alice.ok("call.invite", id="first", invitees=[bob])
    equal("the call", (again["callID"], again["call"]["state"]), (first, "ended"))
    equal("errors", errors(again), {})
