"""A connection of an HTTP/2 server: the requests, and the answers or cuts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

Cut = Literal["reset", "refuse", "close", "goaway", "silence"]
"""A fault instead of an answer: the server resets the stream; the server refuses the stream (REFUSED_STREAM: the
request had no effect); the server closes the connection; GOAWAY says that the server did not look at this stream, then
the server closes the connection; or the server stays silent for ever."""


@dataclass(frozen=True)
class Asked:
    """A request as the server received it."""

    at: float
    """Monotonic seconds, when its headers came."""
    connection: int
    """Counted from 1."""
    stream: int
    headers: dict[str, str]
    """The headers, with `:method`, `:path` and so on."""
    body: bytes

    @property
    def method(self) -> str:
        return self.headers[":method"]

    @property
    def path(self) -> str:
        return self.headers[":path"]


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: bytes | dict[str, Any] = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0
    """Seconds until the server sends the reply."""
    cut: Cut | None = None

    @property
    def raw(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


class Owner(Protocol):
    """The parts of the server that its connections use."""

    problems: list[str]
    streams: int
    handler: Callable[[Asked], Reply]

    def opened(self, transport: asyncio.Transport) -> None: ...
    def closed(self, transport: asyncio.Transport) -> None: ...
    def later(self, delay: float, work: Callable[[], None]) -> None: ...
    def began(self, count: int) -> None: ...


class Connection(asyncio.Protocol):
    def __init__(self, server: Owner, number: int) -> None:
        self._server = server
        self._number = number
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._transport: asyncio.Transport | None = None
        self._early = b""
        """The bytes that came with the last bytes of the handshake, before a transport for the answer existed."""
        self._requests: dict[int, tuple[float, dict[str, str], bytearray]] = {}
        self._bodies: dict[int, bytes] = {}
        """The unsent rest of each answer, by stream."""
        self._busy: set[int] = set()
        """Streams that wait for their answer."""

    def begin(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._server.opened(transport)
        if transport.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
            self._server.problems.append("a client did not ask for h2 by ALPN")
        self._h2.initiate_connection()
        # The limit counts once the client has acked the settings: until then the client may have opened more streams.
        self._h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: self._server.streams})
        self.data_received(self._early)

    def connection_lost(self, _: Exception | None) -> None:
        if self._transport is not None:
            self._server.closed(self._transport)
        self._server.began(-len(self._busy))
        self._busy.clear()

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            self._early += data
            return
        at = time.monotonic()
        try:
            for event in self._h2.receive_data(data):
                self._take(event, at)
        except ProtocolError as error:
            self._server.problems.append(f"HTTP/2 is broken: {error!r}")
            self._abort()
        self._write()

    def _take(self, event: Event, at: float) -> None:
        match event:
            case RequestReceived():
                self._requests[event.stream_id] = (at, dict(event.headers), bytearray())
            case DataReceived():
                self._requests[event.stream_id][2].extend(event.data)
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case StreamEnded():
                began, headers, body = self._requests.pop(event.stream_id)
                self._ask(Asked(began, self._number, event.stream_id, headers, bytes(body)))
            case StreamReset():
                self._requests.pop(event.stream_id, None)
                self._bodies.pop(event.stream_id, None)
                self._finish(event.stream_id)
            case WindowUpdated():
                for stream in list(self._bodies):
                    self._send_body(stream)
            case ConnectionTerminated():
                self._abort()

    def _ask(self, asked: Asked) -> None:
        self._busy.add(asked.stream)
        self._server.began(1)
        # The warm-up request only opens a connection.
        is_warm_up = (asked.method, asked.path) == ("HEAD", "/")
        reply = Reply(405) if is_warm_up else self._server.handler(asked)
        if reply.delay:
            self._server.later(reply.delay, lambda: self._answer(asked.stream, reply))
        else:
            self._answer(asked.stream, reply)

    def _answer(self, stream: int, reply: Reply) -> None:
        if stream not in self._busy or self._transport is None or self._transport.is_closing():
            return
        match reply.cut:
            case "silence":
                return
            case "reset" | "refuse":
                code = ErrorCodes.INTERNAL_ERROR if reply.cut == "reset" else ErrorCodes.REFUSED_STREAM
                self._h2.reset_stream(stream, code)
            case "close":
                self._abort()
            case "goaway":
                self._h2.close_connection(ErrorCodes.NO_ERROR, last_stream_id=stream - 2 if stream > 2 else 0)
                self._write()
                self._transport.close()
            case None:
                body = reply.raw
                headers = [(":status", str(reply.status)), *reply.headers.items(), ("content-length", str(len(body)))]
                self._h2.send_headers(stream, headers, end_stream=not body)
                if body:
                    self._bodies[stream] = body
                    self._send_body(stream)
        self._finish(stream)
        self._write()

    def _send_body(self, stream: int) -> None:
        """Sends as many bytes as the client takes now."""
        while body := self._bodies.get(stream):
            room = min(self._h2.local_flow_control_window(stream), self._h2.max_outbound_frame_size)
            if room <= 0:
                return
            self._bodies[stream] = body[room:]
            self._h2.send_data(stream, body[:room], end_stream=len(body) <= room)
        self._bodies.pop(stream, None)

    def _finish(self, stream: int) -> None:
        if stream in self._busy:
            self._busy.discard(stream)
            self._server.began(-1)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _write(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._h2.data_to_send())
