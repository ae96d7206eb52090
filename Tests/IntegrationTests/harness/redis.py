"""A real Redis as a child process on loopback."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from .processes import Child, free_port, wait_until


def tls_settings(port: int, certificates: Path) -> list[tuple[str, str]]:
    """The settings of a server or a sentinel with TLS, also to other servers. The servers of a cluster ask each other for
    a certificate of a client."""
    names = {"cert": "broker.crt", "key": "broker.key", "client-cert": "coordinator.crt", "client-key": "coordinator.key", "ca-cert": "ca.crt"}
    files = [(f"tls-{kind}-file", str(certificates / name)) for kind, name in names.items()]
    return [("tls-port", str(port)), ("tls-auth-clients", "no"), ("tls-replication", "yes"), *files]


class RedisServer:
    """Keeps all answered writes over `kill` and `start`, since the operating system has the written data. `appendfsync`
    decides only when the machine itself dies, and no test can see that; but every test would see a disk that is slow
    for a second."""

    def __init__(
        self,
        directory: Path,
        appendfsync: str = "no",
        start: bool = True,
        replica_of: RedisServer | None = None,
        env: Mapping[str, str] | None = None,
        maxmemory_policy: str = "noeviction",
        certificates: Path | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._env = env
        self.url = f"redis://127.0.0.1:{self.port}"
        self.log = directory / "redis.log"
        self._arguments = [
            "redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(directory),
            "--save", "", "--appendonly", "yes", "--appendfsync", appendfsync, "--maxmemory-policy", maxmemory_policy,
            *arguments,
        ]  # fmt: skip
        self.service_port = self.port
        """The port at which clients and other servers are to connect: that with TLS, if there are certificates."""
        if certificates is not None:
            # The port without TLS stays, for `command`.
            self.service_port = self.tls_port = free_port()
            for setting in tls_settings(self.tls_port, certificates):
                self._arguments += [f"--{setting[0]}", setting[1]]
        if replica_of is not None:
            self._arguments += ["--replicaof", "127.0.0.1", str(replica_of.service_port)]
        self._child: Child | None = None
        if start:
            self.start()

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    def start(self, ready: bool = True) -> None:
        self._child = Child(self._arguments, stdout=self.log, env=self._env)
        if ready:
            wait_until(lambda: self.is_ready, 30, "Redis answers")

    @property
    def is_ready(self) -> bool:
        """Whether the server answers and is not loading its file."""
        try:
            return self.command("PING", timeout=1) == b"+PONG\r\n"
        except OSError:
            return False

    def command(self, *words: str, timeout: float = 10) -> bytes:
        """The first bytes of the answer."""
        request = f"*{len(words)}\r\n" + "".join(f"${len(w.encode())}\r\n{w}\r\n" for w in words)
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as connection:
            connection.sendall(request.encode())
            return connection.recv(65536)

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def wake(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Kills the server, as a crash does."""
        assert self._child is not None
        self._child.kill()

    def terminate(self) -> None:
        """Sends SIGTERM; returns when the server has ended."""
        assert self._child is not None
        self._child.terminate()

    def stop(self) -> None:
        if self._child is not None and self._child.running:
            self.wake()
            self._child.kill()
