"""Attackers, each in a process with the least priority: attackers on a machine of their own would take no time from the
service's processor either. Each attacker attacks until it is stopped, and puts the counts of its attack into `done`."""

from __future__ import annotations

import os
import random
import secrets
import socket
import struct
import time
from collections import Counter
from contextlib import suppress
from multiprocessing.synchronize import Event
from queue import Queue
from typing import Any

from conformance.client import ROOT, Endpoint

Done = "Queue[tuple[str, dict[str, int]]]"


def length(count: int) -> bytes:
    """MQTT's variable byte integer."""
    text = b""
    while True:
        count, low = divmod(count, 128)
        text += bytes([low | (128 if count else 0)])
        if not count:
            return text


def field(text: bytes) -> bytes:
    return struct.pack("!H", len(text)) + text


def connect_packet(client_id: str, username: str, password: str) -> bytes:
    """MQTT 3.1.1, clean session, keepalive 60 s."""
    body = b"\x00\x04MQTT\x04\xc2" + struct.pack("!H", 60)
    body += field(client_id.encode()) + field(username.encode()) + field(password.encode())
    return b"\x10" + length(len(body)) + body


def publish_packet(topic: str, payload: bytes) -> bytes:
    """QoS 0."""
    body = field(topic.encode()) + payload
    return b"\x30" + length(len(body)) + body


def subscribe_packet(*filters: str) -> bytes:
    body = struct.pack("!H", 1) + b"".join(field(text.encode()) + b"\x01" for text in filters)
    return b"\x82" + length(len(body)) + body


class Client(Endpoint):
    """A connection without manners."""

    def __init__(self, port: int, user: str, token: str) -> None:
        super().__init__(ROOT, user, "phone")
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.socket.sendall(connect_packet(self.client_id, self.level, token))
        answer = self.socket.recv(4)
        self.is_in = len(answer) == 4 and answer[3] == 0

    def publish(self, payload: bytes, topic: str | None = None) -> None:
        self.socket.sendall(publish_packet(topic or self.up, payload))

    def present(self, online: bool, session: str) -> None:
        self.publish(self.presence(online, session=session), self.presence_topic)

    def subscribe(self) -> None:
        """Does not check the SUBACK: the client drains all incoming data."""
        self.socket.sendall(subscribe_packet(*self.down))

    def drain(self) -> None:
        self.socket.setblocking(False)
        with suppress(BlockingIOError):
            while self.socket.recv(65536):
                pass
        self.socket.setblocking(True)
        self.socket.settimeout(5)

    def close(self) -> None:
        self.socket.close()


def flood(stop: Event, port: int, token: str, counts: Counter[str]) -> None:
    """Sends as many messages as the broker takes: garbage, requests, acks, to the flooder's own topic and to others'
    topics."""
    own, load = Endpoint(ROOT, "flooder", "phone"), [Endpoint(ROOT, f"load-0-{side}", "phone") for side in "ab"]
    one = b"".join(
        [
            publish_packet(own.up, b"garbage"),
            publish_packet(own.up, b'{"type":"call.invite","id":"a","invitees":["victim"]}'),
            publish_packet(own.up, b'{"type":"call.query","id":"b"}'),
            publish_packet(own.up, b'{"type":"ack","callID":"x","revision":1}'),
            publish_packet(own.presence_topic, own.presence(True, session="s")),
            publish_packet(load[0].up, b'{"type":"call.query","id":"b"}'),
            publish_packet(load[1].user_topic, b'{"type":"forged"}'),
            publish_packet(own.up, b"[" * 2000),
        ]
    )
    while not stop.is_set():
        try:
            client = Client(port, "flooder", token)
            if not client.is_in:
                counts["kept out"] += 1
                client.close()
                stop.wait(0.5)
                continue
            while not stop.is_set():
                client.socket.sendall(one * 8)
                counts["messages"] += 64
                client.drain()
        except OSError:
            counts["put off"] += 1
        stop.wait(0.2)


def garbage(stop: Event, port: int, token: str, counts: Counter[str]) -> None:
    """Bytes that are no MQTT, and MQTT that is broken in the middle."""
    packet = connect_packet("garbage/phone", "garbage", token)
    while not stop.is_set():
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            kind = random.randrange(3)
            if kind == 0:
                connection.sendall(secrets.token_bytes(200))
            elif kind == 1:
                connection.sendall(packet[: random.randrange(len(packet))])
            else:
                connection.sendall(packet + secrets.token_bytes(500))
            counts["connections"] += 1
        stop.wait(0.02)


