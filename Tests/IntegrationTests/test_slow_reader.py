"""A client that does not read: the messages that wait at the broker for this client are bounded, for any QoS and
transport, and other clients are not hurt."""

from __future__ import annotations

import base64
import secrets
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import Attempt, SecureBroker, wait_until

ROOT = "bellwire/v1"
PAYLOAD = b"x" * 50_000
MESSAGES = 1_400
"""70 MB."""
MOST = 40e6
"""Bytes by which the broker may grow: a backlog of 4 MiB, the allocator's reserve, and the publisher's own messages."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecureBroker]:
    broker = SecureBroker(tmp_path / "broker", log_type="notice")
    yield broker
    broker.stop()


def field(text: str) -> bytes:
    return struct.pack("!H", len(text.encode())) + text.encode()


def packet(kind: int, body: bytes) -> bytes:
    length, rest = b"", len(body)
    while True:
        rest, low = divmod(rest, 128)
        length += bytes([low | (128 if rest else 0)])
        if not rest:
            return bytes([kind]) + length + body


def frame(data: bytes) -> bytes:
    """A WebSocket message from a client, with a mask of zeros."""
    assert len(data) < 65536
    return b"\x82" + (bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack("!H", len(data))) + bytes(4) + data


@contextmanager
def slow_reader(broker: SecureBroker, user: str, qos: int, transport: str) -> Iterator[socket.socket]:
    """Has subscribed, with the largest Receive Maximum, and reads no more."""
    port = {"tcp": broker.port, "tls": broker.tls_port, "websockets": broker.web_port}[transport]
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    if transport == "tls":
        context = ssl.create_default_context(cafile=str(broker.certs / "ca.crt"))
        connection = context.wrap_socket(connection, server_hostname="localhost")
    wrap = frame if transport == "websockets" else bytes
    if transport == "websockets":
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        connection.sendall(
            f"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: mqtt\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        assert b" 101 " in connection.recv(4096)
    receive_maximum = b"\x03\x21\xff\xff"
    connect = field("MQTT") + b"\x05\xc2" + struct.pack("!H", 600) + receive_maximum
    connect += field(f"{user}/phone") + field(user) + field(broker.token(user))
    connection.sendall(wrap(packet(0x10, connect)))
    assert connection.recv(100)
    connection.sendall(wrap(packet(0x82, b"\x00\x01\x00" + field(f"{ROOT}/down/{user}") + bytes([qos]))))
    assert connection.recv(100)
    with connection:
        yield connection


@pytest.mark.parametrize("transport", ["tcp", "tls", "websockets"])
@pytest.mark.parametrize("qos", [0, 1])
def test_what_waits_for_a_client_that_does_not_read_is_bounded(broker: SecureBroker, qos: int, transport: str) -> None:
    sender = Attempt(broker, "sender", "service", broker.coordinator_token().read_text().strip())
    other = Attempt(broker, "other/phone", "other", broker.token("other"))
    other.subscribe(f"{ROOT}/down/other")
    with slow_reader(broker, "slow", qos, transport):
        before = most = broker.resident()
        for number in range(MESSAGES // 100):
            for _ in range(99):
                sender.client.publish(f"{ROOT}/down/slow", PAYLOAD, 1)
            sender.publish(f"{ROOT}/down/slow", PAYLOAD)
            sender.publish(f"{ROOT}/down/other", str(number).encode())
            most = max(most, broker.resident())
        assert most - before < MOST, f"{(most - before) / 1e6:.0f} MB"
        wait_until(lambda: "put off: slowReader" in broker.log.read_text(), 20, "a line about it")
    wait_until(lambda: len(other.messages) == MESSAGES // 100, 20, "all that was for the other")
    sender.close()
    other.close()


def test_a_client_that_reads_gets_all_of_it(broker: SecureBroker) -> None:
    """The amount of data does not matter."""
    sender = Attempt(broker, "sender", "service", broker.coordinator_token().read_text().strip())
    reader = Attempt(broker, "reader/phone", "reader", broker.token("reader"))
    reader.subscribe(f"{ROOT}/down/reader")
    for number in range(20):
        for _ in range(20):
            sender.publish(f"{ROOT}/down/reader", PAYLOAD)
        # A reader that is slower than the sender would be put off.
        wait_until(lambda number=number: len(reader.messages) == 20 * (number + 1), 30, "what was sent so far")
    assert not reader.disconnected.is_set()
    sender.close()
    reader.close()
