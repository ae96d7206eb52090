"""Section 3: heartbeats, busy users, glare, races."""

from __future__ import annotations

import threading
import time
from typing import Any

from ..client import Device, Request
from ..expect import Mismatch, between, change, equal, fields, member, states, true
from ..scene import Scene
from ..suite import sentence
from .steps import new_id, ring, talk

ROUNDS = 8
"""How often a race is run: a race has two outcomes, and either outcome must be told consistently."""


# Heartbeat


@sentence(
    "3 Heartbeat",
    "in advanced mode an accepted member from whom nothing about the call was heard for 60 s (interval 20 s) becomes"
    " quit, reason heartbeatTimeout; the others are told.",
    waits=lambda t: t.heartbeat_timeout + 1,
)
def a_member_who_is_silent_quits(scene: Scene) -> None:
    alice, carol = scene.devices("alice", "carol")
    bob = scene.device("bob", auto_ack=False)
    call = ring_all(alice, bob, carol)
    bob.accept(call)
    accepted = carol.accept(call)["time"]
    timeout = scene.timings.heartbeat_timeout
    told = None
    for _ in range(6):
        time.sleep(timeout / 5)
        for device in (alice, carol):
            device.send({"type": "call.heartbeat", "callID": call})
        told = next(iter(alice.find(lambda m: m.is_event(None, call) and _tells(m, bob, "quit"))), None)
        if told:
            break
    told = told or alice.expect_change(call, bob, "quit")
    fields("the change", change(told, bob), state="quit", reason="heartbeatTimeout")
    equal("the actor", told.get("actor"), None)
    between("milliseconds of silence", told["time"] - accepted, timeout * 1000 - 500, timeout * 1000 + 2500)
    equal("the states", states(told["call"]), ["accepted", "quit", "accepted"])
    carol.expect_change(call, bob, "quit")


def _tells(message: Any, user: Device, state: str) -> bool:
    return any(c["userID"] == user.user and c["state"] == state for c in message["changes"])


def ring_all(caller: Device, *callees: Device) -> str:
    """Creates an advanced call, and waits until every callee has received the event of the call. Callees without
    `auto_ack` have not acked it."""
    call = caller.invite(*callees, mode="advanced")
    for callee in callees:
        callee.expect("call.invited", call)
    return call


@sentence("3 Heartbeat", "heartbeatTimeout", waits=lambda t: t.heartbeat_timeout + 1)
def a_call_of_which_everybody_is_silent_ends(scene: Scene) -> None:
    alice, bob, carol = (
        scene.device("alice", auto_ack=False),
        scene.device("bob", auto_ack=False),
        scene.device("carol"),
    )
    call = ring_all(alice, bob)
    bob.accept(call)
    timeout = scene.timings.heartbeat_timeout
    told = alice.expect_change(call, alice, "quit", seconds=timeout + 4)
    fields("the call", told["call"], state="ended", endReason="heartbeatTimeout")
    fields("the own change", change(told, alice), state="quit", reason="heartbeatTimeout")
    alice.invite(carol)


@sentence(
    "3 Heartbeat",
    "an accepted member from whom nothing about the call was heard",
    waits=lambda t: t.heartbeat_timeout * 1.5,
)
def whatever_a_member_says_about_the_call_keeps_it_alive(scene: Scene) -> None:
    alice = scene.device("alice")
    bob, carol, dave = scene.devices("bob", "carol", "dave", unlike_machine="sends no heartbeats")
    phone = scene.device("erin", auto_ack=False)
    tablet = scene.another(phone, "tablet", auto_ack=False)
    call = talk(alice, bob, carol, dave, joinPolicy="anyone")
    revision = phone.join(call)["revision"]
    for number in range(5):
        time.sleep(scene.timings.heartbeat_timeout * 0.3)
        (phone if number % 2 else tablet).join(call)
        alice.send({"type": "call.heartbeat", "callID": call})
        bob.ack(call, revision)
        carol.ok("call.get", callID=call)
        dave.start("call.accept", callID=call).refused("invalidState")
    equal("the states", states(alice.get(call)), ["accepted"] * 5)


