"""Protocol, section 7, Registering: `push.register`, `push.unregister`, and the causes that end a registration."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conftest import Rig
from harness import STORES, Device, RedisServer, now_ms, wait_until
from harness.gateway import user_path
from harness.push_providers import PushProviders
from harness.push_target import PLATFORMS, App, Target
from harness.pushing import Pushing, asleep


def expect_rung(push: Pushing, expected: set[str], *users: str) -> None:
    """Checks that these tokens, and no others, are rung when these users are called."""
    alice = push.world.phone("alice")
    calls = [alice.invite(user) for user in users]

    def tokens() -> set[str]:
        return {pushed.target.token for call in calls for pushed in push.providers.of(None, "ring", call)}

    wait_until(lambda: tokens() >= expected, 15, lambda: f"{expected} are rung, and not {tokens()} alone")
    time.sleep(1.5)
    assert tokens() == expected
    for call in calls:
        alice.cancel(call)


def test_registrations_are_told_in_order_and_last(push: Pushing) -> None:
    bob = push.world.phone("bob")
    before = now_ms()
    for platform in PLATFORMS:
        answer = bob.ok("push.register", **push.providers.target(bob, platform).fields)
    work = push.providers.target(bob, "fcm", push.providers.apps[1])
    answer = bob.ok("push.register", **work.fields)
    listed = answer["registrations"]
    expected = [("default", p) for p in ("apns", "apnsVoIP", "fcm", "webPush")] + [("work", "fcm")]
    assert [(entry["app"], entry["platform"]) for entry in listed] == expected
    assert all(before - 1000 <= entry["since"] <= now_ms() + 1000 for entry in listed)
    again = bob.ok("push.register", **work.fields)["registrations"]
    assert again[:4] == listed[:4] and again[4]["since"] >= listed[4]["since"]
    bob.logout()
    bob.connect()
    assert push.registrations(bob) == expected, "they outlive the connection"
    tablet = push.world.another(bob, "tablet")
    assert push.registrations(tablet) == [], "those of this device"
    devices = push.gateway.get(f"{user_path(bob)}/devices").ok()["devices"]
    shown = next(entry["push"] for entry in devices if entry["device"] == "phone")
    assert sorted((entry["app"], entry["platform"]) for entry in shown) == expected


def test_a_token_that_changes_while_it_rings_is_rung(push: Pushing) -> None:
    """The device makes no other request and is not online: its former token may be dead."""
    alice, bob = push.world.phone("alice"), push.sleeper("bob", "fcm")
    call = alice.invite(bob.user)
    push.providers.expect(bob.only, "ring", call)
    push.expect_told(call, push="ring", outcome="sent")
    phone = push.world.device(bob.user, "phone", presence=False, auto_ack=False)
    (other,) = push.providers.register(phone, "fcm")
    push.providers.expect(other, "ring", call)
    phone.ok("push.register", **other.fields)
    alice.cancel(call)
    push.providers.expect(other, "missed", call)
    assert len(push.providers.of(None, "ring", call)) == 2, "the same token again is not rung again"


def test_one_token_of_apple_in_another_letter_case_has_one_owner(push: Pushing) -> None:
    alice, bob, carol = push.world.phones("alice", "bob", "carol")
    target = push.providers.target(bob, "apns")
    bob.ok("push.register", **target.fields)
    answer = carol.ok("push.register", **(target.fields | {"token": target.token.upper()}))
    assert [entry["platform"] for entry in answer["registrations"]] == ["apns"]
    assert push.registrations(bob) == [], "the phone was handed on"
    tokens = push.providers.target(bob, "fcm"), push.providers.target(carol, "fcm")
    bob.ok("push.register", **tokens[0].fields)
    carol.ok("push.register", **(tokens[0].fields | {"token": tokens[0].token.swapcase()}))
    assert push.registrations(bob) == [("default", "fcm")], "Google's are other tokens then"


def test_registering_again_replaces(push: Pushing) -> None:
    bob = push.sleeper("bob")
    new = push.sleeper_of(bob.user)
    expect_rung(push, {new.only.token}, bob.user)


UNREGISTERED: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"platform": "fcm", "app": "default"}, [("default", "apnsVoIP"), ("work", "fcm")]),
    ({"platform": "fcm"}, [("default", "apnsVoIP")]),
    ({"app": "default"}, [("work", "fcm")]),
    ({}, []),
    ({"platform": "webPush"}, [("default", "apnsVoIP"), ("default", "fcm"), ("work", "fcm")]),
]


def test_unregistering_ends_what_it_names(push: Pushing) -> None:
    users, expected = [], set()
    for fields, left in UNREGISTERED:
        bob = push.world.phone("bob", presence=False)
        default = push.providers.register(bob, "apnsVoIP", "fcm")
        (work,) = push.providers.register(bob, "fcm", app=push.providers.apps[1])
        answer = bob.ok("push.unregister", **fields)["registrations"]
        bob.close()
        assert [(entry["app"], entry["platform"]) for entry in answer] == left
        names = {(target.app.name, target.platform): target.token for target in [*default, work]}
        voip = ("default", "apnsVoIP") in left
        expected |= {names[key] for key in left if not voip or key[1] == "apnsVoIP"}
        users.append(bob.user)
    expect_rung(push, expected, *users)


def test_a_key_that_is_no_point_of_the_curve_is_refused(push: Pushing) -> None:
    """The key has the right length and the right beginning."""
    bob = push.world.phone("bob")
    fields = push.providers.target(bob, "webPush").fields
    keys = {"p256dh": "B" + "A" * 86, "auth": "A" * 22}
    error = bob.refused("push.register", "badRequest", **(fields | {"subscription": fields["subscription"] | {"keys": keys}}))
    assert "subscription" in error["message"]


def test_the_fifth_app_ends_the_oldest(rig: Rig, tmp_path: Path) -> None:
    apps = [App(f"app{number}") for number in range(5)]
    providers = PushProviders(tmp_path / "providers", *apps)
    bob = rig.world(push=str(providers.settings())).phone("bob", presence=False)
    for app in apps[:4]:
        providers.register(bob, "fcm", app=app)
    providers.register(bob, "webPush", app=apps[0])
    providers.register(bob, "fcm", app=apps[4])
    left = bob.ok("push.unregister", app="nobody-has-this")["registrations"]
    assert [entry["app"] for entry in left] == ["app0", "app0", "app2", "app3", "app4"], "app0 registered later than app1"
    providers.close()


def test_a_phone_that_is_handed_on_does_not_ring_for_its_former_owner(push: Pushing) -> None:
    """Another user registers the same token; then its first owner registers the token again."""
    users, expected = [], set()
    for platform in ("fcm", "webPush"):
        bob = push.sleeper("bob", platform)
        carol = push.world.phone("carol", "tablet", presence=False)
        fields = bob.only.fields
        push.providers.targets[bob.only.token] = moved = move(bob.only, carol)
        carol.ok("push.register", **fields)
        carol.close()
        users += [bob.user, carol.user]
        expected.add(moved.token)
    back = push.sleeper("dave", "fcm")
    erin = push.world.phone("erin", presence=False)
    erin.ok("push.register", **back.only.fields)
    erin.close()
    again = push.world.device(back.user, "phone", presence=False)
    again.ok("push.register", **back.only.fields)
    again.close()
    expect_rung(push, expected | {back.only.token}, *users, back.user, erin.user)


def move(target: Target, device: Device) -> Target:
    """The same target under the user and device of `device`."""
    return replace(target, user=device.user, device=device.device)


def test_signing_out_and_deleting_end_registrations(push: Pushing) -> None:
    bob, carol = push.sleeper("bob"), push.sleeper("carol")
    other = push.sleeper_of(bob.user, device="tablet")
    assert push.gateway.ask("DELETE", f"{user_path(bob.user)}/devices/phone").status == 204
    assert push.gateway.ask("DELETE", user_path(carol.user)).status == 204
    expect_rung(push, {other.only.token}, bob.user, carol.user)
    alice = push.world.phone("alice")
    call = alice.invite(bob.user)
    push.providers.expect(other.only, "ring", call)
    push.gateway.ask("DELETE", f"{user_path(bob.user)}/devices/tablet")
    alice.cancel(call)
    push.providers.expect_silence(0.7, kind="missed", call=call)


def test_a_backend_registers_for_anybody(push: Pushing) -> None:
    """The backend registers as the user's device: the topic names the owner (section 1)."""
    backend = push.world.phone("bob", "phone", presence=False)
    (target,) = push.providers.register(backend, "apnsVoIP")
    backend.close()
    expect_rung(push, {target.token}, backend.user)


