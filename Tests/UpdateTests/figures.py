"""A history's figures about requests: the waiting times of devices, and the answers."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_LATE_MS = 1000
"""A request without an answer is sent again after this time: the service did not answer the first copy."""


@dataclass
class _Sent:
    """A request, from its first copy on."""

    type: str
    at: int
    is_disturbed: bool = False
    """The device or the broker was away before the answer came."""
    is_answered: bool = False


@dataclass
class Figures:
    """Counts of a run."""

    requests: int = 0
    refusals: Counter[str] = field(default_factory=Counter)
    """Responses by error code; each response counts."""
    slowest: dict[str, int] = field(default_factory=dict)
    """Milliseconds from the first copy to the answer, of the slowest request while device and broker were there and of the slowest
    other."""
    late: list[str] = field(default_factory=list)
    """Requests that were answered late, although device and broker were there."""
    unanswered: list[str] = field(default_factory=list)

    @staticmethod
    def read(history: Path) -> Figures:
        figures = Figures()
        reader = _Reader(figures)
        with history.open() as lines:
            for line in lines:
                reader.take(json.loads(line))
        figures.requests = len(reader.sent)
        figures.unanswered = [
            f"{device}: {request.type} {identity}"
            for (device, identity), request in reader.sent.items()
            if not request.is_answered
        ]
        return figures

    @property
    def problems(self) -> list[str]:
        failures = [f"{self.refusals[code]} responses {code}" for code in ("unavailable", "internal") if self.refusals[code]]
        return failures + [f"no answer: {request}" for request in self.unanswered] + self.late


class _Reader:
    def __init__(self, figures: Figures) -> None:
        self.sent: dict[tuple[str, str], _Sent] = {}
        self._open: dict[str, set[str]] = {}
        """The ids of each device's requests that have no answer yet."""
        self._figures = figures
        self._is_broker_away = False

    def take(self, entry: dict[str, Any]) -> None:
        match entry["kind"]:
            case "faultBegan" if entry["target"] == "broker":
                self._is_broker_away = True
                for device in self._open:
                    self._disturb(device)
            case "faultEnded" if entry["target"] == "broker":
                self._is_broker_away = False
            case "disconnected":
                self._disturb(entry["device"])
            case "sent":
                self._take_request(entry["device"], entry["at"], json.loads(entry["payload"]))
            case "received":
                self._take_message(entry["device"], entry["at"], json.loads(entry["payload"]))

    def _disturb(self, device: str) -> None:
        for identity in self._open.get(device, ()):
            self.sent[device, identity].is_disturbed = True

    def _take_request(self, device: str, at: int, body: dict[str, Any]) -> None:
        if "id" in body and (device, body["id"]) not in self.sent:
            self.sent[device, body["id"]] = _Sent(body["type"], at, self._is_broker_away)
            self._open.setdefault(device, set()).add(body["id"])

    def _take_message(self, device: str, at: int, body: dict[str, Any]) -> None:
        if body["type"] != "response":
            return
        if not body["ok"]:
            self._figures.refusals[body["error"]["code"]] += 1
        request = self.sent[device, body["id"]]
        if request.is_answered:
            return
        request.is_answered = True
        self._open[device].discard(body["id"])
        took = at - request.at
        place = "disturbed" if request.is_disturbed else "undisturbed"
        self._figures.slowest[place] = max(took, self._figures.slowest.get(place, 0))
        if took > _LATE_MS and not request.is_disturbed:
            self._figures.late.append(f"{device}: {request.type} {body['id']} was answered after {took} ms")
