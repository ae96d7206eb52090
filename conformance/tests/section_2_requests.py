"""Section 2: requests and responses, repeated requests, the early cancel, and the alias that a glare
merge leaves."""

from __future__ import annotations

import json
import time

from ..client import Device, Request
from ..expect import change, equal, errors, fields, member, states, true
from ..scene import Scene
from ..suite import MQTT5, sentence
from .steps import new_id, ring, talk

REPEATED = "A repeated request that succeeded changes nothing, however late it comes, and gets the same outcome"


@sentence("2", "Each request gets exactly one outcome, sent to the requesting device")
def each_request_gets_exactly_one_outcome(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(alice, "tablet")
    with tablet.hears_nothing("response to the phone", lambda m: m.type == "response"):
        call = talk(alice, bob)
        alice.refused("call.accept", "invalidState", callID=call)
        alice.end(call)
    answered = [message["id"] for message in alice.messages if message.type == "response"]
    equal("the requests that were answered", sorted(set(answered)), sorted(alice.asked))
    # A request without an answer within a second is sent again.
    often = [id for id in alice.asked if answered.count(id) > len(alice.asked[id])]
    equal("the requests that were answered more often than they were sent", often, [])


@sentence("2", '{"type":"response","id":"…","ok":false,"error":{"code":"…","message":"…"}}')
def a_refusal_has_a_code_and_a_message(scene: Scene) -> None:
    alice = scene.device("alice")
    request_id = new_id()
    body = alice.start("call.get", id=request_id, callID=new_id()).response().body
    fields("the response", body, type="response", id=request_id, ok=False)
    equal("its fields", sorted(body), ["error", "id", "ok", "type"])
    equal("the code", body["error"]["code"], "callNotFound")
    true("the message is a text", isinstance(body["error"]["message"], str) and len(body["error"]["message"]) > 0)


OTHER_CONTENT = "a request whose id this device has used for another request on the call, of another type or with other content, is badRequest"


@sentence(
    "2",
    "A request whose id this device has used for another request on the call, of another type or with other "
    "content, is badRequest",
)
def an_id_that_was_used_for_another_request_is_refused(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    first = alice.start("call.invite", callID=new_id(), invitees=[bob.user], mode="advanced")
    call = first.ok()["callID"]
    with carol.hears_nothing("event", lambda m: m.is_event()):
        for other in (
            {"type_": "call.invite", "invitees": [carol.user], "mode": "advanced"},
            {"type_": "call.invite", "invitees": [bob.user], "mode": "common"},
            {"type_": "call.add", "invitees": [carol.user]},
        ):
            error = alice.refused(other.pop("type_"), "badRequest", id=first.id, callID=call, **other)
            equal("idUsed", error.get("idUsed"), True)
    added = alice.start("call.add", callID=call, invitees=[scene.absent("dave")])
    added.ok()
    with carol.hears_nothing("event", lambda m: m.is_event()):
        alice.refused("call.add", "badRequest", id=added.id, callID=call, invitees=[carol.user])
    alice.ok("call.invite", id=first.id, mode="advanced", invitees=[bob.user], callID=call, unknown=1)


@sentence(
    "2",
    'The same id with other content is refused with badRequest and "idUsed":true in the error, as long '
    "as the first request is remembered. Content is the values of the type's fields in this document, "
    "except id, callID, messageID, seq and stream. The order of fields, white space, escapes, unknown "
    "fields and Correlation Data do not count, nor whether a number is written as 60 or 60.0. The order "
    "of invitees counts. A field that is left out equals null; it need not equal the field's default. "
    "The same id on another call, or in a message to another user, is another request.",
)
def content_is_what_the_fields_say(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call, other_call = new_id(), new_id()
    invitees = [bob.user, carol.user]
    first = alice.start("call.invite", callID=call, invitees=invitees, timeout=60, extendedData="ü")
    first.ok()
    same = f'{{ "extendedData":"\\u00fc","timeout":60.0,"media":null,"later":[1],"callID":"{call}",'
    same += f'"invitees":{json.dumps(invitees)} , "id":"{first.id}","type":"call.invite"}}'
    mark = alice.mark
    alice.send(same.encode())
    alice.wait(lambda m: m.type == "response" and m.get("ok") is True, None, "the response", since=mark)
    alice.refused("call.invite", "badRequest", id=first.id, callID=call, invitees=invitees[::-1], timeout=60, extendedData="ü")
    alice.refused("call.invite", "badRequest", id=first.id, callID=call, invitees=invitees, extendedData="ü")
    alice.ok("call.invite", id=first.id, callID=other_call, invitees=[scene.absent("dave")])
    to_bob = alice.start("message.send", to=bob.user, data=1)
    to_bob.ok()
    alice.ok("message.send", id=to_bob.id, to=carol.user, data=2)


def _repeat(request: Request, asker: Device, *others: Device) -> None:
    """Sends a served request again. The outcome must be the same, with the current call, and no event may come."""
    call = asker.ok("call.get", callID=request.ok()["callID"])
    first = request.ok()
    marks = [device.mark for device in others]
    again = request.again().ok()
    for name in ("offline", "errors", "merged"):
        equal(f"{name} of the repeated request", again.get(name), first.get(name))
    for name in ("callID", "revision", "time", "call"):
        equal(f"{name} of the repeated request", again[name], call[name])
    for device, mark in zip(others, marks):
        device.heard_nothing("event of a repeated request", lambda m: m.is_event() and m.fresh, mark, 0.2)


@sentence("2", REPEATED)
def a_repeated_invite_changes_nothing(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    request = alice.start("call.invite", callID=new_id(), invitees=[bob.user, scene.absent("carol")])
    alice.expect_change(request.ok()["callID"], bob, "received")
    _repeat(request, alice, bob)
    bob.reject(request.ok()["callID"])
    alice.expect_change(request.ok()["callID"], bob, "rejected")
    _repeat(request, alice, bob)


@sentence("2", REPEATED)
def a_repeated_cancel_changes_nothing(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    request = alice.start("call.cancel", callID=call)
    request.ok()
    bob.expect("call.cancelled", call)
    _repeat(request, alice, bob)


@sentence("2", REPEATED)
def a_repeated_accept_changes_nothing(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    request = bob.start("call.accept", callID=call)
    request.ok()
    alice.expect_change(call, bob, "accepted")
    _repeat(request, bob, alice)
    alice.end(call)
    bob.expect("call.ended", call)
    _repeat(request, bob, alice)


@sentence("2", REPEATED)
def a_repeated_reject_changes_nothing(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    request = bob.start("call.reject", callID=call, reason="later")
    request.ok()
    alice.expect_change(call, bob, "rejected")
    carol.expect_change(call, bob, "rejected")
    _repeat(request, bob, alice, carol)


@sentence("2", REPEATED)
def a_repeated_add_changes_nothing(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    request = alice.start("call.add", callID=call, invitees=[carol.user, bob.user, scene.absent("dave")])
    equal("errors", errors(request.ok()), {bob.user: "invalidState"})
    alice.expect_change(call, carol, "received")
    bob.expect_change(call, carol, "received")
    _repeat(request, alice, bob, carol)


@sentence("2", REPEATED)
def a_repeated_join_changes_nothing(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob, joinPolicy="anyone")
    request = carol.start("call.join", callID=call)
    request.ok()
    alice.expect_change(call, carol, "accepted")
    bob.expect_change(call, carol, "accepted")
    _repeat(request, carol, alice, bob)
    carol.quit(call)
    bob.expect_change(call, carol, "quit")
    alice.expect_change(call, carol, "quit")
    _repeat(request, carol, alice, bob)
    equal("carol's state", member(alice.get(call), carol)["state"], "quit")


@sentence("2", REPEATED)
def a_repeated_quit_changes_nothing(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob, carol)
    request = carol.start("call.quit", callID=call)
    request.ok()
    alice.expect_change(call, carol, "quit")
    bob.expect_change(call, carol, "quit")
    _repeat(request, carol, alice, bob)
    joined = carol.join(call)["revision"]
    alice.expect_change(call, carol, "accepted", after=joined - 1)
    bob.expect_change(call, carol, "accepted", after=joined - 1)
    _repeat(request, carol, alice, bob)
    equal("carol's state", member(alice.get(call), carol)["state"], "accepted")


@sentence("2", REPEATED)
def a_repeated_end_changes_nothing(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    request = alice.start("call.end", callID=call, reason="bye")
    request.ok()
    bob.expect("call.ended", call)
    _repeat(request, alice, bob)


@sentence("2", "The last 16 requests of a device per call are remembered")
def the_last_16_requests_of_a_device_are_remembered(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol, mode="advanced")
    carol.accept(call)
    accept = bob.start("call.accept", callID=call)
    accept.ok()
    for _ in range(7):
        bob.quit(call)
        bob.join(call)
    quit_ = bob.quit(call)
    again = accept.again().ok()
    fields("the accept, repeated after 15 more requests", again, callID=call, revision=quit_["revision"])
    equal("bob's state", member(again["call"], bob)["state"], "quit")


@sentence("2", "A request that was refused is judged again")
def a_request_that_was_refused_is_judged_again(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = new_id()
    request = bob.start("call.accept", callID=call)
    request.refused("callNotFound")
    alice.invite(bob, callID=call)
    equal("bob's state", member(request.again().ok()["call"], bob)["state"], "accepted")


# The early cancel


@sentence(
    "2 Early cancel",
    "a call.cancel naming a callID that does not exist (yet) is answered callNotFound and remembered for 30 s "
    "… A call.invite of the same user with that callID that is handled later is answered ok and rings nobody",
)
def a_cancel_before_its_invite_lets_nobody_ring(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = new_id()
    with bob.hears_nothing("event", lambda m: m.is_event()):
        alice.refused("call.cancel", "callNotFound", callID=call)
        invited = alice.ok("call.invite", callID=call, invitees=[bob.user])
    equal("the call's state", invited["call"]["state"], "ended")


@sentence(
    "2 Early cancel",
    "A call.invite of the same user with that callID that is handled later is answered ok and rings nobody: "
    "its call has the state ended and the endReason cancelled, and all its invitees are cancelled.",
)
def an_invite_after_its_cancel_is_answered_with_a_cancelled_call(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    for mode in ("common", "advanced"):
        call = new_id()
        alice.refused("call.cancel", "callNotFound", callID=call)
        made = alice.ok("call.invite", callID=call, invitees=[bob.user, carol.user], mode=mode)["call"]
        fields("the call", made, callID=call, state="ended", endReason="cancelled")
        equal("its members' states", states(made)[1:], ["cancelled", "cancelled"])


@sentence("2 Early cancel", "remembered for 30 s, per user")
def a_cancel_before_its_invite_is_remembered_per_user(scene: Scene) -> None:
    alice, bob, mallory = scene.devices("alice", "bob", "mallory")
    call = new_id()
    mallory.refused("call.cancel", "callNotFound", callID=call)
    equal("alice's call", alice.ok("call.invite", callID=call, invitees=[bob.user])["call"]["state"], "ringing")
    bob.expect("call.invited", call)
    call = new_id()
    scene.another(alice, "tablet").refused("call.cancel", "callNotFound", callID=call)
    cancelled = alice.ok("call.invite", callID=call, invitees=[bob.user])["call"]
    equal("the call that another device of alice cancelled", cancelled["state"], "ended")


@sentence("2 Early cancel", "remembered for 30 s", waits=lambda t: t.cancel_memory + 2)
def a_cancel_before_its_invite_is_remembered_for_its_time(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    memory = scene.timings.cancel_memory
    early, late = new_id(), new_id()
    for call in (early, late):
        alice.refused("call.cancel", "callNotFound", callID=call)
    began = time.monotonic()
    # A busy machine needs a while for what follows.
    time.sleep(memory * 0.5)
    invited = alice.ok("call.invite", callID=early, invitees=[bob.user])
    equal("the call before the time is over", invited["call"]["state"], "ended")
    time.sleep(max(0.0, began + memory + 1.5 - time.monotonic()))
    invited = alice.ok("call.invite", callID=late, invitees=[bob.user])
    equal("the call after that time", invited["call"]["state"], "ringing")


# The alias that a glare merge leaves


@sentence("2", "the inviter's own callID is an alias of the merged call: a resent invite finds that call")
def after_a_glare_merge_a_resent_invite_finds_the_merged_call(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    for own in (new_id(), None):
        request = bob.start("call.invite", callID=own, invitees=[alice.user], mode="advanced", glare="merge")
        if own:
            fields("the merge", request.ok(), callID=call, merged=True)
            fields("the resent invite", request.again().ok(), callID=call, merged=True)
            alice.end(call)
            bob.expect("call.ended", call)
            fields("the invite resent after the end", request.again().ok(), callID=call, merged=True)
            call = ring(alice, bob, mode="advanced")
        else:
            fields("the merge without a callID", request.ok(), callID=call, merged=True)
            fields("the resent invite without a callID", request.again().ok(), callID=call, merged=True)


@sentence("2", "and a call.cancel of the alias ends it")
def a_cancel_of_the_alias_ends_the_merged_call(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    own = new_id()
    bob.ok("call.invite", callID=own, invitees=[alice.user], mode="advanced", glare="merge")
    alice.expect_change(call, bob, "accepted")
    fields("the response to the cancel", bob.cancel(own), callID=call)
    fields("the call alice hears of", alice.expect("call.ended", call)["call"], state="ended", endedBy=bob.user)


# Responses


@sentence("2", "With MQTT 5 Correlation Data on the request, the response carries it back.", versions=MQTT5)
def a_response_carries_the_correlation_data_back(scene: Scene) -> None:
    alice = scene.device("alice")
    for data in (b"x", bytes(range(256)), b"\x00" * 1000):
        for request in (
            alice.start("call.invite", invitees=[scene.absent("bob")], correlation=data),
            alice.start("call.get", callID=new_id(), correlation=data),
            alice.start("call.nothing", correlation=data),
        ):
            equal("the Correlation Data", request.response().correlation, data)
    equal("without any", alice.start("call.get", callID=new_id()).response().correlation, None)


@sentence("2", "Responses about a call carry callID, revision, time and call (section 4).")
def responses_about_a_call_carry_the_call(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = new_id()
    responses = {
        "call.invite": alice.ok("call.invite", callID=call, invitees=[bob.user, carol.user], mode="advanced"),
        "call.accept": bob.accept(call),
        "call.reject": carol.reject(call),
        "call.add": bob.add(call, carol),
        "call.cancel": bob.cancel(call, carol),
        "call.join": carol.join(call),
        "call.quit": carol.quit(call),
        "call.end": alice.end(call),
        "call.get": alice.ok("call.get", callID=call),
    }
    for type_, response in responses.items():
        equal(f"callID of {type_}", (response["callID"], response["call"]["callID"]), (call, call))
        equal(f"revision of {type_}", response["revision"], response["call"]["revision"])
    revisions = [
        responses[t]["revision"] for t in ("call.invite", "call.accept", "call.reject", "call.add", "call.end")
    ]
    equal("the revisions grow", revisions, sorted(set(revisions)))


@sentence(
    "2",
    'Responses to call.invite and call.add also carry "offline":[users], the invitees without an online '
    "device, who ring when they come online.",
)
def invite_and_add_tell_who_is_offline(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    away, gone = scene.absent("away"), scene.absent("gone")
    response = alice.ok("call.invite", invitees=[away, bob.user], mode="advanced")
    equal("offline of call.invite", response["offline"], [away])
    call = response["callID"]
    bob.accept(call)
    equal("offline of call.add", bob.add(call, gone)["offline"], [gone])
    equal("offline with all users online", bob.add(call, scene.device("carol"))["offline"], [])
    for user in (away, gone):
        scene.device_of(user).expect("call.invited", call)


@sentence(
    "2",
    'Per-user problems in an otherwise successful request come as "errors":[{"userID":"…","code":"…"}].',
)
def problems_of_single_users_come_as_errors(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    response = alice.add(call, bob, carol)
    equal("errors", response["errors"], [{"userID": bob.user, "code": "invalidState"}])
    equal("carol's state", member(response["call"], carol)["state"], "inviting")


@sentence(
    "2",
    "The response to a repeated request has the same outcome fields (offline, errors, merged), with the "
    "current revision, time and call.",
)
def the_response_to_a_repeated_request_has_the_call_as_it_is_now(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    away = scene.absent("away")
    request = alice.start("call.invite", callID=new_id(), invitees=[bob.user, away])
    call = request.ok()["callID"]
    alice.expect_change(call, bob, "received")
    scene.device_of(away)
    alice.expect_change(call, away, "received")
    rejected = bob.reject(call)
    again = request.again().ok()
    fields("the response", again, offline=[away], revision=rejected["revision"], time=rejected["time"])
    equal("bob's state", member(again["call"], bob)["state"], "rejected")


@sentence("2", "time in a response or an event about a call is when that revision was made.")
def the_time_of_a_response_or_event_is_that_of_its_revision(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    rejected = bob.reject(call)
    equal("the member's updatedAt", member(rejected["call"], bob)["updatedAt"], rejected["time"])
    told = alice.expect_change(call, bob, "rejected")
    equal("the event's time", (told["revision"], told["time"]), (rejected["revision"], rejected["time"]))
    time.sleep(0.05)  # so that a new reading of the clock would differ
    equal("the time in a later response", alice.ok("call.get", callID=call)["time"], rejected["time"])
    equal("the change", change(told, bob)["state"], "rejected")
