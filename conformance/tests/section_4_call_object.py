"""Section 4: the call object."""

from __future__ import annotations

from typing import Any

from ..client import Device
from ..expect import between, equal, fields, member, true
from ..scene import Scene
from ..suite import sentence
from .steps import ring, talk


@sentence("4", "revision grows by one with every visible change.")
def the_revision_grows_by_one_with_every_change(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    response = alice.ok("call.invite", invitees=[bob.user], mode="advanced")
    call = response["callID"]
    revisions = [response["revision"], alice.expect_change(call, bob, "received")["revision"]]
    revisions.append(bob.accept(call)["revision"])
    revisions.append(alice.add(call, carol)["revision"])
    revisions.append(alice.expect_change(call, carol, "received")["revision"])
    revisions.append(carol.reject(call)["revision"])
    revisions.append(bob.end(call)["revision"])
    equal("the revisions", revisions, [1, 2, 3, 4, 5, 6, 7])


@sentence("4", "every visible change")
def what_changes_nothing_leaves_the_revision(scene: Scene) -> None:
    alice, bob, mallory = scene.devices("alice", "bob", "mallory")
    call = talk(alice, bob)
    before = alice.ok("call.get", callID=call)
    bob.refused("call.accept", "invalidState", callID=call)
    mallory.refused("call.join", "callNotFound", callID=call)
    alice.send({"type": "call.heartbeat", "callID": call})
    alice.ack(call, before["revision"])
    bob.drop()
    bob.connect()
    after = alice.ok("call.get", callID=call)
    fields("the response to call.get", after, **{name: before[name] for name in ("revision", "time", "call")})


@sentence("4", "Members stand in the order in which they were invited.")
def members_stand_in_the_order_in_which_they_were_invited(scene: Scene) -> None:
    alice, zoe, adam, mia, bea = scene.devices("alice", "zoe", "adam", "mia", "bea")
    call = ring(alice, zoe, adam, mode="advanced", joinPolicy="anyone")
    adam.accept(call)
    adam.add(call, mia)
    zoe.reject(call)
    bea.join(call)
    adam.add(call, zoe)
    expected = [device.user for device in (alice, zoe, adam, mia, bea)]
    equal("the members", [m["userID"] for m in alice.get(call)["members"]], expected)


@sentence("4", "A field that does not apply is null or left out: acceptedAt until the first invitee accepted")
def accepted_at_is_when_the_first_invitee_accepted(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol, mode="advanced")
    equal("acceptedAt of a ringing call", alice.get(call).get("acceptedAt"), None)
    accepted = bob.accept(call)
    equal("after the first accept", accepted["call"]["acceptedAt"], accepted["time"])
    equal("after the second", carol.accept(call)["call"]["acceptedAt"], accepted["time"])


@sentence("4", "endedAt and endReason until the call ended")
def ended_at_and_end_reason_come_with_the_end(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    fields("the live call", alice.get(call), endedAt=None, endReason=None)
    ended = bob.quit(call)
    fields("after the end", ended["call"], endedAt=ended["time"], endReason="quit")


@sentence("4", "endedBy unless it was ended by call.end")
def ended_by_comes_with_call_end_alone(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    equal("of a living call", alice.get(call).get("endedBy"), None)
    equal("of a call left", bob.quit(call)["call"].get("endedBy"), None)
    equal("of a call rejected", bob.reject(ring(alice, bob))["call"].get("endedBy"), None)
    equal("of a call ended", bob.end(talk(alice, bob))["call"]["endedBy"], bob.user)


@sentence("4", "device of a pending member … accepted one always has device")
def accepted_members_have_a_device_and_pending_ones_none(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    bobs_device_is(None, alice, bob, call)
    bob.accept(call)
    bobs_device_is("phone", alice, bob, call)
    # Carol keeps the call live without bob.
    alice.add(call, scene.absent("carol"))
    bob.quit(call)
    alice.add(call, bob)
    bobs_device_is(None, alice, bob, call)


def bobs_device_is(expected: str | None, alice: Device, bob: Device, call: str) -> None:
    members = alice.get(call)
    equal("bob's device", member(members, bob).get("device"), expected)
    equal("alice's device", member(members, alice)["device"], "phone")


@sentence(
    "4",
    "invitedBy and expiresAt of a member who was not invited (the inviter, or a user who joined under joinPolicy: anyone)",
)
def members_who_were_not_invited_have_no_invitation(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, mode="advanced", joinPolicy="anyone")
    joined = carol.join(call)["call"]
    for device in (alice, carol):
        fields(f"{device.user}", member(joined, device), invitedBy=None, expiresAt=None)
    true("bob has both", {"invitedBy", "expiresAt"} <= member(joined, bob).keys())


@sentence("4", "A pending member always has invitedBy and expiresAt")
def pending_members_have_an_invitation(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    response = bob.add(call, carol, timeout=20)
    fields("carol", member(response["call"], carol), invitedBy=bob.user, expiresAt=response["time"] + 20_000)
    alice.expect_change(call, carol, "received")
    fields("carol, received", member(alice.get(call), carol), invitedBy=bob.user, expiresAt=response["time"] + 20_000)


@sentence("4", "a rejected one always has reason")
def rejected_members_have_a_reason(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    equal("without a reason", member(bob.reject(call)["call"], bob)["reason"], "declined")
    equal("the reason in another member's call", member(carol.get(call), bob)["reason"], "declined")


@sentence("4", "Null fields are left out of everything else that the service sends.")
def nulls_stand_in_call_objects_alone(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    tablet = scene.another(bob, "tablet")
    call = talk(alice, bob)
    alice.add(call, carol)
    carol.expect("call.invited", call)
    alice.cancel(call, carol)
    bob.refused("call.accept", "invalidState", callID=call)
    alice.answer(b"x", "badRequest")
    alice.end(call)
    bob.expect("call.ended", call)
    for device in (alice, bob, carol, tablet):
        for message in device.messages:
            outside = {name: value for name, value in message.body.items() if name not in ("call", "calls")}
            true(f"no null in {sorted(message.body)}", not _has_null(outside), outside)


def _has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_null(item) for item in value.values())
    if isinstance(value, list):
        return any(_has_null(item) for item in value)
    return value is None


@sentence(
    "4",
    "In a response, call is the call at that revision: callID and revision of the response and of its call are equal."
    " The same holds for events.",
)
def the_call_of_a_message_is_that_of_its_revision(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob, carol)
    alice.end(call)
    carol.expect("call.ended", call)
    for device in (alice, bob, carol):
        _same_calls(device)


def _same_calls(device: Device) -> None:
    about = device.find(lambda m: m.get("call") is not None)
    true(f"{device} heard of a call", len(about) > 2)
    for message in about:
        expected = (message["callID"], message["revision"])
        equal("the call's", (message["call"]["callID"], message["call"]["revision"]), expected)


@sentence("4", '"createdAt":1790000000000 … "updatedAt":1790000004000')
def members_have_the_time_of_their_last_change(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    response = alice.ok("call.invite", invitees=[bob.user, carol.user], mode="advanced")
    call = response["callID"]
    for device in (alice, bob, carol):
        equal("updatedAt at first", member(response["call"], device)["updatedAt"], response["time"])
    received = alice.expect_change(call, carol, "received")
    between("updatedAt after the ack", member(received["call"], carol)["updatedAt"], response["time"], received["time"])
    accepted = bob.accept(call)
    equal("bob's updatedAt", member(accepted["call"], bob)["updatedAt"], accepted["time"])
    equal("alice's updatedAt", member(accepted["call"], alice)["updatedAt"], response["time"])
