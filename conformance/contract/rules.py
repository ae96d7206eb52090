"""Rules that JSON Schema cannot express: how messages relate to their topic, to each other and to a device's
requests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from ..client import Device, Message
from .schema import Schemas

DOWN_BYTES = 256 * 1024
_PENDING = {"inviting", "notYetReceived", "received"}
_LIVE = _PENDING | {"accepted"}
_CALL_STATES = ["ringing", "active", "ended"]
_ANSWERS = {"accepted", "rejected", "cancelled", "timeout"}
_MOVES = {
    "inviting": _ANSWERS | {"notYetReceived", "received"},
    "notYetReceived": _ANSWERS | {"received"},
    "received": _ANSWERS,
    "accepted": {"quit"},
    # A member who left may be invited again, or join.
    **dict.fromkeys(("rejected", "cancelled", "timeout", "quit"), {"inviting", "accepted"}),
}
"""The states that may follow a state in the next revision (section 3)."""
_USER_TOPIC = {"call.invited", "call.userStateChanged", "call.cancelled", "call.timeout", "call.ended"}
"""Events that may come on `down/{user}`; all other messages come on the device's own topic (sections 1 and 5)."""


class Judge:
    """Checks all messages that the devices of a test received:

    * each message meets the schemas, has at most 256 KiB and is not retained (section 1);
    * a message for a single device came on the topic of that device (sections 1 and 5);
    * a response answers a request of that device; there are no more responses than copies of the request (section 2);
    * a response about a call is not older than the revision that the device had before its request (section 2);
    * callID and revision of a message are those of its call; a revision is the same in all messages (section 4);
    * a later revision has no earlier time, and never an earlier state of the call; an ended call does not change; from
      one revision to the next, members move only as the states of section 3 allow;
    * an event is about a call of the addressed user and agrees with the user's state there, and the call contains its
      changes (section 5).
    """

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._revisions: dict[str, dict[int, tuple[str, dict[str, Any], int | None]]] = {}
        """By call and revision: the call as text, the call, and the time of the revision where a message tells the
        time."""

    def violations(self, devices: Iterable[Device]) -> list[str]:
        found = []
        for device in devices:
            for message in device.messages:
                found += [f"{device}: {problem}: {_cut(message.raw)}" for problem in self._message(device, message)]
            found += [f"{device}: {problem}" for problem in self._responses(device)]
        return found + list(self._histories())

    def _message(self, device: Device, message: Message) -> Iterator[str]:
        if message.retained:
            yield "a retained message"
        if len(message.raw) > DOWN_BYTES:
            yield f"a message of {len(message.raw)} bytes"
        if violation := self._schemas.violation(message.raw):
            yield f"breaks the schema at {violation}"
            return
        shared = message.type == "message" or (message.type == "event" and message["event"] in _USER_TOPIC)
        own = message.topic == device.device_topic or (
            message.type == "response" and message.topic.startswith(device.device_topic + "/")
        )
        if not own and not shared:
            yield f"came on {message.topic}"
        if call := message.get("call"):
            if (message["callID"], message["revision"]) != (call["callID"], call["revision"]):
                yield "its call has another callID or revision"
            # An event that omits extended data is not compared; messages with the whole call are.
            if not message.get("extendedDataOmitted"):
                yield from self._revision(call, message["time"])
        for listed in message.get("calls") or []:
            yield from self._revision(listed, None)
        if message.type == "event":
            yield from event_problems(device.user, message.body)

    def _revision(self, call: dict[str, Any], time: int | None) -> Iterator[str]:
        """Records a revision of a call, with its time where a message tells the time. Yields differences from earlier
        messages."""
        revisions = self._revisions.setdefault(call["callID"], {})
        text, _, known = revisions.get(call["revision"], (call_text(call), call, None))
        if text != call_text(call):
            yield f"the same revision looked otherwise before: {text}"
        if None not in (known, time) and known != time:
            yield f"the same revision had another time before: {known}"
        revisions[call["revision"]] = (text, call, time if known is None else known)

    def _responses(self, device: Device) -> Iterator[str]:
        had: dict[str, list[tuple[int, Message]]] = {}
        for position, message in enumerate(device.messages):
            if message.type == "response":
                had.setdefault(message["id"], []).append((position, message))
        firsts = []
        for request, responses in had.items():
            asked = device.asked.get(request, [])
            if len(responses) > len(asked):
                yield f"{len(responses)} responses to the request {request}, which was sent {len(asked)} times"
            else:
                firsts.append((asked[0], request, responses[0][1]))
        yield from self._stale(device, firsts)

    def _stale(self, device: Device, firsts: list[tuple[int, str, Message]]) -> Iterator[str]:
        """Checks the first response to each request, with the number of messages before the request: the test cannot
        know which of several responses answers which copy of a request."""
        newest: dict[str, int] = {}
        """The newest revision in the messages before a request, by call."""
        seen = 0
        for asked, request, response in sorted(firsts, key=lambda first: first[0]):
            for message in device.messages[seen:asked]:
                call, revision = message.get("callID"), message.get("revision")
                if call and revision:
                    newest[call] = max(revision, newest.get(call, 0))
            seen = max(seen, asked)
            revision, before = response.get("revision"), newest.get(response.get("callID") or "", 0)
            if revision is not None and revision < before:
                yield f"the response to {request} has revision {revision}, after the device had {before}"

    def _histories(self) -> Iterator[str]:
        for call, revisions in self._revisions.items():
            known = sorted(revisions.items())
            for (lower, (_, earlier, then)), (higher, (_, later, now)) in zip(known, known[1:]):
                if _CALL_STATES.index(earlier["state"]) > _CALL_STATES.index(later["state"]):
                    yield f"{call} was {earlier['state']} at revision {lower} and {later['state']} at {higher}"
                if earlier["state"] == "ended":
                    yield f"{call} had ended at revision {lower} and has a revision {higher}"
                if then is not None and now is not None and then > now:
                    yield f"the time of {call} went back from revision {lower} to {higher}"
                if higher == lower + 1:
                    yield from (f"{call}, revision {higher}: {move}" for move in _wrong_moves(earlier, later))


