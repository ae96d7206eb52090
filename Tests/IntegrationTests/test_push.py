"""Protocol, section 7: the pushes to each device, and the times of these pushes."""

from __future__ import annotations

import time

import pytest

from harness import member, now_ms, ring, talk
from harness.push_target import PLATFORMS
from harness.pushing import Pushing

AT_ONCE = 0.9
"""Seconds: less than `after`."""


@pytest.mark.alone
def test_a_device_that_sleeps_is_rung_at_once(push: Pushing) -> None:
    bob = push.sleeper("bob")
    alice = push.world.phone("alice")
    alice.ok("user.update", name="Alice", avatarURL="https://example.com/a.png")
    began = time.monotonic()
    call = alice.invite(bob.user, media="video", mode="advanced", timeout=30)
    pushed = push.providers.expect(bob.only, "ring", call)
    assert pushed.at - began < AT_ONCE
    shown = alice.get(call)
    assert {k: v for k, v in pushed.content.items() if k not in ("check", "expiresIn")} == {
        "kind": "ring",
        "callID": call,
        "revision": 1,
        "inviter": alice.user,
        "name": "Alice",
        "avatarURL": "https://example.com/a.png",
        "media": "video",
        "mode": "advanced",
        "createdAt": shown["createdAt"],
        "expiresAt": member(shown, bob.user)["expiresAt"],
        "title": "Alice",
        "body": "Incoming video call",
    }
    assert 28_000 < pushed.content["expiresIn"] <= 30_000
    time.sleep(1.5)
    assert len(push.providers.of(bob.only)) == 1, "once per device, kind and invitation"
    assert member(alice.get(call), bob.user)["state"] == "inviting", "that a push was sent is no ack"


def test_voip_rings_alone_and_else_everything_else(push: Pushing) -> None:
    alice = push.world.phone("alice")
    iphone = push.sleeper("bob", *PLATFORMS)
    android = push.sleeper_of(iphone.user, "apns", "fcm", "webPush", device="tablet")
    call = alice.invite(iphone.user)
    for target in [iphone.target("apnsVoIP"), *android.targets]:
        push.providers.expect(target, "ring", call)
    push.providers.expect_silence(0.5, iphone.target("apns"))
    assert len(push.providers.of(call=call)) == 4


def test_each_app_of_a_device_rings(push: Pushing) -> None:
    alice = push.world.phone("alice")
    bob = push.sleeper("bob", "fcm", "webPush")
    work = push.sleeper_of(bob.user, "fcm", "apns", app=push.providers.apps[1])
    call = alice.invite(bob.user)
    for target in [*bob.targets, *work.targets]:
        push.providers.expect(target, "ring", call)


@pytest.mark.alone
def test_a_device_that_is_online_has_a_second_for_its_ack(push: Pushing) -> None:
    alice = push.world.phone("alice")
    bob, carol = push.world.phone("bob", auto_ack=False), push.world.phone("carol")
    (deaf,), (awake,) = (push.providers.register(device, "apnsVoIP") for device in (bob, carol))
    began = time.monotonic()
    call = alice.invite(bob, carol)
    pushed = push.providers.expect(deaf, "ring", call)
    assert 0.95 < pushed.at - began < 2
    push.providers.expect_silence(0.5, awake)


def test_a_late_ack_before_the_push_stops_it(push: Pushing) -> None:
    alice, bob = push.world.phone("alice"), push.world.phone("bob", auto_ack=False)
    (target,) = push.providers.register(bob, "apnsVoIP")
    call = alice.invite(bob)
    time.sleep(0.3)
    bob.ack(call, 1)
    push.providers.expect_silence(1.5, target)


@pytest.mark.alone
def test_a_device_that_is_lost_without_having_acked_is_rung_at_once(push: Pushing) -> None:
    alice, bob = push.world.phone("alice"), push.world.phone("bob", auto_ack=False)
    (target,) = push.providers.register(bob, "apnsVoIP")
    began = time.monotonic()
    call = alice.invite(bob)
    bob.expect("call.invited", call)
    bob.drop()
    assert push.providers.expect(target, "ring", call).at - began < AT_ONCE


