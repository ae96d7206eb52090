"""Section 8: media sessions. Each test sees from a response whether calls have media servers, and is skipped
if not."""

from __future__ import annotations

from typing import Any

from ..client import Device
from ..expect import equal, true
from ..scene import Scene
from ..suite import sentence, skip
from .section_6_timeline import _of, _trace
from .steps import eventually, ring, talk

_FIELDS = {"server", "type", "url", "room", "token", "expiresAt"}


def _session(body: dict[str, Any]) -> dict[str, Any]:
    session: dict[str, Any] | None = body.get("mediaSession")
    if session is None:
        skip("this deployment has no media server for calls without media")
    equal("the fields of the session", set(session), _FIELDS)
    return session


def _media(device: Device, call: str) -> dict[str, Any]:
    """Returns the session that `call.media` gives."""
    response = device.start("call.media", callID=call).wait()
    if not response["ok"] and response["error"]["code"] == "noMedia":
        skip("this deployment has no media server for calls without media")
    equal("the response", response["ok"], True)
    return _session(response)


def _invite(inviter: Device, *invitees: Device, **fields: Any) -> dict[str, Any]:
    return inviter.ok("call.invite", invitees=[invitee.user for invitee in invitees], **fields)


@sentence("8", "The field stands in the responses to call.invite, call.accept and call.join, for the device on which the user is accepted")
def who_is_accepted_gets_a_session_of_the_same_room(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    made = _invite(alice, bob, mode="advanced", joinPolicy="anyone")
    room = _session(made)["room"]
    equal("bob's room", _session(bob.accept(made["callID"]))["room"], room)
    equal("carol's room", _session(carol.join(made["callID"]))["room"], room)
    equal("the room of call.media", _media(carol, made["callID"])["room"], room)


@sentence("8", "A repeated request gets a new token.")
def a_repeated_answer_has_a_session_until_the_call_is_over(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    answer = bob.start("call.accept", callID=call)
    _session(answer.ok())
    _session(answer.again().ok())
    alice.end(call)
    true("no session after the end", "mediaSession" not in answer.again().ok(), None)


@sentence("8", "Responses about an ended call have no session, except for 60 s after a common call ended with answered.")
def the_answer_that_ends_a_common_call_has_a_session(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    answered = bob.accept(call)
    equal("the call", answered["call"]["state"], "ended")
    room = _session(answered)["room"]
    equal("the inviter's room", _media(alice, call)["room"], room)
    rejected = ring(alice, bob)
    bob.reject(rejected)
    alice.refused("call.media", "callEnded", callID=rejected)


@sentence("8", 'A welcome has "mediaSessions":… for the live calls in which this device is accepted.')
def a_welcome_has_the_session_of_the_device_in_the_call(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    room = _media(bob, call)["room"]
    tablet = scene.another(bob, "tablet")
    true("the other device has none", "mediaSessions" not in tablet.expect_type("welcome").body, None)
    since = bob.mark
    bob.come_online()
    told = bob.expect_type("welcome", since=since).body["mediaSessions"]
    equal("the calls and rooms", [(each["callID"], each["room"]) for each in told], [(call, room)])


@sentence("8", "No event, webhook, timeline or record contains a session.")
def no_other_message_has_a_token(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob, carol)
    tokens = [_media(device, call)["token"].encode() for device in (alice, bob, carol)]
    bob.quit(call)
    alice.end(call)
    for device in (alice, bob, carol):
        for message in device.messages:
            if message.type in ("response", "welcome"):
                continue
            true("no token", not any(token in message.raw for token in tokens), message.raw)
    true("no token in the timeline", "token" not in str(alice.ok("call.trace", callID=call)["entries"]), None)


@sentence(
    "8",
    "Refusals of call.media, the first that applies: … callNotFound … callEnded with state … invalidState with state "
    "… noMedia",
)
def call_media_is_refused_in_this_order(scene: Scene) -> None:
    alice, bob, mallory = scene.devices("alice", "bob", "mallory")
    call = ring(alice, bob, mode="advanced")
    mallory.refused("call.media", "callNotFound", callID=call)
    equal("the state", bob.refused("call.media", "invalidState", callID=call)["state"], "received")
    bob.accept(call)
    tablet = scene.another(bob, "tablet")
    equal("the state", tablet.refused("call.media", "invalidState", callID=call)["state"], "accepted")
    response = bob.start("call.media", callID=call).wait()
    if not response["ok"]:
        equal("without a media server", response["error"]["code"], "noMedia")
    alice.end(call)
    equal("the state", bob.refused("call.media", "callEnded", callID=call)["state"], "accepted")
    tablet.refused("call.media", "callEnded", callID=call)
    mallory.refused("call.media", "callNotFound", callID=call)


@sentence("6 Entries", "media | userID, device, server | a device got a media session (section 8)", waits=2)
def a_timeline_tells_who_got_a_session(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    server = _media(bob, call)["server"]
    expected = [(u.user, u.device, server) for u in (alice, bob, bob)]
    entries = _trace(scene, alice, call)

    def told() -> list[tuple[str, str, str]]:
        entries.read()
        return [(e["userID"], e["device"], e["server"]) for e in _of(entries, "media")]

    eventually(scene, "the sessions are told", lambda: len(told()) >= len(expected))
    equal("the entries", told(), expected)
