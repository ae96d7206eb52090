"""A wire with a tap: relays the bytes between an SDK's device and the broker, and shows each packet first."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from .connection import Broker
from .packets import PacketReader

Packet = Callable[[int, int, bytes], None]
"""Receives the type, flags and body of a packet."""
_PIECE = 65_536
Result = TypeVar("Result")
_SECONDS = 30.0
"""How long the thread may take for a task."""
_GOODBYE_SECONDS = 5.0
"""How long the last packets of a device that closes its connection may take."""


@dataclass(frozen=True)
class Ears:
    """The listeners of a wire. A listener receives each packet before the other side does."""

    sent: Packet
    received: Packet


class Exchange:
    """The thread that serves all wires to a broker."""

    def __init__(self, broker: Broker) -> None:
        """`broker`: `mqtt://` or `mqtts://`. A device connects to its wire without TLS."""
        self._broker = broker
        self._tls = ssl.create_default_context(cafile=broker.ca) if broker.scheme == "mqtts" else None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wires", daemon=True)
        self._thread.start()

    def wire(self, ears: Ears) -> Wire:
        return Wire(self, self.run(self._listen(ears)))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_SECONDS)

    async def _listen(self, ears: Ears) -> _Line:
        line = _Line(self._broker, self._tls, ears)
        await line.listen()
        return line


class Wire:
    """A device's connection to the broker, with an address of its own."""

    def __init__(self, exchange: Exchange, line: _Line) -> None:
        self._exchange = exchange
        self._line = line

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self._line.port}"

    def cut(self) -> None:
        """Cuts the wire without a DISCONNECT to either side. New connections are closed at once."""
        self._exchange.run(self._line.cut())

    def mend(self) -> None:
        self._exchange.run(self._line.mend())

    def close(self) -> None:
        """Relays what a device has sent before it closed its connection, then closes the wire."""
        self._exchange.run(self._line.close())


class _Line:
    """The part of a wire that the thread uses."""

    def __init__(self, broker: Broker, tls: ssl.SSLContext | None, ears: Ears) -> None:
        self._broker, self._tls, self._ears = broker, tls, ears
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._from_device: set[asyncio.Task[None]] = set()
        """The relays of what the device sends. A relay ends when the device has closed its connection."""
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def cut(self) -> None:
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()

    async def mend(self) -> None:
        self._is_cut = False

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        if self._from_device:
            await asyncio.wait(self._from_device, timeout=_GOODBYE_SECONDS)
        await self.cut()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            return writer.close()
        try:
            there = await asyncio.open_connection(self._broker.host, self._broker.port, ssl=self._tls)
        except OSError:
            return writer.close()
        self._writers |= {writer, there[1]}
        if self._is_cut:
            await self.cut()
        from_device = asyncio.create_task(self._relay(reader, there[1], self._ears.sent))
        self._from_device.add(from_device)
        await asyncio.gather(from_device, self._relay(there[0], writer, self._ears.received))
        self._from_device.discard(from_device)
        self._writers -= {writer, there[1]}

    async def _relay(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, hear: Packet) -> None:
        packets = PacketReader()
        try:
            while piece := await source.read(_PIECE):
                if self._is_cut:
                    break
                for packet in packets.push(piece):
                    hear(*packet)
                sink.write(piece)
                await sink.drain()
        except (OSError, ValueError):
            # The other side learns of the end when its stream is closed.
            pass
        finally:
            sink.close()
