"""Protocol, section 7, Ring check: a woken device asks whether the invitation still rings, and may decline."""

from __future__ import annotations

import time
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from harness import Device, member, now_ms, talk, wait_until
from harness.gateway import Answer
from harness.http2 import Reply
from harness.push_content import Pushed
from harness.pushing import Pushing, Sleeper

HEADERS = {"cache-control": "no-store", "referrer-policy": "no-referrer", "access-control-allow-origin": "*"}


def woken(push: Pushing, alice: Device, **fields: object) -> tuple[Sleeper, str, Pushed]:
    """A device that was sent `ring`."""
    bob = push.sleeper("bob", "fcm")
    call = alice.invite(bob.user, **fields)
    return bob, call, push.providers.expect(bob.only, "ring", call)


def over(answer: Answer, reason: str) -> None:
    assert answer.ok() == {"ringing": False, "reason": reason}
    assert HEADERS.items() <= answer.headers.items()


def test_a_device_that_rings_is_told_how_long(push: Pushing) -> None:
    alice = push.world.phone("alice")
    bob, call, ring = woken(push, alice, timeout=30, media="video")
    answer = push.check(ring)
    assert HEADERS.items() <= answer.headers.items()
    assert "access-control-allow-credentials" not in answer.headers
    assert answer.ok()["ringing"] is True and answer.body["call"]["callID"] == call
    left = ring.content["expiresAt"] - now_ms()
    assert left - 500 <= answer.body["expiresIn"] <= left + 1500
    again = push.check(ring).ok()
    assert again["ringing"] is True and again["expiresIn"] <= answer.body["expiresIn"]


def test_the_check_counts_as_the_ack(push: Pushing) -> None:
    alice = push.world.phone("alice")
    bob, call, ring = woken(push, alice)
    push.check(ring).ok()
    alice.expect_change(call, bob.user, "received")
    phone = bob.wake()
    phone.expect("call.invited", call)


def test_who_only_looks_at_the_link_acks_nothing(push: Pushing) -> None:
    """Proxies and scanners of links ask by HEAD: the phone has not heard of the call."""
    alice = push.world.phone("alice")
    bob, call, ring = woken(push, alice)
    parts = urlsplit(ring.content["check"])
    looked = push.gateway.ask("HEAD", f"{parts.path}?{parts.query}", token=None)
    assert looked.status == 405 and looked.headers["allow"] == "GET, OPTIONS"
    assert push.gateway.get(f"/v1/calls/{call}").ok()["call"]["members"][1]["state"] == "inviting"
    push.check(ring).ok()
    alice.expect_change(call, bob.user, "received")


def test_the_check_ends_what_is_still_to_be_pushed(push: Pushing) -> None:
    """FCM does not take its push; Web Push took its push, and the browser has asked."""
    alice = push.world.phone("alice")
    bob = push.sleeper("bob", "fcm", "webPush")
    push.providers.always(bob.target("fcm"), Reply(503))
    call = alice.invite(bob.user)
    ring = push.providers.expect(bob.target("webPush"), "ring", call)
    push.check(ring).ok()
    checked = time.monotonic()

    def is_quiet() -> bool:
        return time.monotonic() - max([checked, *(p.at for p in push.providers.of(bob.target("fcm"), "ring", call))]) > 2.2

    # A push may be on its way. Without the check FCM would be asked after 0.2, 0.7, 1.7 and 3.7 s.
    wait_until(is_quiet, 4.5, "FCM is asked no more")


def test_the_check_replaces_no_ack_of_a_session(push: Pushing) -> None:
    """The connected device has not acked: the service sends the event again, even after a ring check by HTTP. A device
    that has acked more keeps its acks."""
    alice, bob = push.world.phone("alice"), push.world.phone("bob", auto_ack=False)
    (target,) = push.providers.register(bob, "fcm")
    call = alice.invite(bob)
    ring = push.providers.expect(target, "ring", call)
    since = bob.mark
    push.check(ring).ok()
    alice.expect_change(call, bob, "received")
    bob.expect("call.invited", call, 10, since=since, stale=True)
    bob.accept(call)
    over(push.check(ring), "answeredElsewhere")
    bob.expect_silence(1.5, call)


@pytest.mark.parametrize("how", ["answeredElsewhere", "rejected", "cancelled", "timeout", "ended"])
def test_a_device_that_is_too_late_is_told_why(push: Pushing, how: str) -> None:
    alice, carol = push.world.phones("alice", "carol")
    bob = push.sleeper("bob", "fcm")
    laptop = push.world.device(bob.user, "laptop")
    call = alice.invite(bob.user, carol, mode="advanced", timeout=4 if how == "timeout" else 60)
    ring = push.providers.expect(bob.only, "ring", call)
    laptop.expect("call.invited", call)
    carol.accept(call)
    match how:
        case "answeredElsewhere":
            laptop.accept(call)
        case "rejected":
            laptop.reject(call)
        case "cancelled":
            alice.cancel(call)
        case "timeout":
            laptop.expect("call.timeout", call, 10)
        case "ended":
            alice.end(call)
    over(push.check(ring), how)
    over(push.check(ring, "/reject"), how)


