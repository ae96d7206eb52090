"""A clean Debian 12 in a directory, made from the mirror by mmdebstrap, with a network of its own for the programs that
run there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from harness import Child, wait_until

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
ENTER = 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"'
"""Runs a command in a root directory, as the same process. The mount lasts as long as the process's namespace."""


class CleanDebian:
    def __init__(self, path: Path) -> None:
        assert os.geteuid() == 0, "the tests of a release need root: mmdebstrap, chroot and a network namespace"
        self.path = path
        self._logs_of: dict[Child, Path] = {}
        self.remove_directory()
        options = [f"--aptopt={line.rstrip(';')}" for line in _settings_of_apt()]
        # systemd, since the package has units; apart from systemd the packages of every Debian.
        made = subprocess.run(
            ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--include=systemd", *options, "bookworm", str(path)],
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert made.returncode == 0, made.stderr[-3000:]
        shutil.copy("/etc/resolv.conf", path / "etc/resolv.conf")
        # No daemon starts by its installation: here is no init.
        policy = path / "usr/sbin/policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        self._logs = path / "tmp/logs"
        self._logs.mkdir()
        # A network with a loopback interface alone: ports that are in use on this machine are free here.
        up = self._logs / "network"
        self._network = Child(["unshare", "--net", "sh", "-ec", "ip link set lo up; echo up; exec sleep infinity"], stdout=up)
        wait_until(lambda: up.read_text() == "up\n", 10, "a network namespace")

    # Commands

    def run(self, *command: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self._words(command), capture_output=True, text=True, timeout=timeout, env=ENVIRONMENT)

    def output(self, *command: str, timeout: float = 120) -> str:
        """Standard output of a command that must succeed."""
        done = self.run(*command, timeout=timeout)
        assert done.returncode == 0, f"{shlex.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def install(self, *packages: str) -> None:
        """The mirror is needed, so apt runs in the machine's network."""
        for command in (("update",), ("install", "--yes", "--no-install-recommends", *packages)):
            words = self._words(["apt-get", "-qq", *command], own_network=False)
            done = subprocess.run(words, capture_output=True, text=True, timeout=250, env=ENVIRONMENT)
            assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def start(self, *command: str, user: str = "root", environment: dict[str, str] | None = None, directory: str = "/") -> Child:
        """A process of that user, without capabilities if the user is not root. `text_of` has its output."""
        words = ["setpriv", "--pdeathsig", "KILL", f"--reuid={user}", f"--regid={user}", "--init-groups", "--no-new-privs", *command]
        settings = [f"{name}={value}" for name, value in (ENVIRONMENT | (environment or {})).items()]
        words = ["env", "-i", f"--chdir={directory}", *settings, *words]
        log = self._logs / f"{len(self._logs_of)}-{Path(command[0]).name}"
        child = Child(self._words(words), stdout=log)
        self._logs_of[child] = log
        return child

    def text_of(self, child: Child) -> str:
        """Output and errors so far."""
        return self._logs_of[child].read_text()

    def get(self, url: str, token: str = "") -> str:
        """The body of an answer with status 200; empty otherwise."""
        program = (
            "import sys, urllib.request as r\n"
            "q = r.Request(sys.argv[1], headers={'Authorization': 'Bearer ' + sys.argv[2]} if sys.argv[2] else {})\n"
            "print(r.urlopen(q, timeout=5).read().decode())"
        )
        inside = [*self._in_network(), "python3", "-I", "-c", program, url, token]
        done = subprocess.run(inside, capture_output=True, text=True, timeout=30, env=ENVIRONMENT)
        return done.stdout if done.returncode == 0 else ""

    # The end

    def remove(self) -> None:
        self._network.kill()
        self.remove_directory()

    def remove_directory(self) -> None:
        if self.path.exists():
            assert not any(str(self.path) in line for line in Path("/proc/mounts").read_text().splitlines()), "a file system is mounted there"
            shutil.rmtree(self.path)

    def _in_network(self) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._network.pid}/ns/net"]

    def _words(self, command: tuple[str, ...] | list[str], own_network: bool = True) -> list[str]:
        return [*(self._in_network() if own_network else []), "unshare", "--mount", "sh", "-c", ENTER, str(self.path), *command]


def _settings_of_apt() -> list[str]:
    """The settings with which this machine's apt reaches the mirror: proxies and checks of the index."""
    done = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True, text=True, check=True)
    wanted = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries")
    return [line for line in done.stdout.splitlines() if line.startswith(wanted) and not line.endswith(' "";')]
