"""The harness spells topics as the protocol says (§1, Identity): the tests stand on this."""

from __future__ import annotations

import pytest

from harness import decode_level, encode_user


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
def test_a_user_is_spelled_as_one_level_and_read_again(raw: str, level: str) -> None:
    assert encode_user(raw) == level
    assert decode_level(level) == raw
