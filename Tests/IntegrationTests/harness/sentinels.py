"""Redis servers and sentinels, as child processes on loopback. The sentinels choose the master."""

from __future__ import annotations

from pathlib import Path

from .partition import OTHER_MACHINE, Partition
from .processes import Child, free_port, wait_until
from .redis import RedisServer, tls_settings

NAME = "calls"
"""The sentinels' name for the master."""


class Sentinel:
    def __init__(
        self, directory: Path, master: RedisServer, certificates: Path | None = None, on_other_machine: bool = False
    ) -> None:
        directory.mkdir(parents=True)
        self.port = self.service_port = free_port()
        secure, down_after = "", 500
        if certificates is not None:
            # After a failover a sentinel has not talked to the new master yet, and takes the master for dead when the
            # first connection with TLS takes longer than this.
            down_after = 2_000
            self.service_port = free_port()
            secure = "".join(f"{name} {value}\n" for name, value in tls_settings(self.service_port, certificates))
        if on_other_machine:
            secure += f"bind-source-addr {OTHER_MACHINE}\nprotected-mode no\nsentinel announce-ip 127.0.0.1\n"
        self._configuration = directory / "sentinel.conf"
        self._log = directory / "sentinel.log"
        self._configuration.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {directory}\n{secure}"
            f"sentinel monitor {NAME} 127.0.0.1 {master.service_port} 2\n"
            f"sentinel down-after-milliseconds {NAME} {down_after}\nsentinel failover-timeout {NAME} 4000\n"
        )
        self._child: Child | None = None
        self.start()

    def start(self) -> None:
        self._child = Child(["redis-server", str(self._configuration), "--sentinel"], stdout=self._log)

    # A sentinel answers the same commands over the same protocol.
    command = RedisServer.command

    def master(self) -> int:
        """The port of the server that this sentinel names; 0 while the sentinel does not answer."""
        try:
            answer = self.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME, timeout=0.5)
        except OSError:
            return 0
        return int(answer.split(b"\r\n")[4]) if answer.startswith(b"*2") else 0

    def knows(self, replicas: int, sentinels: int) -> bool:
        try:
            answer = self.command("SENTINEL", "MASTER", NAME, timeout=0.5).split(b"\r\n")
        except OSError:
            return False
        values = dict(zip(answer[2::4], answer[4::4], strict=False))
        return values.get(b"num-slaves") == b"%d" % replicas and values.get(b"num-other-sentinels") == b"%d" % (sentinels - 1)

    def kill(self) -> None:
        if self._child is not None and self._child.running:
            self._child.kill()


class SentinelFleet:
    """A master with two replicas, and three sentinels. A write needs a replica (`min-replicas-to-write 1`). With
    `certificates` all of them talk TLS. With `divisible` the master runs on one machine, the replicas and the sentinels run
    on another, and `cut` parts these from the master."""

    def __init__(self, directory: Path, certificates: Path | None = None, divisible: bool = False) -> None:
        self.servers = [RedisServer(directory / "redis-1", certificates=certificates)]
        self._partitions: list[Partition] = []
        if divisible:
            self._partitions.append(Partition(self.servers[0].port))
            self.servers[0].service_port = self._partitions[0].port
        arguments = ["--bind-source-addr", OTHER_MACHINE, "--protected-mode", "no"] if divisible else []
        self.servers += [
            RedisServer(directory / f"redis-{n}", replica_of=self.servers[0], certificates=certificates, arguments=arguments)
            for n in (2, 3)
        ]
        for server in self.servers:
            server.command("CONFIG", "SET", "min-replicas-to-write", "1")
            server.command("CONFIG", "SET", "repl-diskless-sync-delay", "0")
        wait_until(lambda: self.servers[0].command("INFO", "replication").count(b"state=online") == 2, 20, "both replicas follow")
        self.sentinels = [Sentinel(directory / f"sentinel-{n}", self.servers[0], certificates, divisible) for n in (1, 2, 3)]
        for sentinel in self.sentinels:
            wait_until(lambda sentinel=sentinel: sentinel.knows(2, 3), 20, "each sentinel knows the others and both replicas")
        if divisible:
            ways = [Partition(sentinel.port, far="127.0.0.1") for sentinel in self.sentinels]
            self._partitions += ways
            for sentinel, way in zip(self.sentinels, ways, strict=True):
                sentinel.service_port = way.port
        scheme = "redis-sentinel" if certificates is None else "rediss-sentinel"
        self.url = f"{scheme}://" + ",".join(f"127.0.0.1:{s.service_port}" for s in self.sentinels) + f"/{NAME}"

    def master(self) -> RedisServer | None:
        """The server that all living sentinels name."""
        named = {port for sentinel in self.sentinels if (port := sentinel.master())}
        return next((server for server in self.servers if {server.service_port} == named), None)

    def cut(self, from_coordinators: bool) -> None:
        """Parts the replicas and the sentinels from the master, and from the coordinators if asked."""
        for partition in self._partitions if from_coordinators else self._partitions[:1]:
            partition.cut()

    def heal(self) -> None:
        for partition in self._partitions:
            partition.heal()

    def stop(self) -> None:
        for partition in self._partitions:
            partition.close()
        for process in self.sentinels:
            process.kill()
        for server in self.servers:
            server.stop()