def test_a_common_call_that_is_over_is_told_of(push: Pushing) -> None:
    alice = push.world.phone("alice")
    _, call, ring = woken(push, alice)
    alice.cancel(call)
    over(push.check(ring), "cancelled")
    _, _, expired = woken(push, alice, timeout=3)
    time.sleep(max(0, (expired.content["expiresAt"] - now_ms()) / 1000))
    over(push.check(expired), "timeout")


def test_a_device_declines(push: Pushing) -> None:
    alice = push.world.phone("alice")
    bob, call, ring = woken(push, alice)
    laptop = push.world.device(bob.user, "laptop")
    laptop.expect("call.invited", call)
    over(push.check(ring, "/reject"), "rejected")
    entry = member(alice.get(call), bob.user)
    assert (entry["state"], entry["reason"]) == ("rejected", "declined")
    laptop.expect("call.handledElsewhere", call)
    over(push.check(ring, "/reject"), "rejected")
    over(push.check(ring), "rejected")
    time.sleep(1)
    assert [p.kind for p in push.providers.of(call=call)] == ["ring"], "who declined is told nothing"


def test_a_wrong_key_opens_nothing(push: Pushing) -> None:
    alice = push.world.phone("alice")
    bob, call, ring = woken(push, alice)
    _, other_call, other = woken(push, alice)
    tablet = push.sleeper_of(bob.user, "fcm", device="tablet")
    tablets = push.providers.expect(tablet.only, "ring", call)
    parts = urlsplit(ring.content["check"])
    query = dict(parse_qsl(parts.query))
    key, others = query["key"], dict(parse_qsl(urlsplit(other.content["check"]).query))["key"]
    tablets_key = dict(parse_qsl(urlsplit(tablets.content["check"]).query))["key"]
    revision, _, mac = key.partition(".")
    swapped = "A" if mac[0] != "A" else "B"
    wrongs = [
        *({"key": wrong} for wrong in ("", "x", key[:-4], key + "A", f"2.{mac}", mac, f"{revision}.", others, tablets_key)),
        {"key": f"{revision}.{swapped}{mac[1:]}"},
        {"user": alice.user},
        {"user": ""},
        {"device": "tablet"},
        {"device": ""},
        {"device": "x" * 65},
    ]
    paths = [f"{parts.path}?{urlencode(query | wrong)}" for wrong in wrongs]
    paths += [f"{parts.path}?{urlencode({k: v for k, v in query.items() if k != name})}" for name in query]
    paths += [f"/v1/ring/{other_call}?{parts.query}", f"/v1/ring/unknown?{parts.query}", parts.path]
    for path in paths:
        bare, _, asked = path.partition("?")
        for answer in (
            push.gateway.ask("GET", path, token=None),
            push.gateway.ask("POST", f"{bare}/reject?{asked}", token=None),
        ):
            assert answer.status == 404, path
            assert HEADERS.items() <= answer.headers.items()
    assert member(alice.get(call), bob.user)["state"] == "inviting", "and nobody has acked"
    assert push.check(ring).ok()["ringing"] is True
    assert push.gateway.ask("PUT", f"{parts.path}?{parts.query}", token=None).status == 405


def test_a_key_is_good_for_one_invitation(push: Pushing) -> None:
    alice, carol = push.world.phones("alice", "carol")
    bob = push.sleeper("bob", "fcm")
    call = talk(alice, carol)
    alice.add(call, bob.user)
    first = push.providers.expect(bob.only, "ring", call)
    alice.cancel(call)
    alice.add(call, bob.user)
    second = push.providers.expect(bob.only, "ring", call, count=2)
    over(push.check(first), "ended")
    over(push.check(first, "/reject"), "ended")
    assert member(alice.get(call), bob.user)["state"] == "inviting"
    assert push.check(second).ok()["ringing"] is True
    alice.expect_change(call, bob.user, "received", after=first.content["revision"] + 1)
    over(push.check(second, "/reject"), "rejected")
    alice.expect_change(call, bob.user, "rejected")


def test_every_gateway_and_start_knows_the_keys(push: Pushing) -> None:
    alice = push.world.phone("alice")
    _, _, ring = woken(push, alice)
    push.gateway.kill()
    push.gateway.start()
    assert push.check(ring).ok()["ringing"] is True
