"""What a device received, and the journal of everything that the devices of one test sent and received."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, Literal

from ..expect import Mismatch


@dataclass(frozen=True)
class Message:
    """One message from the service."""

    topic: str
    body: dict[str, Any]
    """Empty when the payload is not a JSON object, which breaks the contract."""
    raw: bytes
    at: float
    """Monotonic seconds."""
    wall: float
    """Milliseconds since the epoch, as the service's times."""
    fresh: bool
    """False for an event whose revision is not above the highest that this device had of the call (section 5)."""
    crossed: bool
    """An event that came again because an ack of this device had crossed it."""
    correlation: bytes | None
    """MQTT 5 Correlation Data."""
    expiry: int | None
    """MQTT 5 Message Expiry Interval, seconds."""
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
        """Whether `data` stands in it byte for byte, as the value of a field of that name."""
        return any(b'"data":' + data + end in self.raw for end in (b",", b"}"))


@dataclass(frozen=True)
class Entry:
    at: float
    device: str
    direction: Literal["→", "←", "·"]
    """To the service, from it, or what became of the connection."""
    topic: str
    text: str


class Journal:
    """The devices of one test, in one order: what a failure is explained with."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._entries: list[Entry] = []
        self._lock = threading.Lock()

    def note(self, device: str, direction: Literal["→", "←", "·"], topic: str, payload: bytes | str) -> None:
        text = payload if isinstance(payload, str) else payload.decode(errors="replace")
        with self._lock:
            self._entries.append(Entry(time.monotonic(), device, direction, topic, text))

    def lines(self, width: int) -> list[str]:
        """One line per entry: seconds since the test began, device, direction, topic, the payload's beginning."""
        with self._lock:
            entries = list(self._entries)
        name = max((len(entry.device) for entry in entries), default=0)
        return [
            f"{e.at - self._began:+8.3f} {e.device:{name}} {e.direction} {e.topic} {_cut(e.text, width)}"
            for e in entries
        ]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[:width]}… ({len(text)} characters)"
