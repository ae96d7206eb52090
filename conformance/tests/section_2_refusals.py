"""Section 2: error codes, malformed requests, and the order of refusals."""

from __future__ import annotations

from typing import Any

from ..client import Device
from ..expect import equal, errors, fields, member, names, states, true
from ..scene import Scene
from ..suite import require, sentence
from .steps import need_members, new_id, ring, talk

NO_TEXT: tuple[Any, ...] = (5, True, ["x"], {})
NO_EXTENDED_DATA = (*NO_TEXT, "x" * 2049, "é" * 1025)
NO_TIME: tuple[Any, ...] = (0, -1, 601, 1.5, "60", True, [60], {}, 2**63, 1e-9, 1e300)
NO_TOKEN: tuple[Any, ...] = (5, True, ["c"], {}, "", "c" * 65, "a b", "a/b", "ä", "a\u0000", "a\n")
NO_CHOICE: tuple[Any, ...] = ("maybe", "", 1, True, [])
NO_FLAG: tuple[Any, ...] = ("true", 0, 1, [])
NO_USERS: tuple[Any, ...] = ("bob", 5, {"0": "bob"}, [], [5], [None], [["bob"]], [{"userID": "bob"}], [""], ["bob", 5], ["bob", "bob"])

NO_FIELD: dict[str, dict[str, tuple[Any, ...]]] = {
    "call.invite": {
        "callID": NO_TOKEN,
        "invitees": (*NO_USERS, [f"guest{number}" for number in range(1000)]),
        "mode": (*NO_CHOICE, "Common"),
        "timeout": NO_TIME,
        "media": (*NO_TEXT, "x" * 33),
        "extendedData": NO_EXTENDED_DATA,
        "notReceivedCheck": NO_FLAG,
        "notReceivedAfter": (*NO_TIME, 31),
        "joinPolicy": NO_CHOICE,
        "autoEnd": NO_FLAG,
        "ifBusy": NO_CHOICE,
        "glare": NO_CHOICE,
        "push": ("x", 5, [], {"title": 5}),
    },
    "call.cancel": {"callID": NO_TOKEN, "invitees": NO_USERS, "extendedData": NO_EXTENDED_DATA},
    "call.accept": {"callID": NO_TOKEN, "extendedData": NO_EXTENDED_DATA},
    "call.reject": {"callID": NO_TOKEN, "reason": (*NO_TEXT, "x" * 257), "extendedData": NO_EXTENDED_DATA},
    "call.add": {"callID": NO_TOKEN, "invitees": NO_USERS, "timeout": NO_TIME, "push": ("x", 5, [])},
    "call.join": {"callID": NO_TOKEN, "extendedData": NO_EXTENDED_DATA},
    "call.quit": {"callID": NO_TOKEN, "extendedData": NO_EXTENDED_DATA},
    "call.end": {"callID": NO_TOKEN, "reason": (*NO_TEXT, "x" * 257), "extendedData": NO_EXTENDED_DATA},
    "call.get": {"callID": NO_TOKEN},
    "call.trace": {"callID": NO_TOKEN},
    "call.report": {"callID": NO_TOKEN, "milestones": (5, "x", ["x"], {}, {"a.b": 1}, {"x": -1}, {"x": "1"}, {"x": 1e300}, {"x": 1, "a/b": 1})},
    "call.signal": {"callID": NO_TOKEN, "to": NO_USERS, "seq": (-1, 1.5, 2**53, 1e300, "1", True, [1]), "stream": NO_TOKEN},
    "call.query": {"count": (0, -1, 1.5, "60", True, [60], {}, 1e-9), "cursor": (*NO_TEXT, "", "1" * 129, "ä" * 65)},
    "message.send": {
        "to": (5, True, ["bob"], {"userID": "bob"}, "", "x" * 65, "ä" * 33, "a\u0085", "a\ufffe"),
        "ttl": NO_TIME,
        "messageID": NO_TOKEN,
        "seq": (-1, 1.5, 2**53, 1e300, "1", True, [1]),
        "stream": NO_TOKEN,
    },
    "user.update": {
        "name": (*NO_TEXT, "x" * 257, "ä" * 129, "a\u0000", "\u001b[31m", "\u007f", "a\u0085", "\u009b31m"),
        "avatarURL": (*NO_TEXT, "x" * 513, "a\nb", "a\u0085"),
        "extendedData": NO_EXTENDED_DATA,
    },
    "user.query": {"userIDs": NO_USERS},
}
"""By request: each field, with invalid values."""

