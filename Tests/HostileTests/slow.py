"""Attackers that ask and do not read, so that the answers fill the broker's memory."""

from __future__ import annotations

import secrets
import socket
import struct
from collections import Counter
from contextlib import suppress
from multiprocessing.synchronize import Event

from conformance.client import ROOT, Endpoint

from attackers import Client, field, length, publish_packet

QUERIES = 400
"""Queries a second; each query brings the largest possible answer."""
INVITATIONS = 60
"""Invitations a second, each told to all devices and resent to these devices until the invitation expires."""
DEVICES = 27


class Deaf(Endpoint):
    """Connected by MQTT 5 with the largest Receive Maximum; has subscribed, and reads no more."""

    def __init__(self, port: int, user: str, device: str, token: str, qos: int) -> None:
        super().__init__(ROOT, user, device)
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        connect = b"\x00\x04MQTT\x05\xc2" + struct.pack("!H", 60) + b"\x03\x21\xff\xff"
        connect += field(self.client_id.encode()) + field(self.level.encode()) + field(token.encode())
        self.socket.sendall(b"\x10" + length(len(connect)) + connect)
        answer = self.socket.recv(100)
        self.is_in = len(answer) > 3 and answer[0] == 0x20 and answer[3] == 0
        subscribe = b"\x00\x01\x00" + b"".join(field(text.encode()) + bytes([qos]) for text in self.down)
        self.socket.sendall(b"\x82" + length(len(subscribe)) + subscribe)
        self.begin_session()
        self.publish(self.presence(True), self.presence_topic)

    def publish(self, payload: bytes, topic: str | None = None) -> None:
        """Publishes in the MQTT 5 form, without properties."""
        body = field((topic or self.up).encode()) + b"\x00" + payload
        self.socket.sendall(b"\x30" + length(len(body)) + body)


def ask(stop: Event, port: int, token: str, counts: Counter[str], user: str, qos: int) -> None:
    """Fills the client's own history, and asks for the whole history again and again."""
    filler = "x" * 2000
    with suppress(OSError):
        # The calls fill the history of their caller; the invited users need not exist.
        client = Client(port, user, token)
        for _ in range(60):
            request = (
                f'{{"type":"call.invite","id":"{secrets.token_hex(8)}","invitees":["nobody-{secrets.token_hex(4)}"],'
                f'"timeout":600,"extendedData":"{filler}"}}'
            )
            client.socket.sendall(publish_packet(client.up, request.encode()))
            client.drain()
            stop.wait(0.02)
        client.close()
    while not stop.is_set():
        try:
            deaf = Deaf(port, user, "deaf", token, qos)
            while deaf.is_in and not stop.is_set():
                for _ in range(QUERIES // 20):
                    deaf.publish(b'{"type":"call.query","id":"%s","count":100}' % secrets.token_hex(4).encode())
                    counts["queries"] += 1
                stop.wait(0.05)
        except OSError:
            counts["put off"] += 1
        stop.wait(0.1)


def ask_by_acknowledged(stop: Event, port: int, token: str, counts: Counter[str]) -> None:
    ask(stop, port, token, counts, "slow-one", 1)


def ask_by_unacknowledged(stop: Event, port: int, token: str, counts: Counter[str]) -> None:
    ask(stop, port, token, counts, "slow-zero", 0)


def be_invited(stop: Event, port: int, token: str, counts: Counter[str], devices_token: str) -> None:
    """Many devices of a user that do not read, and a caller who invites that user."""
    client = Client(port, "slow-caller", token)
    deaf: dict[int, Deaf] = {}
    filler = "x" * 2000
    while not stop.is_set():
        for number in range(DEVICES):
            if number in deaf:
                continue
            with suppress(OSError):
                device = Deaf(port, "slow-devices", f"d{number}", devices_token, number % 2)
                counts["devices in" if device.is_in else "devices refused"] += 1
                if device.is_in:
                    deaf[number] = device
        for _ in range(INVITATIONS):
            request = (
                f'{{"type":"call.invite","id":"{secrets.token_hex(8)}","invitees":["slow-devices"],"timeout":600,'
                f'"extendedData":"{filler}"}}'
            )
            client.publish(request.encode())
            counts["invitations"] += 1
            stop.wait(1 / INVITATIONS)
        client.drain()
        for number, device in list(deaf.items()):
            try:
                device.publish(b"x")
            except OSError:
                counts["put off"] += 1
                del deaf[number]


ATTACKERS = {"slow-one": ask_by_acknowledged, "slow-zero": ask_by_unacknowledged, "slow-caller": be_invited}
