"""Protocol, section 7: the consequences when a provider refuses, fails, or is not there."""

from __future__ import annotations

import time
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from conftest import Rig
from harness import Device, now_ms, wait_until
from harness.http2 import Reply
from harness.push_content import Pushed
from harness.push_providers import GONE, PushProviders, fcm_error
from harness.push_target import PLATFORMS, Target
from harness.pushing import Pushing, Sleeper, asleep

KINDS = ("apnsVoIP", "fcm", "webPush")


def attempts(push: Pushing, target: Target, call: str) -> list[Pushed]:
    return push.providers.of(target, "ring", call)


def pauses(attempted: list[Pushed]) -> list[float]:
    return [later.at - earlier.at for earlier, later in pairwise(attempted)]


def registered(push: Pushing, device: Device) -> list[tuple[str, str]]:
    """The registrations of a device that is not connected."""
    again = push.world.device(device.user, device.device, presence=False)
    left = push.registrations(again)
    again.close()
    return left


def expect_forgotten(push: Pushing, device: Device) -> None:
    """The timeline may tell that a device is gone before its registration has ended."""
    wait_until(lambda: registered(push, device) == [], 5, f"no registration of {device} is left")


def call_all(push: Pushing, bobs: list[Sleeper], **fields: Any) -> list[tuple[Target, str]]:
    """Rings each device by a call of its own. Returns each device's target and call."""
    alice = push.world.phone("alice")
    return [(bob.only, alice.invite(bob.user, **fields)) for bob in bobs]


