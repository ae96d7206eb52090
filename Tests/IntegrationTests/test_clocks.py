"""Clocks that an operator sets: the clock of a coordinator's machine, and the clock of Redis's machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Rig
from harness import Deploy, RedisServer, SteppedClock, World, now_ms, ring, talk, wait_until
from harness.http2 import Reply
from harness.push_providers import PushProviders
from harness.pushing import asleep
from harness.receiver import Receiver
from harness.turn import options as turn_options

STEPS = [70, -70]
"""Seconds."""
TOLERANCE_MS = 1_500
SHORT_SECONDS = 5


@pytest.fixture(params=["redis's machine", "a coordinator's machine", "a coordinator's machine, SQLite"])
def stepped(request: pytest.FixtureRequest, deploy: Deploy, tmp_path: Path) -> Iterator[tuple[World, SteppedClock]]:
    """A deployment, and the clock of a machine of the deployment."""
    clock = SteppedClock(tmp_path / "clock")
    if request.param.endswith("SQLite"):
        yield deploy(1, env=clock.env), clock
        return
    is_redis = request.param == "redis's machine"
    server = RedisServer(tmp_path / "redis", env=clock.env if is_redis else None)
    world = deploy(2, store=server.url, **({} if is_redis else {"env": clock.env}))
    yield world, clock
    world.close()
    for service in world.services:
        service.stop()
    server.stop()


def steps_seen(world: World) -> float:
    return sum(service.metrics()["bellwire_store_clock_steps_total"] for service in world.services)


@pytest.mark.parametrize("seconds", STEPS)
def test_a_clock_that_is_set_ends_no_call_and_lets_none_ring_on(
    stepped: tuple[World, SteppedClock], seconds: int
) -> None:
    """§5: time is the store's, and goes on when an operator sets a clock."""
    world, clock = stepped
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    ringing = [ring(alice, other, timeout=60) for other in (bob, carol, dave)]
    active = talk(carol, dave)
    began = now_ms()
    short = ring(alice, bob, timeout=SHORT_SECONDS)
    clock.step(seconds)

    ended = bob.expect("call.timeout", short, 20)
    took = ended.wall - began
    assert took > SHORT_SECONDS * 1_000 - TOLERANCE_MS, f"the short call timed out after {took:.0f} ms"
    assert began + SHORT_SECONDS * 1_000 - 2 * TOLERANCE_MS < ended["call"]["endedAt"] < ended.wall + 2 * TOLERANCE_MS
    for call in ringing:
        assert alice.get(call)["state"] == "ringing"
    assert carol.get(active)["state"] == "active"

    # A call that begins now rings, is answered, and its times are right.
    later = ring(bob, alice, mode="advanced")
    before = now_ms()
    accepted = alice.accept(later)["call"]
    assert before - 2 * TOLERANCE_MS < accepted["acceptedAt"] < now_ms() + 2 * TOLERANCE_MS
    alice.end(later)
    assert all(service.status("/readyz") == 200 for service in world.services)


def test_a_coordinator_that_starts_after_redis_s_clock_was_set_knows_of_it(deploy: Deploy, tmp_path: Path) -> None:
    """The store keeps the coordinators' knowledge of the clock."""
    clock = SteppedClock(tmp_path / "clock")
    server = RedisServer(tmp_path / "redis", env=clock.env)
    world = deploy(1, store=server.url)
    try:
        alice, bob = world.phones("alice", "bob")
        call = ring(alice, bob, timeout=60)
        clock.step(70)
        wait_until(lambda: steps_seen(world) >= 1, 15, "the step is seen, and counted")
        log = world.service.log.read_text()
        assert "the clock of the store's machine was set" in log
        world.service.kill()
        world.service.start()
        world.service.wait_ready()
        assert alice.start("call.get", callID=call).ok(25)["call"]["state"] == "ringing"
        welcome = world.another(alice, "web").had("welcome")[0]
        assert abs(welcome["serverTime"] - welcome.wall) < TOLERANCE_MS
        alice.cancel(call)
    finally:
        world.close()
        world.service.stop()
        server.stop()


@pytest.mark.parametrize("seconds", [-7_200, 7_200], ids=["late", "early"])
def test_what_strangers_compare_with_their_clocks_is_by_the_wall_clock(
    rig: Rig, providers: PushProviders, tmp_path: Path, seconds: int
) -> None:
    """docs/decisions/0024: a machine started with a clock two hours away, and the clock was corrected afterwards. The
    service's own time stays two hours away. Receivers and providers here refuse other times than their own (`Receiver`,
    `PushProviders`)."""
    clock = SteppedClock(tmp_path / "clock")
    clock.step(seconds)
    receiver = Receiver(tmp_path / "receiver")
    try:
        world = rig.world(
            env=clock.env,
            webhooks=str(receiver.settings()),
            push=str(providers.settings()),
            **turn_options(tmp_path, "turn:127.0.0.1:3478"),
        )
        clock.step(0)
        alice = world.phone("alice")
        welcome = alice.had("welcome")[0]
        assert abs(welcome["serverTime"] / 1000 - seconds - time.time()) < 60, "the service goes on by the time that it began with"
        expiry = int(welcome["iceServers"][0]["username"].split(":")[0])
        assert abs(expiry - 3_600 - time.time()) < 10

        iphone = asleep(world, providers, "bob", "apnsVoIP", "webPush")
        android = asleep(world, providers, "carol", "fcm")
        ended = int(time.time() * 1_000) - 60_000
        call = alice.invite(iphone.user, android.user)
        for target in (iphone.target("apnsVoIP"), android.only):
            pushed = providers.expect(target, "ring", call)
            assert 0 < pushed.content["expiresIn"] <= 60_000
        wait_until(lambda: receiver.of_call(call), 15, "the webhook is taken")
        assert abs(int(receiver.of_call(call)[0].headers["webhook-timestamp"]) - time.time()) < 10
        alice.cancel(call)
        providers.expect(iphone.target("webPush"), "missed", call)

        # A token that ended before its registration is another token than the registered token.
        token = iphone.target("apnsVoIP")
        providers.fail(token, Reply(410, {"reason": "Unregistered", "timestamp": ended}))
        first = alice.invite(iphone.user)
        wait_until(lambda: [p for p in providers.of(token, call=first) if p.status == 410], 15, "Apple says 410")
        alice.cancel(first)
        second = alice.invite(iphone.user)
        assert providers.expect(token, "ring", second).taken
        alice.cancel(second)
    finally:
        receiver.stop()
    assert not receiver.problems
