"""The app's backend: it takes webhooks, refuses some, and knows what is missing."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.receiver import Receiver

_REFUSED = 0.05
"""Of all attempts: each is tried again."""


class Backend:
    """An HTTPS server that verifies what comes. Of each call it keeps the highest revision and nothing more."""

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self._rng = rng
        self._lock = threading.Lock()
        self._highest: dict[str, int] = {}
        self._out_of_order: list[str] = []
        self.taken = 0
        self.repeated = 0
        self._receiver = Receiver(directory, self._judge)
        self.settings = self._receiver.settings(events=["call.*"])

    def _judge(self, _id: str, body: dict[str, Any]) -> int:
        call, revision = body["data"]["callID"], body["data"]["revision"]
        with self._lock:
            # What was verified is kept by nobody but this object: a run may last for hours.
            self._receiver.attempts.clear()
            if self._rng.random() < _REFUSED:
                return 503
            known = self._highest.get(call, 0)
            if revision > known + 1:
                self._out_of_order.append(f"webhooks: revision {revision} of {call} came before {known + 1}")
            self.taken += revision > known
            self.repeated += revision <= known
            self._highest[call] = max(known, revision)
            return 204

    def missing(self, calls: Mapping[str, dict[str, Any]]) -> list[str]:
        """Of these calls, as devices have seen them."""
        with self._lock:
            return [
                f"{call}: {self._highest.get(call, 0)} of {seen['revision']}"
                for call, seen in calls.items()
                if self._highest.get(call, 0) < seen["revision"]
            ]

    @property
    def problems(self) -> list[str]:
        """What came out of order, or was not signed as it has to be."""
        return self._out_of_order + self._receiver.problems

    def stop(self) -> None:
        self._receiver.stop()
