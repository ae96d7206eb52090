"""A real HTTP/2 server over TLS on loopback, which can answer late, answer badly or stay silent."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .http2_connection import Asked, Connection, Reply
from .processes import free_port

Handler = Callable[[Asked], Reply]


class Http2Server:
    """Serves in a thread of its own. ALPN must be h2: a client that speaks another protocol is a problem."""

    def __init__(self, certificates: Path, handler: Handler, problems: list[str], streams: int = 1000, host: str = "127.0.0.1") -> None:
        """`certificates`: the folder that scripts/dev-certs made. `streams`: the most streams that a client may have
        open at once."""
        self.host = host
        self.handler = handler
        self.problems = problems
        self.streams = streams
        self.connections = 0
        """The number of all connections so far, including connections that are still in their handshake."""
        self.in_flight = 0
        self.most_in_flight = 0
        self.handshake_delay = 0.0
        """Seconds between a client's connecting and the server's first byte of TLS."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates / "broker.crt", certificates / "broker.key")
        self._context.set_alpn_protocols(["h2"])
        self._open: set[asyncio.BaseTransport] = set()
        self._server: asyncio.Server | None = None
        self._loop = asyncio.new_event_loop()
        self._gate = asyncio.Event()
        self._gate.set()
        self.port = free_port()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.start()

    # Control, from the test's thread

    def start(self) -> None:
        """Listens on the same port as before."""

        async def listen() -> int:
            self._server = await self._loop.create_server(
                lambda: _Handshake(self), self.host, self.port, backlog=512
            )
            return self._server.sockets[0].getsockname()[1]

        self.port = self._run(listen())

    def stop(self) -> None:
        """Stops listening and breaks all connections."""

        async def close() -> None:
            if self._server is not None:
                self._server.close()
            self._break()

        self._run(close())

    def close(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)

    def cut_all(self) -> None:
        """Breaks every connection; the server takes new connections."""

        async def close() -> None:
            self._break()

        self._run(close())

    def deafen(self) -> None:
        """Stops reading and answering on the open connections; the server still serves new connections."""

        async def pause() -> None:
            for transport in self._open:
                if isinstance(transport, asyncio.Transport):
                    transport.pause_reading()

        self._run(pause())

    def hold_handshakes(self) -> None:
        """A client that connects from now on gets no byte until `release_handshakes`."""
        self._loop.call_soon_threadsafe(self._gate.clear)

    def release_handshakes(self) -> None:
        self._loop.call_soon_threadsafe(self._gate.set)

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _break(self) -> None:
        for transport in list(self._open):
            if isinstance(transport, asyncio.Transport):
                transport.abort()

    # Connections, in the loop's thread

    async def begin(self, raw: asyncio.Transport) -> None:
        """The handshake, when its time has come."""
        self._open.add(raw)
        self.connections += 1
        number = self.connections
        try:
            await self._gate.wait()
            if self.handshake_delay:
                await asyncio.sleep(self.handshake_delay)
            if raw.is_closing():
                return
            connection = Connection(self, number)
            secured = await self._loop.start_tls(raw, connection, self._context, server_side=True)
            if secured is not None:
                connection.begin(secured)
        except (OSError, ssl.SSLError):
            pass  # The client gave up; if the client never comes back, the test misses its push.
        finally:
            self._open.discard(raw)

    def opened(self, transport: asyncio.Transport) -> None:
        self._open.add(transport)

    def closed(self, transport: asyncio.Transport) -> None:
        self._open.discard(transport)

    def later(self, delay: float, work: Callable[[], None]) -> None:
        self._loop.call_later(delay, work)

    def began(self, count: int) -> None:
        self.in_flight += count
        self.most_in_flight = max(self.most_in_flight, self.in_flight)


class _Handshake(asyncio.Protocol):
    """A connection before TLS: the server reads no byte of the connection until its handshake begins."""

    def __init__(self, server: Http2Server) -> None:
        self._server = server
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(self._server.begin(transport))


__all__ = ["Asked", "Http2Server", "Reply"]
