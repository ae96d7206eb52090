"""The app's backend takes webhooks, refuses some webhooks, and knows the missing revisions."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.receiver import Receiver

_REFUSED = 0.05
"""The share of all attempts. The service tries each refused attempt again."""


class Backend:
    """An HTTPS server that verifies incoming webhooks. The server keeps only the highest revision of each call."""

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
            # The receiver would keep all verified attempts, and a run may last for hours.
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
        """The calls whose highest revision devices have seen and this backend has not received."""
        with self._lock:
            return [
                f"{call}: {self._highest.get(call, 0)} of {seen['revision']}"
                for call, seen in calls.items()
                if self._highest.get(call, 0) < seen["revision"]
            ]

    @property
    def problems(self) -> list[str]:
        """The webhooks that came out of order or without a valid signature."""
        return self._out_of_order + self._receiver.problems

    def stop(self) -> None:
        self._receiver.stop()
