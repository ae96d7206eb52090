"""The two builds of the update test: the release before, and this checkout."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from harness import executable, run


@dataclass(frozen=True)
class Build:
    """The programs of a version."""

    name: str
    program: str
    """`bellwire`."""

    @property
    def plugin(self) -> Path:
        """The broker's plugin beside `bellwire`."""
        return Path(self.program).with_name("libBellwireBrokerAuth.so")

    @property
    def version(self) -> str:
        return run("--version", program=self.program).stdout.strip()

    def is_in(self, pid: int) -> bool:
        """Whether a process has loaded a program of this build."""
        return f"{Path(self.program).resolve().parent}/" in Path(f"/proc/{pid}/maps").read_text()

    def run(self, *arguments: str) -> str:
        """The output of a command of this build."""
        done = run(*arguments, program=self.program)
        assert done.returncode == 0, f"{self.name}: {arguments}: {done.stderr}"
        return done.stdout

    def token(self, keys: Path, user: str, *options: str) -> str:
        return self.run("token", "--keys", str(keys), "--user", user, "--ttl", "1h", *options).strip()


def builds() -> tuple[Build, Build]:
    """The old build and the new build."""
    old = os.environ.get("BELLWIRE_OLD_BIN")
    assert old, "BELLWIRE_OLD_BIN names the `bellwire` of the release before: run scripts/test-update"
    return Build("old", old), Build("new", executable())