def event_problems(user: str | None, event: dict[str, Any]) -> Iterator[str]:
    """Yields the problems of an event for this user: the event must be about a call of the user and agree with the
    user's state there, and the call must contain its changes (section 5)."""
    call, name = event["call"], event["event"]
    members = {entry["userID"]: entry["state"] for entry in call["members"]}
    if user not in members:
        yield f"an event for {user}, who is no member"
        return
    state = members[user]
    fits = {
        "call.created": user == call["inviter"],
        "call.invited": state in _PENDING and call["state"] != "ended",
        "call.userStateChanged": state in _LIVE or state == "quit",
        "call.cancelled": state == "cancelled",
        "call.timeout": state == "timeout",
        "call.ended": call["state"] == "ended" and call["mode"] == "advanced",
        "call.handledElsewhere": state not in _PENDING,
    }
    if not fits[name]:
        yield f"{name} for a member who is {state} in a call that is {call['state']}"
    for entry in event.get("changes") or []:
        if members.get(entry["userID"]) != entry["state"]:
            yield f"the change of {entry['userID']} is not in the call"


def call_text(call: dict[str, Any]) -> str:
    """Returns a text that is equal for equal calls: null stands for absent."""
    return json.dumps(_without_nulls(call), sort_keys=True, ensure_ascii=False)


def _wrong_moves(earlier: dict[str, Any], later: dict[str, Any]) -> Iterator[str]:
    before = {entry["userID"]: entry["state"] for entry in earlier["members"]}
    for entry in later["members"]:
        state = before.get(entry["userID"], entry["state"])
        if entry["state"] != state and entry["state"] not in _MOVES[state]:
            yield f"{entry['userID']} went from {state} to {entry['state']}"
    after = {entry["userID"] for entry in later["members"]}
    yield from (f"{user} is no member any more" for user in before if user not in after)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _cut(raw: bytes) -> str:
    text = raw.decode(errors="replace")
    return text if len(text) <= 600 else text[:600] + "…"
