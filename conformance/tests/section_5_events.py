"""Section 5: the receivers, topics and contents of events."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..client import QUIET, Device, Message
from ..expect import between, change, equal, fields, member, states, true
from ..scene import Scene
from ..suite import require, sentence
from .steps import ring, talk


def _of(call: str, *events: str) -> Callable[[Message], bool]:
    """Returns a condition for fresh events of a call: for the named events, or for all events without names."""
    return lambda m: m.is_event(None, call) and m.fresh and (not events or m["event"] in events)


def _at(call: str, revision: int) -> Callable[[Message], bool]:
    """Returns a condition for the event of exactly this revision, fresh or stale."""
    return lambda m: m.is_at(call, revision)


def _answer_to_ack(device: Device, call: str, revision: int, current: int) -> Message:
    """Sends an ack below the current revision. Returns its answer, which must come at once, before the next resend. The first
    send of a lower revision may come from another replica in between."""
    since = device.mark
    device.ack(call, revision)
    return device.wait(lambda m: m.is_event(None, call) and m["revision"] >= current, 0.9, "the answer to the ack", since=since)


def _on_user_topic(device: Device, event: str, call: str) -> Message:
    """Waits for the first send. A stale ack is answered on the device's own topic, and another replica's first send may
    come after that."""
    what = f"{event} on {device.user_topic}"
    return device.wait(lambda m: m.is_event(event, call) and m.topic == device.user_topic, None, what)


def _changes(message: Message) -> dict[str, str]:
    return {entry["userID"]: entry["state"] for entry in message["changes"]}


# The table


@sentence("5", "call.created | the inviter's other online devices")
def the_inviters_other_devices_hear_that_a_call_was_created(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet, stranger = scene.another(alice, "tablet"), scene.device("stranger")
    gone = scene.another(alice, "gone")
    gone.close()
    with stranger.hears_nothing("event", lambda m: m.is_event()):
        with alice.hears_nothing("call.created on the acting device", lambda m: m.is_event("call.created")):
            call = alice.invite(bob)
            created = tablet.expect("call.created", call)
    fields("the event", created.body, revision=1, actor=alice.user)
    equal("its topic", created.topic, tablet.device_topic)


@sentence("5", "call.invited | the invitee (all devices)")
def all_devices_of_an_invitee_are_invited(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    tablet = scene.another(bob, "tablet")
    call = alice.invite(bob, carol, media="video", extendedData="x")
    for device in (bob, tablet, carol):
        invited = device.expect("call.invited", call)
        fields(f"the event at {device}", invited.body, revision=1, actor=alice.user)
        fields("its call", invited["call"], inviter=alice.user, media="video", extendedData="x", state="ringing")
        equal("its topic", invited.topic, device.user_topic)


@sentence(
    "5",
    "call.userStateChanged | every live member, when another member's state changed (also received, notYetReceived,"
    " added, joined)",
    waits=1,
)
def every_live_member_hears_of_every_change(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    carol, dave, erin = scene.device("carol", auto_ack=False), scene.device("dave"), scene.device("erin")
    call = alice.invite(bob, carol, mode="advanced", joinPolicy="anyone", notReceivedCheck=True, notReceivedAfter=1)
    carol_revision = carol.expect("call.invited", call)["revision"]
    for state, act in {
        "received": lambda: None,
        "accepted": lambda: bob.accept(call),
    }.items():
        act()
        told = alice.expect_change(call, bob, state)
        fields(f"the event of {state}", told.body, event="call.userStateChanged", actor=bob.user)
    for device in (alice, bob):
        device.expect_change(call, carol, "notYetReceived")
    carol.ack(call, carol_revision)
    carol.auto_ack = True
    for device in (alice, bob):
        device.expect_change(call, carol, "received")
    bob.add(call, dave)
    fields("the event of the addition", alice.expect_change(call, dave, "inviting").body, actor=bob.user)
    carol.expect_change(call, dave, "inviting")  # pending members are also live
    dave.reject(call)
    for device in (alice, bob, carol):
        device.expect_change(call, dave, "rejected")
    erin.join(call)
    for device in (alice, bob, carol):
        fields("the event of the join", device.expect_change(call, erin, "accepted").body, actor=erin.user)


@sentence("5", "and the member who quit")
def the_one_who_quit_hears_of_it(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    tablet = scene.another(bob, "tablet")
    call = talk(alice, bob, carol)
    tablet.expect("call.handledElsewhere", call)
    quit_ = tablet.quit(call)
    told = bob.expect("call.userStateChanged", call, after=quit_["revision"] - 1)
    equal("the own change that the accepted device hears of", change(told, bob)["state"], "quit")


@sentence("5", "call.userStateChanged | every live member")
def members_who_are_not_live_hear_nothing_more(scene: Scene) -> None:
    alice, bob, carol, dave = scene.devices("alice", "bob", "carol", "dave")
    call = talk(alice, bob, carol, dave)
    bob.quit(call)
    alice.expect_change(call, bob, "quit")
    erin, frank = scene.devices("erin", "frank")
    alice.add(call, frank)
    frank.expect("call.invited", call)
    alice.cancel(call, frank)
    frank.expect("call.cancelled", call)

    def is_news_for_frank(message: Message) -> bool:
        # The own cancellation comes again when the call goes on before the ack is counted.
        return message.is_event(None, call) and not message.is_event("call.cancelled", call)

    with frank.hears_nothing("event", is_news_for_frank), bob.hears_nothing("event", lambda m: m.is_event(None, call)):
        alice.add(call, erin)
        erin.reject(call)
        carol.expect_change(call, erin, "rejected")
        alice.end(call)
        carol.expect("call.ended", call)


@sentence("5", "call.cancelled | the cancelled invitee")
def the_cancelled_invitee_hears_of_it(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    tablet = scene.another(bob, "tablet")
    call = ring(alice, bob, carol)
    with carol.hears_nothing("call.cancelled", lambda m: m.is_event("call.cancelled")):
        alice.cancel(call, bob)
        for device in (bob, tablet):
            cancelled = _on_user_topic(device, "call.cancelled", call)
            fields("the event", cancelled.body, actor=alice.user, missed=True)
    equal("bob's state in carol's event", _changes(carol.expect_change(call, bob, "cancelled"))[bob.user], "cancelled")


@sentence("5", "call.timeout | the invitee whose invitation expired", waits=1)
def the_invitee_whose_invitation_expired_hears_of_it(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.add(call, carol, timeout=1)
    expired = _on_user_topic(carol, "call.timeout", call)
    fields("the event", expired.body, actor=None, missed=True)
    for device in (alice, bob):
        equal("the others' event", device.expect_change(call, carol, "timeout")["event"], "call.userStateChanged")


@sentence("5", "call.ended | every live member, when an advanced call ended")
def every_live_member_hears_that_an_advanced_call_ended(scene: Scene) -> None:
    alice, bob, carol, dave = scene.devices("alice", "bob", "carol", "dave")
    call = talk(alice, bob, dave)
    alice.add(call, carol)
    bob.expect_change(call, carol, "received")
    dave.quit(call)
    bob.expect_change(call, dave, "quit")
    with dave.hears_nothing("call.ended", _of(call, "call.ended")):
        alice.end(call)
        for device in (bob, carol):
            fields("the event", device.expect("call.ended", call).body, actor=alice.user)


@sentence(
    "5",
    "call.handledElsewhere | the other online devices of a user who accepted, rejected or joined on one: stop ringing",
)
def the_other_devices_hear_that_one_handled_it(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    tablet = scene.another(bob, "tablet")
    for answer, state in (("call.accept", "accepted"), ("call.reject", "rejected"), ("call.join", "accepted")):
        call = ring(alice, bob, carol, mode="advanced")
        tablet.expect("call.invited", call)
        with bob.hears_nothing("call.handledElsewhere", lambda m: m.is_event("call.handledElsewhere"), 0.2):
            bob.ok(answer, callID=call)
            told = tablet.expect("call.handledElsewhere", call)
        fields(f"bob after {answer}", member(told["call"], bob), state=state)
        equal("the topic", told.topic, tablet.device_topic)
        alice.end(call)


# Derived, not queued


@sentence(
    "5 Derived",
    "its user is pending, and this device has not acked the invitation's revision or a later one → call.invited",
)
def a_pending_device_that_did_not_ack_is_owed_the_invitation(scene: Scene) -> None:
    alice, bob, carol = scene.device("alice"), scene.device("bob", auto_ack=False), scene.device("carol")
    call = alice.invite(bob, carol)
    bob.expect("call.invited", call)
    alice.expect_change(call, carol, "received")
    revision = carol.reject(call)["revision"]
    owed = bob.expect("call.invited", call, after=revision - 1)
    fields("the invitation, sent again", owed.body, revision=revision)
    equal("carol's state in the invitation", member(owed["call"], carol)["state"], "rejected")
    bob.ack(call, revision)
    alice.expect_change(call, bob, "received")
    bob.heard_nothing("further invitation", lambda m: m.is_event("call.invited"), bob.mark, 1.5)


@sentence(
    "5 Derived",
    "its user accepted, rejected or joined on another device → call.handledElsewhere, once acked nothing more",
)
def a_device_whose_user_answered_elsewhere_hears_nothing_more(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    tablet = scene.another(bob, "tablet")
    call = ring(alice, bob, carol, mode="advanced")
    bob.accept(call)
    tablet.expect("call.handledElsewhere", call)
    alice.expect_change(call, bob, "accepted")
    tablet.settle()
    time.sleep(QUIET)  # until the service has served the tablet's ack
    with tablet.hears_nothing("event after the ack", lambda m: m.is_event(None, call)):
        carol.accept(call)
        bob.expect_change(call, carol, "accepted")
        alice.end(call)
        bob.expect("call.ended", call)


@sentence("5 Derived", "(a device takes the call over with call.join)")
def a_device_takes_the_call_over_with_a_join(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    tablet = scene.another(bob, "tablet")
    call = talk(alice, bob)
    tablet.expect("call.handledElsewhere", call)
    tablet.join(call)
    bob.expect("call.handledElsewhere", call)
    with bob.hears_nothing("event after the hand-over", _of(call, "call.userStateChanged")):
        alice.add(call, carol)
        tablet.expect_change(call, carol, "received")


@sentence("5 Derived", "the inviter's other devices get call.created likewise")
def a_device_that_acked_call_created_hears_nothing_more(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(alice, "tablet")
    call = alice.invite(bob, mode="advanced")
    tablet.expect("call.created", call)
    tablet.settle()
    time.sleep(QUIET)  # until the service has served its ack
    alice.expect_change(call, bob, "received")
    with tablet.hears_nothing("event after the ack", _of(call)):
        bob.accept(call)
        alice.expect_change(call, bob, "accepted")
        alice.end(call)
        bob.expect("call.ended", call)


@sentence("5 Derived", "its user became cancelled or timeout since → that;", waits=3)
def a_device_whose_user_was_cancelled_or_timed_out_is_owed_that(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    for event in ("call.cancelled", "call.timeout"):
        call = alice.invite(bob, timeout=3)
        revision = bob.expect("call.invited", call)["revision"]
        if event == "call.cancelled":
            alice.cancel(call)
        current = bob.expect(event, call)["revision"]
        equal("the answer to a stale ack", _answer_to_ack(bob, call, revision, current)["event"], event)


@sentence("5 Derived", "the (advanced) call ended since → call.ended;")
def a_device_whose_advanced_call_ended_is_owed_that(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    revision = alice.get(call)["revision"]
    bob.auto_ack = False
    alice.add(call, carol)
    alice.end(call)
    current = bob.expect("call.ended", call)["revision"]
    equal("the answer to a stale ack", _answer_to_ack(bob, call, revision, current)["event"], "call.ended")


@sentence("5 Derived", "anything else changed since → call.userStateChanged with all changes since.")
def all_changes_since_the_ack_come_in_one_event(scene: Scene) -> None:
    alice, bob, carol, dave = scene.device("alice", auto_ack=False), *scene.devices("bob", "carol", "dave")
    call = alice.invite(bob, carol, dave)
    for device in (bob, carol, dave):
        alice.expect_change(call, device, "received")
    carol.reject(call, reason="driving")
    current = alice.expect_change(call, carol, "rejected")["revision"]
    owed = _answer_to_ack(alice, call, 1, current)
    expected = {bob.user: "received", carol.user: "rejected", dave.user: "received"}
    equal("all changes since revision 1", _changes(owed), expected)
    equal("the reason", change(owed, carol)["reason"], "driving")


@sentence("5 Derived", "Events always carry the current call and revision.")
def what_is_owed_has_the_current_call(scene: Scene) -> None:
    alice, bob, carol = scene.device("alice", auto_ack=False), scene.device("bob"), scene.device("carol")
    call = alice.invite(bob, carol)
    alice.expect_change(call, carol, "received")
    alice.expect_change(call, bob, "received")
    current = bob.ok("call.get", callID=call)
    time.sleep(QUIET)  # until the first sends have arrived
    again = alice.wait(lambda m: m.is_event(None, call), 3, "a resend", since=alice.mark)
    fields("a resend", again.body, **{name: current[name] for name in ("revision", "time", "call")})


@sentence(
    "5 Derived",
    "a device that missed three changes gets one event that brings it up to date, and never rings for a call "
    "that is over.",
)
def a_device_that_missed_changes_gets_one_event(scene: Scene) -> None:
    alice, bob, carol, dave = scene.devices("alice", "bob", "carol", "dave")
    call = talk(alice, bob)
    over = ring(carol, bob)
    bob.drop()
    alice.add(call, dave)
    alice.expect_change(call, dave, "received")
    dave.reject(call)
    carol.cancel(over)
    since = bob.mark
    bob.connect()
    owed = bob.expect("call.userStateChanged", call, since=since)
    equal("dave's state", change(owed, dave)["state"], "rejected")
    bob.heard_nothing("second event", lambda m: m.is_event() and m is not owed, since)


@sentence("5 Derived", "A session begins at revision 0 (so a restarted app is told again of a call that still rings")
def a_restarted_app_is_told_again_of_a_call_that_rings(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    bob.close()
    since = bob.mark
    bob.connect()
    again = bob.expect("call.invited", call, since=since)
    equal("its topic", again.topic, bob.device_topic)


@sentence("5 Derived", "Calls over before the session began are not owed to it")
def a_new_session_is_not_told_of_calls_that_are_over(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    cancelled = ring(alice, bob)
    talked = talk(alice, bob)
    bob.drop()
    alice.cancel(cancelled)
    alice.end(talked)
    since = bob.mark
    bob.connect()
    bob.heard_nothing("event of a call that is over", lambda m: m.is_event(), since)


@sentence(
    "5 Derived",
    "Owed are live calls and those ended within the last 60 s",
    waits=lambda t: t.ended_retention + 2,
)
def a_call_that_ended_long_ago_is_not_owed(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    call = alice.invite(bob)
    revision = bob.expect("call.invited", call)["revision"]
    alice.cancel(call)
    bob.expect("call.cancelled", call)
    retention = scene.timings.ended_retention
    # By the schedule the copies come at most 8 s apart: the last copy comes while the service still tells of the call.
    bob.heard_nothing("invitation", lambda m: m.is_event("call.invited"), bob.mark, retention - 2)
    since = bob.mark
    bob.ack(call, revision)
    bob.wait(lambda m: m.is_event("call.cancelled", call), 0.9, "the answer within the retention", since=since)
    bob.heard_nothing("invitation", lambda m: m.is_event("call.invited"), bob.mark, 3.5)
    with bob.hears_nothing("event after the time", lambda m: m.is_event()):
        bob.ack(call, revision)


@sentence("5 Derived", "First sends and resends come from the same function", waits=3)
def a_resend_says_what_the_first_send_said(scene: Scene) -> None:
    alice, bob = scene.device("alice", auto_ack=False), scene.device("bob", auto_ack=False)
    call = alice.invite(bob)
    first, second = (bob.copy(number, "call.invited", call, 3).body for number in (1, 2))
    equal("all but the time left", second | {"expiresIn": 0}, first | {"expiresIn": 0})
    bob.ack(call, first["revision"])
    first, second = (alice.copy(number, "call.userStateChanged", call, 3).body for number in (1, 2))
    equal("a change", second, first)


# Contents of events


@sentence(
    "5",
    '{"type":"event","event":"…","callID":"…","revision":n,"time":…,"actor":"bob","changes":[{"userID","state",'
    '"device"?,"reason"?,"extendedData"?}],"call":{…}}',
)
def an_event_says_what_changed_and_who_did_it(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol, mode="advanced")
    accepted = bob.accept(call, extendedData="on my way")
    told = alice.expect_change(call, bob, "accepted")
    expected = {"type": "event", "event": "call.userStateChanged", "actor": bob.user}
    fields(
        "the event", told.body, **expected, **{name: accepted[name] for name in ("callID", "revision", "time", "call")}
    )
    entry = {"userID": bob.user, "state": "accepted", "device": "phone", "extendedData": "on my way"}
    equal("the change", change(told, bob), entry)
    carol.reject(call, reason="driving")
    fields("the next change", change(alice.expect_change(call, carol, "rejected"), carol), reason="driving", extendedData=None)


@sentence(
    "5", 'call.invited, and no other event, carries "expiresIn" … missed is absent from all other events', waits=1
)
def expires_in_and_missed_stand_where_they_belong(scene: Scene) -> None:
    alice, bob, carol, dave, erin = scene.devices("alice", "bob", "carol", "dave", "erin")
    tablets = [scene.another(user, "tablet") for user in (alice, bob)]
    call = ring(alice, bob, carol, dave, erin, mode="advanced")
    bob.accept(call)
    alice.cancel(call, carol)
    dave.reject(call)
    alice.add(call, dave, timeout=1)
    dave.expect("call.timeout", call)
    alice.end(call)
    for device in (bob, erin):
        device.expect("call.ended", call)
    tablets[1].expect("call.handledElsewhere", call)
    seen = set()
    for device in (alice, bob, carol, dave, erin, *tablets):
        for message in device.find(lambda m: m.is_event()):
            seen.add(message["event"])
            equal(f"expiresIn in {message['event']}", "expiresIn" in message.body, message["event"] == "call.invited")
            # Dave rejected before his timeout; Erin was pending when the call ended.
            missed = message["event"] == "call.cancelled" or (message["event"] == "call.ended" and device is erin)
            equal(f"missed in {message['event']}", message.get("missed"), True if missed else None)
    equal("how many kinds of events were seen", len(seen), 7)


@sentence("5", 'carries "expiresIn" (ms left, computed at each send)', waits=2)
def an_invitation_tells_the_milliseconds_left_at_each_send(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", auto_ack=False)
    call = alice.invite(bob, timeout=30)
    copies = [bob.copy(number, "call.invited", call, 4) for number in (1, 2, 3)]
    between("at the first send", copies[0]["expiresIn"], 29_000, 30_000)
    for earlier, later in zip(copies, copies[1:]):
        passed = (later.at - earlier.at) * 1000
        between(
            "milliseconds less at the resend", earlier["expiresIn"] - later["expiresIn"], passed - 300, passed + 300
        )


@sentence(
    "5",
    "call.cancelled, call.timeout and, to a user who was pending until then, call.ended carry "
    '"missed":true when the user never responded on any device',
    waits=3,
)
def a_call_that_was_never_responded_to_is_missed(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    scene.another(bob, "tablet")
    call = ring(alice, bob, carol, mode="advanced")
    carol.accept(call)
    alice.end(call)
    equal("missed when the call was ended", bob.expect("call.ended", call).get("missed"), True)
    call = ring(alice, bob)
    alice.cancel(call)
    equal("missed when cancelled", bob.expect("call.cancelled", call).get("missed"), True)
    call = ring(alice, bob, timeout=3)
    equal("missed when timed out", bob.expect("call.timeout", call).get("missed"), True)


@sentence(
    "5", "missed is absent … for a user who had accepted, rejected or joined this call at an earlier time.", waits=9
)
def one_who_had_responded_earlier_did_not_miss_the_call(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    people = {answer: scene.device(answer[5:]) for answer in ("call.accept", "call.reject", "call.join")}
    call = talk(alice, bob)
    for answer, device in people.items():
        alice.add(call, device)
        device.ok(answer, callID=call)
        if answer != "call.reject":
            device.quit(call)
        for event, timeout in (("call.cancelled", 60), ("call.timeout", 3)):
            added = alice.add(call, device, timeout=timeout)
            device.expect("call.invited", call, after=added["revision"] - 1)
            if event == "call.cancelled":
                alice.cancel(call, device)
            told = device.expect(event, call, after=added["revision"])
            equal(f"missed in {event} after {answer}", told.get("missed"), None)


@sentence(
    "5",
    "When a common call ends, its live members get call.userStateChanged with a call whose state is ended, "
    "never call.ended.",
)
def a_common_call_ends_with_a_state_change(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    bob.accept(call)
    carol.reject(call)
    for device in (alice, bob):
        told = device.expect_change(call, carol, "rejected")
        fields("the event", told.body, event="call.userStateChanged")
        fields("its call", told["call"], state="ended", endReason="answered")
    for device in (alice, bob, carol):
        device.heard_nothing("call.ended", lambda m: m.is_event("call.ended"), 0, 0.2)


@sentence("5", "a member still pending when call.end ended the call is owed call.ended")
def one_who_is_pending_at_call_end_hears_call_ended(scene: Scene) -> None:
    alice, bob, carol = scene.device("alice"), scene.device("bob"), scene.device("carol", auto_ack=False)
    call = talk(alice, bob)
    alice.add(call, carol)
    carol.expect("call.invited", call)
    alice.end(call)
    ended = carol.expect("call.ended", call)
    equal("carol's state", member(ended["call"], carol)["state"], "inviting")
    since = carol.mark
    carol.copy(2, "call.ended", call, 3)
    carol.heard_nothing("invitation", lambda m: m.is_event("call.invited"), since)


@sentence(
    "5 What events say",
    "In call.userStateChanged, changes has every other member whose state changed since the revision that the "
    "device acked, and the own entry only when the user quit.",
)
def a_state_change_does_not_list_the_own_entry(scene: Scene) -> None:
    alice, bob, carol = scene.device("alice"), scene.device("bob", auto_ack=False), scene.device("carol")
    call = alice.invite(bob, carol)
    invited = bob.expect("call.invited", call)["revision"]
    alice.expect_change(call, carol, "received")
    bob.ack(call, invited)
    alice.expect_change(call, bob, "received")
    rejected = carol.reject(call)
    told = bob.expect("call.userStateChanged", call, after=rejected["revision"] - 1)
    equal("the changes since revision 1", _changes(told), {carol.user: "rejected"})


@sentence("5 What events say", "In all other events, changes has every member changed since, the own one included.")
def other_events_list_the_own_entry(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = alice.invite(bob, carol, mode="advanced")
    expected = {alice.user: "accepted", bob.user: "inviting", carol.user: "inviting"}
    equal("the changes of the invitation", _changes(bob.expect("call.invited", call)), expected)
    alice.expect_change(call, bob, "received")
    alice.expect_change(call, carol, "received")
    alice.cancel(call, bob)
    equal("of the cancel", _changes(bob.expect("call.cancelled", call))[bob.user], "cancelled")
    carol.expect_change(call, bob, "cancelled")
    carol.reject(call)
    told = alice.expect("call.ended", call)
    equal("of the end", _changes(told)[carol.user], "rejected")


@sentence("5 What events say", "actor is absent when a timer caused the change.", waits=4)
def an_event_names_who_did_it_unless_it_was_a_timer(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol, mode="advanced", timeout=4)
    rejected = carol.reject(call)
    told = alice.expect("call.userStateChanged", call, after=rejected["revision"] - 1)
    equal("the actor of a rejection", told.get("actor"), carol.user)
    told = bob.expect("call.timeout", call)
    equal("the actor of a timeout", told.get("actor"), None)


# Topics


@sentence("5 Where events go", "first send to a pending, cancelled or timed-out user | down/{user}", waits=4)
def pending_cancelled_and_timed_out_users_hear_on_their_user_topic(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol, timeout=4)
    alice.cancel(call, carol)
    for event in ("call.invited", "call.userStateChanged", "call.timeout"):
        _on_user_topic(bob, event, call)
    _on_user_topic(carol, "call.cancelled", call)


@sentence("5 Where events go", "first send to the inviter and to accepted users | down/{user}/{device}")
def the_inviter_and_accepted_users_hear_on_their_devices_topic(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.add(call, carol)
    for device in (alice, bob):
        equal(f"the topic of {device}", device.expect_change(call, carol, "received").topic, device.device_topic)
    alice.end(call)
    equal("the topic of the end", bob.expect("call.ended", call).topic, bob.device_topic)


@sentence("5 Where events go", "call.created and call.handledElsewhere | that of each other online device")
def what_other_devices_hear_comes_on_their_own_topic(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    others = [scene.another(user, name) for user in (alice, bob) for name in ("tablet", "watch")]
    call = ring(alice, bob)
    bob.accept(call)
    for device, event in zip(others, ["call.created"] * 2 + ["call.handledElsewhere"] * 2):
        equal(f"the topic of {event}", device.expect(event, call).topic, device.device_topic)


@sentence(
    "5",
    "Devices without presence that acked an event of a call get its events like online devices (also "
    "call.handledElsewhere: such a device may be ringing).",
)
def a_device_without_presence_that_acked_is_told_like_online_ones(scene: Scene) -> None:
    several = "with several brokers, a device without presence hears of the call at the broker of an online device"
    require(not scene.deployment.others, several)
    alice, bob = scene.device("alice"), scene.device("bob")
    silent = scene.another(bob, "silent", presence=False)
    deaf = scene.another(bob, "deaf", presence=False, auto_ack=False)
    web = scene.another(alice, "web", presence=False)
    call = ring(alice, bob)
    silent.expect("call.invited", call)
    deaf.expect("call.invited", call)
    time.sleep(QUIET)  # until the service has served the ack
    web.heard_nothing("call.created", lambda m: m.is_event(), 0, 0)
    with deaf.hears_nothing("call.handledElsewhere", lambda m: m.is_event("call.handledElsewhere")):
        bob.accept(call)
        told = silent.expect("call.handledElsewhere", call)
    equal("its topic", told.topic, silent.device_topic)
    equal("bob's state", member(told["call"], bob)["state"], "accepted")


@sentence(
    "5",
    "The acting device gets its response and no event of its own request: the response's revision counts as acked by"
    " it.",
)
def the_acting_device_gets_no_event_of_its_own_request(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol, mode="advanced", autoEnd=False)
    for device, act in ((bob, bob.accept), (carol, carol.reject), (bob, bob.quit), (bob, bob.join)):
        since = device.mark
        revision = act(call)["revision"]
        device.heard_nothing("event of the own request", _at(call, revision), since, 1.3)
        alice.wait(_at(call, revision), None, f"the event of revision {revision}")
    common = ring(scene.device("dave"), carol)
    with carol.hears_nothing("event after the rejection", lambda m: m.is_event(None, common), 1.3):
        carol.reject(common)


@sentence("5", "The acting device knows its revision from the response.")
def the_revision_of_a_response_counts_as_acked(scene: Scene) -> None:
    alice, bob = scene.device("alice", auto_ack=False), scene.device("bob")
    response = alice.ok("call.invite", invitees=[bob.user])
    told = alice.expect_change(response["callID"], bob, "received")
    equal("the changes since the response", _changes(told), {bob.user: "received"})
    equal("the states", states(told["call"]), ["accepted", "received"])
    true("the revision is above the response's", told["revision"] > response["revision"])
