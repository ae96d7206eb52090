"""A Redis Cluster as child processes on loopback."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from .processes import free_port, wait_until
from .redis import RedisServer

SLOTS = 16_384


class RedisCluster:
    """Three masters, each with a replica. `node_timeout` is in milliseconds. With `certificates` all of them talk TLS."""

    def __init__(
        self,
        directory: Path,
        node_timeout: int = 1_000,
        env: Sequence[Mapping[str, str] | None] = (None,) * 6,
        certificates: Path | None = None,
    ) -> None:
        self._directory = directory
        self._certificates = certificates
        self._arguments = [
            "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
            "--cluster-node-timeout", str(node_timeout), "--repl-diskless-sync-delay", "0",
        ]  # fmt: skip
        if certificates is not None:
            self._arguments += ["--tls-cluster", "yes"]
        self.servers = [self._server(f"node{number}", env[number]) for number in range(6)]
        self._run("create", *(self._name(server) for server in self.servers), "--cluster-replicas", "1", "--cluster-yes")
        wait_until(self._is_whole, 30, "all servers know the whole cluster")

    def _server(self, name: str, env: Mapping[str, str] | None = None) -> RedisServer:
        arguments = [*self._arguments, "--cluster-port", str(free_port())]
        return RedisServer(self._directory / name, arguments=arguments, env=env, certificates=self._certificates)

    @staticmethod
    def _name(server: RedisServer) -> str:
        return f"127.0.0.1:{server.service_port}"

    @property
    def url(self) -> str:
        scheme = "redis-cluster" if self._certificates is None else "rediss-cluster"
        return f"{scheme}://" + ",".join(self._name(server) for server in self.servers[:3])

    @property
    def _cli(self) -> list[str]:
        tls = [] if self._certificates is None else ["--tls", "--cacert", str(self._certificates / "ca.crt")]
        return ["redis-cli", *tls, "--cluster"]

    def _run(self, *arguments: str) -> None:
        done = subprocess.run([*self._cli, *arguments], capture_output=True, stdin=subprocess.DEVNULL, timeout=60, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr

    def _agree(self) -> bool:
        check = [*self._cli, "check", self._name(self.servers[0])]
        return subprocess.run(check, capture_output=True, stdin=subprocess.DEVNULL, timeout=60).returncode == 0

    def _is_whole(self) -> bool:
        return all(
            b"cluster_state:ok" in server.command("CLUSTER", "INFO")
            and len(self._masters(server)) == 3
            and (server in self.masters() or b"master_link_status:up" in server.command("INFO", "replication"))
            for server in self.servers
        )

    def _masters(self, server: RedisServer) -> set[int]:
        """The ports of the masters with slots, as the server knows them."""
        ports = set()
        for line in self._nodes(server):
            if "master" in line[2] and "fail" not in line[2].split(",") and len(line) > 8:
                ports.add(int(line[1].split("@")[0].rsplit(":")[-1]))
        return ports

    def _nodes(self, server: RedisServer) -> list[list[str]]:
        answer = server.command("CLUSTER", "NODES").decode().split("\r\n", 1)[1]
        return [line.split() for line in answer.splitlines() if line.strip()]

    def masters(self) -> list[RedisServer]:
        """The masters that all servers agree on; none while the servers do not agree."""
        known: set[frozenset[int]] = set()
        for server in self.servers:
            if server.running:
                try:
                    known.add(frozenset(self._masters(server)))
                except OSError:
                    return []
        if len(known) != 1:
            return []
        return [server for server in self.servers if server.port in next(iter(known))]

    def replica_of(self, master: RedisServer) -> RedisServer:
        identity = next(line[0] for line in self._nodes(master) if "myself" in line[2])
        port = next(int(line[1].split("@")[0].rsplit(":")[-1]) for line in self._nodes(master) if line[3] == identity)
        return next(server for server in self.servers if server.port == port)

    def add_master(self) -> RedisServer:
        """Adds a master without slots."""
        server = self._server(f"node{len(self.servers)}")
        self._run("add-node", self._name(server), self._name(self.servers[0]))
        self.servers.append(server)
        wait_until(lambda: all(len(self._nodes(each)) == len(self.servers) for each in self.servers), 20, "all servers know the new server")
        wait_until(lambda: b"cluster_state:ok" in server.command("CLUSTER", "INFO"), 20, "the new server takes commands")
        return server

    def move_slots(self, source: RedisServer, target: RedisServer, count: int) -> None:
        """Moves slots with their keys, a slot at a time."""
        # The servers must agree on the slots first.
        wait_until(self._agree, 20, "all servers agree")
        identity = {server: next(line[0] for line in self._nodes(server) if "myself" in line[2]) for server in (source, target)}
        self._run(
            "reshard", self._name(target), "--cluster-from", identity[source], "--cluster-to", identity[target],
            "--cluster-slots", str(count), "--cluster-yes",
        )  # fmt: skip

    def stop(self) -> None:
        for server in self.servers:
            server.stop()
