"""Protocol, sections 6 and 7: the reports about pushes, and their readers; metrics; and the number of pushes to a
device."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from harness import Device, talk, wait_until
from harness.http2 import Reply
from harness.pushing import Pushing


def pushes(device: Device, call: str) -> list[dict[str, Any]]:
    return [entry for entry in device.trace(call) if entry["kind"] == "push"]


def counts(push: Pushing) -> Counter[tuple[str, str, str]]:
    """The number of pushes by platform, kind and outcome, over all processes."""
    total: Counter[tuple[str, str, str]] = Counter()
    for metrics in [service.metrics() for service in push.world.services] + [push.gateway.metrics()]:
        for name, value in metrics.items():
            if name.startswith("bellwire_pushes_total{"):
                labels = dict(re.findall(r'(\w+)="([^"]*)"', name))
                total[labels["platform"], labels["kind"], labels["outcome"]] += int(value)
    return total


def test_a_timeline_tells_its_own_user_of_pushes_and_nobody_else(push: Pushing) -> None:
    alice, carol = push.world.phones("alice", "carol")
    bob = push.sleeper("bob", "apnsVoIP", "fcm", device="iphone")
    tablet = push.sleeper_of(bob.user, "webPush", device="tablet")
    push.providers.fail(bob.target("apnsVoIP"), Reply(503, {"reason": "ServiceUnavailable"}))
    call = talk(alice, carol)
    alice.add(call, bob.user)
    push.providers.expect(bob.target("apnsVoIP"), "ring", call)
    push.providers.expect(tablet.only, "ring", call)
    push.expect_told(call, device="iphone", outcome="failed")
    push.expect_told(call, device="iphone", outcome="sent")
    push.expect_told(call, device="tablet", outcome="sent")
    told = push.told(call)
    shown = [(e["userID"], e["device"], e["platform"], e["push"], e["outcome"], e.get("status")) for e in told]
    assert Counter(shown) == Counter(
        [
            (bob.user, "iphone", "apnsVoIP", "ring", "failed", 503),
            (bob.user, "iphone", "apnsVoIP", "ring", "sent", 200),
            (bob.user, "tablet", "webPush", "ring", "sent", None),
        ]
    )
    failed = next(entry for entry in told if entry["outcome"] == "failed")
    assert failed["reason"] == "ServiceUnavailable" and failed["took"] >= 0
    web = next(entry for entry in told if entry["platform"] == "webPush")
    assert not {"status", "reason", "took"} & web.keys()
    assert pushes(alice, call) == [] and pushes(carol, call) == [], "others must not learn of devices"
    own = push.world.another(bob.device, "laptop", presence=False)
    assert len(pushes(own, call)) == 3
    alice.cancel(call)
    push.expect_told(call, push="missed", device="iphone", platform="fcm", outcome="sent")
    push.expect_told(call, push="missed", device="tablet", outcome="sent")
    tokens = [target.token for target in push.providers.targets.values()]
    text = push.gateway.get(f"/v1/calls/{call}/trace").raw.decode()
    assert not any(token in text for token in tokens)
    for entry in told:
        assert entry["kind"] == "push" and entry["coordinator"]


def test_pushes_are_counted_by_platform_kind_and_outcome(push: Pushing) -> None:
    before = counts(push)
    alice, bob = push.world.phone("alice"), push.sleeper("bob", "apns", "fcm", "webPush")
    push.providers.fail(bob.target("fcm"), Reply(500))
    push.providers.always(bob.target("apns"), Reply(400, {"reason": "BadDeviceToken"}))
    call = alice.invite(bob.user)
    push.providers.expect(bob.target("fcm"), "ring", call)
    alice.cancel(call)
    push.providers.expect(bob.target("webPush"), "missed", call)
    push.providers.expect(bob.target("fcm"), "missed", call)
    expected = {
        ("fcm", "ring", "failed"): 1,
        ("fcm", "ring", "sent"): 1,
        ("fcm", "missed", "sent"): 1,
        ("webPush", "ring", "sent"): 1,
        ("webPush", "missed", "sent"): 1,
        ("apns", "ring", "refused"): 1,
    }
    wait_until(lambda: all((counts(push) - before)[key] == value for key, value in expected.items()), 5, f"{expected}")


def test_one_inviter_wakes_a_device_ten_times_a_minute(push: Pushing) -> None:
    alice, carol = push.world.phones("alice", "carol")
    bob = push.sleeper("bob")
    for _ in range(10):
        call = alice.invite(bob.user)
        push.providers.expect(bob.only, "ring", call)
        alice.cancel(call)
    limited = alice.invite(bob.user)
    push.expect_told(limited, outcome="limited", push="ring")
    assert not push.providers.of(bob.only, "ring", limited)
    push.providers.expect(bob.only, "ring", carol.invite(bob.user))
    tablet = push.sleeper_of(bob.user, device="tablet")
    push.providers.expect(tablet.only, "ring", limited)


def test_a_device_is_woken_thirty_times_a_minute(push: Pushing) -> None:
    bob = push.sleeper("bob")
    for name in ("alice", "carol", "dave"):
        caller = push.world.phone(name)
        for _ in range(10):
            call = caller.invite(bob.user)
            push.providers.expect(bob.only, "ring", call)
            caller.cancel(call)
    limited = push.world.phone("eve").invite(bob.user)
    push.expect_told(limited, outcome="limited")
    assert not push.providers.of(bob.only, "ring", limited)


def test_further_attempts_do_not_count(push: Pushing) -> None:
    """Each push fails once: twenty attempts, ten pushes."""
    alice, bob = push.world.phone("alice"), push.sleeper("bob")
    push.providers.fail(bob.only, Reply(503), times=1)
    for turn in range(10):
        call = alice.invite(bob.user)
        push.providers.expect(bob.only, "ring", call)
        alice.cancel(call)
        if turn < 9:
            push.providers.fail(bob.only, Reply(503))
    assert len(push.providers.of(bob.only)) == 20
    push.expect_told(alice.invite(bob.user), outcome="limited")


def test_a_call_that_is_over_is_let_go(push: Pushing) -> None:
    """The pushes have no purpose any more: no push waits, and no call is held."""
    alice, bob = push.world.phone("alice"), push.sleeper("bob", "fcm")
    call = alice.invite(bob.user, timeout=1)
    push.providers.expect(bob.only, "missed", call)

    def idle() -> bool:
        metrics = [service.metrics() for service in push.world.services] + [push.gateway.metrics()]
        return all(m.get("bellwire_push_held_calls", 0) == 0 for m in metrics)

    wait_until(idle, 10, "no call is held")
