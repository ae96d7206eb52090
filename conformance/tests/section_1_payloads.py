"""Section 1, Clarifications: JSON, sizes, topics."""

from __future__ import annotations

from typing import Any

from ..client import Device
from ..expect import equal, fields, member, names, true
from ..scene import Scene
from ..suite import sentence, skip
from .steps import intruder, new_id, ring

MIB = 1024 * 1024

NULLABLE = (
    "callID",
    "mode",
    "timeout",
    "media",
    "extendedData",
    "notReceivedCheck",
    "notReceivedAfter",
    "joinPolicy",
    "autoEnd",
    "ifBusy",
    "glare",
    "push",
)


def _call_get(value: str) -> bytes:
    """Returns a request that is valid apart from `value`, raw JSON in an unknown field."""
    return f'{{"type":"call.get","id":"{new_id()}","callID":"none","x":{value}}}'.encode()


def _not_json(device: Device, *payloads: bytes) -> None:
    for payload in payloads:
        device.answer(payload, "badRequest")


@sentence("1 JSON", "A payload is not JSON when it is invalid UTF-8")
def invalid_utf_8_is_not_json(scene: Scene) -> None:
    alice = scene.device("alice")
    for broken in (b"\xff", b"\x80", b"\xc0\xaf", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"):
        _not_json(alice, _call_get('"?"').replace(b"?", broken))
    alice.send(_call_get('"é😀"'))
    alice.settle()


@sentence("1 JSON", "has an escaped lone surrogate")
def an_escaped_lone_surrogate_is_not_json(scene: Scene) -> None:
    alice = scene.device("alice")
    lone = ('"\\ud83d"', '"\\ude00"', '"\\ude00\\ud83d"', '"\\ud83dx"', '{"\\udfff":1}')
    _not_json(alice, *(_call_get(value) for value in lone))
    equal("a pair of surrogates", _code(alice, _call_get('"\\ud83d\\ude00"')), "callNotFound")


@sentence("1 JSON", "contains NaN or Infinity")
def nan_and_infinity_are_not_json(scene: Scene) -> None:
    _not_json(scene.device("alice"), *(_call_get(value) for value in ("NaN", "Infinity", "-Infinity", "[NaN]")))


@sentence("1 JSON", "is nested deeper than 64 levels")
def what_is_nested_deeper_than_64_levels_is_not_json(scene: Scene) -> None:
    alice = scene.device("alice")
    equal("63 levels in the object", _code(alice, _call_get("[" * 63 + "]" * 63)), "callNotFound")
    _not_json(alice, *(_call_get("[" * depth + "]" * depth) for depth in (64, 5000)))
    _not_json(alice, _call_get('{"a":' * 100 + "1" + "}" * 100))


@sentence("1 JSON", "or goes on after its object")
def what_goes_on_after_its_object_is_not_json(scene: Scene) -> None:
    alice = scene.device("alice")
    _not_json(alice, *(_call_get("1") + more for more in (b"x", b"}", b"{}", b",", b"\x00")))
    equal("blanks after the object", _code(alice, _call_get("1") + b" \r\n\t"), "callNotFound")


@sentence("1", "Payloads are UTF-8 JSON objects")
def payloads_are_json_objects(scene: Scene) -> None:
    alice = scene.device("alice")
    _not_json(alice, b"", b"[]", b"5", b'"call.get"', b"null", b"true", b"hello", _call_get("1")[:-1])
    _not_json(alice, _call_get("1").decode().encode("utf-16"), _call_get("01"), _call_get("'x'"), _call_get('"a\nb"'))


@sentence("1 JSON", 'Such a payload is answered by {"type":"error","error":{"code":"badRequest",…}}.')
def what_is_not_json_is_answered_by_an_error(scene: Scene) -> None:
    alice = scene.device("alice")
    tablet = scene.another(alice, "tablet")
    with tablet.hears_nothing("error of the phone", lambda m: m.type == "error"):
        alice.answer(b"{", "badRequest")
    alice.settle()
    equal("the received messages", [m.type for m in alice.messages], ["welcome", "error", "response"])


@sentence("1 JSON", "When a key stands twice in an object, the last value counts.")
def of_a_key_that_stands_twice_the_last_one_wins(scene: Scene) -> None:
    alice = scene.device("alice")
    first, last = new_id(), new_id()
    request = f'{{"type":"none","type":"call.get","id":"{first}","callID":5,"id":"{last}","callID":"none"}}'
    since = alice.mark
    alice.send(request.encode())
    response = alice.wait(lambda m: m.type == "response", None, "a response", since=since)
    fields("the response", response.body, id=last, ok=False)
    equal("its code", response["error"]["code"], "callNotFound")


@sentence("1 Numbers", "null for an optional request field counts as absent.")
def null_counts_as_absent(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    request = {"type": "call.invite", "id": new_id(), "invitees": [bob]} | dict.fromkeys(NULLABLE)
    call = _served(alice, request)["call"]
    fields("the call", call, mode="common", state="ringing", media=None, extendedData=None)
    true("the call has an id", len(call["callID"]) == 32, call["callID"])
    _served(alice, {"type": "call.cancel", "id": new_id(), "callID": call["callID"], "invitees": None})


@sentence(
    "1 Numbers", "timeout and notReceivedAfter are whole numbers of seconds: 60.0 counts as 60, 1.5 is badRequest."
)
def durations_are_whole_numbers(scene: Scene) -> None:
    alice, bob = scene.device("alice"), scene.absent("bob")
    for literal in ("60.0", "6e1"):
        request = f'{{"type":"call.invite","id":"{new_id()}","invitees":["{bob}"],"timeout":{literal}}}'
        equal(f"a timeout of {literal}", _served(alice, request.encode())["call"]["timeout"], 60)
    for field in ("timeout", "notReceivedAfter"):
        for wrong in (1.5, "60", True, [60]):
            error = alice.refused("call.invite", "badRequest", invitees=[bob], **{field: wrong})
            names(f"{field} {wrong!r}", error["message"], field)


@sentence("1 Size", "A JSON object over 64 KiB (setting) with a usable id gets a response with tooLarge.")
def a_large_object_with_an_id_gets_a_response(scene: Scene) -> None:
    alice = scene.device("alice")
    for size in (scene.limits.max_payload + 1, scene.limits.max_payload * 3):
        request = alice.start("call.invite", invitees=[scene.absent("bob")], pad="x" * size)
        _unless_refused_by_the_broker(alice, lambda request=request: request.refused("tooLarge"))


@sentence("1 Size", "A payload over the limit that is not a JSON object, has no usable id, or")
def what_is_large_and_has_no_id_is_answered_by_an_error(scene: Scene) -> None:
    alice = scene.device("alice")
    size = scene.limits.max_payload + 1
    padding = "x" * size
    payloads: list[Any] = [
        padding.encode(),
        f'["{padding}"]'.encode(),
        {"type": "call.get", "callID": "none", "pad": padding},
        {"type": "call.get", "id": "not usable", "callID": "none", "pad": padding},
        {"type": "ack", "callID": "none", "revision": 1, "pad": padding},
    ]
    for payload in payloads:
        _unless_refused_by_the_broker(alice, lambda payload=payload: alice.answer(payload, "tooLarge"))


@sentence("1 Size", "is over 1 MiB, is answered by type error with tooLarge.")
def what_is_over_1_mib_is_answered_by_an_error(scene: Scene) -> None:
    alice = scene.device("alice")
    request = {"type": "call.get", "id": new_id(), "callID": "none", "pad": "x" * MIB}
    _unless_refused_by_the_broker(alice, lambda: alice.answer(request, "tooLarge"))


def _unless_refused_by_the_broker(device: Device, test: Any) -> None:
    """Runs a test, and skips the test if the broker closes the connection at a limit of the broker."""
    try:
        test()
    except AssertionError:
        if not device.is_connected:
            skip("the broker takes no message of this size")
        raise


@sentence(
    "1 Size",
    "a single field value that is too long (extendedData over 2048 bytes, reason over 256 bytes and so on) is"
    " badRequest naming the field.",
)
def a_field_that_is_too_long_is_named(scene: Scene) -> None:
    alice = scene.device("alice")
    bob = scene.device("bob")
    long = {"extendedData": ["x" * 2049, "é" * 1025], "media": ["x" * 33, "é" * 17]}
    for field, values in long.items():
        for value in values:
            error = alice.refused("call.invite", "badRequest", invitees=[bob.user], **{field: value})
            names(f"{len(value.encode())} bytes", error["message"], field)
    call = ring(alice, bob)
    for value in ("x" * 257, "é" * 129):
        names("a long reason", bob.refused("call.reject", "badRequest", callID=call, reason=value)["message"], "reason")
    longest = {"extendedData": "é" * 1024, "reason": "é" * 128}
    fields("bob", member(bob.reject(call, **longest)["call"], bob), **longest)


@sentence(
    "1 Topics",
    "A message on a topic below up/ or presence/ that is not canonical is answered by type error with badRequest on the"
    " mirrored topic",
)
def a_message_on_a_topic_that_is_not_canonical_is_answered_on_the_mirrored_topic(scene: Scene) -> None:
    name = scene.user("bob")
    device = intruder(scene, name, level=f"{name}%2f")
    for topic in (device.up, device.presence_topic):
        since = device.mark
        device.publish(topic, b'{"online":true}')
        device.expect_error("badRequest", since)


@sentence("1 Topics", "the same levels as received, under down/ instead of up/ or presence/")
def the_mirrored_topic_has_the_same_levels_as_received(scene: Scene) -> None:
    device = intruder(scene, scene.user("bob"), "phone/third/level")
    for topic in (device.up, device.presence_topic):
        since = device.mark
        device.publish(topic, b"{}")
        device.expect_error("badRequest", since)


@sentence("1 Topics", "A message with fewer than two levels there has no mirrored topic, and is counted and dropped.")
def a_message_on_a_topic_with_one_level_is_dropped(scene: Scene) -> None:
    bob = scene.device("bob")
    with bob.hears_nothing("answer", lambda m: m.type == "error"):
        for kind in ("up", "presence"):
            bob.publish(f"{scene.deployment.root}/{kind}/{bob.client_id.split('/')[0]}", b"{", hurry=True)
        bob.settle()


def _served(device: Device, request: dict[str, Any] | bytes) -> dict[str, Any]:
    """Sends a request unchanged. Returns the response."""
    since = device.mark
    device.send(request)
    response = device.wait(lambda m: m.type == "response", None, "a response", since=since)
    equal(f"ok of {response.body.get('error')}", response["ok"], True)
    return response.body


def _code(device: Device, payload: bytes) -> str:
    """Returns the error code of the answer to a payload."""
    since = device.mark
    device.send(payload)
    answer = device.wait(lambda m: m.type in ("response", "error"), None, "an answer", since=since)
    return answer["error"]["code"]
