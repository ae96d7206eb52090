"""Protocol, section 7: connections to providers that lead nowhere, or are slow to begin. All providers at once."""

from __future__ import annotations

import time

import pytest

from conftest import Rig
from harness.http2 import Reply
from harness.push_providers import PushProviders
from harness.pushing import asleep

KINDS = ("apnsVoIP", "fcm", "webPush")


@pytest.mark.waits
@pytest.mark.parametrize("last_answer", [0, 0.5], ids=["idle", "answered once more"])
def test_a_kept_connection_that_leads_nowhere_is_left(rig: Rig, providers: PushProviders, last_answer: float) -> None:
    """The test plays a router that has forgotten the connection: the provider neither reads nor answers, and no error
    comes."""
    world = rig.world(push=str(providers.settings()))
    alice, bobs = world.phone("alice"), [asleep(world, providers, "bob", platform) for platform in KINDS]
    for bob in bobs:
        providers.always(bob.only, Reply(delay=last_answer))
        providers.expect(bob.only, "ring", alice.invite(bob.user))
    for bob in bobs:
        providers.server(bob.only.platform).deafen()
    began = time.monotonic()
    calls = [alice.invite(bob.user) for bob in bobs]
    for bob, call in zip(bobs, calls, strict=True):
        ring = providers.expect(bob.only, "ring", call, 15)
        assert ring.at - began < 13, f"{bob.only.platform}: {ring.at - began:.1f} s"
        assert ring.connection > 1


def test_a_provider_that_is_slow_to_shake_hands_is_reached(rig: Rig, providers: PushProviders) -> None:
    """The handshake takes longer than a reading may be old: the service judges each push anew when the connection is
    there."""
    world = rig.world(push=str(providers.settings()))
    alice, bobs = world.phone("alice"), [asleep(world, providers, "bob", platform) for platform in KINDS]
    for platform in KINDS:
        providers.server(platform).handshake_delay = 0.7
    for _ in range(4):
        began = time.monotonic()
        calls = [alice.invite(bob.user) for bob in bobs]
        for bob, call in zip(bobs, calls, strict=True):
            ring = providers.expect(bob.only, "ring", call)
            assert ring.at - began < 3.5, bob.only.platform
            alice.cancel(call)
        for platform in KINDS:
            providers.server(platform).cut_all()
    time.sleep(1)
    for bob in bobs:
        rings = providers.of(bob.only, "ring")
        assert [len(providers.of(bob.only, "ring", push.call)) for push in rings] == [1] * 4, bob.only.platform
