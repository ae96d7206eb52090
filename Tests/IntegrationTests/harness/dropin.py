"""An app that imports a drop-in: a process that takes commands and writes the callbacks that the app was told, a JSON
object a line."""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .processes import Value, clean_environment, mortal, wait_until
from .service import PROJECT, executable

Told = dict[str, Any]


def probe_path(name: str) -> str:
    """The probe beside the `bellwire` under test, else that of the debug build."""
    beside = Path(executable()).with_name(name)
    path = beside if beside.is_file() else PROJECT / ".build/debug" / name
    assert path.is_file(), f"{path} is missing: build it with `swift build --product {name}`"
    return str(path)


class DropIn:
    """An app on a phone."""

    def __init__(
        self, product: str, directory: Path, broker: str, user: str, device: str = "phone", *arguments: str
    ) -> None:
        """`directory`: the app's own data. The data contain a device id when no device is given."""
        self.user, self.device, self.broker = user, device, broker
        self._told: list[Told] = []
        self._done: set[int] = set()
        self._number = 0
        self._lock = threading.Lock()
        directory.mkdir(parents=True, exist_ok=True)
        self._errors = directory / f"{product}-{secrets.token_hex(4)}.err"
        with open(self._errors, "ab") as errors:
            # The process ends with its input; a frozen process also dies with its parent.
            self._process = subprocess.Popen(
                mortal(probe_path(product), *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=clean_environment({"XDG_DATA_HOME": str(directory)}),
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            said = json.loads(line)
            if said["told"] == "done":
                self._done.add(said["number"])
                continue
            with self._lock:
                self._told.append(said)

    def start(self, do: str, **fields: Any) -> None:
        """Sends a command, which the app runs as soon as its main queue is free."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"do": do, **fields}).encode() + b"\n")
        self._process.stdin.flush()

    def do(self, command: str, **fields: Any) -> None:
        """Sends a command and returns when the app has run the command. The callbacks of the command come later."""
        self._number += 1
        number = self._number
        self.start(command, number=number, **fields)
        self._until(lambda: number in self._done, 20, f"that it has done {command}")

    def told(self, *what: str, since: int = 0) -> list[Told]:
        """All callbacks so far, after the first `since`; with names, only the callbacks of these names."""
        with self._lock:
            told = list(self._told)
        assert all(line["main"] for line in told), "told beside the main queue"
        return [line for line in told[since:] if not what or line["told"] in what]

    def names(self) -> list[str]:
        return [line["told"] for line in self.told()]

    def wait(self, condition: Callable[[Told], object], timeout: float, what: str, since: int = 0) -> Told:
        """The first callback, after the first `since`, that meets the condition."""
        return self._until(
            lambda: next((line for line in self.told(since=since) if condition(line)), None), timeout, what
        )

    def expect(self, what: str, timeout: float = 15, count: int = 1, since: int = 0, **fields: Any) -> Told:
        """The `count`th callback of this name with these fields."""

        def matching() -> Told | None:
            told = self.told(what, since=since)
            lines = [line for line in told if all(line.get(k) == v for k, v in fields.items())]
            return lines[count - 1] if len(lines) >= count else None

        return self._until(matching, timeout, f"{what} {fields}")

    def _until(self, found: Callable[[], Value | None], timeout: float, what: str) -> Value:
        try:
            return wait_until(found, timeout, f"{self.user} is told {what}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()[-40:]}\n{self._errors.read_text()[-2000:]}") from None

    def expect_outside(self) -> None:
        """Checks that no callback came from inside a call of the app."""
        assert not [line for line in self.told() if line["inside"] and line["told"] != "properties"]

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """The process stands still meanwhile."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """`kill -9`."""
        self._process.kill()
        self._process.wait(10)

    def close(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin
            self._process.stdin.close()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self.kill()