def test_what_failed_is_sent_again_under_the_same_id(push: Pushing) -> None:
    bobs = [push.sleeper("bob", platform) for platform in KINDS]
    for bob in bobs:
        push.providers.fail(bob.only, Reply(503), times=3)
    calls = call_all(push, bobs)
    for target, call in calls:
        push.providers.expect(target, "ring", call)
        made = attempts(push, target, call)
        assert [push.status // 100 for push in made] == [5, 5, 5, 2]
        for pause, expected in zip(pauses(made), (0.2, 0.5, 1), strict=True):
            assert expected * 0.8 <= pause <= expected + 3, (target.platform, pauses(made))
        if target.platform == "fcm":
            assert len({p.content["check"] for p in made}) == 1
        else:
            assert len({p.id for p in made}) == 1
    time.sleep(1)
    assert [len(attempts(push, *called)) for called in calls] == [4] * len(KINDS)


def test_a_provider_says_when_to_come_again(push: Pushing) -> None:
    bobs = []
    for platform, status in product(KINDS, (429, 503)):
        bobs.append(push.sleeper("bob", platform))
        push.providers.fail(bobs[-1].only, Reply(status, headers={"retry-after": "2"}))
    for target, call in call_all(push, bobs):
        push.providers.expect(target, "ring", call)
        made = attempts(push, target, call)
        assert 1.9 <= pauses(made)[0] <= 6, (target.platform, made[0].status)


@pytest.mark.parametrize("cut", ["reset", "refuse", "close", "goaway"])
def test_a_lost_connection_loses_no_push(push: Pushing, cut: Any) -> None:
    bobs = [push.sleeper("bob", platform) for platform in KINDS]
    for bob in bobs:
        push.providers.fail(bob.only, Reply(cut=cut), times=2)
    for target, call in call_all(push, bobs):
        taken = push.providers.expect(target, "ring", call)
        assert len(attempts(push, target, call)) == 3, target.platform
        assert target.platform == "fcm" or push.providers.ids(target, "ring", call) == {taken.id: 3}


def test_a_provider_that_is_away_is_tried_while_it_rings(push: Pushing) -> None:
    alice, bob = push.world.phone("alice"), push.sleeper("bob", "apnsVoIP")
    push.providers.apns.stop()
    call = alice.invite(bob.user)
    push.expect_told(call, outcome="failed", platform="apnsVoIP")
    push.providers.apns.start()
    push.providers.expect(bob.only, "ring", call)
    push.expect_told(call, outcome="sent", status=200)


def test_ringing_that_is_over_is_not_tried_again(push: Pushing) -> None:
    bobs = [push.sleeper("bob", platform) for platform in KINDS]
    for bob in bobs:
        push.providers.always(bob.only, Reply(500))
    calls = call_all(push, bobs, timeout=3)
    for target, call in calls:
        push.providers.expect(target, "ring", call, taken=False)
    end = time.monotonic() + 3.4
    time.sleep(5.5)
    for target, call in calls:
        rings = attempts(push, target, call)
        assert len(rings) >= 3
        assert all(ring.at < end for ring in rings), target.platform
        push.providers.always(target, None)
    for target, call in calls:
        if target.platform != "apnsVoIP":
            push.providers.expect(target, "missed", call)
        assert push.providers.of(target, "stop", call) == []


REFUSALS: list[tuple[str, Reply]] = [
    ("apnsVoIP", Reply(400, {"reason": "BadDeviceToken"})),
    ("apnsVoIP", Reply(400, {"reason": "DeviceTokenNotForTopic"})),
    ("apnsVoIP", Reply(404, {"reason": "BadPath"})),
    ("apnsVoIP", Reply(413, {"reason": "PayloadTooLarge"})),
    ("fcm", fcm_error(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT")),
    ("fcm", fcm_error(404, "NOT_FOUND", "SOMETHING_ELSE")),
    ("fcm", Reply(410, b"gone")),
    ("webPush", Reply(400)),
    ("webPush", Reply(413)),
    ("webPush", Reply(301, headers={"location": "https://127.0.0.1/elsewhere"})),
]


def test_what_is_refused_is_not_tried_again_and_ends_no_registration(push: Pushing) -> None:
    bobs = [push.sleeper("bob", platform) for platform, _ in REFUSALS]
    for bob, (_, reply) in zip(bobs, REFUSALS, strict=True):
        push.providers.always(bob.only, reply)
    calls = call_all(push, bobs)
    for (target, call), (platform, reply) in zip(calls, REFUSALS, strict=True):
        push.providers.expect(target, "ring", call, taken=False)
        told = push.expect_told(call, platform=platform, push="ring")
        if reply.status != 301:
            assert told["outcome"] == "refused", (platform, reply, told)
        if platform == "apnsVoIP":
            assert (told["status"], told["reason"]) == (reply.status, reply.body["reason"])
    time.sleep(1)
    for bob, (target, call), (platform, reply) in zip(bobs, calls, REFUSALS, strict=True):
        assert reply.status == 301 or len(attempts(push, target, call)) == 1, (platform, reply)
        assert registered(push, bob.device) == [("default", platform)], (platform, reply)


def test_a_device_that_is_gone_is_forgotten(push: Pushing) -> None:
    bobs = [push.sleeper("bob", platform) for platform in PLATFORMS]
    time.sleep(0.05)
    for bob, platform in zip(bobs, PLATFORMS, strict=True):
        push.providers.fail(bob.only, GONE[platform]())
    for bob, (target, call) in zip(bobs, call_all(push, bobs), strict=True):
        push.expect_told(call, platform=target.platform, push="ring", outcome="gone")
        expect_forgotten(push, bob.device)
    call_all(push, bobs)
    time.sleep(0.7)
    assert [len(push.providers.of(bob.only)) for bob in bobs] == [1] * len(PLATFORMS)


def test_web_push_404_means_gone(push: Pushing) -> None:
    alice, bob = push.world.phone("alice"), push.sleeper("bob", "webPush")
    push.providers.fail(bob.only, Reply(404))
    push.expect_told(alice.invite(bob.user), outcome="gone")
    expect_forgotten(push, bob.device)


def test_an_app_that_was_installed_again_stays_registered(push: Pushing) -> None:
    """APNs tells since when the token was gone: a registration made later than that is another installation's."""
    alice, bob = push.world.phone("alice"), push.sleeper("bob", "apnsVoIP")
    since = int(now_ms()) - 60_000
    push.providers.fail(bob.only, Reply(410, {"reason": "Unregistered", "timestamp": since}))
    call = alice.invite(bob.user)
    assert push.expect_told(call, push="ring")["outcome"] == "refused"
    assert registered(push, bob.device) == [("default", "apnsVoIP")]


def test_what_became_gone_while_the_device_registered_anew_stays(push: Pushing) -> None:
    """The provider answers late, and the app has another token by then."""
    alice, bob = push.world.phone("alice"), push.sleeper("bob", "fcm")
    gone = GONE["fcm"]()
    push.providers.fail(bob.only, Reply(gone.status, gone.body, gone.headers, delay=1))
    call = alice.invite(bob.user)
    push.providers.expect(bob.only, "ring", call, taken=False)
    new = push.sleeper_of(bob.user, "fcm")
    push.expect_told(call, platform="fcm", outcome="gone")
    assert registered(push, bob.device) == [("default", "fcm")]
    call = alice.invite(bob.user)
    push.providers.expect(new.only, "ring", call)


def test_google_gets_a_new_access_token_when_it_wants_one(push: Pushing) -> None:
    alice, bob = push.world.phone("alice"), push.sleeper("bob", "fcm")
    call = alice.invite(bob.user)
    push.providers.expect(bob.only, "ring", call)
    asked = len(push.providers.tokens.asked)
    call = alice.invite(bob.user)
    push.providers.expect(bob.only, "ring", call)
    push.providers.tokens.revoke()
    call = alice.invite(bob.user)
    push.providers.expect(bob.only, "ring", call)
    assert asked < len(push.providers.tokens.asked) <= asked + 3, "cached, and asked for by each process once"


NOT_LET_IN: list[tuple[str, Reply, int]] = [
    ("apnsVoIP", Reply(403, {"reason": "InvalidProviderToken"}), 1),
    ("fcm", Reply(401, {"error": {"code": 401, "status": "UNAUTHENTICATED"}}), 2),
    ("fcm", fcm_error(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"), 1),
    ("fcm", fcm_error(401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"), 1),
]
"""Each refusal with its number of attempts."""


def test_who_is_not_let_in_tries_once_more_at_most(push: Pushing) -> None:
    """APNs: no second attempt with a token younger than 20 minutes. FCM: no second attempt when FCM refuses the
    registration, and not the access token."""
    bobs = [push.sleeper("bob", platform) for platform, *_ in NOT_LET_IN]
    for bob, (_, reply, _) in zip(bobs, NOT_LET_IN, strict=True):
        push.providers.always(bob.only, reply)
    calls = call_all(push, bobs)
    for (_, call), (_, reply, _) in zip(calls, NOT_LET_IN, strict=True):
        push.expect_told(call, outcome="refused", status=reply.status)
    time.sleep(0.7)
    for bob, called, (platform, reply, most) in zip(bobs, calls, NOT_LET_IN, strict=True):
        assert len(attempts(push, *called)) == most, (platform, reply)
        assert registered(push, bob.device) == [("default", platform)]
    for target, call in call_all(push, [push.sleeper("carol", platform) for platform in ("apnsVoIP", "fcm")]):
        push.providers.expect(target, "ring", call)


def test_googles_token_endpoint_may_fail_too(rig: Rig, tmp_path: Path) -> None:
    providers = PushProviders(tmp_path / "providers")
    providers.tokens.faults = [Reply(500), Reply(503)]
    world = rig.world(push=str(providers.settings()))
    alice, bob = world.phone("alice"), asleep(world, providers, "bob", "fcm")
    providers.expect(bob.only, "ring", alice.invite(bob.user))
    assert len(providers.tokens.asked) >= 3
    providers.expect_no_problems()
    providers.close()


@pytest.mark.waits
def test_a_provider_that_does_not_answer_is_asked_again(push: Pushing) -> None:
    """The push is sent again after 10 s; other pushes do not wait for this push."""
    platforms = ("apnsVoIP", "webPush")
    bobs, carols = ([push.sleeper(name, platform) for platform in platforms] for name in ("bob", "carol"))
    for bob in bobs:
        push.providers.fail(bob.only, Reply(cut="silence"))
    calls = call_all(push, bobs)
    for target, call in calls:
        push.providers.expect(target, "ring", call, taken=False)
    began = time.monotonic()
    for target, call in call_all(push, carols):
        assert push.providers.expect(target, "ring", call).at - began < 5, target.platform
    for target, call in calls:
        ring = push.providers.expect(target, "ring", call, 30)
        assert 9.5 < pauses(attempts(push, target, call))[0] < 20, target.platform
        assert push.providers.ids(target, "ring", call) == {ring.id: 2}


def test_a_stranger_is_not_reached_at_private_addresses(rig: Rig, tmp_path: Path) -> None:
    """A Web Push endpoint is any address that a user registers: no such address may lead into the deployment's own
    network."""
    providers = PushProviders(tmp_path / "providers")

    def nowhere(settings: dict[str, Any]) -> None:
        settings["apps"]["default"]["webPush"]["allowedNetworks"] = []

    world = rig.world(push=str(providers.settings(nowhere)))
    alice, bob = world.phone("alice"), world.phone("bob", presence=False)
    fields = providers.target(bob, "webPush").fields
    hosts = ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0")
    for number, host in enumerate(hosts):
        endpoint = f"https://{host}:{providers.web.port}/push/1"
        device = world.device(bob.user, f"d{number}", presence=False)
        device.start("push.register", bad=True, **fields | {"subscription": fields["subscription"] | {"endpoint": endpoint}}).wait()
        device.close()
    bob.close()
    call = alice.invite(bob.user, timeout=3)
    alice.expect_change(call, bob, "timeout", 15)
    assert providers.web.connections == 0
    providers.close()