def hold(stop: Event, port: int, token: str, counts: Counter[str]) -> None:
    """Opens connections that send no byte, or half a CONNECT."""
    held = []
    with suppress(OSError):
        for number in range(500):
            connection = socket.create_connection(("127.0.0.1", port), timeout=5)
            # mosquitto has a short queue of connections that it has not accepted yet.
            time.sleep(0.005)
            if number % 2:
                connection.sendall(b"\x10\x7f\x00\x04MQ")
            held.append(connection)
    counts["connections"] = len(held)
    stop.wait()
    for connection in held:
        connection.close()


def replay(stop: Event, port: int, token: str, counts: Counter[str], calls: list[str]) -> None:
    """Repeats messages of others in the replayer's own name: the broker does not let the replayer use the others'
    names."""
    client, victim = Client(port, "replayer", token), Endpoint(ROOT, "load-1-a", "phone")
    kinds = ("call.accept", "call.reject", "call.cancel", "call.end", "call.quit", "call.join", "call.get", "call.trace", "call.media")
    while not stop.is_set():
        call = random.choice(calls)
        client.publish(f'{{"type":"{random.choice(kinds)}","id":"{secrets.token_hex(4)}","callID":"{call}"}}'.encode())
        client.publish(f'{{"type":"ack","callID":"{call}","revision":9}}'.encode())
        client.publish(victim.presence(False, "logout"), victim.presence_topic)
        client.drain()
        counts["messages"] += 3
        stop.wait(0.01)


def guess(stop: Event, port: int, token: str, counts: Counter[str]) -> None:
    """Asks for random call ids."""
    client = Client(port, "guesser", token)
    while not stop.is_set():
        for _ in range(5):
            request = f'{{"type":"call.get","id":"{secrets.token_hex(4)}","callID":"{secrets.token_hex(16)}"}}'
            client.publish(request.encode())
        client.drain()
        counts["guesses"] += 5
        stop.wait(0.02)


def forge(stop: Event, port: int, token: str, counts: Counter[str]) -> None:
    """Tokens that are almost right."""
    head, claims, signature = token.split(".")
    while not stop.is_set():
        with suppress(OSError):
            forged = f"{head}.{claims}.{signature[:-4]}{secrets.token_hex(2)}"
            client = Client(port, "forger", forged)
            counts["let in" if client.is_in else "refused"] += 1
            client.close()
        stop.wait(0.02)


def ring(stop: Event, port: int, token: str, counts: Counter[str], victims_token: str) -> None:
    """Invites a single victim again and again. The victim's phone listens, and never acks."""
    client, victim = Client(port, "ringer", token), Client(port, "victim", victims_token)
    victim.subscribe()
    victim.present(True, "v")
    while not stop.is_set():
        request = f'{{"type":"call.invite","id":"{secrets.token_hex(8)}","invitees":["victim"],"timeout":10}}'
        client.publish(request.encode())
        client.drain()
        victim.drain()
        counts["invitations"] += 1
        stop.wait(0.01)


def flap(stop: Event, port: int, token: str, counts: Counter[str]) -> None:
    """Comes and goes."""
    client = Client(port, "flapper", token)
    while not stop.is_set():
        session = secrets.token_hex(4)
        for online in (True, False):
            client.present(online, session)
        client.drain()
        counts["flaps"] += 1
        stop.wait(0.005)


ATTACKERS = {
    "flooder": flood,
    "garbage": garbage,
    "holder": hold,
    "replayer": replay,
    "guesser": guess,
    "forger": forge,
    "ringer": ring,
    "flapper": flap,
}


def attack(name: str, stop: Event, done: Any, port: int, token: str, *extra: Any) -> None:
    """The body of an attacker's process."""
    os.nice(19)
    counts: Counter[str] = Counter()
    # `slow`, the other file of attackers, imports this file.
    import slow

    everybody = ATTACKERS | slow.ATTACKERS
    while not stop.is_set():
        try:
            everybody[name](stop, port, token, counts, *extra)
        except OSError:
            counts["connections lost"] += 1
            time.sleep(0.1)
    done.put((name, dict(counts)))
