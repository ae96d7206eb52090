"""Child processes that never outlive the test run, and waiting for conditions."""

from __future__ import annotations

import atexit
import fcntl
import os
import random
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")


# These ports are below the ports that the kernel gives to outgoing connections. An outgoing connection could take a
# port before its server does, or between two starts of a server.
_SERVER_PORTS = range(10_000, 30_000)
_given_ports: set[int] = set()
_reservations = open(Path(tempfile.gettempdir()) / f"bellwire-test-ports.{os.getuid()}", "wb")
"""Byte N is locked by the test process that was given port N. The locks end with the process."""


def free_port() -> int:
    """A free loopback port. Each port is given once, also among test processes that run side by side: the server of
    another process may not have begun to listen yet."""
    for port in random.SystemRandom().sample(_SERVER_PORTS, 1000):
        if port not in _given_ports and _reserve(port) and not _is_taken(port):
            _given_ports.add(port)
            return port
    raise AssertionError(f"no free port in {_SERVER_PORTS}")


def _reserve(port: int) -> bool:
    try:
        fcntl.lockf(_reservations, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        # The option makes the probe bind as a server would: a port whose last connections are still fading out is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(condition: Callable[[], Value | None], timeout: float, what: str | Callable[[], str], every: float = 0.005) -> Value:
    """The first true value of `condition`; an assertion failure naming `what` after `timeout` seconds. A function as
    `what` is called at the failure, so that the message tells the state at that time."""
    deadline = time.monotonic() + timeout
    while True:
        if value := condition():
            return value
        assert time.monotonic() < deadline, f"not within {timeout} s: {what if isinstance(what, str) else what()}"
        time.sleep(every)


def mortal(*argv: str | Path) -> list[str | Path]:
    """The words that run `argv` as a process which the kernel kills when the thread that started it ends."""
    return ["setpriv", "--pdeathsig", "KILL", "--", *argv]


class Child:
    """A process that dies with its parent, however the parent ends, and is only ever ended by its own pid.

    The kernel sends the death signal when the *thread* that started the child ends: start children in the main thread.
    """

    _alive: set[Child] = set()

    def __init__(
        self, argv: Sequence[str], stdout: Path, stderr: Path | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.argv = list(argv)
        with open(stdout, "ab") as out, open(stderr or stdout, "ab") as err:
            self._process = subprocess.Popen(
                mortal(*argv),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=clean_environment(env),
            )
        Child._alive.add(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        if self.running:
            self._process.send_signal(number)

    def wait(self, timeout: float) -> int:
        """The exit status. A negative status is the signal that ended the process."""
        status = self._process.wait(timeout)
        Child._alive.discard(self)
        return status

    def kill(self) -> None:
        """`kill -9`; returns when the process is gone."""
        self.signal(signal.SIGKILL)
        self.wait(10)

    def terminate(self, timeout: float = 10) -> tuple[int, float]:
        """Sends SIGTERM. Returns the exit status and the seconds that the process took to leave; kills a process that
        does not leave."""
        started = time.monotonic()
        self.signal(signal.SIGTERM)
        try:
            status = self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.argv[:2]} did not end within {timeout} s of SIGTERM") from None
        return status, time.monotonic() - started


def clean_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment without BELLWIRE_… variables, which are settings of the executable."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BELLWIRE_")}
    return environment | dict(extra or {})


@atexit.register
def _end_all() -> None:
    for child in list(Child._alive):
        child.kill()
