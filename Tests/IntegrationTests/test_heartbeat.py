"""Members of an advanced call who fall silent (§3, Heartbeat)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from harness import Deploy, Received, World, change_in, member, now_ms, ring, talk

TIMEOUT_MS = 3000


@pytest.fixture(scope="module")
def own_deployment(deploy: Deploy) -> World:
    """Heartbeats every second, 3 s without one is too long."""
    return deploy(store="memory:", heartbeat_interval="1s", heartbeat_timeout="3s")


@pytest.fixture
def world(own_deployment: World) -> Iterator[World]:
    yield from own_deployment.borrow()


def beat_until(until: float, beat: Callable[[], object]) -> None:
    """Beats twice per second until `until`, in milliseconds since the epoch."""
    while (left := until - now_ms()) > 0:
        beat()
        time.sleep(min(0.5, left / 1000))


def test_the_welcome_tells_the_settings(world: World) -> None:
    """§1: clients learn the interval from the service."""
    alice = world.phone("alice")
    welcome = next(m for m in alice.messages if m.type == "welcome")
    assert (welcome["heartbeatInterval"], welcome["heartbeatTimeout"]) == (1, 3)


@pytest.mark.alone
def test_a_silent_member_quits_and_the_others_are_told(world: World) -> None:
    """§3: 3 s without a word about the call → `quit`, reason `heartbeatTimeout`; who beats stays."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    # Nothing of bob is heard any more after his accept: he does not ack what follows either.
    call = ring(alice, bob, carol, mode="advanced")
    carol.accept(call)
    bob.expect_change(call, carol, "accepted")
    bob.auto_ack = False
    last_word = bob.accept(call)["time"]

    def beat() -> None:
        alice.heartbeat(call)
        carol.heartbeat(call)

    beat_until(last_word + TIMEOUT_MS - 300, beat)
    assert member(alice.get(call), bob)["state"] == "accepted"
    beat_until(last_word + TIMEOUT_MS + 300, beat)
    for other in (alice, carol):
        told = other.expect_change(call, bob, "quit")
        assert change_in(told, bob)["reason"] == "heartbeatTimeout"
        assert told.body.get("actor") is None
        assert 0 <= told["time"] - (last_word + TIMEOUT_MS) <= 150
        assert told["call"]["state"] == "active"
    # The one who quit is told too (§5).
    own = bob.expect_change(call, bob, "quit")
    assert own.event == "call.userStateChanged"
    # Those who beat are still there, well after their own time would have been over.
    beat_until(last_word + TIMEOUT_MS + 1500, beat)
    states = {m["userID"]: m["state"] for m in alice.get(call)["members"]}
    assert states == {alice.user: "accepted", bob.user: "quit", carol.user: "accepted"}


def test_when_one_of_two_falls_silent_the_call_ends(world: World) -> None:
    """§3: auto-end, reason `heartbeatTimeout`."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    bob.close()
    beat_until(now_ms() + TIMEOUT_MS + 300, lambda: alice.heartbeat(call))
    ended = alice.expect("call.ended", call)
    assert ended["call"]["endReason"] == "heartbeatTimeout"
    assert (member(ended["call"], bob)["state"], member(ended["call"], bob)["reason"]) == ("quit", "heartbeatTimeout")
    assert member(ended["call"], alice)["state"] == "accepted"


def test_when_all_fall_silent_the_call_ends(world: World) -> None:
    """§3: nobody is accepted any more; the user is free for another call."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)

    def ended(messages: list[Received]) -> Received | None:
        return next(
            (m for m in messages if m.type == "event" and m["callID"] == call and m["call"]["state"] == "ended"), None
        )

    # Whether a device is told of its own quit or of the end depends on who was heard last.
    told = alice.wait(ended, TIMEOUT_MS / 1000 + 1, "the call ends")
    assert told["call"]["endReason"] == "heartbeatTimeout"
    assert "quit" in [entry["state"] for entry in told["call"]["members"]]
    talk(alice, bob)


def test_the_inviter_must_beat_while_it_rings(world: World) -> None:
    """§3: the inviter is accepted from the start; the invitee, still pending, has missed the call."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    alice.close()
    cancelled = bob.expect("call.cancelled", call, timeout=TIMEOUT_MS / 1000 + 1)
    assert (cancelled["call"]["endReason"], cancelled["missed"]) == ("heartbeatTimeout", True)


def test_common_calls_need_no_heartbeat(world: World) -> None:
    """§3: advanced mode only; a heartbeat of a common call, or of a stranger, is ignored in silence (§2)."""
    alice, bob, mallory = world.phones("alice", "bob", "mallory")
    call = ring(alice, bob)
    with alice.silent(0, call), bob.silent(0, call):
        for device in (alice, mallory):
            mark = device.mark
            device.heartbeat(call)
            alice.expect_silence(TIMEOUT_MS / 2000 + 0.2, call)
            assert device.messages[mark:] == []
    assert alice.get(call)["state"] == "ringing"


def test_pending_members_need_no_heartbeat(world: World) -> None:
    """§3: accepted members only."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    beat_until(now_ms() + TIMEOUT_MS + 500, lambda: alice.heartbeat(call))
    assert member(alice.get(call), bob)["state"] == "received"


@pytest.mark.alone
def test_who_moves_the_call_to_another_device_is_heard_at_that_moment(world: World) -> None:
    """§3: the join counts as a word about the call, on the device that is in it from now on."""
    alice, bob = world.phones("alice", "bob")
    laptop = world.another(bob, "laptop")
    call = ring(alice, bob, mode="advanced")
    accepted = bob.accept(call)["time"]
    alice.expect_change(call, bob, "accepted")
    laptop.expect("call.handledElsewhere", call)
    # From here on the join is the only word: an ack of the device that is in the call would be one too.
    bob.auto_ack = laptop.auto_ack = False
    beat_until(accepted + 2300, lambda: alice.heartbeat(call))
    joined = laptop.join(call)["time"]
    beat_until(joined + 1500, lambda: alice.heartbeat(call))
    assert member(alice.get(call), bob)["state"] == "accepted"
    beat_until(joined + TIMEOUT_MS + 300, lambda: alice.heartbeat(call))
    ended = alice.expect("call.ended", call)
    assert (ended["call"]["endReason"], change_in(ended, bob)["reason"]) == ("heartbeatTimeout", "heartbeatTimeout")
    assert 0 <= ended["time"] - (joined + TIMEOUT_MS) <= 150


def test_any_word_about_the_call_counts_as_a_heartbeat(world: World) -> None:
    """§3: from whom *nothing about the call was heard*: a request keeps the member alive as well."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    revision = alice.get(call)["revision"]

    def beat() -> None:
        alice.get(call)
        bob.ack(call, revision)

    beat_until(now_ms() + TIMEOUT_MS + 700, beat)
    assert alice.get(call)["state"] == "active"
