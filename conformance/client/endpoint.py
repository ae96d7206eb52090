"""A device of a user as the protocol defines devices: topics, sessions, message formats, acks and revisions. This
module does no I/O and never waits."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass
from typing import Any

from .topics import encode_user

BACKOFF = (1, 2, 4, 8)
"""The seconds after which a message without an answer is sent again (sections 1 and 2)."""

_CROSSING = 0.9
"""The seconds within which the service answers an ack that crossed an event; less than the time until the first
resend."""


@dataclass(frozen=True)
class Will:
    """The message that the broker publishes when the broker loses the connection."""

    topic: str
    payload: bytes


@dataclass(frozen=True)
class _Ack:
    call: str
    revision: int
    at: float
    """Monotonic time in seconds."""


class Endpoint:
    """The behaviour that all clients of the suite and of the tests share, whether blocking or driven by an event
    loop."""

    def __init__(self, root: str, user: str, device: str, level: str | None = None) -> None:
        """`root`: the root of all topics. `level`: the user's topic level where the level differs from the canonical
        level."""
        self.root, self.user, self.device = root, user, device
        self.level = encode_user(user) if level is None else level
        self.client_id = f"{self.level}/{device}"
        self.up = f"{root}/up/{self.client_id}"
        self.presence_topic = f"{root}/presence/{self.client_id}"
        self.user_topic = f"{root}/down/{self.level}"
        self.device_topic = f"{root}/down/{self.client_id}"
        self.down = (self.user_topic, self.device_topic)
        self.session = ""
        self._highest: dict[str, int] = {}
        """By call, the highest revision that the device received in this session."""
        self._acks: list[_Ack] = []

    def __repr__(self) -> str:
        return f"{self.user}/{self.device}"

    # Presence

    def begin_session(self, session: str | None = None) -> Will:
        """Begins a new session, in which the device knows no call. Returns the will, which says that this session is
        lost."""
        self.session = session or secrets.token_hex(8)
        self._highest.clear()
        return Will(self.presence_topic, self.presence(False, "lost"))

    def presence(self, online: bool, reason: str | None = None, session: str | None = None) -> bytes:
        """Returns a presence message, of its own session or of another session."""
        body = {"online": online, "reason": reason, "session": self.session if session is None else session}
        return encode(without_none(body))

    # Events

    def note_revision(self, body: dict[str, Any]) -> bool:
        """Records the highest revision of an event or response. Returns whether an event is above that revision
        (section 5)."""
        call, revision = body.get("callID"), body.get("revision")
        if body.get("type") not in ("event", "response") or not isinstance(call, str) or not isinstance(revision, int):
            return False
        highest = self._highest.get(call, 0)
        self._highest[call] = max(highest, revision)
        return body["type"] == "event" and revision > highest

    def note_ack(self, ack: dict[str, Any]) -> None:
        """Records an ack of an event that this device sends now."""
        if isinstance(call := ack.get("callID"), str) and isinstance(revision := ack.get("revision"), int):
            self._acks.append(_Ack(call, revision, time.monotonic()))

    def answers_ack(self, body: dict[str, Any]) -> bool:
        """Whether an event came because an ack of this device had crossed a newer revision: the service answers such an
        ack at once with the events that the device lacks (section 5). Each ack has one such answer, and soon: resends
        do not count."""
        now = time.monotonic()
        self._acks = [ack for ack in self._acks if ack.at > now - _CROSSING]
        for ack in self._acks:
            if body.get("type") == "event" and ack.call == body.get("callID") and ack.revision < body.get("revision", 0):
                self._acks.remove(ack)
                return True
        return False


def ack_of(body: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the ack that a message needs, if any."""
    match body.get("type"):
        case "event":
            return {"type": "ack", "callID": body.get("callID"), "revision": body.get("revision")}
        case "message":
            return {"type": "ack", "messageID": body.get("messageID")}
    return None


def encode(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
