"""User ids of any script and any character (§1, Identity)."""

from __future__ import annotations

import json
import secrets
import unicodedata

import pytest

from harness import World, decode_level, encode_user, member, ring

UNIQUE = secrets.token_hex(4)


def unique(name: str) -> str:
    """Different in each run of the suite, yet at most 64 bytes."""
    return f"{name}{UNIQUE}"


NAMES: list[tuple[str, str]] = [
    ("emoji", "😀👩‍👩‍👧"),
    ("Arabic", "أليس"),
    ("Chinese", "王小明"),
    ("Hindi", "आलिस"),
    ("combining", "Z̃͑ä̈lgo"),
    ("a percent sign", "100%"),
    ("what looks like an escape", "%41"),
    ("a plus sign", "a+b"),
    ("a slash", "a/b"),
    ("slashes alone", "//"),
    ("a hash", "a#b"),
    ("all four", "%+/#"),
    ("blanks", " a b "),
    ("a quotation mark", 'a"b'),
    ("a backslash", "a\\b"),
    ("a NUL", "a\u0000b"),
    ("a line feed", "a\nb"),
    ("a tab", "a\tb"),
    ("an escape character", "\u001b[31m"),
    ("a delete", "a\u007fb"),
    ("a dollar", "$SYS"),
    ("a dot", ".."),
    ("an at", "alice@example.com"),
    ("a JSON object", '{"type":"x"}'),
    ("U+00A0", "a\u00a0b"),
    ("a direction mark", "a\u202eb"),
    ("a zero width joiner", "a\u200db"),
    ("U+FFFD", "a\ufffdb"),
    ("the highest character", "a\U0010fffdb"),
    ("private use", "a\ue000b"),
    ("a line separator", "a\u2028b"),
]


@pytest.mark.parametrize(
    ("raw", "level"),
    [
        ("alice", "alice"),
        ("a/b", "a%2Fb"),
        ("100%", "100%25"),
        ("a+b#c", "a%2Bb%23c"),
        ("\u0000\u001f\u007f", "%00%1F%7F"),
        ("ü😀 $", "ü😀 $"),
        ("%41", "%2541"),
    ],
)
def test_the_harness_spells_topics_as_the_protocol_says(raw: str, level: str) -> None:
    """§1: the tests stand on this."""
    assert encode_user(raw) == level
    assert decode_level(level) == raw


@pytest.mark.parametrize("name", [name for _, name in NAMES], ids=[label for label, _ in NAMES])
def test_any_name_can_call_and_be_called(world: World, name: str) -> None:
    """§1: percent-encoded in topics, as it is in JSON."""
    alice = world.device(unique("A" + name))
    bob = world.device(unique("B" + name))
    call = ring(alice, bob)
    invited = bob.expect("call.invited", call)
    assert (invited["call"]["inviter"], invited["actor"]) == (alice.user, alice.user)
    bob.accept(call)
    told = alice.expect_change(call, bob, "accepted")
    assert [m["userID"] for m in told["call"]["members"]] == [alice.user, bob.user]
    back = ring(bob, alice)
    bob.cancel(back)
    alice.expect("call.cancelled", back)


def test_nfc_and_nfd_are_two_users(world: World) -> None:
    """§1: ids are compared as bytes, no normalisation."""
    name = unique("Zoë-é-각")
    composed, decomposed = unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)
    assert composed != decomposed
    alice = world.phone("alice")
    nfc, nfd = world.device(composed), world.device(decomposed)
    with nfd.silent(0.4):
        call = ring(alice, nfc)
        nfd.refused("call.accept", "callNotFound", callID=call)
    both = alice.ok("call.invite", invitees=[composed, decomposed])
    assert both["offline"] == []
    assert [m["userID"] for m in both["call"]["members"]] == [alice.user, composed, decomposed]
    nfd.accept(both["callID"])
    got = alice.get(both["callID"])
    assert (member(got, decomposed)["state"], member(got, composed)["state"] != "accepted") == ("accepted", True)
    # The two may call each other.
    ring(nfc, nfd)


def test_upper_and_lower_case_are_two_users(world: World) -> None:
    """§1: compared as bytes."""
    alice = world.phone("alice")
    name = unique("straße-ı")
    lower, upper = world.device(name), world.device(name.upper())
    with upper.silent(0.4):
        ring(alice, lower)


@pytest.mark.parametrize(
    ("unit", "count"),
    [("x", 64), ("ü", 32), ("€", 21), ("😀", 16), ("%", 64), ("\u0001", 64)],
    ids=["ASCII", "two bytes", "three bytes", "four bytes", "percent signs", "control characters"],
)
def test_64_bytes_are_allowed_and_65_are_not(world: World, unit: str, count: int) -> None:
    """§1: 1–64 bytes of UTF-8, however long the encoded topic becomes."""
    tail = UNIQUE[: 64 - len((unit * count).encode())] if len((unit * count).encode()) < 64 else ""
    user = unit * count + tail
    alice, bob = world.phone("alice"), world.device(user)
    call = ring(alice, bob)
    bob.accept(call)
    assert alice.expect_change(call, user, "accepted")["actor"] == user
    too_long = user + "x" * (65 - len(user.encode()))
    error = alice.refused("call.invite", "badRequest", invitees=[too_long], bad=True)
    assert "invitees" in error["message"]


@pytest.mark.parametrize(
    "character",
    ["\u0080", "\u0085", "\u009f", "\ufdd0", "\ufdef", "\ufffe", "\uffff", "\U0001ffff", "\U0010ffff"],
    ids=lambda c: f"U+{ord(c):04X}",
)
def test_characters_that_brokers_refuse_are_no_names(world: World, character: str) -> None:
    """§1: U+0080–U+009F and noncharacters; the request fails as a whole, nobody rings."""
    alice, bob = world.phones("alice", "bob")
    with bob.silent(0.1):
        error = alice.refused("call.invite", "badRequest", invitees=[bob.user, f"x{character}"], bad=True)
    assert "invitees" in error["message"]


def test_names_may_be_escaped_in_json(world: World) -> None:
    """§1: how a client spells its JSON does not make another user."""
    alice, bob = world.phone("alice"), world.device(unique("bób/😀"))
    escaped = json.dumps(bob.user, ensure_ascii=True).replace("/", "\\/")
    assert "\\ud83d\\ude00" in escaped and "\\/" in escaped
    since = bob.mark
    alice.send(f'{{"type":"call.invite","id":"e1","invitees":[{escaped}]}}'.encode())
    invited = bob.expect("call.invited", since=since)
    assert member(invited["call"], bob)["state"] == "inviting"


@pytest.mark.parametrize("device", ["a", "A.b_c~d-9", "x" * 64])
def test_device_ids_of_all_allowed_characters(world: World, device: str) -> None:
    """§1: 1–64 of `A-Z a-z 0-9 . _ ~ -`."""
    alice = world.phone("alice")
    bob = world.phone("bob", device)
    call = ring(alice, bob)
    assert member(bob.accept(call)["call"], bob)["device"] == device


@pytest.mark.parametrize(
    "call", ["-", "_", "A-z_09" + UNIQUE, "c" * 56 + UNIQUE], ids=["dash", "underscore", "mixed", "64 long"]
)
def test_call_ids_of_all_allowed_characters(world: World, call: str) -> None:
    """§1: 1–64 of `A-Z a-z 0-9 _ -`."""
    alice, bob = world.phones("alice", "bob")
    assert alice.invite(bob, callID=call) == call
    bob.expect("call.invited", call)
    alice.cancel(call)
