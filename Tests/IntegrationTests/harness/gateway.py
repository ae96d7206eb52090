"""A real gateway, and a backend that asks the gateway by plain HTTP, as a backend in any language would."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .credentials import make_token
from .device import Device
from .openapi import OpenAPI
from .processes import Child, free_port, wait_until
from .service import executable, run


@dataclass(frozen=True)
class Answer:
    """The gateway's answer to a backend."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    def ok(self, status: int = 200) -> Any:
        assert self.status == status, f"{self.status}: {self.raw!r}"
        return self.body if self.raw else None

    def problem(self, status: int, code: str) -> dict[str, Any]:
        assert self.headers.get("content-type") == "application/problem+json", f"{self.status} {self.headers} {self.raw!r}"
        assert (self.status, self.body["code"], self.body["status"]) == (status, code, status), self.raw
        return self.body


class Gateway:
    """A gateway beside coordinators. Killed and restarted on its port."""

    def __init__(
        self, directory: Path, broker_url: str, store: str, name: str = "gateway", signing: Path | None = None, **flags: str
    ) -> None:
        """`signing`: the keys with which the tests sign, when the gateway has other keys (`keys`)."""
        directory.mkdir(parents=True, exist_ok=True)
        self.log = directory / f"{name}.log"
        self.keys = signing or Path(flags.get("keys", directory / "gateway-keys.json"))
        if not self.keys.exists():
            made = run("keys", "generate", "--out", str(self.keys))
            assert made.returncode == 0, made.stderr
        flags = {"keys": str(self.keys)} | flags
        self.port = free_port()
        self._arguments = ["gateway", "--http", f"127.0.0.1:{self.port}", "--broker", broker_url, "--store", store]
        for flag, value in flags.items():
            self._arguments += ["--" + flag.replace("_", "-"), value]
        self.token = self.make_token(role="server")
        self.program = executable()
        """The build that the next `start` runs."""
        self._child: Child | None = None

    def make_token(self, user: str = "backend", ttl: float = 600, **claims: Any) -> str:
        key = json.loads(self.keys.read_bytes())["keys"][0]
        return make_token(key, user, ttl, **claims)

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.running

    def hang_up(self) -> None:
        """SIGHUP: the gateway reads its certificate again."""
        assert self._child is not None
        self._child.signal(signal.SIGHUP)

    def begin_drain(self) -> None:
        """SIGTERM, without waiting for the end."""
        assert self._child is not None
        self._child.signal(signal.SIGTERM)

    def start(self, ready: bool = True) -> Gateway:
        self._child = Child([self.program, *self._arguments], stdout=self.log)
        if ready:
            wait_until(lambda: not self.running or self.get("/readyz").status == 200, 40, "the gateway is ready")
            assert self.running, self.log.read_text()
        return self

    def kill(self) -> None:
        assert self._child is not None
        self._child.kill()

    def terminate(self, timeout: float = 10) -> tuple[int, float]:
        assert self._child is not None
        return self._child.terminate(timeout)

    def stop(self) -> None:
        if self.running:
            self.kill()

    def exit(self) -> subprocess.CompletedProcess[str]:
        """Runs a gateway that cannot start, to its end."""
        return run(*self._arguments)

    def ask(
        self, method: str, path: str, body: Any = None, *, key: str | None = None, token: str | None = "", timeout: float = 15,
        port: int | None = None, **headers: str,
    ) -> Answer:
        """Status 0: there was no answer. Each answer is held against docs/openapi.yaml. `port`: of another listener."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=timeout)
        if token is not None:
            headers = {"Authorization": f"Bearer {token or self.token}"} | headers
        if key is not None:
            headers["Idempotency-Key"] = key
        data = None if body is None else body if isinstance(body, (bytes, str)) else json.dumps(body)
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            answer = Answer(response.status, {n.lower(): v for n, v in response.getheaders()}, response.read())
        except (OSError, http.client.HTTPException):
            return Answer(0, {}, b"")
        finally:
            connection.close()
        wrong = OpenAPI.load().problem(method, path, answer.status, answer.headers, answer.raw)
        assert wrong is None, f"docs/openapi.yaml does not have this answer to {method} {path} {data!r:.500}: {wrong}"
        return answer

    def raw(self, request: bytes, timeout: float = 10) -> bytes:
        """All bytes of the answer until the gateway closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as connection:
            with suppress(OSError):
                connection.sendall(request)
            answer = b""
            with suppress(OSError):
                while piece := connection.recv(65536):
                    answer += piece
            return answer

    def metrics(self) -> dict[str, float]:
        """All samples by name and labels."""
        samples = {}
        for line in self.get("/metrics").raw.decode().splitlines():
            if line and not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                samples[name] = float(value)
        return samples

    def invite(self, inviter: Device | str, *invitees: Device | str, **fields: Any) -> str:
        """Makes a call that the backend holds; its id."""
        names = [user if isinstance(user, str) else user.user for user in (inviter, *invitees)]
        return self.post("/v1/calls", {"inviter": names[0], "invitees": names[1:]} | fields).ok(201)["callID"]

    def call(self, call: str) -> dict[str, Any]:
        return self.get(f"/v1/calls/{call}").ok()["call"]

    def get(self, path: str, **options: Any) -> Answer:
        return self.ask("GET", path, **options)

    def post(self, path: str, body: Any, **options: Any) -> Answer:
        return self.ask("POST", path, body, **options)

    def on_call(self, call: str, action: str, user: Device | str, key: str | None = None, **fields: Any) -> Answer:
        name = user if isinstance(user, str) else user.user
        return self.post(f"/v1/calls/{call}/{action}", {"userID": name} | fields, key=key)


def user_path(user: Device | str) -> str:
    return f"/v1/users/{quote(user if isinstance(user, str) else user.user, safe='')}"
