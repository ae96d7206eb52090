"""Section 2, Signals and Reports: `call.signal`, `call.report`."""

from __future__ import annotations

import json
import time
from typing import Any

from ..client import Device, Message
from ..expect import equal, errors, fields, names, true
from ..scene import Scene
from ..suite import MQTT5, require, sentence
from .steps import VERBATIM, new_id, ring, talk

BIGGEST_SEQ = 2**53 - 1
MOST_DATA = 32_768

WELL_KNOWN = (
    "remoteReceived",
    "accepted",
    "joinedChannel",
    "remoteJoinedChannel",
    "firstFrameCaptured",
    "firstFramePublished",
    "firstFrame",
)


def _signal(device: Device, call: str, **extra: Any) -> None:
    """Sends a signal without id."""
    device.send({"type": "call.signal", "callID": call, "data": None} | extra)


def _heard(device: Device, call: str, since: int = 0) -> Message:
    return device.wait(lambda m: m.type == "signal" and m["callID"] == call, None, f"a signal of {call}", since=since)


def _is_signal(message: Message) -> bool:
    return message.type == "signal"


@sentence(
    "2 call.signal",
    '{"type":"signal","callID","from","fromDevice","seq"?,"data"} to the accepted device of each other accepted member',
)
def a_signal_goes_to_each_other_accepted_member(scene: Scene) -> None:
    alice, bob, carol, dave = scene.devices("alice", "bob", "carol", "dave")
    tablet = scene.another(bob, "tablet")
    call = talk(alice, bob, carol)
    alice.add(call, dave)
    alice.expect_change(call, dave, "received")
    silent = (alice, dave, tablet)
    marks = [device.mark for device in silent]
    _signal(alice, call, data={"muted": True}, seq=7)
    for device in (bob, carol):
        signal = _heard(device, call)
        expected = {"type": "signal", "callID": call, "from": alice.user, "fromDevice": "phone", "seq": 7}
        equal(f"the signal at {device}", signal.body, expected | {"data": {"muted": True}})
        equal("its topic", signal.topic, device.device_topic)
    for device, mark in zip(silent, marks):
        device.heard_nothing("signal", _is_signal, mark)


@sentence("2 call.signal", "(or of to)")
def a_signal_may_name_its_recipients(scene: Scene) -> None:
    alice = scene.device("alice", unlike_machine="sends signals without a number")
    bob, carol = scene.devices("bob", "carol")
    call = talk(alice, bob, carol)
    with bob.hears_nothing("signal for carol", _is_signal):
        _signal(alice, call, to=[carol.user], data=1)
        fields("the signal", _heard(carol, call).body, data=1, seq=None)


