"""The inviting device goes offline while nobody has accepted (§3, Caller lost)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import Deploy, Device, World, member, now_ms, ring

GRACE_MS = 1000


@pytest.fixture(scope="module")
def own_deployment(deploy: Deploy) -> World:
    """A grace of 1 s instead of 10."""
    return deploy(store="memory:", caller_grace="1s")


@pytest.fixture
def world(own_deployment: World) -> Iterator[World]:
    yield from own_deployment.borrow()


def still_rings(callee: Device, call: str) -> None:
    """Nothing is cancelled until well after the grace."""
    callee.expect_silence((GRACE_MS + 400) / 1000, call)
    assert callee.get(call)["state"] == "ringing"


@pytest.mark.alone
@pytest.mark.parametrize("mode", ["common", "advanced"])
def test_a_caller_who_logs_out_stops_the_ringing_at_once(world: World, mode: str) -> None:
    """§3: at once on `logout`; the members become `cancelled`, reason `callerLost`."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, mode=mode)
    at = now_ms()
    alice.logout()
    cancelled = bob.expect("call.cancelled", call)
    assert cancelled["time"] - at < 300
    assert cancelled["missed"] is True
    assert (cancelled["call"]["state"], cancelled["call"]["endReason"]) == ("ended", "callerLost")
    assert member(cancelled["call"], bob)["reason"] == "callerLost"


def test_a_caller_who_is_lost_stops_the_ringing_after_the_grace(world: World) -> None:
    """§3: after a grace without coming back."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    lost_at = now_ms()
    alice.drop()
    for callee in (bob, carol):
        cancelled = callee.expect("call.cancelled", call)
        assert GRACE_MS - 5 <= cancelled["time"] - lost_at <= GRACE_MS + 300
        assert cancelled["call"]["endReason"] == "callerLost"
        assert [m["state"] for m in cancelled["call"]["members"]] == ["accepted", "cancelled", "cancelled"]


def test_a_caller_who_comes_back_in_time_goes_on_calling(world: World) -> None:
    """§3: within the grace, with a new session."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    alice.drop()
    alice.connect()
    still_rings(bob, call)
    bob.accept(call)
    assert alice.expect_change(call, bob, "accepted")["call"]["endReason"] == "answered"


def test_a_call_placed_after_coming_back_is_not_hurt_by_the_old_loss(world: World) -> None:
    """§1, §3: the loss belonged to an older session."""
    alice, bob = world.phones("alice", "bob")
    alice.drop()
    alice.connect()
    still_rings(bob, ring(alice, bob))


def test_only_the_inviting_device_counts(world: World) -> None:
    """§3: another device of the inviter may go."""
    alice, bob = world.phones("alice", "bob")
    web = world.another(alice, "web")
    call = ring(alice, bob)
    web.logout()
    still_rings(bob, call)


def test_another_device_of_the_inviter_does_not_keep_the_call(world: World) -> None:
    """§3: the inviting device going offline cancels."""
    alice, bob = world.phones("alice", "bob")
    world.another(alice, "web")
    call = ring(alice, bob)
    alice.logout()
    assert bob.expect("call.cancelled", call)["call"]["endReason"] == "callerLost"


def test_once_somebody_accepted_the_caller_may_be_lost(world: World) -> None:
    """§3: only while nobody has accepted; the other invitees ring on."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    bob.accept(call)
    alice.logout()
    carol.expect_change(call, bob, "accepted")
    carol.expect_silence((GRACE_MS + 400) / 1000, call)
    assert carol.get(call)["state"] == "active"
    assert carol.accept(call)["call"]["endReason"] == "answered"


def test_an_answer_within_the_grace_wins(world: World) -> None:
    """§3: the call was answered before the grace was over."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(alice, bob, carol, mode="advanced")
    alice.drop()
    bob.accept(call)
    carol.expect_change(call, bob, "accepted")
    carol.expect_silence((GRACE_MS + 400) / 1000, call)
    assert bob.get(call)["state"] == "active"


def test_a_caller_without_presence_is_never_lost(world: World) -> None:
    """§1: a client that never publishes presence can call, and is never *lost*."""
    alice = world.phone("alice", presence=False)
    bob = world.phone("bob")
    call = ring(alice, bob)
    alice.drop()
    still_rings(bob, call)


def test_a_callee_who_is_lost_changes_nothing(world: World) -> None:
    """§3: the invitation stands until it expires."""
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    bob.logout()
    alice.expect_silence(0.4, call)
    assert alice.get(call)["state"] == "ringing"
