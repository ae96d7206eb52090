"""Heartbeats of devices in a call, while a test waits for something else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .device import Device


@contextmanager
def beating(call: str, *devices: Device, every: float = 0.3) -> Iterator[None]:
    """Sends the heartbeats of these devices during the block."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(every):
            for device in devices:
                device.heartbeat(call)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
