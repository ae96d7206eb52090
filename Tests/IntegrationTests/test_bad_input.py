"""Whatever a client sends gets the protocol's answer, and nobody else is touched (§1, §2, Error codes).

The inputs come from tables. After each one the service must still answer, at the end a normal call must work, the
coordinator must be the same process, and a bystander's call must be unchanged.
"""

from __future__ import annotations

import gzip
import json
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as mqtt
import pytest

from harness import Deploy, Device, World, call_id, stop_loop, talk, wait_until

KIB = 1024
REQUEST_LIMIT = 64 * KIB
GUEST = "guest-of-bad-input"


@dataclass(frozen=True)
class Case:
    """One input and the answer that the protocol gives to it."""

    name: str
    payload: bytes
    code: str
    id: str | None = None
    """With a usable id the answer is a response, without one a message of type `error`."""
    mentions: str = ""
    """The message of a `badRequest` names the field."""


def of(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


# What is not JSON at all: (name, payload)

VALID = '{"type":"call.get","id":"x","callID":"c"}'

NOT_JSON: list[tuple[str, bytes]] = [
    ("nothing", b""),
    ("a blank", b" "),
    ("a NUL", b"\x00"),
    ("text", b"hello"),
    ("a word like JSON", b"nul"),
    ("an open brace", b"{"),
    ("a closing brace", b"}"),
    ("half an object", VALID[:-1].encode()),
    ("half a string", b'{"type":"call.get'),
    ("a key alone", b'{"type"}'),
    ("a key without a value", b'{"type":}'),
    ("a comma at the end", VALID[:-1].encode() + b",}"),
    ("a comma at the start", b"{," + VALID[1:].encode()),
    ("no comma", b'{"type":"call.get" "id":"x"}'),
    ("no colon", b'{"type" "call.get"}'),
    ("single quotes", VALID.replace('"', "'").encode()),
    ("keys without quotes", b'{type:"call.get",id:"x",callID:"c"}'),
    ("a comment", VALID.encode() + b"// end"),
    ("an inner comment", b'{/**/"type":"call.get"}'),
    ("two objects", VALID.encode() * 2),
    ("trailing text", VALID.encode() + b"x"),
    ("a trailing brace", VALID.encode() + b"}"),
    ("a trailing NUL", VALID.encode() + b"\x00"),
    ("a byte order mark of UTF-16", VALID.encode("utf-16")),
    ("UTF-16 without a mark", VALID.encode("utf-16-be")),
    ("UTF-32", VALID.encode("utf-32-le")),
    ("gzip", gzip.compress(VALID.encode())),
    ("MessagePack", b"\x82\xa4type\xa8call.get\xa2id\xa1x"),
    ("CBOR", b"\xa2dtypehcall.getbidax"),
    ("random bytes", bytes(range(128, 256))),
    ("a number too early", b'{"type":"call.get","id":"x","n":01}'),
    ("a plus sign", b'{"type":"call.get","id":"x","n":+1}'),
    ("a bare fraction", b'{"type":"call.get","id":"x","n":.5}'),
    ("an open fraction", b'{"type":"call.get","id":"x","n":1.}'),
    ("an open exponent", b'{"type":"call.get","id":"x","n":1e}'),
    ("a lone minus", b'{"type":"call.get","id":"x","n":-}'),
    ("hexadecimal", b'{"type":"call.get","id":"x","n":0x10}'),
    ("NaN", b'{"type":"call.get","id":"x","n":NaN}'),
    ("Infinity", b'{"type":"call.get","id":"x","n":Infinity}'),
    ("minus Infinity", b'{"type":"call.get","id":"x","n":-Infinity}'),
    ("True", b'{"type":"call.get","id":"x","n":True}'),
    ("undefined", b'{"type":"call.get","id":"x","n":undefined}'),
    ("an unknown escape", b'{"type":"call.get","id":"x","n":"\\x41"}'),
    ("a short escape", b'{"type":"call.get","id":"x","n":"\\u12"}'),
    ("an escape that is not hexadecimal", b'{"type":"call.get","id":"x","n":"\\u12G4"}'),
    ("a raw line feed in a string", b'{"type":"call.get","id":"x","n":"a\nb"}'),
    ("a raw tab in a string", b'{"type":"call.get","id":"x","n":"a\tb"}'),
    ("a raw NUL in a string", b'{"type":"call.get","id":"x","n":"a\x00b"}'),
    ("a lone high surrogate", b'{"type":"call.get","id":"x","n":"\\ud83d"}'),
    ("a lone low surrogate", b'{"type":"call.get","id":"x","n":"\\ude00"}'),
    ("surrogates the wrong way round", b'{"type":"call.get","id":"x","n":"\\ude00\\ud83d"}'),
    ("two high surrogates", b'{"type":"call.get","id":"x","n":"\\ud83d\\ud83d"}'),
    ("a high surrogate before text", b'{"type":"call.get","id":"x","n":"\\ud83dA"}'),
    ("a lone surrogate in a key", b'{"type":"call.get","id":"x","\\ud83d":1}'),
    ("a lone surrogate in the type", b'{"type":"call.get\\udfff","id":"x"}'),
    ("a lone continuation byte", b'{"type":"call.get","id":"x","n":"\x80"}'),
    ("a truncated sequence", b'{"type":"call.get","id":"x","n":"\xe2\x82"}'),
    ("an overlong slash", b'{"type":"call.get","id":"x","n":"\xc0\xaf"}'),
    ("an overlong NUL", b'{"type":"call.get","id":"x","n":"\xc0\x80"}'),
    ("an encoded surrogate", b'{"type":"call.get","id":"x","n":"\xed\xa0\x80"}'),
    ("beyond Unicode", b'{"type":"call.get","id":"x","n":"\xf4\x90\x80\x80"}'),
    ("a five byte sequence", b'{"type":"call.get","id":"x","n":"\xf8\x88\x80\x80\x80"}'),
    ("invalid UTF-8 in a key", b'{"type":"call.get","id":"x","\xff":1}'),
    ("invalid UTF-8 outside strings", b'{"type":"call.get","id":"x"\xff}'),
    ("arrays 70 deep", b'{"type":"call.get","id":"x","n":' + b"[" * 70 + b"]" * 70 + b"}"),
    ("arrays 30,000 deep", b'{"type":"call.get","id":"x","n":' + b"[" * 30_000 + b"]" * 30_000 + b"}"),
    ("objects 5,000 deep", b'{"type":"call.get","id":"x","n":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_000 + b"}"),
    ("60,000 open arrays", b"[" * 60_000),
    ("60,000 open objects", b'{"a":' * 12_000),
]

NOT_AN_OBJECT: list[tuple[str, bytes]] = [
    ("an array", b"[]"),
    ("an array of a request", b"[" + VALID.encode() + b"]"),
    ("a number", b"5"),
    ("a huge number", b"1" * 1000),
    ("a string", b'"call.get"'),
    ("a request in a string", json.dumps(VALID).encode()),
    ("null", b"null"),
    ("true", b"true"),
    ("false", b"false"),
]

# Ids and types

BAD_IDS: list[tuple[str, Any]] = [
    ("missing", ...),
    ("null", None),
    ("a number", 5),
    ("zero", 0),
    ("true", True),
    ("an array", ["x"]),
    ("an object", {"id": "x"}),
    ("empty", ""),
    ("65 long", "x" * 65),
    ("with a blank", "a b"),
    ("with a dot", "a.b"),
    ("with a slash", "a/b"),
    ("with an umlaut", "ä"),
    ("with a NUL", "a\u0000b"),
    ("with a line feed", "a\n"),
    ("with an emoji", "😀"),
    ("with a percent", "a%41"),
]

BAD_TYPES: list[tuple[str, Any]] = [
    ("missing", ...),
    ("null", None),
    ("a number", 5),
    ("false", False),
    ("an array", ["call.get"]),
    ("an object", {}),
]

UNKNOWN_TYPES = [
    "call",
    "call.",
    "call.Get",
    "CALL.GET",
    " call.get",
    "call.get ",
    "call.get\u0000",
    "call.gett",
    "call.invite2",
    "response",
    "event",
    "welcome",
    "error",
    "signal",
    "message",
    "receipt",
    "presence",
    "ping",
    "__proto__",
    "кол",
    "😀",
]

# Fields: (field, name, value)

BAD_CALL_IDS: list[tuple[str, Any]] = [
    ("null", None),
    ("a number", 5),
    ("true", True),
    ("an array", ["c"]),
    ("an object", {}),
    ("empty", ""),
    ("65 long", "c" * 65),
    ("with a blank", "a b"),
    ("with a slash", "a/b"),
    ("with an umlaut", "ä"),
    ("with a NUL", "a\u0000"),
]

BAD_INVITEES: list[tuple[str, Any]] = [
    ("a string", GUEST),
    ("a number", 5),
    ("an object", {"0": GUEST}),
    ("empty", []),
    ("a list of a number", [5]),
    ("a list of null", [None]),
    ("a list of a list", [[GUEST]]),
    ("a list of an object", [{"userID": GUEST}]),
    ("an empty name", [""]),
    ("a good and a bad one", [GUEST, 5]),
    ("the same twice", [GUEST, GUEST]),
    ("ten", [f"{GUEST}{n}" for n in range(10)]),
    ("a thousand", [f"{GUEST}{n}" for n in range(1000)]),
    ("a name of 65 bytes", ["x" * 65]),
    ("a name of 66 bytes in 33 letters", ["ä" * 33]),
    ("U+0085", ["a\u0085"]),
    ("U+009F", ["a\u009f"]),
    ("U+FDD0", ["a\ufdd0"]),
    ("U+FFFF", ["a\uffff"]),
    ("U+1FFFE", ["a\U0001fffe"]),
]

BAD_TIMEOUTS: list[tuple[str, Any]] = [
    ("zero", 0),
    ("negative", -1),
    ("601", 601),
    ("a fraction", 1.5),
    ("a string", "60"),
    ("true", True),
    ("an array", [60]),
    ("an object", {}),
    ("beyond 64 bits", 99999999999999999999),
    ("beyond 63 bits", 2**63),
    ("tiny", 1e-9),
    ("huge", 1e300),
]

BAD_TEXTS: list[tuple[str, Any]] = [("a number", 5), ("true", True), ("an array", ["x"]), ("an object", {})]

BAD_CHOICES: list[tuple[str, Any]] = [
    ("another word", "maybe"),
    ("empty", ""),
    ("a number", 1),
    ("true", True),
    ("an array", []),
]

BAD_FLAGS: list[tuple[str, Any]] = [("a string", "true"), ("a number", 1), ("zero", 0), ("an array", [])]

BAD_EXTENDED: list[tuple[str, Any]] = [
    *BAD_TEXTS,
    ("2049 bytes", "x" * 2049),
    ("2050 bytes in 1025 letters", "ä" * 1025),
]

INVITE_FIELDS: list[tuple[str, list[tuple[str, Any]]]] = [
    ("invitees", [("missing", ...), ("null", None), *BAD_INVITEES]),
    ("callID", BAD_CALL_IDS[1:]),
    ("mode", [*BAD_CHOICES, ("in capitals", "Common")]),
    ("timeout", BAD_TIMEOUTS),
    ("media", [*BAD_TEXTS, ("33 bytes", "x" * 33)]),
    ("extendedData", BAD_EXTENDED),
    ("notReceivedCheck", BAD_FLAGS),
    ("notReceivedAfter", [*BAD_TIMEOUTS, ("31", 31)]),
    ("joinPolicy", BAD_CHOICES),
    ("autoEnd", BAD_FLAGS),
    ("ifBusy", BAD_CHOICES),
    ("glare", BAD_CHOICES),
    ("push", [("a string", "x"), ("a number", 5), ("an array", []), ("with a bad title", {"title": 5})]),
]

CALL_REQUESTS: dict[str, list[tuple[str, list[tuple[str, Any]]]]] = {
    "call.cancel": [("invitees", BAD_INVITEES[:6]), ("extendedData", BAD_EXTENDED)],
    "call.accept": [("extendedData", BAD_EXTENDED)],
    "call.reject": [("reason", [*BAD_TEXTS, ("257 bytes", "x" * 257)]), ("extendedData", BAD_EXTENDED[-1:])],
    "call.add": [
        ("invitees", [("missing", ...), *BAD_INVITEES[:10]]),
        ("timeout", BAD_TIMEOUTS),
        ("push", [("a string", "x")]),
    ],
    "call.join": [("extendedData", BAD_EXTENDED[-2:])],
    "call.quit": [("extendedData", BAD_EXTENDED[-2:])],
    "call.end": [("reason", [*BAD_TEXTS, ("257 bytes", "x" * 257)]), ("extendedData", BAD_EXTENDED[-2:])],
    "call.get": [],
}

BAD_USERS: list[tuple[str, Any]] = [
    ("a number", 5),
    ("true", True),
    ("an array", [GUEST]),
    ("an object", {"userID": GUEST}),
    ("empty", ""),
    ("65 bytes", "x" * 65),
    ("66 bytes in 33 letters", "ä" * 33),
    ("U+0085", "a\u0085"),
    ("U+FFFE", "a\ufffe"),
]

BAD_SEQUENCE_NUMBERS: list[tuple[str, Any]] = [
    ("negative", -1),
    ("a fraction", 1.5),
    ("2^53", 2**53),
    ("beyond 64 bits", 99999999999999999999),
    ("huge", 1e300),
    ("a string", "1"),
    ("true", True),
    ("an array", [1]),
]

BAD_DATA: list[tuple[str, Any]] = [
    ("missing", ...),
    ("32 KiB and one", "x" * (32 * KIB - 1)),
    ("32 KiB and one in an array", ["x" * (32 * KIB - 3)]),
    ("32 KiB and one in letters of two bytes", "ä" * (16 * KIB)),
]


def tokens(values: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """What is no callID is no other token either."""
    return [(name, value) for name, value in values if value is not None]


def many(count: int) -> list[str]:
    return [f"{GUEST}{number}" for number in range(count)]


BAD_TEXT_FIELDS: list[tuple[str, list[tuple[str, Any]]]] = [
    (
        field,
        [
            *BAD_TEXTS,
            ("too long", "x" * (limit + 1)),
            ("too long in letters of two bytes", "ä" * (limit // 2 + 1)),
            ("with a NUL", "a\u0000"),
            ("with a line feed", "a\nb"),
            ("with an escape", "\u001b[31m"),
            ("with DEL", "\u007f"),
            ("with U+0085", "a\u0085"),
            ("with U+009B", "\u009b31m"),
        ],
    )
    for field, limit in (("name", 256), ("avatarURL", 512))
]

BAD_MILESTONES: list[tuple[str, Any]] = [
    ("missing", ...),
    ("null", None),
    ("a number", 5),
    ("a string", "joinedChannel"),
    ("an array", ["joinedChannel"]),
    ("empty", {}),
    ("33 names", {f"m{number}": number for number in range(33)}),
    ("an empty name", {"": 1}),
    ("a name of 65", {"m" * 65: 1}),
    ("a name with a blank", {"joined channel": 1}),
    ("a name with a dot", {"joined.channel": 1}),
    ("a name with an umlaut", {"größe": 1}),
    ("a good and a bad name", {"joinedChannel": 1, "a/b": 1}),
    ("a negative time", {"joinedChannel": -1}),
    ("a time beyond a day", {"joinedChannel": 86_400_001}),
    ("a fraction", {"joinedChannel": 1.5}),
    ("a time that is a string", {"joinedChannel": "1"}),
    ("a time that is null", {"joinedChannel": None}),
    ("a time that is true", {"joinedChannel": True}),
    ("a time that is an object", {"joinedChannel": {"ms": 1}}),
    ("a good and a bad time", {"joinedChannel": 1, "firstFrame": -1}),
    ("huge", {"joinedChannel": 1e300}),
]

# Of the requests that are no state change of a call: what is well-formed, and then field by field what is not.
PEER_REQUESTS: dict[str, tuple[dict[str, Any], list[tuple[str, list[tuple[str, Any]]]]]] = {
    "call.signal": (
        {"callID": "c", "data": 1},
        [
            ("callID", [("missing", ...), *BAD_CALL_IDS]),
            ("to", [*BAD_INVITEES[:11], ("101", many(101)), *BAD_INVITEES[13:]]),
            ("seq", BAD_SEQUENCE_NUMBERS),
            ("stream", tokens(BAD_CALL_IDS)),
            ("data", BAD_DATA),
        ],
    ),
    "call.report": (
        {"callID": "c", "milestones": {"joinedChannel": 1}},
        [("callID", [("missing", ...), *BAD_CALL_IDS]), ("milestones", BAD_MILESTONES)],
    ),
    "call.trace": ({"callID": "c"}, [("callID", [("missing", ...), *BAD_CALL_IDS])]),
    "call.query": (
        {},
        [
            ("count", [*BAD_TIMEOUTS[:2], *BAD_TIMEOUTS[3:8], ("tiny", 1e-9)]),
            ("cursor", [*BAD_TEXTS, ("empty", ""), ("129 bytes", "1" * 129), ("65 letters of two bytes", "ä" * 65)]),
        ],
    ),
    "message.send": (
        {"to": GUEST, "data": 1},
        [
            ("to", [("missing", ...), ("null", None), *BAD_USERS]),
            ("data", BAD_DATA),
            ("ttl", BAD_TIMEOUTS),
            ("messageID", tokens(BAD_CALL_IDS)),
            ("seq", BAD_SEQUENCE_NUMBERS),
            ("stream", tokens(BAD_CALL_IDS)),
        ],
    ),
    "user.update": ({}, [*BAD_TEXT_FIELDS, ("extendedData", BAD_EXTENDED)]),
    "user.query": (
        {"userIDs": [GUEST]},
        [("userIDs", [("missing", ...), ("null", None), *BAD_INVITEES[:11], ("101", many(101)), *BAD_INVITEES[13:]])],
    ),
}

# Literals that Python's encoder does not write

RAW_NUMBERS = ["1e400", "-1e400", "1e-400", "123456789" * 100, "60." + "3" * 500, "9223372036854775808"]


def mentions(field: str, message: str) -> bool:
    """Whether the message names the field, as a word of its own."""
    return not field or re.search(rf"\b{field}\b", message) is not None


def without(body: dict[str, Any]) -> dict[str, Any]:
    """Leaves out what is `...`."""
    return {key: value for key, value in body.items() if value is not ...}


def cases() -> Iterator[Case]:
    for name, payload in NOT_JSON:
        yield Case(f"not JSON: {name}", payload, "badRequest")
    for name, payload in NOT_AN_OBJECT:
        yield Case(f"not an object: {name}", payload, "badRequest")
    for name, value in BAD_IDS:
        yield Case(
            f"id: {name}", of(without({"type": "call.get", "id": value, "callID": "c"})), "badRequest", None, "id"
        )
    for request_type in ("call.invite", "call.accept", "no.such.type"):
        yield Case(f"{request_type} without id", of({"type": request_type, "callID": "c"}), "badRequest", None, "id")
    for name, value in BAD_TYPES:
        yield Case(f"type: {name}", of(without({"type": value, "id": "t1", "callID": "c"})), "badRequest", "t1", "type")
    for value in UNKNOWN_TYPES:
        yield Case(f"unknown type {value!r}", of({"type": value, "id": "t2", "callID": "c"}), "unknownType", "t2")
    for field, values in INVITE_FIELDS:
        for name, value in values:
            body = without({"type": "call.invite", "id": "f1", "invitees": [GUEST]} | {field: value})
            yield Case(f"call.invite {field}: {name}", of(body), "badRequest", "f1", field)
    for request_type, fields in CALL_REQUESTS.items():
        good: dict[str, Any] = {"type": request_type, "id": "f2", "callID": "c"}
        good |= {"invitees": [GUEST]} if request_type == "call.add" else {}
        for name, value in [("missing", ...), *BAD_CALL_IDS]:
            yield Case(
                f"{request_type} callID: {name}", of(without(good | {"callID": value})), "badRequest", "f2", "callID"
            )
        for field, values in fields:
            for name, value in values:
                yield Case(
                    f"{request_type} {field}: {name}", of(without(good | {field: value})), "badRequest", "f2", field
                )
    yield from peer_cases()
    for request_type in ("ack", "call.heartbeat"):
        for name, value in [("missing", ...), *BAD_CALL_IDS]:
            body = without({"type": request_type, "callID": value, "revision": 1})
            yield Case(f"{request_type} callID: {name}", of(body), "badRequest", None, "callID")
    for name, value in [
        ("missing", ...),
        ("null", None),
        ("a string", "1"),
        ("a fraction", 1.5),
        ("true", True),
        ("an array", [1]),
    ]:
        body = without({"type": "ack", "callID": "c", "revision": value})
        yield Case(f"ack revision: {name}", of(body), "badRequest", None, "revision")
    for literal in RAW_NUMBERS:
        payload = f'{{"type":"call.invite","id":"n1","invitees":["{GUEST}"],"timeout":{literal}}}'.encode()
        yield Case(f"timeout {literal[:20]}", payload, "badRequest", "n1", "timeout")
    yield from sizes()


def peer_cases() -> Iterator[Case]:
    """The requests around calls, and signals without `id`, which are answered all the same."""
    for request_type, (good, fields) in PEER_REQUESTS.items():
        for field, values in fields:
            for name, value in values:
                body = without({"type": request_type, "id": "p1"} | good | {field: value})
                yield Case(f"{request_type} {field}: {name}", compact(body), "badRequest", "p1", field)
        if request_type != "call.signal":
            yield Case(f"{request_type} without id", of({"type": request_type} | good), "badRequest", None, "id")
    good, fields = PEER_REQUESTS["call.signal"]
    for field, values in fields:
        name, value = values[0]
        body = without({"type": "call.signal"} | good | {field: value})
        yield Case(f"call.signal without id, {field}: {name}", of(body), "badRequest", None, field)
    for name, value in BAD_IDS:
        if value is not ... and value is not None:
            body = {"type": "call.signal", "id": value} | good
            yield Case(f"call.signal id: {name}", of(body), "badRequest", None, "id")
    for name, value in tokens(BAD_CALL_IDS):
        yield Case(f"ack messageID: {name}", of({"type": "ack", "messageID": value}), "badRequest", None, "messageID")
        body = {"type": "ack", "messageID": value, "id": "a1"}
        yield Case(f"ack messageID: {name}, with an id", of(body), "badRequest", None, "messageID")
    for literal in RAW_NUMBERS:
        if literal == "1e-400":
            continue  # As a double it is 0, which these fields may be.
        payload = f'{{"type":"call.signal","id":"n2","callID":"c","data":1,"seq":{literal}}}'.encode()
        yield Case(f"seq {literal[:20]}", payload, "badRequest", "n2", "seq")
        payload = f'{{"type":"call.report","id":"n3","callID":"c","milestones":{{"x":{literal}}}}}'.encode()
        yield Case(f"a milestone of {literal[:20]}", payload, "badRequest", "n3", "milestones")
    for literal in RAW_NUMBERS[1:3]:
        payload = f'{{"type":"call.query","id":"n4","count":{literal}}}'.encode()
        yield Case(f"count {literal[:20]}", payload, "badRequest", "n4", "count")


def compact(body: dict[str, Any]) -> bytes:
    """As many bytes as characters were meant: without blanks and without escapes."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def sizes() -> Iterator[Case]:
    """Too large as a whole (§1: at most 64 KiB)."""

    def padded(size: int, **fields: Any) -> bytes:
        body = {"type": "call.get", "callID": "c", "pad": ""} | fields
        return of(body | {"pad": "x" * (size - len(of(body)))})

    yield Case("one byte too many", padded(REQUEST_LIMIT + 1, id="s1"), "tooLarge", "s1")
    yield Case("1 MB with an id", padded(1000 * KIB, id="s2"), "tooLarge", "s2")
    yield Case("2 MiB with an id", padded(2048 * KIB, id="s3"), "tooLarge")
    yield Case("100 KiB without an id", padded(100 * KIB), "tooLarge")
    yield Case("100 KiB that is not JSON", b"x" * 100 * KIB, "tooLarge")
    yield Case("8 MiB of braces", b"{" * 8 * KIB * KIB, "tooLarge")
    yield Case(
        "an invite with 100 KiB of extendedData",
        of({"type": "call.invite", "id": "s4", "invitees": [GUEST], "extendedData": "x" * 100 * KIB}),
        "tooLarge",
        "s4",
    )
    yield Case(
        "an ack of 100 KiB", of({"type": "ack", "callID": "c", "revision": 1, "pad": "x" * 100 * KIB}), "tooLarge"
    )


CASES = list(cases())


@dataclass
class Scene:
    """Somebody who sends rubbish, and two who have nothing to do with it."""

    world: World
    mallory: Device
    alice: Device
    bob: Device
    call: str
    before: dict[str, Any]
    quiet_since: tuple[int, int]
    pid: int


@pytest.fixture(scope="module")
def scene(deployment: World) -> Iterator[Scene]:
    world = World(deployment.broker, *deployment.services)
    mallory, alice, bob = world.phones("mallory", "alice", "bob")
    call = talk(alice, bob)
    yield Scene(world, mallory, alice, bob, call, alice.get(call), (alice.mark, bob.mark), world.service.pid)
    world.close()


@pytest.fixture(autouse=True)
def unharmed(scene: Scene) -> Iterator[None]:
    """After each input the coordinator is the same process, and answers."""
    scene.alice.heartbeat(scene.call)
    scene.bob.heartbeat(scene.call)
    yield
    assert scene.world.service.running and scene.world.service.pid == scene.pid
    scene.mallory.refused("call.get", "callNotFound", callID="probe")


def test_there_are_at_least_200_different_bad_inputs() -> None:
    """The tables must not shrink unnoticed."""
    assert len({case.payload for case in CASES}) >= 200
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.encode("unicode_escape").decode())
def test_bad_input_gets_the_protocols_answer(scene: Scene, case: Case) -> None:
    """§2: a response with the code when there is a usable id, else a message of type `error`; exactly one of them."""
    mallory = scene.mallory
    since = mallory.mark
    mallory.send(case.payload, bad=True)
    answer = mallory.wait(lambda messages: next(iter(messages[since:]), None), 5, f"an answer to {case.name}")
    assert answer.topic == mallory.device_topic
    if case.id is None:
        assert answer.type == "error", answer.body
        assert "id" not in answer.body
    else:
        assert (answer.type, answer["id"], answer["ok"]) == ("response", case.id, False)
    assert answer["error"]["code"] == case.code, answer.body
    assert isinstance(answer["error"]["message"], str) and answer["error"]["message"]
    assert mentions(case.mentions, answer["error"]["message"])
    mallory.refused("call.get", "callNotFound", callID="probe")
    assert [m.type for m in mallory.messages[since:]] == [answer.type, "response"], "one outcome"


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        (
            "the same key twice, the last one wins",
            b'{"type":"nonsense","type":"call.get","id":"k1","id":"k2","callID":"c"}',
        ),
        ("blanks everywhere", b' \r\n\t{ "type" :\n"call.get" , "id": "k2","callID":"c" } \n'),
        ("escapes of plain letters", b'{"\\u0074ype":"call\\u002eget","id":"k\\u0032","callID":"c"}'),
        ("a pair of surrogates", b'{"type":"call.get","id":"k2","callID":"c","n":"\\ud83d\\ude00"}'),
        ("a huge number nobody reads", b'{"type":"call.get","id":"k2","callID":"c","n":' + b"9" * 400 + b"}"),
        ("arrays 50 deep", b'{"type":"call.get","id":"k2","callID":"c","n":' + b"[" * 50 + b"]" * 50 + b"}"),
        ("a NUL by escape", b'{"type":"call.get","id":"k2","callID":"c","n":"\\u0000"}'),
        (
            "1,000 unknown fields",
            of({"type": "call.get", "id": "k2", "callID": "c"} | {f"x{n}": n for n in range(1000)}),
        ),
        ("exactly 64 KiB", VALID.replace('"x"', '"k2"').encode().ljust(REQUEST_LIMIT)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_unusual_but_valid_json_is_understood(scene: Scene, name: str, payload: bytes) -> None:
    """§1: payloads are UTF-8 JSON objects, up to 64 KiB; unknown fields are ignored. There is no such call."""
    since = scene.mallory.mark
    scene.mallory.send(payload, bad=True)
    answer = scene.mallory.wait(lambda messages: next(iter(messages[since:]), None), 3, name)
    assert (answer.type, answer.body.get("id")) == ("response", "k2")
    assert answer["error"]["code"] == "callNotFound"


def test_inviting_oneself_is_refused(scene: Scene) -> None:
    """§2: not the inviter."""
    for invitees in ([scene.mallory.user], [GUEST, scene.mallory.user]):
        error = scene.mallory.refused("call.invite", "badRequest", invitees=invitees)
        assert "invitees" in error["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"type": "ack", "callID": "no-such-call", "revision": 1},
        {"type": "ack", "callID": "no-such-call", "revision": 2**53},
        {"type": "ack", "messageID": "m-1"},
        {"type": "call.heartbeat", "callID": "no-such-call"},
    ],
    ids=["ack", "ack of a huge revision", "ack of a message", "heartbeat"],
)
def test_well_formed_acks_and_heartbeats_are_never_answered(scene: Scene, body: dict[str, Any]) -> None:
    """§2: acks and heartbeats get no response, also for unknown calls."""
    since = scene.mallory.mark
    scene.mallory.send(body)
    scene.mallory.refused("call.get", "callNotFound", callID="probe")
    assert [m.type for m in scene.mallory.messages[since:]] == ["response"]


# Presence

BAD_PRESENCE: list[tuple[str, bytes, str]] = [
    ("nothing", b"", ""),
    ("text", b"online", ""),
    ("not an object", b"true", ""),
    ("no online", of({"session": "s"}), "online"),
    ("online null", of({"online": None}), "online"),
    ("online a string", of({"online": "true"}), "online"),
    ("online a number", of({"online": 1}), "online"),
    ("session a number", of({"online": True, "session": 5}), "session"),
    ("session an array", of({"online": True, "session": []}), "session"),
    ("reason unknown", of({"online": False, "reason": "bored", "session": "s"}), "reason"),
    ("reason a number", of({"online": False, "reason": 5, "session": "s"}), "reason"),
    ("invalid UTF-8", b'{"online":true,"session":"\xff"}', ""),
    ("a lone surrogate", b'{"online":true,"session":"\\ud800"}', ""),
    ("deep", b'{"online":' + b"[" * 1000 + b"]" * 1000 + b"}", ""),
    ("a giant session", of({"online": True, "session": "s" * 30_000}), "session"),
]


@pytest.mark.parametrize(("name", "payload", "field"), BAD_PRESENCE, ids=[name for name, *_ in BAD_PRESENCE])
def test_bad_presence_is_answered_by_an_error(scene: Scene, name: str, payload: bytes, field: str) -> None:
    """§1, §2: on the device topic."""
    since = scene.mallory.mark
    scene.mallory.publish(scene.mallory.presence_topic, payload, bad=True)
    assert mentions(field, scene.mallory.expect_error("badRequest", since)["message"])


def test_bad_presence_leaves_a_device_online(scene: Scene) -> None:
    """§1: seen in the `offline` of an invite."""
    carol = scene.world.phone("carol")
    response = carol.ok("call.invite", invitees=[scene.mallory.user])
    assert response["offline"] == []
    carol.cancel(response["callID"])


# Topics that are not canonical: (name, levels after up/ or presence/)

BAD_LEVELS: list[tuple[str, str]] = [
    ("an encoded letter", "mallory%41/phone"),
    ("an encoded dot", "%2E/phone"),
    ("an encoded blank", "a%20b/phone"),
    ("lower case hex", "a%2fb/phone"),
    ("mixed case hex", "a%2Fb%2b/phone"),
    ("half an escape", "a%2/phone"),
    ("a lone percent", "a%/phone"),
    ("not hex", "a%GG/phone"),
    ("an encoded umlaut", "%C3%BC/phone"),
    ("an encoded U+0085", "%C2%85/phone"),
    ("an encoded invalid byte", "%FF/phone"),
    ("an empty user", "/phone"),
    ("an empty device", "mallory/"),
    ("both empty", "/"),
    ("one level too many", "mallory/phone/x"),
    ("a slash at the end", "mallory/phone/"),
    ("a user of 65 bytes", "x" * 65 + "/phone"),
    ("a user of 66 bytes in 33 letters", "ü" * 33 + "/phone"),
    ("a device of 65 letters", "mallory/" + "d" * 65),
    ("a device with a blank", "mallory/my phone"),
    ("a device with an umlaut", "mallory/händy"),
    ("a device with a percent", "mallory/a%2F"),
    ("a device with a colon", "mallory/a:b"),
]


@pytest.mark.parametrize("kind", ["up", "presence"])
@pytest.mark.parametrize(("name", "levels"), BAD_LEVELS, ids=[name for name, _ in BAD_LEVELS])
def test_a_topic_that_is_not_canonical_is_refused(scene: Scene, kind: str, name: str, levels: str) -> None:
    """§1: two spellings of one user must not exist; the error goes to the same levels under `down`."""
    root = scene.mallory.root
    since = len(scene.world.tap.messages)
    good = (
        {"type": "call.invite", "id": "t1", "invitees": [GUEST]} if kind == "up" else {"online": True, "session": "s"}
    )
    scene.mallory.publish(f"{root}/{kind}/{levels}", of(good), bad=True)
    answer = scene.world.tap.wait(lambda m: m.topic == f"{root}/down/{levels}", 3, f"an error at down/{levels}", since)
    assert (answer.body["type"], answer.body["error"]["code"]) == ("error", "badRequest")


@pytest.mark.parametrize("length", [65_533, 65_534, 65_535])
def test_a_topic_too_long_to_be_mirrored_leaves_nothing_behind(scene: Scene, length: int) -> None:
    """§1: MQTT topics have at most 65,535 bytes, and `down/` is longer than `up/`."""
    root, service = scene.mallory.root, scene.world.service
    levels = "x" * (length - len(f"{root}/up//phone")) + "/phone"
    since = len(scene.world.tap.messages)
    scene.mallory.publish(f"{root}/up/{levels}", of({"type": "call.get", "id": "t1", "callID": "c"}), bad=True)
    scene.world.tap.wait(lambda m: m.topic == f"{root}/up/{levels}", 3, "the message itself", since)
    if length == 65_533:
        scene.world.tap.wait(lambda m: m.topic == f"{root}/down/{levels}", 3, "an error on the mirrored topic", since)
    scene.mallory.refused("call.get", "callNotFound", callID="probe")
    wait_until(lambda: service.metrics()["bellwire_broker_backlog"] == 0, 3, "the broker has everything")


def test_a_topic_with_one_level_is_survived(scene: Scene) -> None:
    """§1: no user, no device, or nothing at all under `up` and `presence`."""
    for kind in ("up", "presence"):
        for levels in ("", "/x", "/"):
            topic = f"{scene.mallory.root}/{kind}{levels}"
            scene.mallory.publish(topic, of({"type": "call.get", "id": "t1", "callID": "c"}), bad=True)
    scene.mallory.refused("call.get", "callNotFound", callID="probe")


@pytest.mark.parametrize("character", ["\u0085", "\ufdd0", "\uffff"])
def test_characters_that_brokers_refuse_do_no_harm(scene: Scene, character: str) -> None:
    """§1: U+0080–U+009F and noncharacters are not allowed since a broker may drop a client over them."""
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2,
        f"raw-{secrets.token_hex(4)}",
        protocol=mqtt.MQTTv5,
        reconnect_on_failure=False,
    )
    client.connect("127.0.0.1", scene.world.broker.port)
    client.loop_start()
    wait_until(client.is_connected, 5, "connected")
    topic = f"{scene.mallory.root}/up/a{character}/phone"
    payload = of({"type": "call.invite", "id": "t1", "invitees": [scene.alice.user]})
    scene.world.tap.deliberately_bad.add((topic, payload))
    client.publish(topic, payload, qos=0)
    client.publish(topic, payload, qos=1)
    scene.mallory.refused("call.get", "callNotFound", callID="probe")
    client.disconnect()
    stop_loop(client)


# In the end


def test_nobody_else_was_touched(scene: Scene) -> None:
    """The bystanders' call is what it was, they heard nothing, and the coordinator never stopped."""
    assert scene.alice.get(scene.call) == scene.before
    for device, since in zip((scene.alice, scene.bob), scene.quiet_since):
        assert [m.type for m in device.messages[since:] if m.type != "response"] == []
    assert scene.world.service.pid == scene.pid
    assert scene.world.service.status("/readyz") == 200


def test_a_normal_call_still_works(scene: Scene) -> None:
    """Also for the one who sent all that."""
    carol = scene.world.phone("carol")
    call = scene.mallory.invite(carol)
    carol.expect("call.invited", call)
    carol.accept(call)
    assert scene.mallory.expect_change(call, carol, "accepted")["call"]["endReason"] == "answered"


def test_retained_messages_are_dropped(deploy: Deploy) -> None:
    """§1: never retained; a broker that keeps one hands a stale copy to every coordinator that subscribes."""
    world = deploy(store="memory:")
    alice, bob = world.phones("alice", "bob")
    world.service.kill()
    stale = of({"type": "call.invite", "id": "stale", "invitees": [bob.user], "callID": call_id()})
    gone = of({"online": False, "reason": "logout", "session": alice.session})
    try:
        alice.publish(alice.up, stale, bad=True, retain=True, wait=True)
        bob.publish(bob.presence_topic, gone, bad=True, retain=True, wait=True)
        with alice.silent(0.5), bob.silent(0.5):
            world.service.start()
        alice.refused("call.get", "callNotFound", callID=json.loads(stale)["callID"])
    finally:
        for device, topic in ((alice, alice.up), (bob, bob.presence_topic)):
            device.publish(topic, b"", bad=True, retain=True, wait=True)
        world.close()
