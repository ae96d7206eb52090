"""A single thread with many sockets and a queue of actions: all work of a chaos run happens in this loop, in turn."""

from __future__ import annotations

import heapq
import itertools
import selectors
import time
from collections.abc import Callable
from typing import Any


class Timer:
    """An action at a moment, unless the timer is cancelled before."""

    __slots__ = ("action", "cancelled")

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """`after` schedules an action, `watch` reacts to a socket, `run_until` serves both until a condition holds."""

    _LONGEST_WAIT = 0.02

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._queue: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        timer = Timer(action)
        heapq.heappush(self._queue, (time.monotonic() + seconds, next(self._order), timer))
        return timer

    def every(self, seconds: float, action: Callable[[], None]) -> None:
        """Repeats the action for the life of the loop."""

        def again() -> None:
            action()
            self.after(seconds, again)

        self.after(seconds, again)

    def watch(self, sock: Any, on_readable: Callable[[], None]) -> None:
        self._selector.register(sock, selectors.EVENT_READ, on_readable)

    def forget(self, sock: Any) -> None:
        if sock.fileno() >= 0:
            self._selector.unregister(sock)

    def run_until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Whether the condition came to hold in time."""
        deadline = time.monotonic() + timeout
        while not condition():
            now = time.monotonic()
            if now >= deadline:
                return False
            self._turn(min(self._LONGEST_WAIT, deadline - now))
        return True

    def run_for(self, seconds: float) -> None:
        self.run_until(lambda: False, seconds)

    def _turn(self, wait: float) -> None:
        if self._queue:
            wait = max(0.0, min(wait, self._queue[0][0] - time.monotonic()))
        for key, _ in self._selector.select(wait):
            # The data of another socket may have closed this socket meanwhile; a closed socket has no key any more.
            if self._selector.get_map().get(key.fd) is key:
                key.data()
        now = time.monotonic()
        while self._queue and self._queue[0][0] <= now:
            timer = heapq.heappop(self._queue)[2]
            if not timer.cancelled:
                timer.action()
