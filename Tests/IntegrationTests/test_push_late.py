"""Protocol, section 7: no ring is handed over after the ringing is over, whatever the cause of the delay."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from conftest import Rig
from harness import STORES, RedisServer, wait_until
from harness.http2 import Reply
from harness.push_providers import PushProviders
from harness.pushing import SLACK, asleep, connecting, store_options

KINDS = ("apnsVoIP", "fcm", "webPush")


def test_a_ring_that_was_held_up_is_not_handed_over_after_the_end(rig: Rig, providers: PushProviders) -> None:
    """Each provider takes the connection and is silent; meanwhile the ringing ends, in three ways; then the provider
    speaks."""
    world = rig.world(push=str(providers.settings()))
    alice = world.phone("alice")
    held = [(how, asleep(world, providers, "bob", platform)) for how in ("cancel", "answer", "ack") for platform in KINDS]
    laptops = {bob.user: world.device(bob.user, "laptop") for how, bob in held if how == "answer"}
    for platform in KINDS:
        providers.server(platform).hold_handshakes()
    calls = {bob.user: alice.invite(bob.user, timeout=30) for _, bob in held}
    for platform in KINDS:
        connecting(providers.server(platform), 1)
    time.sleep(0.2)
    for how, bob in held:
        call = calls[bob.user]
        match how:
            case "cancel":
                alice.cancel(call)
            case "answer":
                laptops[bob.user].accept(call)
            case "ack":
                bob.wake()
                bob.device.expect("call.invited", call)
                bob.device.ok("call.get", callID=call)
    time.sleep(0.15)
    for platform in KINDS:
        providers.server(platform).release_handshakes()
    time.sleep(2)
    for how, bob in held:
        assert not providers.of(bob.only, "ring", calls[bob.user]), (how, bob.only.platform)
        assert not providers.of(bob.only, "stop", calls[bob.user]), "who was sent no ring needs no stop"


def test_a_ring_that_was_held_up_goes_out_while_it_rings(rig: Rig, providers: PushProviders) -> None:
    world = rig.world(push=str(providers.settings()))
    alice, bob = world.phone("alice"), asleep(world, providers, "bob", "apnsVoIP")
    target = bob.only
    providers.apns.hold_handshakes()
    call = alice.invite(bob.user)
    connecting(providers.apns, 1)
    time.sleep(1.5)
    providers.apns.release_handshakes()
    providers.expect(target, "ring", call)
    time.sleep(0.5)
    assert len(providers.of(target, "ring", call)) == 1


@pytest.mark.waits
def test_a_ring_that_did_not_leave_in_time_is_told_as_late(rig: Rig, providers: PushProviders) -> None:
    world = rig.world(push=str(providers.settings()))
    alice, bob = world.phone("alice"), asleep(world, providers, "bob", "apnsVoIP")
    own = world.device(bob.user, "laptop", presence=False)
    providers.apns.hold_handshakes()
    call = alice.invite(bob.user, timeout=1)

    def told() -> list[str]:
        return [entry["outcome"] for entry in own.trace(call) if entry["kind"] == "push"]

    # When the connection has been given up.
    wait_until(lambda: told() == ["failed", "late"], 25, "the timeline tells it", every=0.1)
    providers.apns.release_handshakes()
    providers.expect_silence(0.5, bob.only)


def test_a_ring_that_waits_for_a_stream_is_not_handed_over_after_the_end(rig: Rig, providers: PushProviders) -> None:
    """The provider takes a single request at a time, and answers after 1.5 s."""
    providers.apns.streams = 1
    world = rig.world(push=str(providers.settings()))
    alice, bobs = world.phone("alice"), [asleep(world, providers, f"bob{n}", "apnsVoIP") for n in range(6)]
    targets = [bob.only for bob in bobs]
    for target in targets:
        providers.always(target, Reply(delay=1.5))
    calls = [alice.invite(bob.user) for bob in bobs]
    providers.expect(targets[0], "ring", calls[0])
    ends = []
    for call in calls:
        alice.cancel(call)
        ends.append(time.monotonic())
    time.sleep(4)
    for target, call, end in zip(targets, calls, ends, strict=True):
        for ring in providers.of(target, "ring", call):
            assert ring.at <= end + 0.1 + SLACK, f"{ring.at - end:.3f} s after the end"


@pytest.mark.parametrize("store", STORES)
def test_many_cancels_at_the_moment_of_the_push(
    rig: Rig, providers: PushProviders, redis_server: RedisServer, tmp_path: Path, store: str
) -> None:
    """Whenever the ringing ends, the device gets `missed`, and no ring comes after the end."""
    world = rig.world(2, push=str(providers.settings()), **store_options(store, redis_server, tmp_path))
    alice = world.phone("alice")
    chance = random.Random(11)
    made = []
    for number in range(40):
        bob = asleep(world, providers, f"bob{number}", "fcm")
        call = alice.invite(bob.user)
        time.sleep(chance.random() * 0.06)
        alice.cancel(call)
        made.append((bob.only, call, time.monotonic()))
    for target, call, end in made:
        providers.expect(target, "missed", call)
        for ring in providers.of(target, "ring", call):
            assert ring.at <= end + 0.1 + SLACK
        kinds = [push.kind for push in providers.of(target, None, call)]
        assert kinds in (["missed"], ["ring", "missed"]), kinds