@sentence("2 call.signal", "an accepted member of a live call")
def a_signal_goes_to_the_device_that_the_call_moved_to(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(bob, "tablet")
    call = talk(alice, bob)
    tablet.join(call)
    with bob.hears_nothing("signal for the tablet", _is_signal):
        _signal(alice, call)
        _heard(tablet, call)


@sentence("2 call.signal", "not stored; best effort")
def a_signal_is_not_stored(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    bob.drop()
    alice.ok("call.signal", callID=call, data="missed")
    bob.connect()
    bob.heard_nothing("signal from before the reconnection", _is_signal, 0)


@sentence("2 call.signal", "One coordinator keeps a sender's order")
def one_coordinator_keeps_a_senders_order(scene: Scene) -> None:
    require(scene.options.replicas == 1, f"{scene.options.replicas} coordinators may serve a sender (--replicas)")
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    for number in range(1, 101):
        _signal(alice, call, seq=number, data=number)
    bob.wait(lambda m: m.type == "signal" and m["seq"] == 100, None, "the last signal")
    equal("the order", [m["seq"] for m in bob.find(_is_signal)], list(range(1, 101)))


@sentence("2 call.signal", "response only if id is present")
def a_signal_gets_a_response_only_if_it_has_an_id(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    with alice.hears_nothing("answer to a signal without id", lambda m: m.type in ("response", "error")):
        _signal(alice, call)
        _heard(bob, call)
        since = bob.mark
        _signal(alice, call, id=None, to=None, seq=None, stream=None)
        _heard(bob, call, since)
    since = bob.mark
    response = alice.ok("call.signal", callID=call, data=1)
    equal("the call", response["call"], alice.get(call))
    _heard(bob, call, since)


@sentence("2 Signals", "Any device of an accepted member may send.")
def any_device_of_an_accepted_member_may_send(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(alice, "tablet")
    call = talk(alice, bob)
    _signal(tablet, call)
    fields("the signal", _heard(bob, call).body, **{"from": alice.user, "fromDevice": "tablet"})


@sentence("2 Signals", "Refusals: callNotFound, callEnded, invalidState with state (the sender is not accepted)")
def a_signal_of_one_who_is_not_accepted_is_refused(scene: Scene) -> None:
    alice, bob, carol, mallory = scene.devices("alice", "bob", "carol", "mallory")
    call = talk(alice, bob)
    alice.add(call, carol)
    bob.expect_change(call, carol, "received")
    with alice.hears_nothing("signal", _is_signal):
        for unknown in (call, new_id()):
            mallory.refused("call.signal", "callNotFound", callID=unknown, data=1)
        equal("carol's state", carol.refused("call.signal", "invalidState", callID=call, data=1)["state"], "received")
        alice.end(call)
        equal("bob's state", bob.refused("call.signal", "callEnded", callID=call, data=1)["state"], "accepted")


@sentence(
    "2 Signals", "A refused signal without id is answered by type error; a served signal without id has no answer."
)
def a_refused_signal_without_id_is_answered_by_an_error(scene: Scene) -> None:
    alice, bob, carol, mallory = scene.devices("alice", "bob", "carol", "mallory")
    call = talk(alice, bob)
    alice.add(call, carol)
    bob.expect_change(call, carol, "received")
    mallory.answer({"type": "call.signal", "callID": call, "data": 1}, "callNotFound")
    error = carol.answer({"type": "call.signal", "callID": call, "data": 1}, "invalidState")
    equal("carol's state", error["state"], "received")
    names("the error", alice.answer({"type": "call.signal", "callID": call}, "badRequest")["message"], "data")
    alice.end(call)
    bob.answer({"type": "call.signal", "callID": call, "data": 1}, "callEnded")


@sentence("2 Signals", "data is any JSON value, null too")
def data_is_any_json_value(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    values: list[Any] = [None, True, False, 0, -1.5, "", "é😀", [], {}, [[1], {"a": None}]]
    for value in values:
        since = bob.mark
        _signal(alice, call, data=value)
        equal("data", _heard(bob, call, since)["data"], value)
    names("the error", alice.refused("call.signal", "badRequest", callID=call)["message"], "data")


@sentence("2 Signals", "as it stands in the request, where it is copied from byte for byte")
def data_is_copied_byte_for_byte(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    for data in VERBATIM:
        since = bob.mark
        alice.send(b'{"type":"call.signal","callID":"%s","data": %s\n}' % (call.encode(), data))
        true(f"the message has {data[:80]!r}", b'"data":' + data in _heard(bob, call, since).raw, bob.messages[-1].raw)
    since = bob.mark
    alice.send(b'{"data":1.0,"type":"call.signal","da\\u0074a":[ 2.0 ],"callID":"%s"}' % call.encode())
    true("of two data fields the last counts", b'"data":[ 2.0 ]' in _heard(bob, call, since).raw, bob.messages[-1].raw)


@sentence("2 Signals", "and at most 32,768 bytes as it stands in the request")
def data_has_at_most_32768_bytes(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    longest = "x" * (MOST_DATA - 2)
    _signal(alice, call, data=longest)
    equal("the longest data", _heard(bob, call)["data"], longest)
    for wrong in (longest + "x", "é" * (MOST_DATA // 2)):
        names("the error", alice.refused("call.signal", "badRequest", callID=call, data=wrong)["message"], "data")


@sentence("2 Signals", "seq is 0 to 2^53 − 1")
def seq_is_0_to_2_to_the_53_minus_1(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    for seq in (0, 1, BIGGEST_SEQ):
        since = bob.mark
        _signal(alice, call, seq=seq)
        equal("seq", _heard(bob, call, since)["seq"], seq)
    for wrong in (-1, BIGGEST_SEQ + 1, 1.5, "1", True):
        error = alice.refused("call.signal", "badRequest", callID=call, data=1, seq=wrong)
        names(f"seq {wrong}", error["message"], "seq")


@sentence("2 Signals", "to has 1 to 100 distinct users.")
def to_has_1_to_100_distinct_users(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    strangers = [scene.user("stranger") for _ in range(100)]
    alice.ok("call.signal", callID=call, data=1, to=[bob.user, *strangers[:99]])
    _heard(bob, call)
    for wrong in ([], [bob.user, bob.user], [bob.user, *strangers], bob.user, [5]):
        error = alice.refused("call.signal", "badRequest", callID=call, data=1, to=wrong)
        names(f"to with {len(wrong)} entries", error["message"], "to")


@sentence(
    "2 Signals",
    "With id, the response lists those of to whom the signal cannot reach in errors: invalidState (not accepted, or the"
    " sender), callNotFound (not a member).",
)
def a_signals_response_lists_whom_it_cannot_reach(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    stranger = scene.user("stranger")
    call = talk(alice, bob)
    alice.add(call, carol)
    response = alice.ok("call.signal", callID=call, data=1, to=[stranger, carol.user, alice.user, bob.user])
    expected = {stranger: "callNotFound", carol.user: "invalidState", alice.user: "invalidState"}
    equal("errors", errors(response), expected)
    _heard(bob, call)


@sentence("2 Signals", "The response is ok also when no invitee is left.")
def a_signal_that_reaches_nobody_is_ok(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    with bob.hears_nothing("signal", _is_signal):
        equal("errors of a signal to all", errors(alice.ok("call.signal", callID=call, data=1)), {})
        response = alice.ok("call.signal", callID=call, data=1, to=[bob.user])
        equal("errors of a signal to bob", errors(response), {bob.user: "invalidState"})


@sentence("2 Signals", '"stream"? (1–64 of A-Z a-z 0-9 _ -), in the request and passed on in the signal')
def a_stream_is_passed_on(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    for stream in ("s", "AZaz09_-", "s" * 64, None):
        since = bob.mark
        _signal(alice, call, **({"stream": stream, "seq": 1} if stream else {}))
        equal("stream", _heard(bob, call, since).get("stream"), stream)
    for wrong in ("", "s" * 65, "a b", "a.b", 5):
        error = alice.refused("call.signal", "badRequest", callID=call, data=1, stream=wrong)
        names(f"stream {wrong!r}", error["message"], "stream")


@sentence(
    "2 Signals",
    "A signal shows like any request that its sender lives (section 3, Heartbeat).",
    waits=lambda t: t.heartbeat_timeout * 1.4,
)
def a_signal_shows_that_its_sender_lives(scene: Scene) -> None:
    alice, bob = scene.device("alice", unlike_machine="sends no heartbeats"), scene.device("bob")
    call = talk(alice, bob)
    timeout = scene.timings.heartbeat_timeout
    for _ in range(4):
        time.sleep(timeout * 0.35)
        _signal(alice, call)
        bob.send({"type": "call.heartbeat", "callID": call})
    equal("the call's state", alice.get(call)["state"], "active")


@sentence("2 Signals", "MQTT 5 Message Expiry of a signal is 60 s.", versions=MQTT5)
def a_signal_expires_after_60_seconds(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    _signal(alice, call)
    equal("Message Expiry", _heard(bob, call).expiry, 60)


@sentence(
    "2 call.signal",
    "call.signal | callID, to? [users], seq? integer, data any JSON ≤32 KiB | an accepted member of a live call",
)
def members_of_a_common_call_signal_while_it_lives(scene: Scene) -> None:
    alice, bob, carol = scene.devices("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    bob.accept(call)
    alice.expect_change(call, bob, "accepted")
    _signal(bob, call, data="hello")
    equal("data", _heard(alice, call)["data"], "hello")
    carol.reject(call)
    bob.refused("call.signal", "callEnded", callID=call, data=1)


# Reports


def _report(device: Device, call: str, **milestones: Any) -> list[dict[str, Any]]:
    return device.ok("call.report", callID=call, milestones=milestones)["reports"]


@sentence("2 Reports", "A member, past or present, may report while the call is kept, also after it has ended.")
def every_member_may_report(scene: Scene) -> None:
    alice, bob, carol, mallory = scene.devices("alice", "bob", "carol", "mallory")
    call = talk(alice, bob, carol)
    carol.quit(call)
    _report(carol, call, joinedChannel=1)
    alice.end(call)
    _report(bob, call, joinedChannel=2)
    told = {entry["userID"]: entry["milestones"]["joinedChannel"] for entry in _report(alice, call, joinedChannel=3)}
    equal("the reports", told, {carol.user: 1, bob.user: 2, alice.user: 3})
    mallory.refused("call.report", "callNotFound", callID=call, milestones={"joinedChannel": 1})


@sentence("2 Reports", "milestones has 1 to 32 names of 1–64 of A-Z a-z 0-9 _ -")
def milestones_have_1_to_32_names(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    good = {f"m{number}": number for number in range(30)} | {"AZaz09_-": 30, "x" * 64: 31}
    equal("the milestones", _report(alice, call, **good)[0]["milestones"], good)
    too_many = {f"m{number}": number for number in range(33)}
    wrongs: list[Any] = [{}, too_many, {"": 1}, {"x" * 65: 1}, {"a b": 1}, {"é": 1}, [], 5, "joinedChannel"]
    for wrong in wrongs:
        error = bob.refused("call.report", "badRequest", callID=call, milestones=wrong)
        names(f"milestones {str(wrong)[:60]}", error["message"], "milestones")


@sentence("2 Reports", "with whole milliseconds from 0 to 86,400,000")
def milestones_are_whole_milliseconds(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    good = {"least": 0, "most": 86_400_000}
    equal("the milestones", _report(alice, call, **good)[0]["milestones"], good)
    for wrong in (-1, 86_400_001, 1.5, "5", None, True, [1]):
        error = alice.refused("call.report", "badRequest", callID=call, milestones={"firstFrame": wrong})
        names(f"milestone {wrong!r}", error["message"], "milestones")


@sentence("2 Reports", "A name reported again by the same device replaces its value.")
def a_milestone_reported_again_replaces_its_value(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    tablet = scene.another(alice, "tablet")
    call = ring(alice, bob)
    _report(alice, call, joinedChannel=1, firstFrame=2)
    _report(tablet, call, joinedChannel=5)
    reports = {entry["device"]: entry["milestones"] for entry in _report(alice, call, firstFrame=3)}
    equal("by device", reports, {"phone": {"joinedChannel": 1, "firstFrame": 3}, "tablet": {"joinedChannel": 5}})


@sentence("2 Reports", "For each call 32 names of a device are kept")
def a_device_reports_at_most_32_names(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    _report(alice, call, **{f"m{number}": number for number in range(32)})
    alice.refused("call.report", "badRequest", callID=call, milestones={"another": 1})
    equal("a known name", _report(alice, call, m0=99)[0]["milestones"]["m0"], 99)


@sentence("2 Reports", "64 of all devices of a user; more are badRequest")
def the_devices_of_a_user_report_at_most_64_names(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    devices = [scene.another(alice, f"device-{number}", presence=False) for number in range(3)]
    for device in devices[:2]:
        reports = _report(device, call, **{f"m{name}": name for name in range(32)})
    equal("the names kept", sum(len(entry["milestones"]) for entry in reports), 64)
    devices[2].refused("call.report", "badRequest", callID=call, milestones={"joinedChannel": 1})
    equal("the names of the other member", len(_report(bob, call, **{f"m{name}": name for name in range(32)})), 3)


@sentence(
    "2 Reports",
    "Well-known names: remoteReceived, accepted, joinedChannel, remoteJoinedChannel, firstFrameCaptured,"
    " firstFramePublished, firstFrame",
)
def well_known_milestones_are_taken(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    good = {name: number for number, name in enumerate(WELL_KNOWN)}
    equal("the milestones", _report(bob, call, **good), [{"userID": bob.user, "device": "phone", "milestones": good}])


@sentence(
    "2 Reports",
    "The responses to call.report, call.get and call.trace carry the reports: "
    '"reports":[{"userID","device","milestones":{…}}], absent without a report.',
)
def report_get_and_trace_carry_what_was_reported(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = ring(alice, bob)
    for type_ in ("call.get", "call.trace"):
        true(f"{type_} has no reports yet", "reports" not in alice.ok(type_, callID=call))
    revision = alice.get(call)["revision"]
    expected = [{"userID": alice.user, "device": "phone", "milestones": {"remoteReceived": 40}}]
    reported = alice.ok("call.report", callID=call, milestones={"remoteReceived": 40})
    equal("the reports and the revision", (reported["reports"], reported["revision"]), (expected, revision))
    for type_ in ("call.get", "call.trace"):
        equal(f"the reports of {type_}", bob.ok(type_, callID=call)["reports"], expected)


@sentence("2 call.report", "call-speed milestones of this device (joinedChannel, firstFrame, …), kept with the call")
def a_report_is_told_to_nobody(scene: Scene) -> None:
    alice, bob = scene.devices("alice", "bob")
    call = talk(alice, bob)
    with bob.hears_nothing("event of a report", lambda m: m.is_event(None, call)):
        response = alice.ok("call.report", callID=call, milestones={"firstFrame": 890})
    true("the request is described", json.dumps(response["reports"]).count("firstFrame") == 1, response["reports"])
