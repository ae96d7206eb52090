"""docs/backend.md: a call that the backend holds needs no device and no heartbeat, and is never lost; a phone that
takes the call over needs heartbeats."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Rig
from harness import STORES, Device, RedisServer, World, change_in, member, wait_until
from harness.gateway import Gateway

HEARTBEAT_TIMEOUT = 3
"""Seconds. With less, a busy machine would lose phones that do send their heartbeats."""
TIMINGS = {"heartbeat_timeout": f"{HEARTBEAT_TIMEOUT}s", "heartbeat_interval": "250ms", "caller_grace": "200ms"}


@pytest.fixture(params=STORES)
def flags(request: pytest.FixtureRequest, redis_server: RedisServer) -> dict[str, str]:
    if request.param == "SQLite":
        return {}
    return {"store": redis_server.url, "redis_prefix": f"bellwire-{secrets.token_hex(4)}"}


class Held:
    """A deployment whose heartbeats are due soon, and a gateway."""

    def __init__(self, rig: Rig, directory: Path, flags: dict[str, str], **timings: str) -> None:
        self.world: World = rig.world(2, **TIMINGS, **timings, **flags)
        own = {name: value for name, value in flags.items() if name != "store"}
        self.gateway = Gateway(directory / "gateway", self.world.broker.url, self.world.service.store, **own).start()


@pytest.fixture
def held(rig: Rig, tmp_path: Path, flags: dict[str, str]) -> Iterator[Held]:
    held = Held(rig, tmp_path, flags)
    yield held
    held.gateway.stop()


def beat(seconds: float, call: str, *devices: Device) -> None:
    """They show that they live, for a while."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for device in devices:
            device.heartbeat(call)
        time.sleep(0.25)


@pytest.mark.waits
def test_no_heartbeat_is_asked_for_until_a_phone_takes_it_over(held: Held) -> None:
    """Twice the heartbeat timeout passes; then a phone joins, is silent, and has quit."""
    alice, bob = held.world.phones("alice", "bob")
    call = held.gateway.invite(alice, bob, mode="advanced")
    bob.accept(call)
    beat(2 * HEARTBEAT_TIMEOUT + 0.2, call, bob)
    state = held.gateway.call(call)
    assert state["state"] == "active" and member(state, alice)["device"] == "server"
    alice.join(call)
    beat(HEARTBEAT_TIMEOUT + 0.5, call, alice, bob)
    assert held.gateway.call(call)["state"] == "active"
    gone = wait_for_end(held, call, bob)
    assert gone["endReason"] == "heartbeatTimeout"
    assert (member(gone, alice)["state"], member(gone, alice)["reason"]) == ("quit", "heartbeatTimeout")


@pytest.mark.waits
def test_a_device_for_whom_the_backend_asks_needs_heartbeats(held: Held) -> None:
    """The backend may send heartbeats in the device's name."""
    alice, bob = held.world.user("alice"), held.world.user("bob")
    call = held.gateway.invite(alice, bob, mode="advanced", device="robot")
    end = time.monotonic() + 2 * HEARTBEAT_TIMEOUT + 0.2
    while time.monotonic() < end:
        held.gateway.on_call(call, "heartbeat", alice, device="robot").ok(204)
        time.sleep(0.25)
    assert held.gateway.call(call)["state"] == "ringing"
    wait_until(lambda: held.gateway.call(call)["state"] == "ended", 15, "the robot is silent")


def test_the_inviter_is_never_lost(held: Held) -> None:
    """The state of the user's devices does not matter."""
    alice, bob = held.world.phones("alice", "bob")
    web = held.world.another(alice, "web")
    call = held.gateway.invite(alice, bob)
    bob.expect("call.invited", call)
    alice.drop()
    web.logout()
    with bob.silent(1, call, "call.cancelled"):
        wait_until(lambda: not any(d["online"] for d in devices(held, alice)), 10, "nobody is online")
    assert held.gateway.call(call)["state"] == "ringing"
    assert bob.accept(call)["call"]["endReason"] == "answered"


def devices(held: Held, of: Device) -> list[dict[str, Any]]:
    return held.gateway.get(f"/v1/users/{of.user}/devices").ok()["devices"]


def test_a_backend_that_is_silent_for_too_long_has_quit(rig: Rig, tmp_path: Path, flags: dict[str, str]) -> None:
    held = Held(rig, tmp_path, flags, held_timeout="3s")
    try:
        alice, bob = held.world.phones("alice", "bob")
        call = held.gateway.invite(alice, bob, mode="advanced")
        bob.accept(call)
        alice.expect_change(call, bob, "accepted")
        # Any request about the call shows that the backend is there.
        end = time.monotonic() + 4
        while time.monotonic() < end:
            held.gateway.on_call(call, "heartbeat", alice).ok(204)
            beat(0.3, call, bob)
        assert held.gateway.call(call)["state"] == "active"
        began = time.monotonic()
        with_heartbeats = wait_for_end(held, call, bob)
        assert time.monotonic() - began > 1
        assert with_heartbeats["endReason"] == "heartbeatTimeout"
        assert member(with_heartbeats, alice)["reason"] == "heartbeatTimeout"
        told = bob.expect_change(call, alice, "quit")
        assert change_in(told, alice)["reason"] == "heartbeatTimeout"
        alice.expect_change(call, alice, "quit")
    finally:
        held.gateway.stop()


def wait_for_end(held: Held, call: str, *alive: Device) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        for device in alive:
            device.heartbeat(call)
        found = held.gateway.call(call)
        return found if found["state"] == "ended" else None

    return wait_until(ended, 20, "the call ends", every=0.2)
