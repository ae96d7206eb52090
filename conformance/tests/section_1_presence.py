"""Section 1, Presence: online users, and the messages to a device that comes online."""

from __future__ import annotations

import json
import time
from typing import Any

from ..client import QUIET, Device, Message
from ..expect import between, equal, fields, member, names, true
from ..scene import Scene
from ..suite import require, sentence
from .steps import is_online, new_id, ring, talk, wait_offline

LONGEST_LEASE = 90
"""In seconds: the tests do not wait for a longer presence lease."""


@sentence("1", "The service, not the broker's queue, brings a returning device up to date")
def the_service_brings_a_returning_device_up_to_date(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    bob.drop()
    alice.add(call, carol)
    alice.expect_change(call, carol, "received")
    since = bob.mark
    bob.connect()
    told = bob.expect("call.userStateChanged", call, since=since)
    equal("carol's state", member(told["call"], carol)["state"], "received")


@sentence("1 Presence", "sends it again after 1, 2, 4, 8 s until a welcome naming that session arrives")
def each_presence_of_a_session_is_answered_by_its_welcome(scene: Scene) -> None:
    alice = scene.device("alice")
    for _ in range(2):
        since = alice.mark
        alice.present(True)
        alice.welcome(alice.session, since)


@sentence("1 Presence", 'Its will is {"online":false,"reason":"lost","session":"…"}')
def the_will_takes_a_device_offline(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    true("bob is online", is_online(scene, bob.user))
    bob.drop()
    wait_offline(scene, bob.user)


@sentence("1 Presence", 'before a clean disconnect it publishes {"online":false,"reason":"logout","session":"…"}')
def a_logout_takes_a_device_offline(scene: Scene) -> None:
    bob = scene.device("bob")
    true("bob is online", is_online(scene, bob.user))
    bob.logout()
    wait_offline(scene, bob.user)


@sentence("1 Presence", "An online:false whose session is not the device's current session changes no state")
def an_offline_of_another_session_changes_nothing(scene: Scene) -> None:
    bob = scene.device("bob")
    bob.present(False, "logout", session="another")
    time.sleep(QUIET)  # the message may have no effect
    true("bob is online", is_online(scene, bob.user))
    bob.present(False, "logout")
    wait_offline(scene, bob.user)


@sentence(
    "1 Presence",
    "and is remembered for 120 s. An online:true of a session that is remembered as over is ignored",
)
def an_online_of_a_session_that_is_over_is_ignored(scene: Scene) -> None:
    bob = scene.device("bob", presence=False)
    bob.present(False, "lost", session="over")
    time.sleep(QUIET)  # until the service has recorded the end
    with bob.hears_nothing("welcome", lambda m: m.type == "welcome"):
        bob.present(True, session="over")
    true("bob is offline", not is_online(scene, bob.user))


@sentence(
    "1 Presence",
    'the device is told so by {"type":"error","error":{"code":"sessionOver","message":"…","session":"…"}} '
    "on the device topic",
)
def a_session_that_is_over_is_told_so(scene: Scene) -> None:
    bob = scene.device("bob", presence=False)
    bob.present(False, "lost", session="over")
    time.sleep(QUIET)  # until the service has recorded the end
    since = bob.mark
    bob.present(True, session="over")
    equal("the session", bob.expect_error("sessionOver", since)["session"], "over")
    bob.present(True, session="another")
    bob.welcome("another")


@sentence("1", "Make a new session, and a client with a new will, for each connection")
def a_client_that_connects_again_with_its_old_will_learns_why_it_is_not_online(scene: Scene) -> None:
    bob = scene.device("bob")
    old = bob.session
    bob.drop()
    wait_offline(scene, bob.user)
    bob.connect(presence=False)
    since = bob.mark
    bob.present(True, session=old)
    equal("the session", bob.expect_error("sessionOver", since)["session"], old)
    bob.present(True)
    bob.welcome(bob.session, since)


@sentence("1 Presence", "and is remembered for 120 s", waits=lambda t: t.session_memory + 3)
def a_session_that_is_over_is_remembered_for_its_time(scene: Scene) -> None:
    bob = scene.device("bob", presence=False)
    over = time.monotonic()
    bob.present(False, "lost", session="over")
    memory = scene.timings.session_memory
    _sleep_until(over + memory * 0.95 - 1)
    with bob.hears_nothing("welcome", lambda m: m.type == "welcome"):
        bob.present(True, session="over")
    _sleep_until(over + memory + 2)
    bob.present(True, session="over")
    bob.welcome("over")


def _sleep_until(moment: float) -> None:
    """Sleeps until an effect of time alone: the service sends no message that could be waited for."""
    time.sleep(max(0.0, moment - time.monotonic()))


@sentence("1 Presence", "Any other online:true makes its session the current session")
def any_other_online_makes_its_session_the_current_one(scene: Scene) -> None:
    bob = scene.device("bob")
    for session in ("second", bob.session, "second"):
        since = bob.mark
        bob.present(True, session=session)
        bob.welcome(session, since)
    bob.present(False, "logout")
    time.sleep(QUIET)  # the message may have no effect
    true("the first session's end has no effect", is_online(scene, bob.user))
    bob.present(False, "logout", session="second")
    wait_offline(scene, bob.user)


@sentence("1 Presence", "Presence is a lease of 10 min (setting)", waits=lambda t: _lease(t.presence_lease))
def a_silent_device_is_offline_when_its_lease_ends(scene: Scene) -> None:
    lease = scene.timings.presence_lease
    require(lease <= LONGEST_LEASE, f"the presence lease of {lease:g} s is too long to wait for")
    bob = scene.device("bob", auto_ack=False)
    began = time.monotonic()
    _sleep_until(began + lease * 0.8)
    true("bob is online before its end", is_online(scene, bob.user))
    _sleep_until(began + lease + 2)
    true("bob is offline after its end", not is_online(scene, bob.user))


@sentence("1 Presence", "anything that the device sends renews it", waits=lambda t: _lease(t.presence_lease) * 1.5)
def anything_that_a_device_sends_renews_its_lease(scene: Scene) -> None:
    lease = scene.timings.presence_lease
    require(lease <= LONGEST_LEASE, f"the presence lease of {lease:g} s is too long to wait for")
    bob = scene.device("bob", auto_ack=False)
    began = time.monotonic()
    _sleep_until(began + lease * 0.7)
    bob.ack(new_id(), 1)
    _sleep_until(began + lease * 1.4)
    true("bob is online", is_online(scene, bob.user))


def _lease(seconds: float) -> float:
    return seconds if seconds <= LONGEST_LEASE else 0


@sentence("1 Presence", "A client that never publishes presence can call and be called")
def a_client_without_presence_can_call_and_be_called(scene: Scene) -> None:
    alice, bob = scene.device("alice", presence=False), scene.device("bob", presence=False)
    call = ring(alice, bob)
    bob.accept(call)
    equal("the end reason", alice.expect_change(call, bob, "accepted")["call"]["endReason"], "answered")


@sentence("1 Presence", "Such a client is never lost, never counted online", waits=lambda t: t.caller_grace + 2)
def a_client_without_presence_is_never_lost(scene: Scene) -> None:
    alice, bob = scene.device("alice", presence=False), scene.device("bob")
    call = ring(alice, bob)
    alice.drop()
    seconds = scene.timings.caller_grace + 2
    bob.heard_nothing("end of the call", lambda m: m.is_event("call.cancelled", call), 0, seconds)
    equal("the call's state", bob.get(call)["state"], "ringing")


@sentence("1 Presence", "never counted online")
def a_client_without_presence_is_never_counted_online(scene: Scene) -> None:
    bob = scene.device("bob", presence=False)
    true("bob is not online", not is_online(scene, bob.user))
    bob.invite(scene.absent("carol"))
    true("bob is not online after a request", not is_online(scene, bob.user))


@sentence("1 Presence", "and brought up to date by resends and call.query alone")
def a_client_without_presence_is_brought_up_to_date_by_resends(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.device("bob", presence=False, auto_ack=False)
    call = alice.invite(bob)
    copies = [bob.copy(number, "call.invited", call, 5) for number in (1, 2)]
    equal("the topics of the copies", [m.topic for m in copies], [bob.user_topic] * 2)


@sentence("1 Presence", "and brought up to date by … call.query alone")
def a_client_without_presence_finds_its_calls_by_a_query(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    call = alice.invite(bob)
    device = scene.device_of(bob, presence=False)
    listed = device.ok("call.query")["calls"]
    equal("the calls and their states", [(c["callID"], c["state"]) for c in listed], [(call, "ringing")])


@sentence("1 Presence", "session may be left out: an absent session is the empty string, which is never remembered as over.")
def a_session_that_is_left_out_is_the_empty_string(scene: Scene) -> None:
    bob = scene.device("bob", presence=False)
    for _ in range(2):
        since = bob.mark
        bob.publish(bob.presence_topic, b'{"online":true}')
        bob.welcome("", since)
        true("bob is online", is_online(scene, bob.user))
        bob.publish(bob.presence_topic, b'{"online":false,"reason":"logout"}')
        wait_offline(scene, bob.user)


@sentence("1 Presence", "A user has at most 10 devices online (setting); the eleventh replaces the one silent longest.")
def a_device_too_many_replaces_the_one_silent_longest(scene: Scene) -> None:
    first = scene.device("alice", "device-0")
    others = [scene.another(first, f"device-{number}") for number in range(1, scene.limits.max_devices)]
    first.settle()  # after this message the second device is silent longest
    newest = scene.another(first, "newest")
    silent = others[0]
    with silent.hears_nothing("call.created", lambda m: m.is_event("call.created")):
        call = newest.invite(scene.absent("bob"))
        for device in (first, *others[1:]):
            device.expect("call.created", call)


# Welcome


@sentence(
    "1 Presence",
    'To online:true the service answers on the device topic: {"type":"welcome","session":"…","serverTime":…,'
    '"heartbeatInterval":20,"heartbeatTimeout":60,"calls":[Call…]}',
)
def to_online_the_service_answers_a_welcome(scene: Scene) -> None:
    alice = scene.device("alice", connect=False)
    alice.open()
    welcome = alice.come_online()
    equal("its topic", welcome.topic, alice.device_topic)
    fields("the welcome", welcome.body, session=alice.session, calls=[])
    equal("the interval is shorter than the timeout", welcome["heartbeatInterval"] < welcome["heartbeatTimeout"], True)
    alice.settle()
    equal("the answers to one presence message", [m.type for m in alice.messages], ["welcome", "response"])


@sentence("1 Presence", "listing the user's live calls")
def a_welcome_lists_the_users_live_calls(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    over = ring(alice, bob)
    bob.reject(over)
    talking = talk(alice, bob)
    ringing = ring(carol, bob)
    bob.close()
    bob.open()
    calls = {call["callID"]: call for call in bob.come_online()["calls"]}
    equal("the calls' states", {c: calls[c]["state"] for c in calls}, {talking: "active", ringing: "ringing"})
    equal("the active call", calls[talking], alice.get(talking))


@sentence("1 Presence", "and then sends every event this device is owed (section 5)")
def what_a_device_is_owed_comes_after_its_welcome(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    calls = [alice.invite(bob) for _ in range(3)]
    device = scene.device_of(bob)

    def own(message: Message) -> bool:
        return message.topic == device.device_topic

    device.wait_for(lambda: len(device.find(own)) >= 4 or None, None, "welcome and three invitations")
    # The first send on the user's topic may still be on its way.
    equal("the first messages", [m.type for m in device.find(own)[:4]], ["welcome", "event", "event", "event"])
    equal("the calls of the first events", {m["callID"] for m in device.find(own)[1:4]}, set(calls))


@sentence("1 Presence", "So a device that comes online within an invitation's timeout rings")
def a_device_that_was_offline_rings_when_it_comes_online(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    response = alice.ok("call.invite", invitees=[bob], timeout=30)
    equal("the offline users", response["offline"], [bob])
    device = scene.device_of(bob)
    between("expiresIn", device.expect("call.invited", response["callID"])["expiresIn"], 1, 30_000)
    alice.expect_change(response["callID"], bob, "received")


@sentence("1 Presence", "an app that was killed finds its calls again")
def an_app_that_was_killed_finds_its_calls_again(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    talking = talk(alice, bob)
    ringing = ring(carol, bob)
    bob.drop()
    since = bob.mark
    bob.open()
    found = {call["callID"] for call in bob.come_online()["calls"]}
    equal("the calls of the welcome", found, {talking, ringing})
    bob.expect("call.invited", ringing, since=since)
    bob.accept(ringing, id=new_id()) if carol.get(ringing)["mode"] == "advanced" else bob.reject(ringing)
    bob.quit(talking)


# Clarifications


@sentence(
    "1 Welcome",
    'A welcome from which live calls had to be left out (256 KiB) carries "omittedCalls":n',
)
def only_a_welcome_that_left_out_calls_says_so(scene: Scene) -> None:
    bob, carol = scene.absent("bob"), scene.absent("carol")
    # Only a few invitations of a user may ring at the same user at a time.
    callers = scene.devices(*(f"caller{number}" for number in range(7)))
    callers[0].invite(bob, timeout=60)
    for number in range(26):
        callers[number % 7].invite(carol, extendedData="\u0001" * 2048, timeout=60)  # six bytes each in JSON
    # An invitation may come before the welcome: when the device has subscribed, the service may resend the invitation
    # before the device has published its presence.
    devices = [scene.device_of(user) for user in (bob, carol)]
    welcomes = [next(message for message in device.messages if message.type == "welcome") for device in devices]
    equal("omittedCalls of a welcome with one call", welcomes[0].get("omittedCalls"), None)
    equal("calls told and left out", len(welcomes[1]["calls"]) + welcomes[1]["omittedCalls"], 26)


@sentence(
    "1 Welcome",
    "It also carries presenceLease in seconds; heartbeatInterval, heartbeatTimeout and presenceLease are rounded up to"
    " whole seconds.",
)
def a_welcome_tells_the_services_times_in_whole_seconds(scene: Scene) -> None:
    alice = scene.device("alice")
    welcome = alice.messages[0]
    for name in ("presenceLease", "heartbeatInterval", "heartbeatTimeout"):
        value = welcome.get(name)
        true(f"{name} is an integer from 1", type(value) is int and value >= 1, value)


@sentence("1 Presence", "session: random per connection, at most 64 bytes")
def a_session_has_at_most_64_bytes(scene: Scene) -> None:
    bob = scene.device("bob", presence=False)
    bob.present(True, session="s" * 64)
    bob.welcome("s" * 64)
    for too_long in ("s" * 65, "é" * 33):
        names("the error", _malformed(bob, {"online": True, "session": too_long})["message"], "session")


@sentence("1 Presence", "An online:false without reason counts as lost.", waits=lambda t: t.caller_grace + 2)
def an_offline_without_reason_counts_as_lost(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    alice.present(False)
    grace = scene.timings.caller_grace
    since = bob.mark
    bob.heard_nothing("end at once", lambda m: m.is_event("call.cancelled", call), since, grace * 0.6)
    cancelled = bob.expect("call.cancelled", call, seconds=grace + 2)
    equal("the end reason", cancelled["call"]["endReason"], "callerLost")


@sentence("1 Presence", "A malformed presence message is answered by type error on the device topic.")
def a_malformed_presence_message_is_answered_by_an_error(scene: Scene) -> None:
    bob = scene.device("bob", presence=False)
    wrong: list[dict[str, Any]] = [{}, *({"online": online} for online in ("yes", None, 1))]
    for body in [*wrong, {"online": False, "reason": "away"}, {"online": True, "session": 5}]:
        _malformed(bob, body)
    for payload in (b"", b"online", b"[]", b'{"online":true'):
        since = bob.mark
        bob.publish(bob.presence_topic, payload)
        bob.expect_error("badRequest", since)


def _malformed(device: Device, body: dict[str, Any]) -> dict[str, Any]:
    since = device.mark
    device.publish(device.presence_topic, json.dumps(body).encode())
    return device.expect_error("badRequest", since)


@sentence(
    "1 Presence",
    "Presence is never a condition: call.accept, call.reject, call.cancel, call.end and all other requests work for a"
    " device that never published it.",
)
def presence_is_never_a_condition(scene: Scene) -> None:
    alice, bob, carol = (scene.device(name, presence=False) for name in ("alice", "bob", "carol"))
    call = ring(alice, bob, mode="advanced")
    bob.accept(call)
    bob.add(call, carol)
    carol.reject(call)
    bob.add(call, carol)
    bob.cancel(call, carol)
    carol.join(call)
    bob.quit(call)
    equal("bob's state", member(alice.get(call), bob)["state"], "quit")
    equal("the call's state", alice.end(call)["call"]["state"], "ended")
    sent = alice.ok("message.send", to=bob.user, data=1)["messageID"]
    alice.wait(lambda m: m.type == "receipt" and m["messageID"] == sent, None, "the receipt of a message")
