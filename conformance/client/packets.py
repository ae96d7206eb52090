"""Reads MQTT 5 packets from a WebSocket or a wire, as far as needed to see the messages of a device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

CONNECT, PUBLISH, PUBACK = 1, 3, 4


@dataclass(frozen=True)
class Publish:
    topic: str
    payload: bytes
    properties: Properties
    retained: bool
    packet: int | None
    """The packet id, with QoS 1 and 2."""


class PacketReader:
    """Reads the bytes of a direction, in pieces of any size, and returns whole packets: type, flags, body."""

    def __init__(self) -> None:
        self._bytes = b""

    def push(self, more: bytes) -> Iterator[tuple[int, int, bytes]]:
        self._bytes += more
        while (frame := _frame(self._bytes)) is not None:
            start, end = frame
            if end > len(self._bytes):
                return
            header, body, self._bytes = self._bytes[0], self._bytes[start:end], self._bytes[end:]
            yield header >> 4, header & 15, body


def _frame(data: bytes) -> tuple[int, int] | None:
    """Returns where the first packet's body begins and ends; None while its length is incomplete."""
    length = 0
    for position in range(1, 5):
        if position >= len(data):
            return None
        length += (data[position] & 127) << (7 * (position - 1))
        if data[position] < 128:
            return position + 1, position + 1 + length
    raise ValueError("a packet length is too long")


def read_publish(flags: int, body: bytes) -> Publish:
    topic_end = 2 + int.from_bytes(body[:2], "big")
    rest, packet = body[topic_end:], None
    if flags & 6:
        packet, rest = read_packet_id(rest), rest[2:]
    properties = Properties(PacketTypes.PUBLISH)
    _, length = properties.unpack(rest)
    return Publish(body[2:topic_end].decode(), rest[length:], properties, bool(flags & 1), packet)


def read_packet_id(body: bytes) -> int:
    return int.from_bytes(body[:2], "big")
