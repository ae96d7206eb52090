"""A received message, and the journal of all messages that the devices of a test sent and received."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, Literal

from ..expect import Mismatch


@dataclass(frozen=True)
class Message:
    """A message from the service."""

    topic: str
    body: dict[str, Any]
    """The message as a JSON object; empty when the payload is not a JSON object, which breaks the contract."""
    raw: bytes
    at: float
    """Monotonic time in seconds."""
    wall: float
    """Milliseconds since the epoch, like the service's times."""
    fresh: bool
    """False for a stale event: its revision is not above the highest that this device had of the call (section 5)."""
    crossed: bool
    """Whether the event was sent again because an ack of this device had crossed the event."""
    correlation: bytes | None
    """MQTT 5 Correlation Data."""
    expiry: int | None
    """MQTT 5 Message Expiry Interval, in seconds."""
    retained: bool

    @property
    def type(self) -> str:
        return self.body.get("type", "")

    @property
    def event(self) -> str:
        return self.body.get("event", "")

    def is_event(self, event: str | None = None, call: str | None = None) -> bool:
        return (
            self.type == "event" and event in (None, self.body.get("event")) and call in (None, self.body.get("callID"))
        )

    def is_at(self, call: str, revision: int) -> bool:
        return self.is_event(None, call) and self.body.get("revision") == revision

    def __getitem__(self, key: str) -> Any:
        if key not in self.body:
            raise Mismatch(f"a message without {key}: {_cut(self.raw.decode(errors='replace'), 300)}")
        return self.body[key]

    def get(self, key: str) -> Any:
        return self.body.get(key)

    def carries(self, data: bytes) -> bool:
        """Whether the message contains `data` byte for byte, as the value of a field `data`."""
        return any(b'"data":' + data + end in self.raw for end in (b",", b"}"))


@dataclass(frozen=True)
class Entry:
    at: float
    device: str
    direction: Literal["→", "←", "·"]
    """To the service, from the service, or a change of the connection."""
    topic: str
    text: str


class Journal:
    """The messages of all devices of a test in the order of time, to explain a failure."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._entries: list[Entry] = []
        self._lock = threading.Lock()

    def note(self, device: str, direction: Literal["→", "←", "·"], topic: str, payload: bytes | str) -> None:
        text = payload if isinstance(payload, str) else payload.decode(errors="replace")
        with self._lock:
            self._entries.append(Entry(time.monotonic(), device, direction, topic, text))

    def lines(self, width: int) -> list[str]:
        """Returns a line per entry: seconds since the test began, device, direction, topic, and the beginning of the
        payload."""
        with self._lock:
            entries = list(self._entries)
        name = max((len(entry.device) for entry in entries), default=0)
        return [
            f"{e.at - self._began:+8.3f} {e.device:{name}} {e.direction} {e.topic} {_cut(e.text, width)}"
            for e in entries
        ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[:width]}… ({len(text)} characters)"
