"""What the service remembers for a limited time: leases, sessions, cancels, history (§1, §2). All 1 s here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import Deploy, Device, World, call_id, is_online, now_ms, present, ring, talk, wait_until, welcomes


@pytest.fixture(scope="module")
def own_deployment(deploy: Deploy) -> World:
    return deploy(presence_lease="1s", session_memory="1s", cancel_memory="1s", retain_history="1s")


@pytest.fixture
def world(own_deployment: World) -> Iterator[World]:
    yield from own_deployment.borrow()


def let_pass(milliseconds: int) -> None:
    """Waits for a point in time that the protocol speaks of."""
    until = now_ms() + milliseconds
    wait_until(lambda: now_ms() > until, 10, "the time is over")


def test_a_silent_device_is_online_until_its_lease_ends(world: World) -> None:
    """§1: presence is a lease; publishing it again renews it."""
    bob = world.phone("bob")
    assert is_online(world, bob.user)
    bob.auto_ack = False
    wait_until(lambda: not is_online(world, bob.user), 2, "the lease is over")
    bob.come_online()
    assert is_online(world, bob.user)


def test_anything_that_a_device_sends_renews_its_lease(world: World) -> None:
    """§1: requests as well as acks and heartbeats."""
    bob = world.phone("bob")
    until = now_ms() + 2000
    while now_ms() < until:
        bob.heartbeat("nothing")
        let_pass(300)
    assert is_online(world, bob.user)


def test_a_session_that_is_over_is_forgotten_after_its_time(world: World) -> None:
    """§1: remembered for 120 s; then the same session may begin again."""
    bob = world.phone("bob", presence=False)
    present(bob, False, "early", "lost")
    present(bob, True, "early")
    let_pass(1200)
    assert not welcomes(bob, "early")
    present(bob, True, "early")
    wait_until(lambda: welcomes(bob, "early"), 3, "welcome")


def test_a_fast_cancel_is_forgotten_after_its_time(world: World) -> None:
    """§2: remembered for 30 s; an invite with that callID rings afterwards."""
    alice, bob = world.phones("alice", "bob")
    call = call_id()
    alice.refused("call.cancel", "callNotFound", callID=call)
    let_pass(1200)
    assert alice.ok("call.invite", callID=call, invitees=[bob.user])["call"]["state"] == "ringing"
    bob.expect("call.invited", call)


def test_ended_calls_are_removed_after_their_time_and_live_ones_are_not(world: World) -> None:
    """History is cleaned without stopping the service; what lives is kept however old it is."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    live = talk(alice, bob)
    over = ring(carol, bob)
    carol.cancel(over)
    assert carol.get(over)["state"] == "ended"
    wait_until(lambda: _is_gone(carol, over), 15, "the ended call is removed", every=0.2)
    for device in (alice, bob):
        device.heartbeat(live)
        assert device.get(live)["state"] == "active"


def _is_gone(device: Device, call: str) -> bool:
    response = device.start("call.get", callID=call).wait()
    return not response["ok"] and response["error"]["code"] == "callNotFound"
