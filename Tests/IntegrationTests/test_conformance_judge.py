"""The judgement that the conformance suite makes of all messages of a test (conformance/contract/rules.py)."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from conformance.client.message import Message
from conformance.contract.rules import Judge
from conformance.contract.schema import Schemas
from harness import PROJECT

TOPIC = "bellwire/v1/down/alice/phone"
SCHEMAS = Schemas(PROJECT / "docs/asyncapi.yaml")


def message(**body: Any) -> Message:
    raw = json.dumps(body).encode()
    return Message(TOPIC, body, raw, at=0, wall=0, fresh=True, crossed=False, correlation=None, expiry=None, retained=False)


def problems(messages: list[Message], asked: dict[str, list[int]]) -> list[str]:
    """The judge's findings in the responses of a device that sent requests after so many messages."""
    device: Any = SimpleNamespace(messages=messages, asked=asked)
    return list(Judge(SCHEMAS)._responses(device))


def response(number: int, revision: int, call: str = "c") -> Message:
    return message(type="response", id=f"r{number}", callID=call, revision=revision)


@pytest.mark.parametrize(("position", "is_stale"), [(0, False), (1, False), (2, True)])
def test_a_response_that_is_older_than_what_the_device_had_before_its_request_is_found(position: int, is_stale: bool) -> None:
    """The device has revision 1 and then 2, and a response with revision 1 to a request that was sent in between."""
    messages = [response(1, 1), response(2, 2), response(3, 1)]
    found = problems(messages, {"r1": [0], "r2": [0], "r3": [position]})
    assert found == (["the response to r3 has revision 1, after the device had 2"] if is_stale else [])


def test_revisions_of_other_calls_do_not_count() -> None:
    assert problems([response(1, 5, "other"), response(2, 1)], {"r1": [0], "r2": [1]}) == []


@pytest.mark.timeout(20)
def test_thousands_of_requests_are_judged_in_a_moment() -> None:
    """The time grows with the number of messages, and not with its square."""
    count = 20_000
    messages = [response(number, 1, f"c{number}") for number in range(count)]
    assert problems(messages, {f"r{number}": [number] for number in range(count)}) == []
