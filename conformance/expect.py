"""The assertions of tests: each failure names the checked value, the expected value and the received value."""

from __future__ import annotations

import json
import re
from typing import Any


class Mismatch(AssertionError):
    """The service did not behave as the protocol says."""


def equal(what: str, got: Any, expected: Any) -> None:
    """Asserts that two values are equal and have the same JSON type: `true` is not 1."""
    if got != expected or isinstance(got, bool) != isinstance(expected, bool):
        raise Mismatch(f"{what}: expected {_text(expected)}, got {_text(got)}")


def differs(what: str, got: Any, other: Any) -> None:
    if got == other:
        raise Mismatch(f"{what}: expected any value but {_text(other)}")


def true(what: str, holds: bool, got: Any = None) -> None:
    if not holds:
        raise Mismatch(f"expected: {what}" + ("" if got is None else f"; got {_text(got)}"))


def between(what: str, got: Any, low: float, high: float) -> None:
    if not isinstance(got, (int, float)) or isinstance(got, bool) or not low <= got <= high:
        raise Mismatch(f"{what}: expected {low:g} to {high:g}, got {_text(got)}")


def fields(what: str, got: dict[str, Any], **expected: Any) -> None:
    """Asserts that the named fields have these values; None stands for null or absent."""
    wrong = {name: got.get(name) for name, value in expected.items() if got.get(name) != value}
    if wrong:
        raise Mismatch(f"{what}: expected {_text({name: expected[name] for name in wrong})}, got {_text(wrong)}")


def names(what: str, message: str, field: str) -> None:
    """Asserts that an error message names a field, as a word of its own."""
    if not re.search(rf"\b{re.escape(field)}\b", message):
        raise Mismatch(f"{what}: expected the message to name {field}, got {_text(message)}")


def member(call: dict[str, Any], user: Any) -> dict[str, Any]:
    """Returns the entry of a user, or of a device's user, in a call object."""
    return _only(call["members"], user, "members")


def change(message: Any, user: Any) -> dict[str, Any]:
    """Returns the entry of a user, or of a device's user, in an event's changes."""
    return _only(message["changes"], user, "changes")


def states(call: dict[str, Any]) -> list[str]:
    """Returns the members' states, in the call's order."""
    return [entry["state"] for entry in call["members"]]


def errors(response: dict[str, Any]) -> dict[str, str]:
    """Returns the error code of each user for whom an otherwise successful request failed."""
    return {entry["userID"]: entry["code"] for entry in response.get("errors") or []}


def _only(entries: list[dict[str, Any]], user: Any, what: str) -> dict[str, Any]:
    name = getattr(user, "user", user)
    found = [entry for entry in entries if entry["userID"] == name]
    if len(found) != 1:
        raise Mismatch(f"expected {name} once among the {what}, got {_text(entries)}")
    return found[0]


def _text(value: Any) -> str:
    if isinstance(value, (bytes, set, frozenset)):
        return repr(value)
    try:
        return json.dumps(value, ensure_ascii=False)
    except TypeError:
        return repr(value)
