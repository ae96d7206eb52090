"""Phones that call each other all the time."""

from __future__ import annotations

import random
import threading
import time
import traceback
from typing import Any, NamedTuple

from .device import Device


class Ring(NamedTuple):
    """A phone that rang."""

    began: float
    """When the invite was sent, by `time.monotonic()`."""
    seconds: float
    """The time from the invite to the ring."""


class Load:
    """Pairs of phones. Each pair makes a call after the other: accepted, rejected, cancelled. A call has failed when
    the service refuses the call, or when the call does not end within the resends that the protocol asks of a
    client."""

    def __init__(self, broker: Any, pairs: int, pause: float = 0.05, qos: int = 1) -> None:
        """`broker`: a harness.Broker, or another object with a broker's address. `pause`: seconds between a pair's
        calls. `qos`: that of the phones' messages and subscriptions."""
        self.calls = 0
        self.rings: list[Ring] = []
        self.call_ids: list[str] = []
        self.failures: list[str] = []
        self._broker = broker
        self._pause = pause
        self._qos = qos
        self._times: list[float] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(pairs)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def take(self) -> list[float]:
        """The times from invite to ring, in seconds, of all calls since the last time; the longest time is last."""
        with self._lock:
            times, self._times = sorted(self._times), []
        return times

    def lap(self) -> str:
        """The figures since the last lap."""
        times = self.take()
        assert times, "no call was made"
        assert not self.failures, "\n".join(self.failures)
        late = sum(t > 1 for t in times)
        return (
            f"{len(times)} calls, 0 failed; invite → ring p50 {times[len(times) // 2] * 1000:.1f} ms, "
            f"longest {times[-1] * 1000:.0f} ms, {late} over 1 s (a resend)"
        )

    def _run(self, number: int) -> None:
        try:
            caller = Device(self._broker, f"load-{number}-a", qos=self._qos).connect()
            callee = Device(self._broker, f"load-{number}-b", qos=self._qos).connect()
            turn = 0
            # The pairs start at different moments.
            self._stop.wait(random.uniform(0, self._pause))
            while not self._stop.is_set():
                self._call(caller, callee, turn)
                turn += 1
                self._stop.wait(self._pause)
            caller.logout()
            callee.logout()
        except Exception:
            self.failures.append(f"pair {number}: {traceback.format_exc()}")

    def _call(self, caller: Device, callee: Device, turn: int) -> None:
        for phone in (caller, callee):
            # The harness searches all messages of a phone, and the search would take longer from call to call.
            phone.messages.clear()
        began = time.monotonic()
        request = caller.start("call.invite", invitees=[callee.user])
        call = request.ok(20)["callID"]
        ring = callee.expect("call.invited", call, 20)
        match turn % 3:
            case 0:
                callee.start("call.accept", callID=call).ok(20)
                caller.expect_state(call, callee, "accepted", 20)
            case 1:
                callee.start("call.reject", callID=call).ok(20)
                caller.expect_state(call, callee, "rejected", 20)
            case _:
                caller.start("call.cancel", callID=call).ok(20)
                callee.expect("call.cancelled", call, 20)
        with self._lock:
            self._times.append(ring.at - began)
            self.rings.append(Ring(began, ring.at - began))
            self.calls += 1
            self.call_ids.append(call)
