"""The real processes: mosquitto, Redis, coordinators. Each is only ever ended by its own pid."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from harness import UNLIMITED, Broker, Child, Service, free_port, wait_until

_REDIS = """\
bind 127.0.0.1
port {port}
dir {directory}
appendonly yes
appendfsync {fsync}
save ""
daemonize no
loglevel notice
"""


class _NoTap:
    """The harness records all traffic for its tests; here the devices do, and a long run must not keep it all."""

    def connect(self, port: int) -> None: ...
    def disconnect(self) -> None: ...


class ChaosBroker(Broker):
    """mosquitto without a tap."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, start=False)
        self.tap = _NoTap()  # type: ignore[assignment]


class Redis:
    """redis-server on a free loopback port, with an append-only file."""

    def __init__(self, directory: Path, fsync: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._log = directory / "redis.log"
        self._configuration = directory / "redis.conf"
        self._configuration.write_text(_REDIS.format(port=self.port, directory=directory, fsync=fsync))
        self._child: Child | None = None

    def start(self) -> None:
        self._child = Child(["redis-server", str(self._configuration)], stdout=self._log)

    @property
    def is_ready(self) -> bool:
        """It answers, and is not loading its file."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=0.2) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False

    def end(self, number: signal.Signals) -> None:
        if self._child:
            self._child.signal(number)
            self._child.wait(10)


class Deployment:
    """A broker, a store, and coordinators that share both."""

    FLAGS = {
        "heartbeat_interval": "2s",
        "heartbeat_timeout": "8s",
        "caller_grace": "2s",
        "empty_call_timeout": "4s",
        "log_level": "info",
    } | UNLIMITED

    def __init__(
        self, directory: Path, coordinators: int, store: str, fsync: str, qos: int, fault: str | None, webhooks: Path
    ) -> None:
        for part in ("broker", "redis", "coordinators"):
            # A run begins with nothing, also where an earlier one was kept: the same seed makes the same call ids.
            shutil.rmtree(directory / part, ignore_errors=True)
        self.broker = ChaosBroker(directory / "broker")
        self.redis = Redis(directory / "redis", fsync) if store == "redis" else None
        url = f"redis://127.0.0.1:{self.redis.port}" if self.redis else "sqlite"
        flags: dict[str, Any] = self.FLAGS | {"publish_qos": str(qos), "webhooks": str(webhooks)}
        if fault:
            flags["fault"] = fault
        self.coordinators = [
            Service(
                self.broker.url,
                directory / "coordinators",
                store=url,
                name=f"coordinator-{number + 1}",
                start=False,
                **flags,
            )
            for number in range(coordinators)
        ]
        self._canary_output = directory / "canary.txt"
        self._canary: Child | None = None
        self._canary_offset = 0

    def start(self) -> None:
        self.broker.start()
        if redis := self.redis:
            redis.start()
            wait_until(lambda: redis.is_ready, 10, "Redis answers")
        for coordinator in self.coordinators:
            coordinator.start(ready=False)
        for coordinator in self.coordinators:
            coordinator.wait_ready()
        canary = Path(__file__).with_name("canary.py")
        self._canary = Child([sys.executable, str(canary), str(self._canary_output.parent)], stdout=self._canary_output)

    def stalls(self) -> list[int]:
        """Since when the machine stood still, of each time that it did since the last look."""
        with self._canary_output.open() as output:
            output.seek(self._canary_offset)
            lines = output.read()
        complete = lines[: lines.rfind("\n") + 1]
        self._canary_offset += len(complete)
        return [int(line) for line in complete.split()]

    def logs(self) -> list[Path]:
        return [coordinator.log for coordinator in self.coordinators]

    def memory_kb(self) -> int:
        """The resident memory of the coordinator that has most."""
        sizes = [0]
        for coordinator in self.coordinators:
            if coordinator.running:
                status = Path(f"/proc/{coordinator.pid}/status").read_text()
                sizes += [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
        return max(sizes)

    def stop(self) -> None:
        for coordinator in self.coordinators:
            if coordinator.running:
                os.kill(coordinator.pid, signal.SIGCONT)
                coordinator.stop()
        self.broker.stop()
        if self.redis:
            self.redis.end(signal.SIGKILL)
        if self._canary:
            self._canary.kill()