@sentence(
    "3 Heartbeat", "an accepted member from whom nothing about the call was heard", waits=lambda t: t.heartbeat_timeout + 1
)
def accepted_members_alone_need_heartbeats(scene: Scene) -> None:
    alice, carol = scene.devices("alice", "carol")
    bob, dave = scene.device("bob", auto_ack=False), scene.device("dave")
    erin, frank = scene.device("erin", unlike_machine="sends no heartbeats"), scene.device("frank")
    timeout = scene.timings.heartbeat_timeout
    lasting = min(600, int(timeout) + 60)
    of_two = ring_all(alice, bob)
    rings_on = ring(carol, dave, mode="advanced", timeout=lasting)
    rings_in_vain = ring(erin, frank, mode="advanced", timeout=lasting)
    bob.accept(of_two)
    for _ in range(6):
        time.sleep(timeout / 5)
        if alice.find(lambda m: m.is_event("call.ended", of_two)):
            break
        for device, call in ((alice, of_two), (carol, rings_on)):
            device.send({"type": "call.heartbeat", "callID": call})
    ended = alice.expect("call.ended", of_two)["call"]
    fields("a call of two with a silent member", ended, state="ended", endReason="heartbeatTimeout")
    fields("the silent member", member(ended, bob), state="quit", reason="heartbeatTimeout")
    equal("the other member", member(ended, alice)["state"], "accepted")
    equal("a pending member", member(carol.get(rings_on), dave)["state"], "received")
    told = frank.expect("call.cancelled", rings_in_vain)
    fields("the event of a silent inviter's invitee", told.body, missed=True)
    equal("the end reason", told["call"]["endReason"], "heartbeatTimeout")


