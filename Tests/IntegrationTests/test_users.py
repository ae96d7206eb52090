"""Profiles that two coordinators change at once, and that a coordinator left behind (§2, Users)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness import STORES, Device, World, member, wait_until


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, deployments: dict[str, World]) -> Iterator[World]:
    yield from deployments[request.param].borrow()


def profile(asker: Device, user: Device) -> dict[str, Any]:
    """The user's entry in a `user.query`."""
    response = asker.ok("user.query", userIDs=[user.user])
    assert not response.get("errors"), response
    (found,) = response["users"]
    return found


def leave(asker: Device, device: Device) -> None:
    """Logs the user's last device out, and waits until the service knows: a coordinator may serve the goodbye while
    another serves the next question."""
    device.logout()
    wait_until(lambda: not profile(asker, device)["online"], 10, f"{device} is offline")


def test_fields_that_two_devices_change_at_once_are_both_kept(world: World) -> None:
    """§2: fields that are left out stay as they are, also when two coordinators serve the user at the same instant."""
    phone = world.phone("alice")
    web = world.another(phone, "web")
    for number in range(20):
        requests = [
            phone.start("user.update", name=f"name {number}"),
            web.start("user.update", avatarURL=f"url {number}"),
            phone.start("user.update", extendedData=f"data {number}"),
        ]
        for request in requests:
            request.ok()
        known = profile(phone, phone)
        fields = (known["name"], known["avatarURL"], known["extendedData"])
        assert fields == (f"name {number}", f"url {number}", f"data {number}")


def test_profiles_survive_the_coordinator(rig: Any) -> None:
    """A known user stays known."""
    world = rig.world(users="known")
    alice, bob = world.phones("alice", "bob")
    alice.ok("user.update", name="Alice")
    leave(alice, bob)
    world.service.restart()
    assert profile(alice, alice) == {"userID": alice.user, "name": "Alice", "online": True}
    assert member(alice.ok("call.invite", invitees=[bob.user])["call"], alice)["name"] == "Alice"
