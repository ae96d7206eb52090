"""A store that is some way off: all bytes to and from the store are delayed, each way, and keep their order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from multiprocessing.synchronize import Event


def run(port: int, target: int, delay: float, ready: Event) -> None:
    """The body of a process. `delay`: seconds, each way."""
    asyncio.run(serve(port, target, delay, ready))


async def serve(port: int, target: int, delay: float, ready: Event) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        await asyncio.gather(carry(reader, far_writer, delay), carry(far_reader, writer, delay))

    server = await asyncio.start_server(connected, "127.0.0.1", port)
    ready.set()
    await server.serve_forever()


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    loop = asyncio.get_running_loop()
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            loop.call_later(delay, writer.write, data)
    loop.call_later(delay, writer.close)
