"""Rules for all traffic of a broker, whatever the subject of a test."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from conformance.client import decode_level
from conformance.contract.rules import DOWN_BYTES, call_text, event_problems

from .contract import Contract
from .tap import Tap, Tapped

MISSED_SECONDS = 10
"""For how long after a start of the broker a response may answer a request that was sent before the tap had subscribed."""


class Ledger:
    """Judges each message against the schemas, and against rules that tie messages together:

    * a response answers a request of the same device, at most once for each time that the request was sent (§2), and
      comes on the topic of that device, or a level below it when the request named that level as its Response Topic
      (§1, Backends);
    * two messages that carry the same revision of a call carry the same call (§4), also across a crash;
    * an event is about a call of the addressed user, and agrees with the state of that user in the call (§5);
    * a signal comes from another device, and each signal and receipt goes to a single device (§2);
    * all copies of a peer message are equal, and so are all copies of a receipt (§2);
    * no message is retained (§1).
    """

    def __init__(self, contract: Contract, tap: Tap) -> None:
        self._contract = contract
        self._tap = tap
        self._unanswered: Counter[tuple[str, str]] = Counter()
        self._calls: dict[tuple[str, int], str] = {}
        self._copies: dict[tuple[str, ...], bytes] = {}

    def judge(self, message: Tapped) -> Iterator[str]:
        """Yields each problem as a line, with the message."""
        for problem in self._problems(message):
            yield f"{problem}\n    {message.topic} {message.raw[:2000].decode(errors='replace')}"

    def _problems(self, message: Tapped) -> Iterator[str]:
        if message.kind == "down":
            yield from self._down(message)
        elif message.kind:
            if isinstance(identity := message.body.get("id"), str):
                self._unanswered[_answered_on(message), identity] += 1
            if (message.topic, message.raw) not in self._tap.deliberately_bad and not self._tap.is_mistaken(message):
                yield from self._up(message)

    def _up(self, message: Tapped) -> Iterator[str]:
        if message.retain:
            yield "retained"
        if len(message.levels) != 2 or decode_level(message.levels[0]) is None:
            yield "the topic is not canonical"
        schema = "UpMessage" if message.kind == "up" else "PresenceMessage"
        if problem := self._contract.violation(schema, message.body):
            yield problem

    def _down(self, message: Tapped) -> Iterator[str]:
        body = message.body
        if message.retain:
            yield "retained"
        if len(message.raw) > DOWN_BYTES:
            yield f"{len(message.raw)} bytes"
        if problem := self._contract.violation("DownMessage", body):
            yield problem
            return
        if call := body.get("call"):
            yield from self._call(body, call)
        match body["type"]:
            case "response":
                key = ("/".join(message.levels), body["id"])
                self._unanswered[key] -= 1
                if self._unanswered[key] < 0:
                    self._unanswered[key] = 0
                    if not any(0 <= message.at - back < MISSED_SECONDS for back in self._tap.returns):
                        yield "a response to no request of this device"
            case "event":
                yield from self._event(message, body)
            case "signal" if decode_level(message.levels[0]) == body["from"]:
                yield "a signal to its own sender"
            case "message":
                # The id may name another message when the service no longer remembers this message.
                yield from self._copy(message, message.levels[0], str(body["time"]))
            case "receipt":
                yield from self._copy(message, *message.levels, body["to"])
        if body["type"] in ("signal", "receipt", "response", "error", "welcome") and len(message.levels) < 2:
            yield f"a {body['type']} to all devices of a user"
        # An error has the topic of the message that the error answers, which may be no device's topic (§1).
        if body["type"] not in ("response", "error") and len(message.levels) > 2:
            yield f"a {body['type']} below a device's topic"

    def _copy(self, message: Tapped, *names: str) -> Iterator[str]:
        known = self._copies.setdefault((message.body["messageID"], *names), message.raw)
        if known != message.raw:
            yield f"another copy of it looked otherwise: {known[:2000].decode(errors='replace')}"

    def _call(self, body: dict[str, Any], call: dict[str, Any]) -> Iterator[str]:
        # An answer to a ring check is about an invitation, and names a call only in `call` (§7).
        if "ringing" not in body and (body["callID"], body["revision"]) != (call["callID"], call["revision"]):
            yield "the call is another than the message's, or at another revision"
        if body.get("extendedDataOmitted"):
            # The left-out data are compared in the message that has them.
            return
        text = call_text(call)
        known = self._calls.setdefault((call["callID"], call["revision"]), text)
        if known != text:
            yield f"the same revision looked otherwise before: {known}"

    def _event(self, message: Tapped, body: dict[str, Any]) -> Iterator[str]:
        yield from event_problems(decode_level(message.levels[0]), body)
        if body["event"] == "call.invited" and not 0 < body["expiresIn"] <= 600_000:
            yield "expiresIn is out of range"
        if body["event"] == "call.userStateChanged" and not body["changes"]:
            yield "no changes"


def _answered_on(message: Tapped) -> str:
    """The levels after `down/` on which a request is answered. Another Response Topic than a level below the device's
    own topic does not count: the service does not answer on topics where other devices listen."""
    own = "/".join(message.levels)
    wanted = message.topic.removesuffix(f"{message.kind}/{own}") + f"down/{own}/"
    named = message.response_topic or ""
    level = named.removeprefix(wanted)
    return f"{own}/{level}" if named.startswith(wanted) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", level) else own
