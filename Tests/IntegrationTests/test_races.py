"""A race has a single winner, and the loser is told the outcome (§3): on a single coordinator, and on several that
share a store."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from harness import Deploy, Device, Request, World, call_id, member, ring, wait_until

ROUNDS = 20


@pytest.fixture(
    scope="module",
    params=[(1, "sqlite"), (2, "sqlite"), (3, "redis")],
    ids=["one coordinator", "two coordinators", "three coordinators on Redis"],
)
def own_deployment(request: pytest.FixtureRequest, deploy: Deploy) -> World:
    replicas, store = request.param
    return deploy(replicas, store=request.getfixturevalue("redis_server").url if store == "redis" else store)


@pytest.fixture
def world(own_deployment: World) -> Iterator[World]:
    yield from own_deployment.borrow()


def at_once(first: Request, second: Request) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both responses of requests that are on their way together."""
    return first.wait(), second.wait()


def state_of(device: Device, call: str, user: Device) -> str:
    return member(device.get(call), user)["state"]


@pytest.mark.parametrize("mode", ["common", "advanced"])
def test_accept_on_two_devices_has_one_winner(world: World, mode: str) -> None:
    """§3: the other device is told `answeredElsewhere`, and the call names the winner's device."""
    alice, bob = world.phones("alice", "bob")
    tablet = world.another(bob, "tablet")
    for number in range(ROUNDS):
        call = ring(alice, bob, mode=mode)
        devices = [bob, tablet] if number % 2 else [tablet, bob]
        first, second = (device.start("call.accept", callID=call) for device in devices)
        answers = dict(zip(devices, at_once(first, second)))
        (winner,) = [device for device, answer in answers.items() if answer["ok"]]
        (loser,) = [device for device in devices if device is not winner]
        assert answers[loser]["error"]["code"] == "answeredElsewhere"
        told = alice.expect_change(call, bob, "accepted")
        assert member(told["call"], bob)["device"] == winner.device
        loser.expect("call.handledElsewhere", call)
        if mode == "advanced":
            winner.quit(call)


def test_accept_and_reject_on_two_devices_have_one_winner(world: World) -> None:
    """§3."""
    alice, bob = world.phones("alice", "bob")
    tablet = world.another(bob, "tablet")
    for number in range(ROUNDS):
        call = ring(alice, bob)
        requests = [(bob, "call.accept"), (tablet, "call.reject")]
        if number % 2:
            requests.reverse()
        answers = dict(
            zip([kind for _, kind in requests], at_once(*[d.start(kind, callID=call) for d, kind in requests]))
        )
        (winner,) = [kind for kind, answer in answers.items() if answer["ok"]]
        (loser,) = [kind for kind, answer in answers.items() if not answer["ok"]]
        assert answers[loser]["error"]["code"] == "answeredElsewhere"
        expected = {"call.accept": ("accepted", "answered"), "call.reject": ("rejected", "rejected")}[winner]
        told = alice.expect_change(call, bob, expected[0])
        assert told["call"]["endReason"] == expected[1]


@pytest.mark.parametrize("mode", ["common", "advanced"])
def test_accept_against_cancel_has_one_winner(world: World, mode: str) -> None:
    """§3: the loser gets `callEnded` or `invalidState`, with the state that won."""
    alice, bob = world.phones("alice", "bob")
    for number in range(ROUNDS):
        call = ring(alice, bob, mode=mode)
        if number % 2:
            cancel = alice.start("call.cancel", callID=call)
            accept = bob.start("call.accept", callID=call)
        else:
            accept = bob.start("call.accept", callID=call)
            cancel = alice.start("call.cancel", callID=call)
        accepted, cancelled = at_once(accept, cancel)
        assert accepted["ok"] != cancelled["ok"], (accepted, cancelled)
        if accepted["ok"]:
            assert (cancelled["error"]["code"], cancelled["error"]["state"]) == ("invalidState", "accepted")
            assert state_of(alice, call, bob) == "accepted"
            if mode == "advanced":
                bob.quit(call)
        else:
            assert (accepted["error"]["code"], accepted["error"]["state"]) == ("callEnded", "cancelled")
            assert bob.expect("call.cancelled", call)["call"]["endReason"] == "cancelled"
            assert state_of(alice, call, bob) == "cancelled"


def test_accept_against_timeout_has_one_winner(world: World) -> None:
    """§3: answers sent around the instant of expiry; whichever side wins, both sides see the same state."""
    bob = world.phone("bob")
    callers = world.phones(*(f"alice{number}" for number in range(ROUNDS)))
    calls = [caller.invite(bob, timeout=1) for caller in callers]
    expiry = {call: member(bob.expect("call.invited", call)["call"], bob)["expiresAt"] for call in calls}
    answers = {}
    for number, call in enumerate(calls):
        # The answers come from 10 ms before to 9 ms after the expiry.
        due = expiry[call] + number - ROUNDS // 2
        while time.time() * 1000 < due:
            pass
        answers[call] = bob.start("call.accept", callID=call)
    for alice, (call, pending) in zip(callers, answers.items(), strict=True):
        answer = pending.wait()
        final = alice.get(call)
        state = member(final, bob)["state"]
        if answer["ok"]:
            assert (state, final["endReason"]) == ("accepted", "answered")
            alice.expect_change(call, bob, "accepted")
        else:
            assert (answer["error"]["code"], answer["error"]["state"]) == ("callEnded", "timeout")
            assert (state, final["endReason"]) == ("timeout", "timeout")
            bob.expect("call.timeout", call)
            alice.expect_change(call, bob, "timeout")