ABOUT_A_CALL = (
    "call.cancel",
    "call.accept",
    "call.reject",
    "call.add",
    "call.join",
    "call.quit",
    "call.end",
    "call.get",
)

# Error codes


@sentence("2 Errors", "badRequest | malformed, missing, ill-typed or out-of-range field: the message names it")
def a_bad_request_names_the_field(scene: Scene) -> None:
    alice = scene.device("alice")
    wrong: list[dict[str, Any]] = [{}, {"callID": 5}, {"callID": "a b"}, {"callID": None}]
    for type_ in ABOUT_A_CALL:
        for fields_ in wrong:
            request = {"type": type_, "id": new_id(), "invitees": [scene.user("x")]} | fields_
            error = alice.ask(request).refused("badRequest")
            names(f"the error of {type_} with {fields_}", error["message"], "callID")


@sentence("2 Errors", "missing, ill-typed or out-of-range field: the message names it")
def whatever_a_field_must_not_be_is_refused_by_its_name(scene: Scene) -> None:
    alice = scene.device("alice")
    good: dict[str, Any] = {"callID": "none", "invitees": ["bob"], "to": ["bob"], "userIDs": ["bob"], "data": 1, "milestones": {"x": 1}}
    for type_, wrong in NO_FIELD.items():
        body = good | {"type": type_} | ({"to": "bob"} if type_ == "message.send" else {})
        cases = [(field, value) for field, values in wrong.items() for value in values]
        requests = [alice.ask(body | {"id": new_id(), field: value}) for field, value in cases]
        for (field, value), request in zip(cases, requests, strict=True):
            names(f"the error of {type_} with {field} {str(value)[:60]}", request.refused("badRequest")["message"], field)
    for number in ("1e400", "-1e400", "1e-400", "1" * 1000, "60." + "3" * 500, "9223372036854775808"):
        request = f'{{"type":"call.invite","id":"{new_id()}","invitees":["bob"],"timeout":{number}}}'
        since = alice.mark
        alice.send(request.encode())
        response = alice.wait(lambda m: m.type == "response", None, "a response", since=since)
        equal(f"the code for a timeout of {number[:20]}", response["error"]["code"], "badRequest")


