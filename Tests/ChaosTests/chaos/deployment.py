"""The real processes: mosquitto, Redis, coordinators. Each is only ever ended by its own pid."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from harness import UNLIMITED, Broker, Child, RedisServer, Service, lab

from .cable import Cable


class _NoTap:
    """The harness records all traffic for its tests. In a chaos run the devices record the traffic, and a long run must
    not keep all traffic in memory."""

    def connect(self, port: int) -> None: ...
    def disconnect(self) -> None: ...


class ChaosBroker(Broker):
    """mosquitto without a tap."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, start=False)
        self.tap = _NoTap()  # type: ignore[assignment]


class Deployment:
    """Brokers, a store, and coordinators that share both."""

    FLAGS = {
        "heartbeat_interval": "2s",
        "heartbeat_timeout": "8s",
        "caller_grace": "2s",
        "empty_call_timeout": "4s",
        "log_level": "info",
    } | UNLIMITED

    def __init__(
        self,
        directory: Path,
        coordinators: int,
        brokers: int,
        store: str,
        fsync: str,
        qos: int | None,
        fault: str | None,
        webhooks: Path,
    ) -> None:
        names = [f"broker-{number + 1}" for number in range(brokers)]
        for part in (*names, "redis", "coordinators"):
            # A run begins with empty folders, also where an earlier run was kept: the same seed makes the same call
            # ids.
            shutil.rmtree(directory / part, ignore_errors=True)
        self.brokers = [self._make_broker(directory / name) for name in names]
        # Coordinators are cut off from one broker of several. Phones connect to the brokers themselves.
        self.cables = [Cable(broker.port, directory) for broker in self.brokers] if brokers > 1 else []
        self.redis = RedisServer(directory / "redis", fsync, start=False) if store == "redis" else None
        url = self.redis.url if self.redis else "sqlite"
        flags: dict[str, Any] = self._flags() | {"webhooks": str(webhooks)}
        if fault:
            flags["fault"] = fault
        self.coordinators = [
            Service(
                ",".join(end.url for end in self.cables or self.brokers),
                directory / "coordinators",
                store=url,
                name=f"coordinator-{number + 1}",
                start=False,
                # The store of `bellwire` itself cannot be broken.
                program=lab() if fault else None,
                publish_qos=str(number % 2 if qos is None else qos),
                **flags,
            )
            for number in range(coordinators)
        ]
        self._canary_output = directory / "canary.txt"
        self._canary: Child | None = None
        self._canary_offset = 0

    def _make_broker(self, directory: Path) -> Broker:
        return ChaosBroker(directory)

    def _flags(self) -> dict[str, str]:
        """The options of every coordinator. The brokers are made, and do not run yet."""
        return self.FLAGS

    def start(self) -> None:
        for broker in self.brokers:
            broker.start()
        for cable in self.cables:
            cable.start()
        if self.redis:
            self.redis.start()
        for coordinator in self.coordinators:
            coordinator.start(ready=False)
        for coordinator in self.coordinators:
            coordinator.wait_ready()
        canary = Path(__file__).with_name("canary.py")
        self._canary = Child([sys.executable, str(canary), str(self._canary_output.parent)], stdout=self._canary_output)

    def stalls(self) -> list[int]:
        """The beginning of each standstill of the machine since the last look."""
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
        return max([0, *(coordinator.resident() // 1024 for coordinator in self.coordinators if coordinator.running)])

    def stop(self) -> None:
        for coordinator in self.coordinators:
            if coordinator.running:
                os.kill(coordinator.pid, signal.SIGCONT)
                coordinator.stop()
        for cable in self.cables:
            cable.stop()
        for broker in self.brokers:
            broker.stop()
        if self.redis:
            self.redis.stop()
        if self._canary:
            self._canary.kill()
