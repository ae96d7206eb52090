"""The cable between the coordinators and a broker, which can be cut for one coordinator at a time.

All coordinators connect to the same port, so that all of them know the broker by the same name. The MQTT client id of
the first packet tells which coordinator a connection belongs to. While a coordinator is cut off, no byte passes in
either direction, and no connection breaks: as on a network that loses all packets between two machines.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from pathlib import Path

from harness import Child, free_port, wait_until
from harness.processes import listening

_PIECE = 65_536


class Cable:
    """A process that passes bytes between coordinators and a broker."""

    def __init__(self, broker_port: int, directory: Path) -> None:
        self.port, self._control = free_port(), free_port()
        self._broker_port = broker_port
        self._log = directory / f"cable-{self.port}.log"
        self._child: Child | None = None

    @property
    def url(self) -> str:
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self) -> None:
        ports = [str(port) for port in (self.port, self._control, self._broker_port)]
        self._child = Child([sys.executable, "-m", "chaos.cable", *ports], stdout=self._log)
        wait_until(lambda: listening(self._control), 10, "the cable is there")

    def cut(self, coordinator: str) -> None:
        self._tell(f"cut {coordinator}")

    def mend(self, coordinator: str) -> None:
        self._tell(f"mend {coordinator}")

    def _tell(self, command: str) -> None:
        with socket.create_connection(("127.0.0.1", self._control), timeout=5) as connection:
            connection.sendall(f"{command}\n".encode())
            assert connection.recv(3) == b"ok\n"

    def stop(self) -> None:
        if self._child and self._child.running:
            self._child.kill()


# The process


class _Gates:
    """Whether bytes of each client pass."""

    def __init__(self) -> None:
        self._gates: dict[str, asyncio.Event] = {}

    def of(self, client: str) -> asyncio.Event:
        if client not in self._gates:
            self._gates[client] = asyncio.Event()
            self._gates[client].set()
        return self._gates[client]


async def _read_connect(reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """The bytes of the CONNECT packet, and its client id."""
    packet = await reader.readexactly(2)
    while packet[-1] & 128:
        packet += await reader.readexactly(1)
    length = sum((byte & 127) << 7 * place for place, byte in enumerate(packet[1:]))
    body = await reader.readexactly(length)
    # Name and level of the protocol, flags, keep-alive.
    at = 2 + int.from_bytes(body[:2], "big")
    level, at = body[at], at + 4
    if level == 5:
        properties = shift = 0
        while True:
            byte = body[at]
            properties |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                break
        at += properties
    size = int.from_bytes(body[at : at + 2], "big")
    return packet + body, body[at + 2 : at + 2 + size].decode()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
    with suppress(OSError):
        while data := await reader.read(_PIECE):
            await gate.wait()
            writer.write(data)
            await writer.drain()
    # The end of a connection is not seen on the other side of a cut either.
    await gate.wait()
    writer.close()


async def _connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gates: _Gates, broker_port: int) -> None:
    try:
        connect, client = await _read_connect(reader)
        gate = gates.of(client)
        await gate.wait()
        from_broker, to_broker = await asyncio.open_connection("127.0.0.1", broker_port)
    except (OSError, asyncio.IncompleteReadError):
        writer.close()
        return
    for end in (writer, to_broker):
        end.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    to_broker.write(connect)
    await asyncio.gather(_pass_on(reader, to_broker, gate), _pass_on(from_broker, writer, gate))


async def _commanded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gates: _Gates) -> None:
    words = (await reader.readline()).decode().split()
    if len(words) == 2:
        gate = gates.of(words[1])
        gate.clear() if words[0] == "cut" else gate.set()
        writer.write(b"ok\n")
        with suppress(OSError):
            await writer.drain()
    writer.close()


async def main(port: int, control: int, broker_port: int) -> None:
    gates = _Gates()
    cable = await asyncio.start_server(lambda r, w: _connected(r, w, gates, broker_port), "127.0.0.1", port)
    await asyncio.start_server(lambda r, w: _commanded(r, w, gates), "127.0.0.1", control)
    await cable.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
