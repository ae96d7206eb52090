"""Users of ZEGO Call's business-server protocol: plain HTTP, and a stream of server-sent events."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import suppress
from typing import Any

from .gateway import Answer, Gateway
from .processes import wait_until

Notification = tuple[str, dict[str, Any]]
"""The path and the body."""


class Stream:
    """`GET /call/events`, read until either side ends the stream."""

    def __init__(self, gateway: Gateway, token: str, last_id: str | None = None) -> None:
        self.last_id = last_id
        self.told: list[Notification] = []
        self.comments: list[str] = []
        self.ended = False
        self._connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=60)
        headers = {"Authorization": f"Bearer {token}"} | ({} if last_id is None else {"Last-Event-ID": last_id})
        self._connection.request("GET", "/call/events", headers=headers)
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.headers = {name.lower(): value for name, value in self._response.getheaders()}
        if self.status == 200:
            threading.Thread(target=self._read, daemon=True).start()
        else:
            self.refusal = json.loads(self._response.read())
            self.close()

    def _read(self) -> None:
        path, data = "", ""
        with suppress(OSError, ValueError, AttributeError, http.client.HTTPException):
            while line := self._response.readline().decode():
                match line.rstrip("\n").split(": ", 1):
                    case ["event", value]:
                        path = value
                    case ["data", value]:
                        data = value
                    case ["id", value]:
                        self.last_id = value
                    case ["", value] if line.startswith(":"):
                        self.comments.append(value)
                    case [""] if path:
                        self.told.append((path, json.loads(data)))
                        path = ""
                    case [":"]:
                        self.comments.append("")
        self.ended = True

    def online(self) -> Stream:
        """Waits until the user counts as online."""
        wait_until(lambda: "online" in self.comments, 10, "the stream's user is online")
        return self

    def close(self) -> None:
        # A socket that is still being read is only ended by this.
        sock = self._connection.sock or getattr(getattr(self._response, "fp", None), "raw", None)
        with suppress(OSError, AttributeError):
            (sock if hasattr(sock, "shutdown") else sock._sock).shutdown(2)  # type: ignore[union-attr]
        with suppress(OSError):
            self._connection.close()


class HTTPUser:
    """A user with a token and streams on a gateway."""

    def __init__(self, gateway: Gateway, user: str, **claims: Any) -> None:
        self.gateway = gateway
        self.user = user
        self.token = gateway.make_token(user, **claims)
        self.streams: list[Stream] = []
        self._seen = 0

    @property
    def party(self) -> dict[str, str]:
        return {"id": self.user, "name": f"Name of {self.user}"}

    def listen(self, gateway: Gateway | None = None, *, last_id: str | None = None) -> Stream:
        stream = Stream(gateway or self.gateway, self.token, last_id)
        self.streams.append(stream)
        return stream

    def reopen(self, gateway: Gateway | None = None) -> Stream:
        """Closes the latest stream, and goes on with a new stream, whose notifications come next."""
        before = self.streams[-1]
        before.close()
        self._seen = 0
        return self.listen(gateway, last_id=before.last_id).online()

    def post(self, action: str, _gateway: Gateway | None = None, **body: Any) -> Answer:
        return (_gateway or self.gateway).post(f"/call/{action}", body, token=self.token)

    def start(self, call: str, *callees: HTTPUser, type: int = 1, **options: Any) -> Answer:
        return self.post("start_call", call_id=call, caller=self.party, callees=[callee.party for callee in callees], type=type, **options)

    def cancel(self, call: str, callee: HTTPUser, key: str | None = None) -> Answer:
        body = {"id": self.user, "call_id": call, "callee_id": callee.user}
        return self.gateway.post("/call/cancel_call", body, token=self.token, key=key)

    def accept(self, call: str, **options: Any) -> Answer:
        return self.post("accept_call", id=self.user, call_id=call, **options)

    def decline(self, call: str, caller: HTTPUser, type: int = 1) -> Answer:
        return self.post("decline_call", id=self.user, caller_id=caller.user, call_id=call, type=type)

    def end(self, call: str) -> Answer:
        return self.post("end_call", id=self.user, call_id=call)

    def beat(self, call: str) -> Answer:
        return self.post("heartbeat", id=self.user, call_id=call)

    def expect(self, path: str, stream: int = 0, **fields: Any) -> dict[str, Any]:
        """The next notification of the stream."""
        told = self.streams[stream].told
        place = self._seen
        wait_until(lambda: len(told) > place, 10, f"{self.user} is told {path}; so far {told}")
        self._seen += 1
        assert told[place][0] == f"/call/{path}", told[place]
        assert fields.items() <= told[place][1].items(), (told[place], fields)
        return told[place][1]

    def expect_nothing_more(self, streams: int | None = None) -> None:
        """Checks the first `streams` streams, or all streams."""
        told = [stream.told for stream in self.streams[:streams]]
        assert all(len(one) <= self._seen for one in told), told

    def close(self) -> None:
        for stream in self.streams:
            stream.close()


def done(answer: Answer) -> None:
    assert (answer.status, answer.body) == (200, {"code": 0, "message": ""}), answer


def refused(answer: Answer, status: int, code: int) -> str:
    """The message."""
    assert (answer.status, answer.body["code"]) == (status, code), answer
    assert answer.body.keys() == {"code", "message"} and answer.body["message"]
    return str(answer.body["message"])
