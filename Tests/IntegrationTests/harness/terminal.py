"""`bellwire call` and `bellwire listen` as child processes that write a JSON object a line."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from conformance.client import ROOT, encode_user

from .broker import Broker
from .processes import Child
from .service import executable
from .tap import Tapped


class Terminal:
    """A phone in a terminal."""

    def __init__(
        self, broker: Broker, directory: Path, command: str, user: str, *arguments: str, device: str = "cli"
    ) -> None:
        self.user = user
        self.device = device
        name = f"{command}-{secrets.token_hex(4)}"
        self.output, self.log = directory / f"{name}.out", directory / f"{name}.err"
        self._broker = broker
        self._since = len(broker.tap.messages)
        self._child = Child(
            [executable(), command, *arguments, "--as", user, "--device", device, "--broker", broker.url, "--json"],
            stdout=self.output,
            stderr=self.log,
        )

    @property
    def running(self) -> bool:
        return self._child.running

    def wait_online(self, timeout: float = 20) -> Terminal:
        """Waits for the service's welcome, seen on the broker."""
        topic = f"{ROOT}/down/{encode_user(self.user)}/{self.device}"

        def welcome(message: Tapped) -> bool:
            return message.topic == topic and message.body.get("type") == "welcome"

        self._broker.tap.wait(welcome, timeout, f"welcome of {self.user}", self._since)
        return self

    def exit_status(self, timeout: float = 30) -> int:
        """Waits for the end; then every line must be a JSON object."""
        status = self._child.wait(timeout)
        self.lines()
        return status

    def lines(self) -> list[dict[str, Any]]:
        """All complete lines so far, each a JSON object with an `event`."""
        lines = []
        for line in self.output.read_text().split("\n")[:-1]:
            body = json.loads(line)
            assert isinstance(body, dict) and isinstance(body.get("event"), str), (
                f"not a JSON line with an event: {line!r}"
            )
            lines.append(body)
        return lines

    def text(self) -> str:
        return f"{self.output.read_text()}\n{self.log.read_text()}"

    def stop(self, timeout: float = 10) -> int:
        """SIGTERM; the exit status."""
        return self._child.terminate(timeout)[0]

    def close(self) -> None:
        if self._child.running:
            self._child.kill()