def test_an_answer_on_another_device_stops_the_ringing(push: Pushing) -> None:
    alice, laptop = push.world.phones("alice", "bob")
    phone = push.sleeper_of(laptop.user, "apns", "fcm", "webPush", device="tablet")
    for answer in ("accept", "reject"):
        call = alice.invite(laptop)
        for target in phone.targets:
            push.providers.expect(target, "ring", call)
        laptop.ok(f"call.{answer}", callID=call)
        for platform in ("fcm", "webPush"):
            push.providers.expect(phone.target(platform), "stop", call)
        time.sleep(0.5)
        assert not push.providers.of(phone.target("apns"), "stop", call)
        assert not push.providers.of(None, "missed", call)
        assert len(push.providers.of(call=call)) == 5


def test_voip_is_never_told_to_stop(push: Pushing) -> None:
    """iOS ends apps that get a VoIP push and show no call. The device was sent `ring` all the same, and its others are told."""
    alice, laptop = push.world.phones("alice", "bob")
    phone = push.sleeper_of(laptop.user, *PLATFORMS, device="tablet")
    call = alice.invite(laptop)
    push.providers.expect(phone.target("apnsVoIP"), "ring", call)
    laptop.accept(call)
    for platform in ("fcm", "webPush"):
        push.providers.expect(phone.target(platform), "stop", call)
    time.sleep(1.2)
    told = {(pushed.platform, pushed.kind) for pushed in push.providers.of(call=call)}
    assert told == {("apnsVoIP", "ring"), ("fcm", "stop"), ("webPush", "stop")}


def test_a_call_that_is_ended_before_everybody_answered_was_missed(push: Pushing) -> None:
    alice, carol = push.world.phones("alice", "carol")
    bob = push.sleeper("bob", "fcm", "apns")
    call = alice.invite(carol, bob.user, mode="advanced")
    carol.accept(call)
    push.providers.expect(bob.target("fcm"), "ring", call)
    push.providers.expect(bob.target("apns"), "ring", call)
    alice.end(call)
    for target in bob.targets:
        push.providers.expect(target, "missed", call)
    assert not push.providers.of(None, "stop", call)


@pytest.mark.parametrize("how", ["cancelled", "timeout"])
def test_a_call_that_was_missed_is_told(push: Pushing, how: str) -> None:
    alice = push.world.phone("alice")
    bob = push.sleeper("bob", "apns", "fcm", "webPush")
    call = alice.invite(bob.user, timeout=2 if how == "timeout" else 60)
    for target in bob.targets:
        push.providers.expect(target, "ring", call)
    if how == "cancelled":
        alice.cancel(call)
    for target in bob.targets:
        missed = push.providers.expect(target, "missed", call)
        assert missed.content["body"] == "Missed call" and missed.content["title"] == alice.user
    time.sleep(0.5)
    assert not push.providers.of(None, "stop", call)
    assert len(push.providers.of(call=call)) == 6


def test_missed_goes_to_what_voip_rang_for(push: Pushing) -> None:
    alice = push.world.phone("alice")
    bob = push.sleeper("bob", "apnsVoIP", "apns")
    call = alice.invite(bob.user)
    push.providers.expect(bob.target("apnsVoIP"), "ring", call)
    alice.cancel(call)
    push.providers.expect(bob.target("apns"), "missed", call)
    push.providers.expect_silence(0.5, bob.target("apnsVoIP"), "missed")


def test_missed_goes_to_who_had_the_call_and_went_offline(push: Pushing) -> None:
    """The device got no `ring`, so with FCM the system shows the missed call: the provider checks that `notification`
    is there."""
    alice, bob = push.world.phones("alice", "bob")
    (target,) = push.providers.register(bob, "fcm")
    call = ring(alice, bob)
    bob.logout()
    push.wait_offline(bob)
    alice.cancel(call)
    missed = push.providers.expect(target, "missed", call)
    assert missed.outer["message"]["notification"] == {"title": alice.user, "body": "Missed call"}
    assert len(push.providers.of(call=call)) == 1


