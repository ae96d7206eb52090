"""Apps on ZIMCompat."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

from .broker import Broker
from .dropin import DropIn, Told

SUCCESS = 0
INVITING, ACCEPTED, REJECTED, CANCELLED, RECEIVED, TIMEOUT, QUIT, NOT_YET_RECEIVED = 0, 1, 2, 3, 5, 6, 7, 9
DISCONNECTED, CONNECTING, CONNECTED, RECONNECTING = range(4)
"""States of the connection. The reasons: """
ACTIVE_LOGIN, LOGIN_TIMEOUT, LOGIN_INTERRUPTED, KICKED_OUT, TOKEN_EXPIRED = range(1, 6)


class ZIMApp(DropIn):
    """A user of an app, which is configured and has its instance."""

    def __init__(self, broker: Broker, directory: Path, name: str, user: str | None = None, **configuration: Any) -> None:
        user = user or f"{name}-{secrets.token_hex(4)}"
        super().__init__("zim-probe", directory / secrets.token_hex(4), broker.url, user)
        self.do("configure", broker=broker.url, **configuration)
        self.do("create")

    def login(self, code: int = SUCCESS, **fields: Any) -> ZIMApp:
        self.ask("login", code, user=self.user, **fields)
        return self

    def ask(self, command: str, code: int = SUCCESS, within: float = 20, **fields: Any) -> Told:
        """Sends a command and returns the callback's fields."""
        since = len(self.told())
        self.do(command, **fields)
        said = self.expect(command, within, since=since)
        assert said["code"] == code, said
        return said

    def event(self, name: str, call: str | None = None, timeout: float = 10, since: int = 0) -> Told:
        fields = {"callID": call} if call else {}
        return self.expect(name, timeout, since=since, **fields)

    def connection(self, state: int, reason: int, timeout: float = 20, since: int = 0) -> Told:
        return self.expect("connection", timeout, since=since, state=state, reason=reason)

    def becomes(self, call: str, who: ZIMApp, state: int, timeout: float = 10, since: int = 0) -> dict[str, Any]:
        """The user with this state, as named by `callUserStateChanged`."""

        def names(line: Told) -> bool:
            return (line["told"], line.get("callID")) == ("states", call) and any(
                user["userID"] == who.user and user["state"] == state for user in line["users"]
            )

        line = self.wait(names, timeout, f"that {who.user} is {state}", since)
        return next(user for user in line["users"] if user["userID"] == who.user)

    def of(self, call: str) -> list[str]:
        """All that was told of a call, in short: `states bob:5`."""
        return [short(line) for line in self.told() if line.get("callID") == call]


def short(line: Told) -> str:
    if line["told"] != "states":
        return str(line["told"])
    return "states " + " ".join(f"{user['userID'].split('-')[0]}:{user['state']}" for user in line["users"])
