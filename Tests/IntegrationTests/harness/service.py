"""`bellwire serve` as a child process."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .measuring import resident
from .processes import Child, clean_environment, free_port, wait_until

PROJECT = Path(__file__).resolve().parents[3]


def executable() -> str:
    """The `bellwire` under test: BELLWIRE_BIN, else the release build."""
    path = Path(os.environ.get("BELLWIRE_BIN") or PROJECT / ".build/release/bellwire")
    assert path.is_file(), f"{path} is missing: build it with `swift build -c release`, or set BELLWIRE_BIN"
    return str(path)


def lab() -> str:
    """The `bellwire-lab` that stands beside the `bellwire` under test."""
    path = Path(executable()).with_name("bellwire-lab")
    assert path.is_file(), f"{path} is missing: build it with `swift build -c release --product bellwire-lab`"
    return str(path)


def run(
    *arguments: str, program: str | None = None, env: Mapping[str, str] | None = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """Runs a program, `bellwire` by default, to its end. The folder is empty, since the default store is a file in the
    folder."""
    with tempfile.TemporaryDirectory() as directory:
        return subprocess.run(
            [program or executable(), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            cwd=directory,
            env=clean_environment(env),
        )


UNLIMITED = {
    "invite_rate": "0/0",
    "pair_rate": "0/0",
    "callee_rate": "0/0",
    "sent_bytes_rate": "0/0",
    "live_invitations": "1000000",
    "pair_invitations": "1000000",
    "pair_bytes_rate": "0/0",
    "callee_bytes_rate": "0/0",
    "waiting_messages": "1000000",
    "stored_bytes": "0",
}
"""Settings without limits, for tests with another subject in which a user does more than an app would do."""


class Service:
    """A coordinator. Keywords give its flags: `caller_grace="1s"` is `--caller-grace 1s`."""

    def __init__(
        self,
        broker_url: str,
        directory: Path,
        store: str = "sqlite",
        name: str = "coordinator",
        start: bool = True,
        env: Mapping[str, str] | None = None,
        program: str | None = None,
        **flags: str,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.log = directory / f"{name}.log"
        self.broker_url = broker_url
        self.http_port = free_port()
        self.store = f"sqlite:{directory / 'bellwire.db'}" if store == "sqlite" else store
        self._env = env
        self.program = program or executable()
        """The build that the next `start` runs."""
        self._arguments = ["serve", "--broker", broker_url, "--store", self.store, "--id", name]
        self._arguments += ["--http", f"127.0.0.1:{self.http_port}"]
        for flag, value in flags.items():
            self._arguments += ["--" + flag.replace("_", "-"), value]
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

    def resident(self) -> int:
        """Bytes of memory in use."""
        return resident(self.pid)

    def start(self, ready: bool = True) -> None:
        assert not self.running
        self._child = Child([self.program, *self._arguments], stdout=self.log, env=self._env)
        if ready:
            self.wait_ready()

    def wait_ready(self, timeout: float = 40) -> None:
        try:
            wait_until(lambda: not self.running or self.status("/readyz") == 200, timeout, "the coordinator is ready")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.get('/readyz')}\n{self.log.read_text()[-4000:]}") from None
        assert self.running, f"the coordinator ended:\n{self.log.read_text()}"

    def kill(self) -> None:
        """`kill -9`."""
        assert self._child is not None
        self._child.kill()

    def terminate(self, timeout: float = 10) -> tuple[int, float]:
        """SIGTERM; exit status and seconds taken."""
        assert self._child is not None
        return self._child.terminate(timeout)

    def hang_up(self) -> None:
        """SIGHUP."""
        assert self._child is not None
        self._child.signal(signal.SIGHUP)

    def begin_drain(self) -> None:
        """SIGTERM, without waiting for the end."""
        assert self._child is not None
        self._child.signal(signal.SIGTERM)

    def exit_status(self, timeout: float = 10) -> int:
        assert self._child is not None
        return self._child.wait(timeout)

    def restart(self) -> None:
        self.kill()
        self.start()

    def stop(self) -> None:
        if self.running:
            self.kill()

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of an HTTP request; status 0 when no answer comes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=10)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except (OSError, http.client.HTTPException):
            return 0, ""
        finally:
            connection.close()

    def status(self, path: str) -> int:
        return self.get(path)[0]

    def metrics(self) -> dict[str, float]:
        """All samples of /metrics by name and labels."""
        samples = {}
        for line in self.get("/metrics")[1].splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples
