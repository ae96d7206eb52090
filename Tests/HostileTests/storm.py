"""Many devices come at once, as after a restart of the broker: each device waits a short random time, as the SDK does,
connects, subscribes, and publishes its presence until the welcome comes."""

from __future__ import annotations

import asyncio
import random
import resource
import time
from typing import Any

from conformance.client import ROOT, Endpoint

from attackers import connect_packet, length, publish_packet, subscribe_packet

BACKOFF = (0.25, 0.5, 1, 2, 4, 8, 8, 8)
RESENDS = (1, 2, 4, 8, 8, 8, 8)


async def packet(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    kind = (await reader.readexactly(1))[0]
    count = shift = 0
    while True:
        byte = (await reader.readexactly(1))[0]
        count |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return kind, await reader.readexactly(count)


async def device(port: int, user: str, token: str, began: float, welcomes: list[float]) -> None:
    one = Endpoint(ROOT, user, "phone")
    for longest in BACKOFF:
        await asyncio.sleep(random.uniform(longest / 2, longest))
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 10)
            writer.write(connect_packet(one.client_id, one.level, token))
            kind, body = await asyncio.wait_for(packet(reader), 10)
            if kind >> 4 != 2 or body[1] != 0:
                raise ConnectionError
            writer.write(subscribe_packet(*one.down))
            presence = publish_packet(one.presence_topic, one.presence(True, session=str(id(writer))))
            await asyncio.wait_for(packet(reader), 10)
            for pause in RESENDS:
                writer.write(presence)
                try:
                    while True:
                        _, body = await asyncio.wait_for(packet(reader), pause)
                        if b'"type":"welcome"' in body:
                            welcomes.append(time.monotonic() - began)
                            # The device stays, as devices do, until the connection ends.
                            await reader.read()
                            return
                except asyncio.TimeoutError:
                    continue
        except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            continue


async def storm(port: int, tokens: list[tuple[str, str]], limit: float) -> list[float]:
    began = time.monotonic()
    welcomes: list[float] = []
    tasks = [asyncio.create_task(device(port, user, token, began, welcomes)) for user, token in tokens]
    while len(welcomes) < len(tokens) and time.monotonic() - began < limit:
        await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return sorted(welcomes)


def run(port: int, tokens: list[tuple[str, str]], limit: float, done: Any) -> None:
    """The body of the process."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    done.put(asyncio.run(storm(port, tokens, limit)))


assert length(321) == b"\xc1\x02"