def test_missed_waits_for_the_ack_of_who_is_online(push: Pushing) -> None:
    """A device that was sent `ring` and acks the end needs no push about the end; a device that does not ack the end
    needs a push."""
    alice = push.world.phone("alice")
    bob, carol = push.world.phone("bob", auto_ack=False), push.world.phone("carol", auto_ack=False)
    (acks,), (silent,) = (push.providers.register(device, "fcm") for device in (bob, carol))
    call = alice.invite(bob, carol)
    for target in (acks, silent):
        push.providers.expect(target, "ring", call)
    alice.cancel(call)
    ended = bob.expect("call.cancelled", call)
    assert ended["missed"] is True
    bob.ack(call, ended["revision"])
    push.providers.expect(silent, "missed", call)
    push.providers.expect_silence(0.7, acks, "missed")


def test_who_was_online_and_has_acked_all_is_pushed_nothing(push: Pushing) -> None:
    alice, bob = push.world.phones("alice", "bob")
    push.providers.register(bob, *PLATFORMS)
    cancelled, answered = ring(alice, bob), ring(alice, bob)
    alice.cancel(cancelled)
    bob.accept(answered)
    time.sleep(1.8)
    assert not push.providers.of(call=cancelled) and not push.providers.of(call=answered)


def test_the_woken_device_that_answers_is_told_nothing_more(push: Pushing) -> None:
    alice = push.world.phone("alice")
    bob = push.sleeper("bob", "fcm")
    call = alice.invite(bob.user)
    push.providers.expect(bob.only, "ring", call)
    phone = bob.wake()
    phone.expect("call.invited", call)
    phone.accept(call)
    alice.expect_change(call, phone, "accepted")
    time.sleep(1.2)
    assert [p.kind for p in push.providers.of(bob.only)] == ["ring"]


def test_a_device_that_registers_while_its_user_is_rung_is_rung(push: Pushing) -> None:
    alice, bob = push.world.phone("alice"), push.world.user("bob")
    call = alice.invite(bob)
    time.sleep(0.3)
    late = push.sleeper_of(bob, "apnsVoIP")
    began = time.monotonic()
    assert push.providers.expect(late.only, "ring", call).at - began < 1.5
    earlier = push.sleeper_of(bob, "fcm", device="tablet")
    push.providers.expect(earlier.only, "ring", call)
    time.sleep(0.5)
    assert len(push.providers.of(call=call)) == 2


def test_a_registration_after_the_end_is_told_nothing(push: Pushing) -> None:
    alice, bob = push.world.phone("alice"), push.world.user("bob")
    call = alice.invite(bob)
    alice.cancel(call)
    push.sleeper_of(bob, "fcm")
    push.providers.expect_silence(1.2, call=call)


def test_a_user_who_is_invited_again_is_rung_again(push: Pushing) -> None:
    alice, carol = push.world.phones("alice", "carol")
    bob = push.sleeper("bob", "apnsVoIP", "fcm")
    call = talk(alice, carol)
    alice.add(call, bob.user)
    first = push.providers.expect(bob.target("apnsVoIP"), "ring", call)
    alice.cancel(call)
    push.providers.expect(bob.target("fcm"), "missed", call)
    alice.add(call, bob.user)
    second = push.providers.expect(bob.target("apnsVoIP"), "ring", call, count=2)
    assert first.id != second.id and second.content["revision"] > first.content["revision"]
    assert first.content["check"] != second.content["check"]
    assert second.content["expiresAt"] > now_ms() + 50_000


def test_a_blocked_inviter_wakes_nobody(push: Pushing) -> None:
    alice, bob = push.world.phones("alice", "bob")
    bob.ok("user.block", userID=alice.user)
    push.providers.register(bob, *PLATFORMS)
    bob.logout()
    push.wait_offline(bob)
    call = alice.invite(bob, timeout=1)
    alice.expect_change(call, bob, "timeout")
    push.providers.expect_silence(1.2, call=call)
    assert not push.told(call)


def test_who_is_busy_is_not_woken(push: Pushing) -> None:
    """The tablet sleeps, while the phone is in a call."""
    alice, bob, carol = push.world.phones("alice", "bob", "carol")
    push.sleeper_of(bob.user, *PLATFORMS, device="tablet")
    talk(carol, bob)
    response = alice.ok("call.invite", invitees=[bob.user], ifBusy="reject")
    push.providers.expect_silence(1.2, call=response["callID"])