@pytest.mark.parametrize("mode", ["common", "advanced"])
def test_glare_at_the_same_instant_leaves_one_call(world: World, mode: str) -> None:
    """§3: the merge is an atomic step even when both users invite at the same instant at two coordinators."""
    for number in range(ROUNDS):
        alice, bob = world.phones("alice", "bob")
        pairs = [(alice, bob), (bob, alice)] if number % 2 else [(bob, alice), (alice, bob)]
        own = {caller: call_id() for caller, _ in pairs}
        first, second = (
            caller.start("call.invite", callID=own[caller], invitees=[callee.user], mode=mode, glare="merge")
            for caller, callee in pairs
        )
        answers = at_once(first, second)
        assert [answer["ok"] for answer in answers] == [True, True], answers
        (call,) = {answer["callID"] for answer in answers}
        assert sorted(bool(answer.get("merged")) for answer in answers) == [False, True]
        (inviter,) = [caller for caller, _ in pairs if own[caller] == call]
        (merger,) = [caller for caller, _ in pairs if caller is not inviter]
        final = wait_until(lambda: _answered(inviter, call, merger), 10, "the call is answered")
        assert final["inviter"] == inviter.user
        assert final["state"] == ("ended" if mode == "common" else "active")
        assert merger.get(call) == final
        inviter.expect_change(call, merger, "accepted")
        # Neither rings for a second call.
        assert not inviter.events(event="call.invited", stale=True)
        for device in (alice, bob):
            device.close()


def _answered(device: Device, call: str, by: Device) -> dict[str, Any] | None:
    got = device.get(call)
    return got if member(got, by)["state"] == "accepted" else None


def test_two_invites_with_one_call_id_make_one_call(world: World) -> None:
    """§2: a caller gets `callExists`."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    for _ in range(ROUNDS):
        call = call_id()
        answers = at_once(*[caller.start("call.invite", callID=call, invitees=[carol.user]) for caller in (alice, bob)])
        assert sorted(answer["ok"] for answer in answers) == [False, True]
        (winner,) = [caller for caller, answer in zip((alice, bob), answers) if answer["ok"]]
        (error,) = [answer["error"] for answer in answers if not answer["ok"]]
        assert error["code"] == "callExists"
        assert carol.expect("call.invited", call)["call"]["inviter"] == winner.user
        winner.cancel(call)


def test_one_user_is_accepted_in_one_of_two_calls(world: World) -> None:
    """§3: two advanced calls are accepted at once on two devices: a device wins, and the other is told
    `alreadyInCall`."""
    alice, carol, bob = world.phones("alice", "carol", "bob")
    tablet = world.another(bob, "tablet")
    for _ in range(ROUNDS):
        calls = [ring(alice, bob, mode="advanced"), ring(carol, bob, mode="advanced")]
        answers = at_once(bob.start("call.accept", callID=calls[0]), tablet.start("call.accept", callID=calls[1]))
        assert sorted(answer["ok"] for answer in answers) == [False, True], answers
        (won,) = [call for call, answer in zip(calls, answers) if answer["ok"]]
        (error,) = [answer["error"] for answer in answers if not answer["ok"]]
        assert (error["code"], error["callID"]) == ("alreadyInCall", won)
        alice.end(calls[0])
        carol.end(calls[1])


def test_adds_at_once_never_overfill_a_call(world: World) -> None:
    """§2 `callFull`: two members add the last possible member at the same time."""
    for _ in range(5):
        alice, bob = world.phones("alice", "bob")
        call = ring(alice, bob, mode="advanced")
        bob.accept(call)
        alice.add(call, *[World.user("guest") for _ in range(7)])
        adds = [device.start("call.add", callID=call, invitees=[World.user("last")]) for device in (alice, bob)]
        answers = at_once(*adds)
        assert sorted(answer["ok"] for answer in answers) == [False, True]
        (error,) = [answer["error"] for answer in answers if not answer["ok"]]
        assert error["code"] == "callFull"
        assert len(alice.get(call)["members"]) == 10


def test_repeats_at_once_have_one_effect(world: World) -> None:
    """§2: the same request many times in a row, as an impatient client sends the request."""
    alice, bob = world.phones("alice", "bob")
    pending = [alice.start("call.invite", id="burst", invitees=[bob.user]) for _ in range(10)]
    calls = {handle.ok()["callID"] for handle in pending}
    assert len(calls) == 1
    (call,) = calls
    bob.expect("call.invited", call)
    alice.expect_state(call, bob, "received")
    assert alice.get(call)["revision"] == 2


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
