"""Section 7: the pushes in the timeline, and the ring check of a gateway."""

from __future__ import annotations

import secrets
import time
from typing import Any

from ..client import Device
from ..expect import Mismatch, equal, true
from ..scene import Scene
from ..suite import require, sentence
from .push_steps import register, served
from .steps import ring, talk

AFTER_SECONDS = 1.0
"""The number of seconds that an online device has for its ack."""


def _pushes(device: Device, call: str) -> list[dict[str, Any]]:
    return [entry for entry in device.ok("call.trace", callID=call)["entries"] if entry["kind"] == "push"]


def _pushed(scene: Scene, asker: Device, call: str, **fields: Any) -> dict[str, Any]:
    """Returns the first such entry that the timeline shows to the asker's user."""
    require(scene.options.trace == "all", f"not every call has a timeline (--trace {scene.options.trace})")
    deadline = time.monotonic() + scene.deployment.patience + 2
    while True:
        told = _pushes(asker, call)
        found = [entry for entry in told if all(entry.get(name) == value for name, value in fields.items())]
        if found:
            return found[0]
        if time.monotonic() > deadline:
            raise Mismatch(f"expected a push with {fields} in the timeline of {call}, got {told}")
        time.sleep(0.2)


def _sleeper(scene: Scene, name: str) -> Device:
    """Returns a registered device that was never online and acks nothing. The device is connected, so that the test can
    send requests as this device."""
    device = scene.device(name, presence=False, auto_ack=False)
    register(device, served(scene, "webPush", "apns", "fcm"))
    return device


# Pushes


@sentence(
    "6 Entries",
    "Given to its own user and to role: server, to no other member: the others must not learn of devices, or of a block",
    waits=2,
)
def pushes_are_told_to_their_own_user_alone(scene: Scene) -> None:
    bob = _sleeper(scene, "bob")
    alice, carol = scene.devices("alice", "carol")
    call = alice.invite(bob, carol)
    told = _pushed(scene, bob, call, push="ring", userID=bob.user, device=bob.device)
    true("the outcome is told", told["outcome"] in ("sent", "refused", "gone", "failed", "limited", "late"), told)
    for other in (alice, carol):
        equal(f"the pushes that {other} sees", _pushes(other, call), [])
        entries = other.ok("call.trace", callID=call)["entries"]
        gaps = [later["time"] - earlier["time"] for earlier, later in zip(entries, entries[1:])]
        equal("after, by the given entries", [entry["after"] for entry in entries[1:]], gaps)
    if told["platform"] == "webPush":
        equal("the details of the endpoint", {"status", "reason", "took"} & told.keys(), set())


