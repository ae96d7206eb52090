"""An MQTT connection of a device, driven by the loop, with a network that can be bad."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as mqtt

from conformance.client import Broker, Endpoint, Will, connect, make_client, no_delay

from .history import History
from .loop import Loop


_KEEPALIVE_SECONDS = 30


@dataclass
class Trouble:
    """The harm of a bad network to the messages of a device."""

    loss: float = 0.0
    double: float = 0.0
    delay: float = 0.0
    """Seconds, at most. Messages overtake each other."""


class Link:
    """A clean session with a will. The link ends once, and tells its end by `on_end`."""

    def __init__(
        self,
        loop: Loop,
        history: History,
        rng: random.Random,
        broker: Broker,
        phone: Endpoint,
        *,
        will: Will,
        qos: int,
        on_ready: Callable[[], None],
        on_message: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        self.trouble: Trouble | None = None
        self.is_open = True
        self._loop, self._history, self._rng, self._name, self._qos = loop, history, rng, phone.client_id, qos
        self._on_message, self._on_end = on_message, on_end
        self._socket: socket.socket | None = None
        client = make_client(broker, "5", phone.client_id, phone.level, broker.password(phone.user), will)
        client.on_socket_open = self._opened
        client.on_socket_close = self._closed
        client.on_connect = lambda c, *_: c.subscribe([(topic, qos) for topic in phone.down])
        client.on_subscribe = lambda *_: on_ready()
        client.on_message = self._received
        client.on_disconnect = lambda *_: self.end()
        self._client = client
        try:
            connect(client, broker, "5", _KEEPALIVE_SECONDS)
        except OSError:
            loop.after(0, self.end)
            return
        self._tick()

    def _opened(self, _client: Any, _data: Any, sock: Any) -> None:
        no_delay(sock)
        self._socket = sock
        self._loop.watch(sock, self._readable)

    def _closed(self, _client: Any, _data: Any, sock: Any) -> None:
        self._loop.forget(sock)
        self._socket = None

    def _readable(self) -> None:
        self._client.loop_read()
        self._flush()

    def _flush(self) -> None:
        if self.is_open and self._client.want_write():
            self._client.loop_write()

    def _tick(self) -> None:
        if self.is_open:
            self._client.loop_misc()
            self._flush()
            self._later(0.5, self._tick)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        def act() -> None:
            if self.is_open:
                action()

        self._loop.after(seconds, act)

    def _received(self, _client: Any, _data: Any, message: mqtt.MQTTMessage) -> None:
        if not self.is_open:
            return
        if self.trouble and self._rng.random() < self.trouble.loss:
            self._history.device("lost", self._name, direction="down")
            return
        self._on_message(bytes(message.payload))

    def publish(self, kind: str, topic: str, payload: bytes) -> None:
        """Sends the message now; under trouble the message may go later, go twice or be lost."""
        trouble = self.trouble
        if not trouble:
            self._send(kind, topic, payload)
            return
        if self._rng.random() < trouble.loss:
            self._history.device("lost", self._name, direction="up")
            return
        copies = 2 if self._rng.random() < trouble.double else 1
        for _ in range(copies):
            delay = self._rng.uniform(0, trouble.delay) if trouble.delay else 0
            self._later(delay, lambda: self._send(kind, topic, payload))

    def _send(self, kind: str, topic: str, payload: bytes) -> None:
        self._history.device(kind, self._name, payload)
        self._client.publish(topic, payload, self._qos)

    def drop(self) -> None:
        """Breaks the connection without DISCONNECT: the broker publishes the will."""
        sock = self._socket
        if sock:
            sock.shutdown(socket.SHUT_RDWR)
        self.end()

    def close(self) -> None:
        """A clean goodbye: the will is not published."""
        if self.is_open:
            self._client.disconnect()
            self._flush()
        self.end()

    def end(self) -> None:
        if not self.is_open:
            return
        self.is_open = False
        sock = self._socket
        if sock:
            self._loop.forget(sock)
            self._socket = None
            self._client.on_socket_close = None
            # paho closes the socket only when the client object is collected; the broker must see the end at once.
            sock.close()
        self._on_end()
