"""Many devices that come and go as often as the broker allows."""

from __future__ import annotations

import os
import resource
import time
from typing import Any

from attackers import Client, publish_packet

PINGREQ, PINGRESP = b"\xc0\x00", b"\xd0\x00"


def run(port: int, tokens: list[tuple[str, str]], changes: int, done: Any) -> None:
    """The body of the process: each device publishes its presence `changes` times. Puts the seconds until the broker
    had read all messages into `done`."""
    os.nice(19)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    began = time.monotonic()
    clients = []
    for user, token in tokens:
        client = Client(port, user, token)
        packets = [
            publish_packet(client.presence_topic, client.presence(turn % 2 == 0, session=str(turn // 2)))
            for turn in range(changes)
        ]
        client.socket.sendall(b"".join(packets))
        clients.append(client)
    for client in clients:
        client.socket.settimeout(60)
        client.socket.sendall(PINGREQ)
        # No other packet comes, since these devices have not subscribed.
        assert client.socket.recv(2) == PINGRESP
    done.put(time.monotonic() - began)
