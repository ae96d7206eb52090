"""A telephone in the terminal, like the examples in several languages: the app writes lines and reads Enter."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .processes import clean_environment, mortal, wait_until
from .world import World


class Telephone:
    def __init__(self, world: World, directory: Path, command: Sequence[str | Path], patience: float = 20) -> None:
        """`patience`: the seconds to wait for a line."""
        self._output = directory / secrets.token_hex(4)
        self._patience = patience
        with open(self._output, "wb") as out:
            self._process = subprocess.Popen(
                mortal(*command),
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env=clean_environment({"BROKER": world.broker.url, "XDG_DATA_HOME": str(directory)}),
            )

    def says(self, line: str) -> None:
        said = self._output
        wait_until(lambda: line in said.read_text().splitlines(), self._patience, lambda: f"{line}: {said.read_text()}")

    def press_enter(self) -> None:
        assert self._process.stdin
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def ends(self) -> None:
        assert self._process.wait(20) == 0

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
