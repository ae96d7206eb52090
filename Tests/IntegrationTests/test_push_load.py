"""Protocol, section 7: slow providers, and how many pushes are in flight."""

from __future__ import annotations

import time

import pytest

from conftest import Rig
from harness import UNLIMITED
from harness.http2 import Reply
from harness.push_providers import PushProviders
from harness.pushing import asleep

pytestmark = pytest.mark.alone


def test_a_slow_provider_holds_nobody_else_up(rig: Rig, providers: PushProviders) -> None:
    """FCM answers each push after 2 s; pushes to Apple and browsers, and other requests, are not delayed."""
    world = rig.world(push=str(providers.settings()))
    alice = world.phone("alice")
    quick = [asleep(world, providers, f"q{n}", "apnsVoIP" if n % 2 else "webPush") for n in range(20)]
    slow = [asleep(world, providers, f"s{number}", "fcm") for number in range(60)]
    for bob in slow:
        providers.always(bob.only, Reply(delay=2))
    for first in range(0, len(slow), 9):
        alice.invite(*[bob.user for bob in slow[first : first + 9]])
    took = []
    for bob in quick:
        began = time.monotonic()
        call = alice.invite(bob.user)
        assert time.monotonic() - began < 0.5
        took.append(providers.expect(bob.only, "ring", call).at - began)
    assert sorted(took)[len(took) // 2] < 0.2 and max(took) < 0.8, took
    assert providers.fcm.most_in_flight <= 100


def test_at_most_so_many_are_in_flight(rig: Rig, providers: PushProviders) -> None:
    """100 per provider and process, and 10 per host and port of Web Push."""
    world = rig.world(push=str(providers.settings()), **UNLIMITED)
    alice = world.phone("alice")
    bobs = [asleep(world, providers, f"b{n}", "webPush" if n < 20 else "apnsVoIP") for n in range(130)]
    for bob in bobs:
        providers.always(bob.only, Reply(delay=1))
    calls = {}
    for first in range(0, len(bobs), 9):
        users = [bob.user for bob in bobs[first : first + 9]]
        calls |= dict.fromkeys(users, alice.invite(*users))
    for bob in bobs:
        providers.expect(bob.only, "ring", calls[bob.user])
    assert providers.web.most_in_flight <= 10
    assert 20 < providers.apns.most_in_flight <= 100
