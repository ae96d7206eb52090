"""Apps with the Kotlin SDK: `TestPhone` of clients/kotlin's tests as a child process. Orders and reports are lines of
JSON."""

from __future__ import annotations

import functools
import itertools
import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from .service import PROJECT
from .processes import clean_environment, mortal


@functools.cache
def classpath() -> str:
    """The class path with the SDK and its test sources, which are built where they are not up to date."""
    done = subprocess.run([PROJECT / "scripts/kotlin", "--classpath"], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def compile_kotlin(out: Path, *sources: Path) -> None:
    """Compiles sources against the SDK; a warning is an error."""
    path = classpath()
    compiler = next(entry for entry in path.split(":") if entry.endswith("-all.jar"))
    options = ["-no-stdlib", "-no-reflect", "-Werror", "-cp", path, "-d", str(out)]
    done = subprocess.run(
        ["java", "-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", compiler, "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", *options, *map(str, sources)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-8_000:]


def java(main: str, *arguments: str) -> list[str]:
    # Two cores, many JVMs: the quick compiler alone.
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-cp", classpath(), main, *arguments]


class Refused(Exception):
    """The SDK threw a BellwireException."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class KotlinPhone:
    def __init__(self, url: str, user: str, **settings: Any) -> None:
        self.user = user
        self.told: list[dict[str, Any]] = []
        self._news = threading.Condition()
        self._orders = itertools.count(1)
        settings = {"url": url, "user": user} | settings
        self._process = subprocess.Popen(
            mortal(*java("org.bellwire.TestPhoneKt", json.dumps(settings))),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=clean_environment(),
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            with self._news:
                self.told.append(told)
                self._news.notify_all()

    def start(self, do: str, **fields: Any) -> int:
        number = next(self._orders)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, "order": number} | fields) + "\n")
        self._process.stdin.flush()
        return number

    def outcome(self, order: int, timeout: float = 30) -> Any:
        told = self._wait(lambda told: told.get("order") == order, timeout, f"the outcome of order {order}")
        if told["event"] == "failed":
            raise Refused(told["code"], told["message"])
        return told.get("answer")

    def do(self, do: str, timeout: float = 30, **fields: Any) -> Any:
        return self.outcome(self.start(do, **fields), timeout)

    def connect(self, timeout: float = 30) -> KotlinPhone:
        self.do("connect", timeout)
        return self

    def expect(self, event: str, timeout: float = 20, **fields: Any) -> dict[str, Any]:
        wanted = {"event": event} | fields
        return self._wait(lambda told: wanted.items() <= told.items(), timeout, str(wanted))

    def had(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        wanted = {"event": event} | fields
        with self._news:
            return [told for told in self.told if wanted.items() <= told.items()]

    def _wait(self, fits: Any, timeout: float, what: str) -> dict[str, Any]:
        end = time.monotonic() + timeout
        with self._news:
            while True:
                for told in self.told:
                    if fits(told):
                        return told
                left = end - time.monotonic()
                assert left > 0 and self._news.wait(left), f"{self.user} is not told {what}; so far {self.told[-20:]}"

    def kill(self) -> None:
        """Ends the app as Android does."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()
