"""Calls without a pause, for tests of failovers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from . import Device, World, call_id, wait_until

AGAIN = 0.2
"""Seconds after which a load sends an unanswered request again."""


class CancelledCalls:
    """Pairs that begin and cancel calls without a pause. Remembers each answered call, and the time of each answer.
    `users`: a single pair of exactly these users instead, whose calls have ids from `new_id`."""

    def __init__(
        self, world: World, pairs: int = 3, users: tuple[str, str] | None = None, new_id: Callable[[], str] = call_id
    ) -> None:
        self._new_id = new_id
        self.answered: list[tuple[Device, str]] = []
        self.moments: list[float] = []
        self.refusals: set[str] = set()
        self._stop = threading.Event()
        devices = [[world.device(user) for user in users]] if users else [world.phones("alice", "bob") for _ in range(pairs)]
        self._pool = ThreadPoolExecutor(len(devices))
        self._tasks = [self._pool.submit(self._converse, *pair) for pair in devices]

    def _converse(self, alice: Device, bob: Device) -> None:
        while not self._stop.is_set():
            call = self._new_id()
            invited = self._until_answered(alice, "call.invite", callID=call, invitees=[bob.user], mode="advanced")
            if invited and self._until_answered(alice, "call.cancel", callID=call):
                self.answered.append((alice, call))

    def _until_answered(self, device: Device, type_: str, **fields: object) -> bool:
        request = f"r{time.monotonic_ns()}"
        while not self._stop.is_set():
            try:
                answer = device.start(type_, id=request, **fields).wait(AGAIN, resend=False)
            except AssertionError:
                continue
            if answer["ok"]:
                self.moments.append(time.monotonic())
                return True
            self.refusals.add(answer["error"]["code"])
            if answer["error"]["code"] != "unavailable":
                return False
            self._stop.wait(0.02)
        return False

    def go_on(self, calls: int = 50) -> None:
        """Waits until so many more calls have been answered."""
        before = len(self.answered)
        wait_until(
            lambda: len(self.answered) > before + calls,
            30,
            lambda: f"calls go on: {len(self.answered) - before}, refused with {self.refusals}",
        )

    def stop(self) -> None:
        self._stop.set()
        for task in self._tasks:
            task.result()
        self._pool.shutdown()