@sentence("3 Heartbeat", "in advanced mode", waits=lambda t: t.heartbeat_timeout + 3)
def a_common_call_needs_no_heartbeat(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    seconds = scene.timings.heartbeat_timeout + 3
    call = alice.invite(bob, scene.absent("away"), timeout=min(600, int(seconds) + 60))
    bob.accept(call)
    alice.heard_nothing("quit", lambda m: m.is_event(None, call) and _tells(m, bob, "quit"), 0, seconds)
    equal("the states", states(alice.get(call)), ["accepted", "accepted", "inviting"])


# Busy


def _assert_busy(caller: Device, user: Device) -> None:
    response = caller.ok("call.invite", invitees=[user.user], ifBusy="reject")
    fields("the invitee", member(response["call"], user), state="rejected", reason="busy")


@sentence(
    "3 Busy",
    "with ifBusy: reject an invitee who is calling, being called or in another live call is rejected at once, reason"
    " busy, and does not ring.",
)
def an_invitee_who_is_busy_is_rejected_at_once(scene: Scene) -> None:
    alice, bob, carol, dave, erin = scene.devices("alice", "bob", "carol", "dave", "erin")
    ring(alice, bob)
    talk(carol, dave)
    marks = {device: device.mark for device in (alice, bob, carol, dave)}
    for device in marks:
        _assert_busy(erin, device)
    for device, mark in marks.items():
        device.heard_nothing("event", lambda m: m.is_event() and m["call"]["inviter"] == erin.user, mark)


@sentence("3 Busy", "(After the answer the service knows only advanced calls; common calls end there.)")
def one_whose_common_call_was_answered_is_free(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    bob.accept(ring(alice, bob))
    for device in (alice, bob):
        ring(carol, device, ifBusy="reject")


@sentence("3 Busy", "an invitee who is calling, being called or in another live call", waits=3)
def one_whose_call_is_over_is_free(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    bob.reject(ring(alice, bob))
    alice.cancel(ring(alice, bob))
    expired = ring(alice, bob, timeout=3)
    alice.end(talk(alice, carol))
    alice.expect_change(expired, bob, "timeout")
    for device in (alice, bob):
        carol.cancel(ring(carol, device, ifBusy="reject"))


@sentence("3 Busy", "Busy: invitees who are rejected as busy get no event at all.")
def a_busy_invitee_gets_no_event(scene: Scene) -> None:
    alice, bob, carol, dave = scene.devices("alice", "bob", "carol", "dave")
    ring(alice, bob)
    with bob.hears_nothing(
        "event of the other call", lambda m: m.is_event() and m["call"]["inviter"] == carol.user, 1.5
    ):
        response = carol.ok("call.invite", invitees=[bob.user, dave.user], ifBusy="reject")
        equal("the states", states(response["call"]), ["accepted", "rejected", "inviting"])
        dave.expect("call.invited", response["callID"])
        dave.accept(response["callID"])


@sentence("3 Busy", "If all invitees were busy, the call is ended with endReason busy.")
def a_call_of_busy_invitees_is_ended(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    ring(alice, bob)
    for mode in ("common", "advanced"):
        made = carol.ok("call.invite", invitees=[alice.user, bob.user], ifBusy="reject", mode=mode)["call"]
        fields("the call", made, state="ended", endReason="busy")


# Glare


@sentence(
    "3 Glare",
    "with glare: merge, A inviting B alone while B's invitation of A alone is pending becomes A's call.accept "
    "of that invitation",
)
def inviting_back_is_the_answer(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(bob, "tablet")
    call = ring(alice, bob)
    with alice.hears_nothing("invitation", lambda m: m.is_event("call.invited")):
        response = bob.ok("call.invite", callID=new_id(), invitees=[alice.user], glare="merge")
    fields("the call", response["call"], callID=call, state="ended", endReason="answered", inviter=alice.user)
    fields("bob", member(response["call"], bob), state="accepted", device="phone")
    equal("the actor", alice.expect_change(call, bob, "accepted")["actor"], bob.user)
    told = tablet.expect("call.handledElsewhere", call)
    equal("the device that bob's tablet is told", member(told["call"], bob)["device"], "phone")


@sentence("3 Glare", 'The response carries that call and "merged":true')
def a_merge_is_told_in_the_response(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    response = bob.ok("call.invite", invitees=[alice.user], mode="advanced", glare="merge")
    fields("the response", response, callID=call, merged=True)
    fields("the call", response["call"], callID=call, state="active")


@sentence("3 Glare", "This is one atomic step, even when both invite at the same instant at two coordinators")
def two_who_invite_each_other_at_once_are_in_one_call(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    for _ in range(ROUNDS):
        requests = _at_once(
            lambda: alice.start("call.invite", invitees=[bob.user], mode="advanced", glare="merge"),
            lambda: bob.start("call.invite", invitees=[alice.user], mode="advanced", glare="merge"),
        )
        responses = [request.ok() for request in requests]
        equal("both responses' calls", responses[0]["callID"], responses[1]["callID"])
        equal("the values of merged", sorted(bool(r.get("merged")) for r in responses), [False, True])
        call = responses[0]["callID"]
        now = alice.get(call)
        equal("the call and its members", (now["state"], sorted(states(now))), ("active", ["accepted"] * 2))
        alice.end(call)
        bob.expect("call.ended", call)


@sentence("3 Glare", "A inviting B alone while B's invitation of A alone is pending")
def only_invitations_of_one_another_alone_are_merged(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    group = ring(alice, bob, carol)
    response = bob.ok("call.invite", invitees=[alice.user], glare="merge")
    equal("an invitation of several, merged", (response["callID"] == group, response.get("merged")), (False, None))
    alice.cancel(group)
    bob.cancel(response["callID"])
    single = ring(alice, bob)
    wide = bob.ok("call.invite", invitees=[alice.user, carol.user], glare="merge")
    equal("an invite of several, merged", (wide["callID"] == single, wide.get("merged")), (False, None))
    bob.cancel(wide["callID"])
    alice.cancel(single)
    late = bob.ok("call.invite", invitees=[alice.user], glare="merge")
    equal("after the cancel", (late["callID"] == single, late.get("merged")), (False, None))


@sentence("3 Glare", "The later request's flag decides.")
def the_later_requests_flag_decides(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    first = ring(alice, bob, glare="ring")
    fields("merge after ring", bob.ok("call.invite", invitees=[alice.user], glare="merge"), callID=first, merged=True)
    second = ring(alice, bob, glare="merge")
    response = bob.ok("call.invite", invitees=[alice.user], glare="ring")
    true("ring after merge is another call", response["callID"] != second and "merged" not in response, response)


# Races


def _at_once(*sends: Any) -> list[Any]:
    """Runs each function in a thread of its own, all released at the same instant. Returns their results."""
    barrier = threading.Barrier(len(sends))
    results: list[Any] = [None] * len(sends)

    def run(number: int) -> None:
        barrier.wait()
        results[number] = sends[number]()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(sends))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def _code(request: Request) -> str:
    """Returns `ok`, or the code of the refusal."""
    body = request.response().body
    return "ok" if body["ok"] else body["error"]["code"]


@sentence("3", "Races have one winner, and the loser is told which: accept against cancel")
def of_accept_and_cancel_one_wins(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    for number in range(ROUNDS):
        mode = ("common", "advanced")[number % 2]
        call = ring(alice, bob, mode=mode)
        accept, cancel = _at_once(
            lambda call=call: bob.start("call.accept", callID=call),
            lambda call=call: alice.start("call.cancel", callID=call),
        )
        outcome = (_code(accept), _code(cancel))
        now = alice.get(call)
        state = member(now, bob)["state"]
        won = {"accepted": ("ok", "invalidState"), "cancelled": ("callEnded", "ok")}
        equal(f"the codes of accept and cancel when bob is {state}", outcome, won.get(state))
        loser = cancel if state == "accepted" else accept
        equal("the state that the loser is told", loser.response()["error"]["state"], state)
        if now["state"] != "ended":
            alice.end(call)
            bob.expect("call.ended", call)


@sentence("3", "accept on two devices")
def of_two_devices_that_accept_one_wins(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(bob, "tablet")
    for _ in range(ROUNDS):
        call = ring(alice, bob, mode="advanced")
        requests = _at_once(*(lambda d=d, call=call: d.start("call.accept", callID=call) for d in (bob, tablet)))
        codes = [_code(request) for request in requests]
        equal("the codes", sorted(codes), ["answeredElsewhere", "ok"])
        winner, loser = (bob, tablet) if codes[0] == "ok" else (tablet, bob)
        equal("the device in the call", member(alice.get(call), bob)["device"], winner.device)
        told = loser.expect("call.handledElsewhere", call)
        equal("the device that the loser is told", member(told["call"], bob)["device"], winner.device)
        alice.end(call)
        winner.expect("call.ended", call)


def _when_ended(device: Device, call: str) -> dict[str, Any]:
    """Returns the call after its end."""
    ended = device.wait(lambda m: m.is_event(None, call) and m["call"]["state"] == "ended", None, "the end of the call")
    return device.get(ended["callID"])


@sentence("3", "accept against timeout. The store decides, not arrival order at a coordinator.", waits=2)
def of_accept_and_timeout_one_wins(scene: Scene) -> None:
    alice = scene.device("alice")
    people = scene.devices("bob", "carol", "dave", "erin")
    calls = {device: alice.ok("call.invite", invitees=[device.user], timeout=1) for device in people}
    began = time.monotonic()
    for number, (device, response) in enumerate(calls.items()):
        time.sleep(max(0.0, began + 0.97 + number * 0.02 - time.monotonic()))
        request = device.start("call.accept", callID=response["callID"])
        code = _code(request)
        now = _when_ended(alice, response["callID"])
        won = {"accepted": ("ok", "answered"), "timeout": ("callEnded", "timeout")}
        state = member(now, device)["state"]
        if (code, now["endReason"]) != won.get(state):
            raise Mismatch(
                f"{device.user} is {state}, the accept was told {code}, the call ended as {now['endReason']}"
            )


@sentence("3", "the loser is told which: accept against cancel, accept on two devices")
def of_accept_and_reject_on_two_devices_one_wins(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(bob, "tablet")
    for _ in range(ROUNDS):
        call = ring(alice, bob)
        accept, reject = _at_once(
            lambda call=call: bob.start("call.accept", callID=call),
            lambda call=call: tablet.start("call.reject", callID=call),
        )
        codes = {"accepted": _code(accept), "rejected": _code(reject)}
        state = member(alice.get(call), bob)["state"]
        loser = "rejected" if state == "accepted" else "accepted"
        equal(f"the codes when bob is {state}", codes, {state: "ok", loser: "answeredElsewhere"})
