"""A machine for a single process, with a wall clock that a test sets."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("stepped_clock.c")


class SteppedClock:
    """Shows a process another wall clock than the machine's. The clocks that a user cannot set stay as they are."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        library = directory / "stepped_clock.so"
        compiler = shutil.which("clang") or shutil.which("cc")
        assert compiler, "no C compiler: the Swift toolchain has one"
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True)
        self._file = directory / "step"
        self._file.write_bytes(struct.pack("=q", 0))
        self.env = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(self._file)}

    def step(self, seconds: float) -> None:
        """Sets the clock to the machine's and so many seconds more."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", round(seconds * 1000)))
