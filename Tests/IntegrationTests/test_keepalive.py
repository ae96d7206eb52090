"""The SDK's packets about its connection, seen by a broker that answers as little as the test likes."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.processes import Child
from harness.service import executable

CONNECT, PUBLISH, SUBSCRIBE, PINGREQ = 1, 3, 8, 12


class SilentBroker:
    """Lets a client in and grants its subscriptions. The broker never answers the client's publications."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(15)
        self.port = self.listener.getsockname()[1]

    @contextmanager
    def client(self) -> Iterator[socket.socket]:
        connection, _ = self.listener.accept()
        with connection:
            connection.settimeout(15)
            yield connection


def packet(connection: socket.socket) -> tuple[int, bytes]:
    """The next packet's type and body; type 0 when the client has hung up."""

    def take(count: int) -> bytes:
        taken = b""
        while len(taken) < count:
            some = connection.recv(count - len(taken))
            if not some:
                raise EOFError
            taken += some
        return taken

    try:
        head = take(1)[0]
        length, shift = 0, 0
        while True:
            byte = take(1)[0]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return head >> 4, take(length)
    except (EOFError, ConnectionError):
        return 0, b""


@pytest.fixture
def silent() -> Iterator[SilentBroker]:
    broker = SilentBroker()
    yield broker
    broker.listener.close()


@pytest.mark.timeout(60)
def test_the_sdk_keeps_alive_every_minute_and_asks_when_a_request_is_unanswered(silent: SilentBroker, tmp_path: Path) -> None:
    """A client with a request notices a dead connection long before the keepalive would notice the dead connection."""
    phone = Child(
        [executable(), "call", "bob", "--as", "alice", "--broker", f"mqtt://127.0.0.1:{silent.port}"],
        stdout=tmp_path / "phone.log",
    )
    try:
        with silent.client() as connection:
            kind, body = packet(connection)
            assert kind == CONNECT
            assert int.from_bytes(body[8:10]) == 60, "seconds"
            connection.sendall(bytes([0x20, 3, 0, 0, 0]))
            asked = None
            requests = 0
            while True:
                kind, body = packet(connection)
                if kind == SUBSCRIBE:
                    connection.sendall(bytes([0x90, 4, body[0], body[1], 0, 1]))
                elif kind == PUBLISH and b"call.invite" in body:
                    requests += 1
                elif kind == PINGREQ:
                    assert asked is None and requests == 2, "with the first repetition"
                    asked = time.monotonic()
                elif kind == 0:
                    break
            assert asked is not None and 4 < time.monotonic() - asked < 8
        with silent.client() as connection:
            assert packet(connection)[0] == CONNECT, "it tries again"
    finally:
        phone.kill()
