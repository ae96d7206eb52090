"""A real mosquitto on free loopback ports."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .measuring import resident
from .processes import Child, free_port, listening, wait_until
from .tap import Tap

COMMON = """\
persistence false
log_dest stderr
log_timestamp_format %H:%M:%S
"""
"""The settings of every broker of the tests."""

_BOUNDS = """\
set_tcp_nodelay true
max_inflight_messages 1000
max_queued_messages 100000
max_inflight_bytes 4194304
max_queued_bytes 67108864
memory_limit 1073741824
"""
"""The bounds of the broker of `bellwire dev`, since a tap receives the messages of all devices."""

_CONFIGURATION = """\
{user}
allow_anonymous true
{common}
{bounds}
listener {port} 127.0.0.1
listener {web_port} 127.0.0.1
protocol websockets
socket_domain ipv4
"""


class Broker:
    """mosquitto with an MQTT and a WebSocket listener, and a tap that records all traffic."""

    def __init__(self, directory: Path, start: bool = True) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.log = directory / "mosquitto.log"
        self.port = free_port()
        self.web_port = free_port()
        self.tap = Tap()
        self._child: Child | None = None
        if start:
            self.start()

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def password(self, user: str, device: str) -> str | None:
        """The password of a device: None, since this broker accepts every device."""
        return None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    def start(self) -> None:
        """Starts the broker on its ports (a restart keeps the ports) and waits until the broker listens."""
        configuration = self.directory / "mosquitto.conf"
        configuration.write_text(self._configuration())
        child = Child(["mosquitto", "-c", str(configuration)], stdout=self.log)
        wait_until(
            lambda: not child.running or (listening(self.port) and listening(self.web_port)), 30, "mosquitto listens"
        )
        assert child.running, f"mosquitto did not start:\n{self.log.read_text()}"
        self._child = child
        self._listen()

    def _configuration(self) -> str:
        # Started by root, mosquitto would become a user that cannot read a private temporary directory.
        user = "user root" if os.geteuid() == 0 else ""
        return _CONFIGURATION.format(user=user, common=COMMON, bounds=_BOUNDS, port=self.port, web_port=self.web_port)

    def _listen(self) -> None:
        self.tap.connect(self.port)

    def reload(self) -> None:
        """SIGHUP. mosquitto opens its ports before it catches the signal, which would end it."""
        assert self._child is not None
        wait_until(lambda: self._child is not None and catches(self._child.pid, signal.SIGHUP), 10, "mosquitto catches SIGHUP")
        self._child.signal(signal.SIGHUP)

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def resident(self) -> int:
        """Bytes of memory in use."""
        return resident(self.pid)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Keeps the broker from reading and writing, while its sockets stay open."""
        assert self._child is not None
        self._child.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._child.signal(signal.SIGCONT)

    def stop(self) -> None:
        self.tap.disconnect()
        if self._child:
            self._child.kill()
        self._child = None

    def terminate(self) -> None:
        """Stops the broker in order: the broker says goodbye to its clients."""
        assert self._child is not None
        self.tap.disconnect()
        self._child.terminate()
        self._child = None

    def restart(self) -> None:
        self.stop()
        self.start()


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process handles the signal by itself."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(caught >> (number - 1) & 1)