@pytest.mark.parametrize("store", STORES)
def test_registrations_outlive_every_process(rig: Rig, redis_server: RedisServer, tmp_path: Path, store: str) -> None:
    providers = PushProviders(tmp_path / "providers")
    common = {} if store == "SQLite" else {"store": redis_server.url, "redis_prefix": tmp_path.name}
    world = rig.world(push=str(providers.settings()), **common)
    bob = asleep(world, providers, "bob", "apnsVoIP")
    world.service.restart()
    alice = world.phone("alice")
    providers.expect(bob.only, "ring", alice.invite(bob.user))
    providers.expect_no_problems()
    providers.close()


def test_only_what_an_app_has_is_served(rig: Rig, tmp_path: Path) -> None:
    providers = PushProviders(tmp_path / "providers")

    def fcm_alone(settings: dict[str, Any]) -> None:
        settings["apps"]["default"] = {"fcm": settings["apps"]["default"]["fcm"]}

    world = rig.world(push=str(providers.settings(fcm_alone)))
    alice, bob = world.phone("alice"), asleep(world, providers, "bob", "fcm")
    assert "platform" in alice.refused("push.register", "badRequest", platform="apns", token="ab" * 32)["message"]
    content = providers.expect(bob.only, "ring", alice.invite(bob.user)).content
    assert content["body"] == "Incoming voice call", "an app without texts has the usual ones"
    providers.expect_no_problems()
    providers.close()