@sentence("2 Errors", "callExists | an invite names a callID already used, and is no resend")
def an_invite_with_a_used_call_id_is_refused(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = alice.invite(bob, callID=new_id())
    for device in (alice, bob, scene.another(alice, "tablet")):
        device.refused("call.invite", "callExists", callID=call, invitees=[scene.absent("carol")])
    alice.cancel(call)
    alice.refused("call.invite", "callExists", callID=call, invitees=[bob.user])


@sentence(
    "2 Errors",
    "With a callID already used, the same user, device and request id get the same outcome; anything else is"
    " callExists.",
)
def only_the_same_request_is_a_resend(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    request = alice.start("call.invite", callID=new_id(), invitees=[bob.user])
    call = request.ok()["callID"]
    equal("the same request", request.again().ok()["callID"], call)
    again = {"callID": call, "invitees": [bob.user]}
    alice.refused("call.invite", "callExists", **again)
    scene.another(alice, "tablet").refused("call.invite", "callExists", id=request.id, **again)
    scene.device("carol").refused("call.invite", "callExists", id=request.id, **again)


@sentence(
    "2 Errors", "callNotFound | no such call, or none that this user was ever invited to: a stranger cannot tell which"
)
def a_stranger_cannot_tell_whether_a_call_exists(scene: Scene) -> None:
    alice, bob, mallory = scene.devices("alice", "bob", "mallory")
    over = [ring(alice, bob), ring(alice, bob, mode="advanced")]
    for call in over:
        alice.cancel(call)
    calls = [*over, ring(bob, alice, timeout=60), talk(alice, bob)]
    before = [alice.get(call) for call in calls]
    extras: dict[str, dict[str, Any]] = {
        "call.add": {"invitees": [scene.user("x")]},
        "call.signal": {"data": 1},
        "call.report": {"milestones": {"x": 1}},
    }
    with mallory.hears_nothing("event", lambda m: m.is_event(), 0.1):
        for type_ in (*ABOUT_A_CALL, "call.trace", "call.signal", "call.report"):
            none = new_id()
            expected = mallory.refused(type_, "callNotFound", callID=none, **extras.get(type_, {}))
            for call in calls:
                error = mallory.refused(type_, "callNotFound", callID=call, **extras.get(type_, {}))
                equal(f"{type_} of a call and of none", str(error).replace(call, none), str(expected))
        for call in calls:
            mallory.ack(call, 1)
            mallory.send({"type": "call.heartbeat", "callID": call})
        equal("a stranger's calls", mallory.ok("call.query")["calls"], [])
    equal("the calls", [alice.get(call) for call in calls], before)


@sentence("2 Errors", "alreadyInCall | with the callID of one's own live call: quit or join it")
def already_in_call_names_the_own_live_call(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    error = alice.refused("call.invite", "alreadyInCall", invitees=[carol.user], mode="advanced")
    alice.quit(error["callID"])
    ring(alice, carol, mode="advanced")
    equal("the first call", bob.get(call)["state"], "ended")


@sentence("2 Errors", "noInvitees | every invitee failed; no call is made")
def an_add_whose_invitees_all_fail_is_refused(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    before = alice.get(call)
    alice.refused("call.add", "noInvitees", callID=call, invitees=[bob.user, alice.user])
    equal("the call", alice.get(call), before)


@sentence("2 Errors", "A message that is not a JSON object, or has no usable id, is answered by … on the device topic")
def a_message_without_a_usable_id_is_answered_by_an_error(scene: Scene) -> None:
    alice = scene.device("alice")
    request: dict[str, Any] = {"type": "call.get", "callID": "none"}
    names("the error without an id", alice.answer(request, "badRequest")["message"], "id")
    wrong: list[Any] = [None, 5, True, [], {}, "", "x" * 65, "a b", "é"]
    for identity in wrong:
        error = alice.answer(request | {"id": identity}, "badRequest")
        names(f"the error for the id {identity!r}", error["message"], "id")
    alice.answer(b"[]", "badRequest")


@sentence(
    "2 Errors",
    "No input ever stops a coordinator, changes another user's data, or goes unanswered in silence (acks and heartbeats"
    " aside).",
)
def no_input_changes_anothers_data_or_goes_unanswered(scene: Scene) -> None:
    alice, bob, mallory = scene.devices("alice", "bob", "mallory")
    call = talk(alice, bob)
    before = alice.get(call)
    others = ("call.signal", "call.report", "call.trace", "call.query", "user.update", "message.send", "nothing")
    shapes: list[dict[str, Any]] = [
        {},
        {"callID": call},
        {"callID": call, "invitees": [scene.user("x")], "data": 1, "milestones": {"x": 1}},
        {"callID": [call], "name": {}, "userID": alice.user, "from": alice.user, "to": call},
        {"callID": None, "count": -1, "name": None, "revision": "1", "ttl": 0},
    ]
    for type_ in (*ABOUT_A_CALL, *others):
        for shape in shapes:
            response = mallory.ask({"type": type_, "id": new_id()} | shape).response()
            fields("the response", response.body, ok=type_ in ("call.query", "user.update") and bool(response["ok"]))
    equal("the call", alice.get(call), before)


# Malformed requests


@sentence("2 Malformed requests", "With a usable id, a missing or ill-typed type is answered badRequest naming type")
def a_missing_or_ill_typed_type_is_a_bad_request(scene: Scene) -> None:
    alice = scene.device("alice")
    wrong: list[Any] = [None, 5, False, ["call.get"], {}]
    for type_ in ({}, *({"type": value} for value in wrong)):
        error = alice.ask({"id": new_id(), "callID": "none"} | type_).refused("badRequest")
        names(f"the error for {type_}", error["message"], "type")


@sentence("2 Malformed requests", "With a usable id … an unknown type is answered unknownType")
def an_unknown_type_is_answered_unknown_type(scene: Scene) -> None:
    alice = scene.device("alice")
    for type_ in ("call", "call.", "Call.get", "call.get ", "response", "event", "welcome", "presence", "", "é😀"):
        alice.refused(type_, "unknownType", callID="none")


@sentence("2 Malformed requests", "Without a usable id the answer is type error with badRequest naming id")
def an_unknown_type_without_id_is_answered_by_an_error(scene: Scene) -> None:
    alice = scene.device("alice")
    wrong: list[dict[str, Any]] = [{}, {"id": 5}, {"id": "a b"}]
    for identity in wrong:
        error = alice.answer({"type": "call.unknown"} | identity, "badRequest")
        names(f"the error for {identity}", error["message"], "id")


@sentence(
    "2 Malformed requests",
    "A malformed ack or call.heartbeat (no or an invalid callID, an ill-typed revision) is answered by type error.",
)
def a_malformed_ack_or_heartbeat_is_answered_by_an_error(scene: Scene) -> None:
    alice = scene.device("alice")
    calls: list[Any] = [5, "a b", "", []]
    for type_ in ("ack", "call.heartbeat"):
        for call in ({}, *({"callID": value} for value in calls)):
            names(type_, alice.answer({"type": type_, "revision": 1} | call, "badRequest")["message"], "callID")
    revisions: list[Any] = ["1", 1.5, True, [1], None]
    for revision in revisions:
        body = {"type": "ack", "callID": "none", "revision": revision}
        names(f"revision {revision!r}", alice.answer(body, "badRequest")["message"], "revision")
    alice.answer({"type": "ack", "messageID": "a b"}, "badRequest")


@sentence("2 Malformed requests", "A well-formed one never gets an answer, even when its call is unknown.")
def a_well_formed_ack_or_heartbeat_never_gets_an_answer(scene: Scene) -> None:
    alice = scene.device("alice")
    with alice.hears_nothing("answer", lambda m: m.type in ("error", "response") and m.get("id") is None):
        alice.ack(new_id(), 1)
        alice.ack_message(new_id())
        alice.send({"type": "call.heartbeat", "callID": new_id()})
        alice.settle()


@sentence("2 Malformed requests", "A call.heartbeat of a stranger, or for a call in common mode, is ignored silently.")
def a_heartbeat_of_a_stranger_or_in_common_mode_is_ignored(scene: Scene) -> None:
    alice, bob, carol, mallory = scene.devices("alice", "bob", "carol", "mallory")
    common = ring(alice, bob, carol)
    advanced = talk(bob, carol)
    before = [alice.get(common), bob.get(advanced)]
    for device, call in ((mallory, common), (mallory, advanced), (alice, common)):
        with device.hears_nothing("answer", lambda m: m.type == "error" or m.is_event(), 0.3):
            device.send({"type": "call.heartbeat", "callID": call})
    equal("the calls", [alice.get(common), bob.get(advanced)], before)


@sentence(
    "2 Order of checks",
    "JSON and fields (badRequest), then callNotFound (also for strangers), then wrongMode, then what depends on states",
)
def checks_have_an_order(scene: Scene) -> None:
    alice, bob, mallory = scene.devices("alice", "bob", "mallory")
    common = ring(alice, bob)
    mallory.refused("call.add", "badRequest", callID=common, invitees=[])
    mallory.refused("call.end", "badRequest", callID=common, reason=5)
    for type_ in ("call.add", "call.join", "call.quit", "call.end"):
        extra = {"invitees": [scene.absent("x")]} if type_ == "call.add" else {}
        mallory.refused(type_, "callNotFound", callID=common, **extra)
        bob.refused(type_, "wrongMode", callID=common, **extra)  # nor is bob accepted
    alice.cancel(common)
    for type_ in ("call.join", "call.quit", "call.end"):
        alice.refused(type_, "wrongMode", callID=common)


# The order of refusals


@sentence(
    "2 Outcomes",
    'invalidState | not possible in this state; with the "state" of the member in question … callEnded '
    '| with the "state" of the member in question | | alreadyInCall | with the callID',
)
def invalid_state_and_call_ended_carry_the_members_state(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    equal("the pending member's", bob.refused("call.quit", "invalidState", callID=call)["state"], "received")
    bob.accept(call)
    equal("the accepted member's", bob.refused("call.accept", "invalidState", callID=call)["state"], "accepted")
    bob.end(call)
    equal("alice's after the end", alice.refused("call.quit", "callEnded", callID=call)["state"], "accepted")
    own = talk(alice, bob)
    equal("the callID", alice.refused("call.invite", "alreadyInCall", invitees=[scene.user("x")])["callID"], own)


@sentence(
    "2 Outcomes",
    "answeredElsewhere: the user accepted or rejected on another device, also when the call has ended since",
)
def one_who_answered_on_another_device_is_told_so(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    tablet = scene.another(bob, "tablet")
    for answer in ("call.accept", "call.reject"):
        for end in (False, True):
            call = ring(alice, bob, carol, mode="advanced")
            bob.ok(answer, callID=call)
            if end:
                alice.end(call)
            for late in ("call.accept", "call.reject"):
                tablet.refused(late, "answeredElsewhere", callID=call)
            if not end:
                alice.end(call)


@sentence("2 Outcomes", "callEnded: the call ended; state is the member's state", waits=3)
def one_whose_call_ended_is_told_so(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    ended = {
        "cancelled": ring(alice, bob),
        "timeout": ring(alice, bob, timeout=3),
        "accepted": ring(alice, bob),
        "rejected": ring(alice, bob),
        "received": ring(alice, bob, mode="advanced"),
    }
    bob.accept(ended["accepted"])
    bob.reject(ended["rejected"])
    alice.cancel(ended["cancelled"])
    alice.end(ended["received"])
    bob.expect("call.timeout", ended["timeout"])
    for state, call in ended.items():
        for late in ("call.accept", "call.reject"):
            equal("the state", bob.refused(late, "callEnded", callID=call)["state"], state)


@sentence(
    "2 Outcomes",
    "invalidState: state is the member's state, for example accepted, rejected, cancelled, timeout",
    waits=1,
)
def one_who_is_not_pending_is_told_the_state(scene: Scene) -> None:
    need_members(scene, 6)
    alice, keeper = scene.devices("alice", "keeper")
    people = {state: scene.device(state) for state in ("accepted", "rejected", "cancelled", "timeout")}
    call = talk(alice, keeper)
    alice.add(call, people["timeout"], timeout=1)
    alice.add(call, people["accepted"], people["rejected"], people["cancelled"])
    people["accepted"].accept(call)
    people["rejected"].reject(call)
    alice.cancel(call, people["cancelled"])
    people["timeout"].expect("call.timeout", call)
    for state, device in people.items():
        for late in ("call.accept", "call.reject"):
            equal(
                f"the state in the refusal of {late}", device.refused(late, "invalidState", callID=call)["state"], state
            )


@sentence(
    "2 call.cancel",
    "call.cancel, the first that applies: … callNotFound (remembered for 30 s) … callEnded … notInviter … "
    "invalidState",
)
def of_several_refusals_of_a_cancel_the_first_applies(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    scene.device("mallory").refused("call.cancel", "callNotFound", callID=ring(alice, bob))
    call = talk(alice, bob)
    bob.refused("call.cancel", "notInviter", callID=call)  # and no invitation is pending
    alice.refused("call.cancel", "invalidState", callID=call)
    alice.end(call)
    bob.refused("call.cancel", "callEnded", callID=call)  # and bob invited no user


@sentence("2 call.cancel", "callEnded, only if the call was ended by call.end")
def a_cancel_after_call_end_is_told_that_the_call_ended(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    alice.end(call)
    alice.refused("call.cancel", "callEnded", callID=call)
    rejected = ring(alice, bob, mode="advanced")
    bob.reject(rejected)
    equal("the state", alice.refused("call.cancel", "invalidState", callID=rejected)["state"], "rejected")


@sentence("2 call.cancel", "notInviter, when the user invited no member of the call, or none of the named members")
def a_cancel_by_one_who_invited_nobody_is_refused(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.add(call, carol)
    for named in (None, [carol.user], [alice.user], [scene.user("stranger")]):
        bob.refused("call.cancel", "notInviter", callID=call, invitees=named)
    bob.add(call, scene.absent("dave"))
    bob.refused("call.cancel", "notInviter", callID=call, invitees=[carol.user])


@sentence("2 call.cancel", "When a common call was ended by the answer, state is accepted.")
def a_cancel_after_the_answer_is_told_that_it_was_accepted(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    bob.accept(call)
    equal("the state", alice.refused("call.cancel", "invalidState", callID=call)["state"], "accepted")


@sentence(
    "2 call.cancel",
    "With somebody pending the response is ok, and errors lists the others by user: invalidState (not pending),"
    " notInviter (invited by somebody else), callNotFound (not a member).",
)
def a_cancel_lists_whom_it_could_not_cancel_and_why(scene: Scene) -> None:
    alice, bob, carol, dave, erin = scene.devices("alice", "bob", "carol", "dave", "erin")
    stranger = scene.absent("stranger")
    call = talk(alice, bob)
    alice.add(call, carol, erin)
    bob.add(call, dave)
    erin.reject(call)
    alice.expect_change(call, dave, "received")
    response = alice.cancel(call, carol, dave, erin, stranger)
    expected = {dave.user: "notInviter", erin.user: "invalidState", stranger: "callNotFound"}
    equal("errors", errors(response), expected)
    equal("the states", states(response["call"]), ["accepted", "accepted", "cancelled", "rejected", "received"])


@sentence("2 Refusals", "call.add, call.join, call.quit, call.end on an ended advanced call: callEnded.")
def an_ended_advanced_call_takes_no_more_requests(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    alice.end(call)
    bob.expect("call.ended", call)
    for type_ in ("call.add", "call.join", "call.quit", "call.end"):
        extra = {"invitees": [scene.absent("x")]} if type_ == "call.add" else {}
        equal(f"the state for {type_}", bob.refused(type_, "callEnded", callID=call, **extra)["state"], "accepted")


@sentence("2 Refusals", "call.add, call.quit, call.end by a member who is not accepted: invalidState with state.")
def members_who_are_not_accepted_may_not_add_quit_or_end(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.add(call, carol)
    bob.expect_change(call, carol, "received")
    for state in ("received", "rejected", "quit"):
        if state == "rejected":
            carol.reject(call)
        if state == "quit":
            carol.join(call)
            carol.quit(call)
        for type_ in ("call.add", "call.quit", "call.end"):
            extra = {"invitees": [scene.absent("x")]} if type_ == "call.add" else {}
            error = carol.refused(type_, "invalidState", callID=call, **extra)
            equal(f"the state for {type_}", error["state"], state)


@sentence("2 call.add", "an invitee who is live already, or oneself, is listed in errors as invalidState")
def an_add_lists_those_who_are_live_already(scene: Scene) -> None:
    alice, bob, carol, dave = scene.devices("alice", "bob", "carol", "dave")
    call = talk(alice, bob)
    alice.add(call, carol)
    response = alice.add(call, bob, alice, carol, dave)
    expected = dict.fromkeys((bob.user, alice.user, carol.user), "invalidState")
    equal("errors", errors(response), expected)
    equal("dave's state", member(response["call"], dave)["state"], "inviting")


@sentence("2 call.add", "When all invitees fail, the request fails with noInvitees.")
def an_add_of_nobody_new_changes_nothing(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    with bob.hears_nothing("event", lambda m: m.is_event(None, call)):
        alice.refused("call.add", "noInvitees", callID=call, invitees=[bob.user])


@sentence("2 call.join", "a stranger under joinPolicy: invited gets callNotFound")
def a_stranger_may_not_join(scene: Scene) -> None:
    alice, bob, mallory = scene.devices("alice", "bob", "mallory")
    call = talk(alice, bob)
    mallory.refused("call.join", "callNotFound", callID=call)
    equal("the members", [m["userID"] for m in alice.get(call)["members"]], [alice.user, bob.user])


@sentence("2 call.join", "A user already accepted on this same device gets ok, and nothing changes.")
def a_join_where_one_is_already_changes_nothing(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    before = alice.get(call)
    for device in (alice, bob):
        equal("the call", device.join(call, extendedData="new")["call"], before)


@sentence(
    "2 call.join",
    "A hand-over (call.join on another device) makes a new revision, and the former device gets "
    "call.handledElsewhere.",
)
def a_hand_over_tells_the_former_device(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(bob, "tablet")
    call = talk(alice, bob)
    before = alice.get(call)["revision"]
    revision = tablet.join(call)["revision"]
    equal("the revision", revision, before + 1)
    told = bob.expect("call.handledElsewhere", call)
    fields("the former device's event", told.body, revision=revision)
    equal("bob's device", member(told["call"], bob)["device"], "tablet")


@sentence(
    "2 Refusals",
    "alreadyInCall concerns call.invite in both modes, and call.accept and call.join of advanced calls: "
    "accepting a common call takes no user out of another call.",
)
def one_in_an_advanced_call_may_accept_a_common_one(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    own = talk(alice, bob)
    for mode in ("common", "advanced"):
        error = bob.refused("call.invite", "alreadyInCall", invitees=[carol.user], mode=mode)
        equal("the own call", error["callID"], own)
    other = ring(carol, bob, mode="advanced", joinPolicy="anyone")
    for type_ in ("call.accept", "call.join"):
        equal(f"the own call at {type_}", bob.refused(type_, "alreadyInCall", callID=other)["callID"], own)
    equal("joining a call of anyone", alice.refused("call.join", "alreadyInCall", callID=other)["callID"], own)
    carol.end(other)
    common = ring(carol, bob)
    bob.accept(common)
    equal("the own call goes on", alice.get(own)["state"], "active")


@sentence(
    "2 Refusals",
    "reason and extendedData show up in the entries of the members concerned: the acting member (call.accept, "
    "call.reject, call.join, call.quit, and call.end, without a change of state)",
)
def reason_and_extended_data_show_up_with_the_acting_member(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol, mode="advanced")
    data = {"extendedData": new_id()}
    _shows(alice, call, bob, bob.accept(call, **data), **data)
    rejected = {"extendedData": new_id(), "reason": new_id()}
    _shows(alice, call, carol, carol.reject(call, **rejected), **rejected)
    joined = {"extendedData": new_id()}
    _shows(alice, call, carol, carol.join(call, **joined), reason=None, **joined)
    quitted = {"extendedData": new_id()}
    _shows(alice, call, carol, carol.quit(call, **quitted), **quitted)
    ended = {"extendedData": new_id(), "reason": new_id()}
    _shows(alice, call, bob, bob.end(call, **ended), state="accepted", **ended)


def _shows(other: Device, call: str, actor: Device, response: dict[str, Any], **expected: str | None) -> None:
    """Checks the fields in the acting member's entry, in the response and in another member's event."""
    fields("the entry in the response", member(response["call"], actor), **expected)
    told = other.wait(
        lambda m: m.is_event(None, call) and m["revision"] >= response["revision"],
        None,
        f"revision {response['revision']}",
    )
    fields("the entry that others see", member(told["call"], actor), **expected)


@sentence("2 Refusals", "the cancelled members (call.cancel) or the added members (call.add)")
def extended_data_of_cancel_and_add_show_up_with_the_others(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = talk(alice, bob)
    added = alice.add(call, carol, extendedData="come")
    equal("the added member's", member(added["call"], carol)["extendedData"], "come")
    equal("carol's event", member(carol.expect("call.invited", call)["call"], carol)["extendedData"], "come")
    cancelled = alice.cancel(call, carol, extendedData="gone")
    equal("the cancelled member's", member(cancelled["call"], carol)["extendedData"], "gone")
    told = carol.expect("call.cancelled", call)
    equal("carol's event", member(told["call"], carol)["extendedData"], "gone")
    equal("the inviter's", member(cancelled["call"], alice).get("extendedData"), None)


@sentence("2 Refusals", "busy | no request is refused with it: a busy invitee is a state (section 3)")
def a_busy_invitee_is_a_state_and_no_refusal(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    ring(alice, bob)
    response = carol.ok("call.invite", invitees=[bob.user], ifBusy="reject")
    fields("bob", member(response["call"], bob), state="rejected", reason="busy")


@sentence(
    "2 Refusals",
    "Busy: ifBusy: reject is answered ok with the call, also when all invitees were busy and the call ended at once.",
)
def an_invite_of_busy_people_is_answered_with_the_call(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    ring(alice, bob)
    request = carol.start("call.invite", invitees=[bob.user, alice.user], ifBusy="reject")
    made = request.ok()["call"]
    fields("the call", made, state="ended", endReason="busy")
    equal("the call of the resend", request.again().ok()["call"], made)


@sentence(
    "2 Users",
    "unknown invitees of call.invite and call.add are listed in errors as userNotRegistered, and when all are unknown"
    " the request fails with noInvitees",
)
def unknown_invitees_are_listed_where_users_must_be_known(scene: Scene) -> None:
    require(scene.options.users == "known", "every user may be invited (--users any)")
    alice, bob = scene.devices("alice", "bob")
    unknown = scene.user("unknown")
    response = alice.ok("call.invite", invitees=[bob.user, unknown], mode="advanced")
    equal("errors of call.invite", errors(response), {unknown: "userNotRegistered"})
    equal("the members", [m["userID"] for m in response["call"]["members"]], [alice.user, bob.user])
    call = response["callID"]
    equal("errors of call.add", errors(alice.add(call, scene.absent("carol"), unknown)), {unknown: "userNotRegistered"})
    alice.refused("call.add", "noInvitees", callID=call, invitees=[unknown])
    stranger = scene.device_of(unknown)
    equal("the calls of a user who becomes known", stranger.messages[0]["calls"], [])
    stranger.refused("call.get", "callNotFound", callID=call)
    equal("errors when the user is known", errors(alice.add(call, stranger)), {})
    stranger.expect("call.invited", call)
    alice.end(call)
    unknown = scene.user("unknown")
    request = alice.start("call.invite", callID=new_id(), invitees=[unknown])
    request.refused("noInvitees")
    request.again().refused("noInvitees")
    scene.device_of(unknown)
    equal("the call of the same request when the user is known", request.again().ok()["call"]["state"], "ringing")


@sentence("2 Users", "With the setting --users known (default any)")
def anybody_may_be_invited_by_default(scene: Scene) -> None:
    require(scene.options.users == "any", "only registered users may be invited (--users known)")
    alice, unknown = scene.device("alice"), scene.user("unknown")
    response = alice.ok("call.invite", invitees=[unknown])
    equal("errors", errors(response), {})
    true("the unknown user is offline", response["offline"] == [unknown], response["offline"])
