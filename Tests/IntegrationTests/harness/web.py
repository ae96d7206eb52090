"""The web SDK in Node as a device: driven by lines of JSON through `web_client/device.mjs`."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import threading
from typing import Any

from .processes import clean_environment, mortal
from .service import PROJECT

NODE = shutil.which("node")
SDK = PROJECT / "clients/web/dist/index.js"
EXAMPLE = PROJECT / "clients/web/examples/call.mjs"


def _missing() -> list[str]:
    missing = [name for name in ("node", "tsc", "esbuild") if shutil.which(name) is None]
    if NODE and int(subprocess.run([NODE, "--version"], capture_output=True, text=True).stdout[1:].split(".")[0]) < 20:
        missing.append("Node 20")
    return missing


MISSING = _missing()
"""The programs that the tests of the SDK need and the machine does not have."""

_SCRIPT = PROJECT / "Tests/IntegrationTests/web_client/device.mjs"


def build_sdk() -> None:
    """Runs `scripts/web` only when a source is newer than the built files: tests in other processes may be using these
    files."""
    package = PROJECT / "clients/web"
    with (PROJECT / ".build/web.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sources = [path for folder in ("src", "page") for path in (package / folder).rglob("*")]
        newest = max(path.stat().st_mtime for path in [PROJECT / "scripts/web", *package.glob("*.json"), *sources])
        # The build writes this file last.
        built = package / "dist/page/index.html"
        if built.exists() and built.stat().st_mtime >= newest:
            return
        done = subprocess.run([PROJECT / "scripts/web"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


class Refused(Exception):
    """The error that the SDK threw; `code` is the error's code."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code = error.get("code")
        self.details = error


class WebClient:
    """A process with a client. `events` keeps the process's reports, in order."""

    def __init__(self, url: str | list[str], user: str, **options: Any) -> None:
        assert NODE is not None
        self.user = user
        self.events: list[dict[str, Any]] = []
        self._outcomes: dict[int, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._orders = 0
        # The SDK's usual ten seconds are little for a busy machine.
        settings = {"sdk": str(SDK), "url": url, "user": user, "connectTimeout": 20_000} | options
        self._process = subprocess.Popen(
            mortal(NODE, "--experimental-websocket", _SCRIPT, json.dumps(settings)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # The folder of Debian's libraries, since a node of another origin does not look there.
            env=clean_environment({"NODE_PATH": "/usr/share/nodejs"}),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            with self._changed:
                if "id" in told:
                    self._outcomes[told["id"]] = told
                else:
                    self.events.append(told)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def start(self, code: str) -> int:
        """Begins `code`, the body of an async function of `client`, `calls` (by id) and `made` (a call that is to be followed)."""
        assert self._process.stdin is not None
        self._orders += 1
        self._process.stdin.write(json.dumps({"id": self._orders, "code": code}) + "\n")
        self._process.stdin.flush()
        return self._orders

    def outcome(self, order: int, timeout: float = 30) -> Any:
        """The result of the order; throws `Refused` when the code threw."""
        with self._changed:
            done = self._changed.wait_for(lambda: order in self._outcomes, timeout)
            assert done, f"{self.user}: no outcome of order {order} within {timeout} s; told: {self.events[-20:]}"
            told = self._outcomes.pop(order)
        if "error" in told:
            raise Refused(told["error"])
        return told["value"]

    def do(self, code: str, timeout: float = 30) -> Any:
        return self.outcome(self.start(code), timeout)

    def connect(self) -> WebClient:
        self.do("await client.connect()")
        return self

    def call(self, *invitees: str, **options: Any) -> str:
        """Calls, and returns the call's id."""
        return self.do(f"return made(await client.call({json.dumps(invitees)}, {json.dumps(options)}))")

    def expect(self, timeout: float = 20, since: int = 0, **fields: Any) -> dict[str, Any]:
        """The first event with these fields."""

        def find() -> dict[str, Any] | None:
            return next((event for event in self.events[since:] if fields.items() <= event.items()), None)

        with self._changed:
            found = self._changed.wait_for(lambda: find() is not None, timeout)
            assert found, f"{self.user}: not told {fields} within {timeout} s, but: {self.events[since:][-20:]}"
            event = find()
        assert event is not None
        return event

    def had(self, **fields: Any) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if fields.items() <= event.items()]

    def kill(self) -> None:
        """Ends the process, as when a tab is closed or its computer loses power."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self.kill()

