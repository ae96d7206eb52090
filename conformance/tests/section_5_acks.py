"""Section 5: acks, resends, Message Expiry."""

from __future__ import annotations

import time

from ..client import QUIET, Device, Message
from ..expect import between, equal, fields, member, true
from ..scene import Scene
from ..suite import MQTT5, sentence
from .steps import new_id, ring, talk

TOLERANCE = 1.0
"""The tolerance for a resend that is early or late at a device, in seconds, since other tests keep the service busy."""

# Acks


@sentence(
    "5 Acks",
    'A device acks each event, also an event that the device ignores: {"type":"ack","callID","revision"}, '
    "cumulative.",
    waits=1,
)
def an_ack_is_cumulative(scene: Scene) -> None:
    alice, bob, carol = scene.device("alice", auto_ack=False), scene.device("bob"), scene.device("carol")
    call = alice.invite(bob, carol)
    alice.expect_change(call, bob, "received")
    alice.expect_change(call, carol, "received")
    alice.ack(call, carol.ok("call.get", callID=call)["revision"])
    alice.settle()
    alice.heard_nothing("resend", lambda m: m.is_event(), alice.mark, 1.6)


@sentence("5 Acks", "An ack above the current revision counts as the current one", waits=1)
def an_ack_above_the_current_revision_counts_as_the_current_one(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    call = alice.invite(bob)
    bob.expect("call.invited", call)
    bob.ack(call, 1_000_000)
    alice.expect_change(call, bob, "received")
    bob.heard_nothing("resend", lambda m: m.is_event(), bob.mark, 1.3)
    alice.cancel(call)
    bob.copy(2, "call.cancelled", call, 3)


@sentence("5 Acks", "An ack from before a (re-)invitation does not make that invitation received")
def an_ack_from_before_an_invitation_does_not_make_it_received(scene: Scene) -> None:
    alice, bob, carol = scene.device("alice"), scene.device("bob"), scene.device("carol", auto_ack=False)
    call = talk(alice, bob)
    alice.add(call, carol)
    first = carol.expect("call.invited", call)["revision"]
    carol.reject(call)
    again = alice.add(call, carol)["revision"]
    carol.expect("call.invited", call, after=again - 1)
    carol.ack(call, first)
    time.sleep(QUIET)  # the ack may have no effect
    equal("carol's state after the old ack", member(alice.get(call), carol)["state"], "inviting")
    carol.ack(call, again)
    alice.expect_change(call, carol, "received", after=again)


@sentence("5 Acks", "An ack below the current revision (a stale ack) is answered at once with the newest event")
def an_ack_below_the_current_revision_is_answered_at_once(scene: Scene) -> None:
    alice, bob, carol = scene.device("alice", auto_ack=False), scene.device("bob"), scene.device("carol")
    for missed in (2, 1):
        # The service answers such acks of a call at most once a second, so each round has a call of its own.
        call = alice.invite(bob, carol)
        alice.expect_change(call, bob, "received")
        alice.expect_change(call, carol, "received")
        current = bob.get(call)["revision"]
        acked = current - missed
        since = alice.mark
        alice.ack(call, acked)
        owed = alice.wait(lambda m: m.is_event(None, call), 0.9, "the answer to the ack", since=since)
        fields("the event", owed.body, event="call.userStateChanged", revision=current)
        equal(f"changes since revision {acked}", len(owed["changes"]), missed)
        equal("its topic", owed.topic, alice.device_topic)


@sentence("5 Acks", "A phone that rings for a call that is over stops within 1 s of being reachable.")
def a_phone_that_rings_for_a_call_that_is_over_is_told_at_once(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    call = alice.invite(bob)
    revision = bob.expect("call.invited", call)["revision"]
    bob.close()
    alice.cancel(call)
    # The welcome tells the end, since the welcome does not list the call.
    bob.open()
    reachable = time.monotonic()
    welcome = bob.come_online()
    between("seconds until the welcome", welcome.at - reachable, 0, 1)
    equal("its calls", welcome["calls"], [])
    # The answer to the stale ack of the invitation tells the end.
    alice_again, carol = scene.device("alice"), scene.device("carol", auto_ack=False)
    second = alice_again.invite(carol)
    revision = carol.expect("call.invited", second)["revision"]
    alice_again.cancel(second)
    carol.expect("call.cancelled", second)
    since = carol.mark
    carol.ack(second, revision)
    told = carol.wait(lambda m: m.is_event("call.cancelled", second), 1, "call.cancelled", since=since)
    equal("missed", told["missed"], True)


@sentence(
    "5 Acks", "a pure function of the call and of the last revision that this device acked in its present session"
)
def the_acks_of_one_device_are_not_those_of_another(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob")
    tablet = scene.another(bob, "tablet", auto_ack=False)
    call = ring(alice, bob)
    again = tablet.copy(2, "call.invited", call, 3)
    equal("the topic of the resend to the tablet", again.topic, tablet.device_topic)
    equal("copies at the phone, which acked", len(bob.copies("call.invited", call)), 1)


# Resends


def _backoff(device: Device, event: str, call: str, gaps: list[float]) -> list[Message]:
    """Waits for copies that follow each other by these gaps, in seconds."""
    copies = [device.copy(1, event, call, 5)]
    for number, gap in enumerate(gaps, 2):
        copies.append(device.copy(number, event, call, gap + 2))
        passed = copies[-1].at - copies[-2].at
        slack = min(TOLERANCE, gap / 2)
        between(f"seconds from copy {number - 1} to copy {number}", passed, gap - slack, gap + slack)
    return copies


@sentence(
    "5 Resends", "Unacked events are resent after 1, 2, 4, 8 s, then every 8 s: invitations until they expire", waits=31
)
def an_unacked_invitation_is_resent_until_it_expires(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    call = alice.invite(bob, timeout=34)
    copies = _backoff(bob, "call.invited", call, [1, 2, 4, 8, 8, 8])
    equal("the topic of the first send", copies[0].topic, bob.user_topic)
    # A device that is silent for longer than its lease is no longer known.
    known = [copy for copy in copies[1:] if copy.at < copies[0].at + scene.timings.presence_lease - 1]
    equal("the topics of the resends", {copy.topic for copy in known}, {bob.device_topic})
    bob.expect("call.timeout", call, seconds=6)
    equal("the copies of the invitation", len(bob.copies("call.invited", call)), 7)


@sentence("5 Resends", "the rest for 60 s", waits=lambda t: t.ended_retention + 9)
def other_unacked_events_are_resent_for_their_time(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    call = alice.invite(bob)
    bob.expect("call.invited", call)
    alice.cancel(call)
    first = bob.copy(1, "call.cancelled", call, 5)
    retention = scene.timings.ended_retention
    gaps = [1.0, 2.0, 4.0] + [8.0] * 20
    expected = [sum(gaps[:count]) for count in range(len(gaps)) if sum(gaps[:count]) < retention - 1]
    bob.copy(len(expected), "call.cancelled", call, retention + 1)
    bob.heard_nothing(
        "copy after the time", lambda m: m.is_event(), bob.mark, first.at + retention + 8.5 - time.monotonic()
    )
    seen = [copy.at - first.at for copy in bob.copies("call.cancelled", call)]
    equal("the copies", len(seen), len(expected))
    for at, due in zip(seen, expected):
        between(f"seconds of the copy due after {due:g}", at, due - TOLERANCE, due + TOLERANCE)


@sentence("5 Resends", "Unacked events are resent after 1, 2, 4", waits=6)
def an_unacked_change_is_resent_to_the_inviter(scene: Scene) -> None:
    alice, bob = scene.device("alice", auto_ack=False), scene.device("bob")
    call = alice.invite(bob, timeout=20)
    copies = _backoff(alice, "call.userStateChanged", call, [1, 2, 4])
    equal("the topics", {message.topic for message in copies}, {alice.device_topic})


@sentence("5 Resends", "Unacked events are resent", waits=2)
def an_acked_event_is_not_resent(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(bob, "tablet")
    call = ring(alice, bob, mode="advanced")
    bob.accept(call)
    tablet.expect("call.handledElsewhere", call)
    alice.expect_change(call, bob, "accepted")
    for device in (alice, bob, tablet):
        device.settle()
    time.sleep(QUIET)  # until the service has served the acks
    marks = {device: device.mark for device in (alice, bob, tablet)}
    for device, mark in marks.items():
        device.heard_nothing("resend", lambda m: m.is_event(), mark, 1.3)


@sentence("5 Resends", "and whenever the device comes online")
def what_is_owed_is_sent_when_the_device_comes_online(scene: Scene) -> None:
    alice, bob, carol = scene.device("alice"), scene.device("bob"), scene.device("carol")
    call = talk(alice, bob)
    bob.drop()
    alice.add(call, carol)
    alice.expect_change(call, carol, "received")
    bob.open()
    since = bob.mark
    welcome = bob.come_online()
    owed = bob.expect("call.userStateChanged", call, since=since)
    between("seconds from the welcome to the event, before a resend", owed.at - welcome.at, 0, 0.9)


@sentence(
    "5 Resends",
    "resend | those of the devices that have not acked; down/{user} when no device of the user is known",
    waits=1,
)
def resends_go_to_the_devices_that_have_not_acked(scene: Scene) -> None:
    alice, bob, stranger = (
        scene.device("alice"),
        scene.device("bob"),
        scene.device("stranger", presence=False, auto_ack=False),
    )
    tablet = scene.another(bob, "tablet", auto_ack=False)
    call = ring(alice, bob)
    equal("the tablet's topic", tablet.copy(2, "call.invited", call, 3).topic, tablet.device_topic)
    equal("the phone's copies", len(bob.copies("call.invited", call)), 1)
    call = alice.invite(stranger)
    equal("the topic of a user without presence", stranger.copy(2, "call.invited", call, 3).topic, stranger.user_topic)


@sentence(
    "5 Resends", "An expired invitation is not sent any more, even before its timeout has been recorded.", waits=3
)
def an_expired_invitation_is_not_sent_any_more(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    response = alice.ok("call.invite", invitees=[bob.user], timeout=3, mode="advanced")
    call = response["callID"]
    bob.expect("call.timeout", call)
    bob.heard_nothing("invitation", lambda m: m.is_event("call.invited"), bob.mark, 1.2)
    for message in bob.copies("call.invited", call):
        true("an invitation has time left", message["expiresIn"] > 0, message["expiresIn"])


@sentence("5 Resends", "never rings for a call that is over", waits=1)
def a_call_that_is_over_is_never_resent_as_ringing(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    call = alice.invite(bob)
    bob.expect("call.invited", call)
    alice.cancel(call)
    bob.expect("call.cancelled", call)
    since = bob.mark
    bob.copy(3, "call.cancelled", call, 5)
    equal("events after the cancel", {m["event"] for m in bob.find(lambda m: m.is_event(), since)}, {"call.cancelled"})


# Message Expiry


@sentence(
    "5 When events expire",
    "call.invited expires with the invitation, in whole seconds rounded down, at least 1",
    versions=MQTT5,
    waits=1,
)
def an_invitation_expires_at_the_broker_with_its_timeout(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    call = alice.invite(bob, timeout=20)
    for number in (1, 2):
        copy = bob.copy(number, "call.invited", call, 3)
        # While the broker holds a message, the broker counts the expiry down in whole seconds.
        left = copy["expiresIn"] // 1000
        between(f"Message Expiry with {copy['expiresIn']} ms left", copy.expiry, left - 1, left)


@sentence(
    "5 When events expire",
    "MQTT 5 Message Expiry is set so that a broker never delivers an invitation that is over.",
    versions=MQTT5,
    waits=3,
)
def no_invitation_outlives_its_timeout_at_the_broker(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    call = alice.invite(bob, timeout=4)
    bob.expect("call.timeout", call)
    copies = bob.copies("call.invited", call)
    true("copies were sent", len(copies) >= 3, len(copies))
    for copy in copies:
        between("the expiry, in milliseconds", (copy.expiry or 0) * 1000, 1000, max(1000, copy["expiresIn"]))


@sentence("5 When events expire", "all other events after 60 s", versions=MQTT5)
def other_events_expire_at_the_broker_after_60_seconds(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    tablet = scene.another(bob, "tablet")
    call = talk(alice, bob)
    tablet.expect("call.handledElsewhere", call)
    alice.add(call, carol)
    carol.expect("call.invited", call)
    alice.cancel(call, carol)
    carol.expect("call.cancelled", call)
    alice.end(call)
    bob.expect("call.ended", call)
    for device in (alice, bob, carol, tablet):
        for message in device.find(lambda m: m.is_event() and m["event"] != "call.invited"):
            equal(f"Message Expiry of {message['event']}", message.expiry, 60)


@sentence("5 Where events go", "Peer messages that wait for the user are sent to the device after its welcome.")
def waiting_messages_come_after_the_welcome(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    sent = alice.ok("message.send", to=bob, data=1, messageID=new_id())
    device = scene.device_of(bob)

    def own(message: Message) -> bool:
        return message.topic == device.device_topic

    device.wait(lambda m: own(m) and m.get("messageID") == sent["messageID"], None, "the message on its own topic")
    # Only the device's own topic is checked: on the user's topic, the first send of the message may still arrive.
    equal("the first messages on its own topic", [m.type for m in device.find(own)[:2]], ["welcome", "message"])
