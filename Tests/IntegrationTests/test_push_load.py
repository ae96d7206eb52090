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
    """100 pushes to FCM are answered after 2 s each; what goes to Apple and browsers, and other requests, do not notice."""
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
        providers.expect(bob.only, "ring", calls[bob.user], 10)
    assert providers.web.most_in_flight <= 10
    assert 20 < providers.apns.most_in_flight <= 100


@pytest.mark.parametrize("platform", ["apnsVoIP", "fcm", "webPush"])
@pytest.mark.parametrize("last_answer", [0, 0.5], ids=["idle", "answered once more"])
def test_a_kept_connection_that_leads_nowhere_is_left(
    rig: Rig, providers: PushProviders, platform: str, last_answer: float
) -> None:
    """As when something on the way has forgotten the connection: nobody reads, nobody answers, and nobody says so."""
    world = rig.world(push=str(providers.settings()))
    alice, bob = world.phone("alice"), asleep(world, providers, "bob", platform)
    providers.always(bob.only, Reply(delay=last_answer))
    providers.expect(bob.only, "ring", alice.invite(bob.user))
    providers.server(platform).deafen()
    began = time.monotonic()
    call = alice.invite(bob.user)
    ring = providers.expect(bob.only, "ring", call, 15)
    assert ring.at - began < 12, f"{ring.at - began:.1f} s"
    assert ring.connection > 1


@pytest.mark.parametrize("platform", ["apnsVoIP", "fcm", "webPush"])
def test_a_provider_that_is_slow_to_shake_hands_is_reached(rig: Rig, providers: PushProviders, platform: str) -> None:
    """Longer than a reading may be old: what is handed over is judged anew when the connection is there."""
    world = rig.world(push=str(providers.settings()))
    alice, bob = world.phone("alice"), asleep(world, providers, "bob", platform)
    server = providers.server(platform)
    server.handshake_delay = 0.7
    for _ in range(4):
        began = time.monotonic()
        call = alice.invite(bob.user)
        ring = providers.expect(bob.only, "ring", call, 5)
        assert ring.at - began < 3.5
        alice.cancel(call)
        server.cut_all()
    time.sleep(1)
    assert [len(providers.of(bob.only, "ring", push.call)) for push in providers.of(bob.only, "ring")] == [1] * 4