@sentence("7", "The device is online and has not acked the invitation within after (1 s, a setting): then", waits=4)
def a_device_that_does_not_ack_is_pushed(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    carol = scene.device("carol")
    platform = served(scene, "webPush", "apns", "fcm")
    for device in (bob, carol):
        register(device, platform)
    # A response to a request of the device itself would count as its ack.
    asker = scene.another(bob, "asker", presence=False)
    call = alice.invite(bob, carol)
    _pushed(scene, asker, call, push="ring", device=bob.device)
    equal("pushes to a device that has acked", _pushes(carol, call), [])
    quick = ring(alice, carol)
    time.sleep(AFTER_SECONDS + 1.5)
    equal("pushes to a device that has acked", _pushes(carol, quick), [])


@sentence("7", "for devices that were sent ring or are not online, unless the device acks that event first", waits=3)
def a_missed_call_is_pushed(scene: Scene) -> None:
    bob, alice = _sleeper(scene, "bob"), scene.device("alice")
    call = alice.invite(bob)
    first = _pushed(scene, bob, call, push="ring")
    alice.cancel(call)
    missed = _pushed(scene, bob, call, push="missed")
    equal("the device", (missed["device"], missed["platform"]), (first["device"], first["platform"]))


@sentence("7", "it was cancelled, its time was over, or call.end ended the call while the user was pending", waits=3)
def whoever_has_not_answered_when_the_call_is_ended_is_told(scene: Scene) -> None:
    alice, carol = scene.devices("alice", "carol")
    bob = _sleeper(scene, "bob")
    call = ring(alice, carol, mode="advanced")
    carol.accept(call)
    alice.ok("call.add", callID=call, invitees=[bob.user])
    _pushed(scene, bob, call, push="ring")
    alice.end(call)
    _pushed(scene, bob, call, push="missed")
    equal("pushes", {entry["push"] for entry in _pushes(bob, call)}, {"ring", "missed"})


@sentence("7", "A device that registers while its user is being rung is rung, too.", waits=2)
def a_device_that_registers_while_it_rings_is_pushed(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", presence=False, auto_ack=False)
    platform = served(scene, "webPush", "apns", "fcm")
    call = alice.invite(bob)
    register(bob, platform)
    _pushed(scene, bob, call, push="ring", platform=platform)


@sentence("7", "A user from whom an invitation is withheld (a blocked inviter, busy with ifBusy: reject) gets no push.", waits=2)
def who_is_busy_is_not_pushed(scene: Scene) -> None:
    require(scene.options.trace == "all", f"not every call has a timeline (--trace {scene.options.trace})")
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    tablet = scene.another(bob, "tablet", presence=False)
    register(tablet, served(scene, "webPush", "apns", "fcm"))
    talk(carol, bob)
    response = alice.ok("call.invite", invitees=[bob.user], ifBusy="reject")
    time.sleep(1.5)
    equal("pushes", _pushes(bob, response["callID"]), [])


@sentence("7 Sent when", "call.add of a user who had left is another invitation: it is pushed anew.", waits=4)
def another_invitation_is_pushed_anew(scene: Scene) -> None:
    alice, carol = scene.devices("alice", "carol")
    bob = _sleeper(scene, "bob")
    call = talk(alice, carol)
    alice.ok("call.add", callID=call, invitees=[bob.user])
    _pushed(scene, bob, call, push="ring")
    alice.cancel(call)
    _pushed(scene, bob, call, push="missed")
    before = max(entry["time"] for entry in _pushes(bob, call) if entry["push"] == "ring")
    alice.ok("call.add", callID=call, invitees=[bob.user])
    deadline = time.monotonic() + scene.deployment.patience
    while not [e for e in _pushes(bob, call) if e["push"] == "ring" and e["time"] > before]:
        true("the second invitation is pushed", time.monotonic() < deadline, _pushes(bob, call))
        time.sleep(0.2)


# Ring check


@sentence("7 Ring check", "a wrong key: 404. … The answer has Cache-Control: no-store, Referrer-Policy: no-referrer")
def a_wrong_key_opens_nothing(scene: Scene) -> None:
    gateway = scene.options.gateway
    require(gateway is not None, "no gateway to ask (--gateway)")
    assert gateway is not None
    bob, alice = scene.device("bob", presence=False, auto_ack=False), scene.device("alice")
    call = alice.invite(bob)
    for query in (
        {"user": bob.user, "device": bob.device, "key": f"1.{secrets.token_urlsafe(32)}"},
        {"user": bob.user, "device": bob.device, "key": ""},
        {"user": bob.user, "device": bob.device},
        {},
    ):
        for method, action in (("GET", ""), ("POST", "/reject")):
            status, headers = gateway.ask(method, f"/v1/ring/{call}{action}", query)
            equal(f"the status of {method} {query}", status, 404)
            for name, value in (
                ("cache-control", "no-store"),
                ("referrer-policy", "no-referrer"),
                ("access-control-allow-origin", "*"),
            ):
                equal(name, headers.get(name), value)
            equal("credentials", headers.get("access-control-allow-credentials"), None)
    states = {member["userID"]: member["state"] for member in alice.get(call)["members"]}
    equal("the invitee of the ring check with a wrong key", states[bob.user], "inviting")
