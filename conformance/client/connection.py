"""An MQTT connection over TCP, TLS or WebSocket, by MQTT 5 or 3.1.1."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from .endpoint import Will

Version = Literal["5", "3.1.1"]

_PORTS = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}
_KEEPALIVE_SECONDS = 60
_INFLIGHT = 1000
"""The bound of unacknowledged QoS 1 messages; paho's default of 20 would throttle the tests of rate limits."""


class BrokerRefused(Exception):
    """The broker refused this client, or a subscription to a topic."""


@dataclass(frozen=True)
class Broker:
    """The broker's address, and the credentials of its users."""

    scheme: str
    host: str
    port: int
    path: str
    """The path of a WebSocket URL."""
    ca: str | None
    """A file with the certificate authorities to trust; None for the authorities of the system."""
    password: Callable[[str], str | None]
    """Returns the token of a user, or None where the broker checks no tokens."""

    @staticmethod
    def at(url: str, ca: str | None, password: Callable[[str], str | None]) -> Broker:
        """Reads `mqtt://`, `mqtts://`, `ws://` or `wss://host[:port][/path]`. Raises ValueError for any other text."""
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError(f"{url!r} is not mqtt://, mqtts://, ws:// or wss:// with a host")
        if parts.username is not None:
            raise ValueError("user names are the tests' own: give passwords with --token or --token-command")
        path = parts.path or "/mqtt"
        return Broker(parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme], path, ca, password)


class Connection:
    """A connection with a clean session, which never reconnects by itself."""

    def __init__(
        self,
        broker: Broker,
        version: Version,
        client_id: str,
        username: str,
        password: str | None,
        will: Will | None,
        on_message: Callable[[mqtt.MQTTMessage], None],
    ) -> None:
        self._broker = broker
        self._version = version
        self._client = make_client(broker, version, client_id, username, password, will)
        self._is_lost = False
        self._client.on_message = lambda _client, _data, message: on_message(message)

    def open(self, topics: list[str], qos: int, patience: float) -> None:
        """Connects, subscribes with this QoS and waits for the SUBACK. Raises BrokerRefused."""
        answered = threading.Event()
        refusals: list[str] = []

        def connected(client: mqtt.Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
            if reason.is_failure:
                refusals.append(f"connection refused: {reason}")
                answered.set()
            else:
                client.subscribe([(topic, qos) for topic in topics])

        def subscribed(_client: mqtt.Client, _data: Any, _mid: int, reasons: list[Any], _properties: Any) -> None:
            refusals.extend(f"no subscription to {t}: {r}" for t, r in zip(topics, reasons) if r.is_failure)
            answered.set()

        def disconnected(_client: mqtt.Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
            self._is_lost = True
            if not answered.is_set():
                refusals.append(f"disconnected: {reason}")
                answered.set()

        self._client.on_connect = connected
        self._client.on_subscribe = subscribed
        self._client.on_disconnect = disconnected
        connect(self._client, self._broker, self._version)
        self._client.loop_start()
        if not answered.wait(patience):
            refusals.append(f"no SUBACK within {patience:g} s")
        if refusals:
            self._release()
            raise BrokerRefused("; ".join(refusals))

    @property
    def is_open(self) -> bool:
        """Whether the connection is open. paho reports a connection after a DISCONNECT of the broker, so this class has
        a flag of its own."""
        return self._client.is_connected() and not self._is_lost

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        retain: bool = False,
        correlation: bytes | None = None,
        response_topic: str | None = None,
        user_properties: Sequence[tuple[str, str]] = (),
    ) -> mqtt.MQTTMessageInfo:
        properties = None
        if correlation is not None or response_topic is not None or user_properties:
            properties = Properties(PacketTypes.PUBLISH)
        if correlation is not None:
            properties.CorrelationData = correlation
        if response_topic is not None:
            properties.ResponseTopic = response_topic
        if user_properties:
            properties.UserProperty = list(user_properties)
        return self._client.publish(topic, payload, qos, retain, properties)

    def close(self) -> None:
        """Closes the connection by DISCONNECT: the broker forgets the will."""
        self._client.disconnect()
        self._release()

    def drop(self) -> None:
        """Breaks the connection without DISCONNECT, like a dead battery: the broker publishes the will."""
        with _handle(self._client.socket()) as sock:
            sock.shutdown(socket.SHUT_RDWR)
        self._release()

    def _release(self) -> None:
        """Ends paho's thread, and breaks the reference cycle of client and callbacks: paho closes its three descriptors
        only when the client is collected, and cannot wait on a descriptor above 1023."""
        stop_loop(self._client)
        for callback in ("on_connect", "on_subscribe", "on_disconnect", "on_message", "on_socket_open"):
            setattr(self._client, callback, None)
        del self._client


def make_client(
    broker: Broker, version: Version, client_id: str, username: str, password: str | None, will: Will | None
) -> mqtt.Client:
    """Returns a paho client with a clean session, which is not connected yet and has no thread yet."""
    protocol = mqtt.MQTTv5 if version == "5" else mqtt.MQTTv311
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2,
        client_id,
        protocol=protocol,
        transport="websockets" if broker.scheme in ("ws", "wss") else "tcp",
        # With MQTT 5, `connect` sets the flag (clean start).
        clean_session=True if protocol == mqtt.MQTTv311 else None,
        reconnect_on_failure=False,
    )
    client.max_inflight_messages_set(_INFLIGHT)
    client.username_pw_set(username, password)
    if broker.scheme in ("ws", "wss"):
        client.ws_set_options(path=broker.path)
    if broker.scheme in ("mqtts", "wss"):
        client.tls_set(ca_certs=broker.ca)
    if will:
        client.will_set(will.topic, will.payload, qos=1)
    client.on_socket_open = lambda _client, _data, sock: no_delay(sock)
    return client


def connect(client: mqtt.Client, broker: Broker, version: Version, keepalive: int = _KEEPALIVE_SECONDS) -> None:
    """Sends the CONNECT. Raises OSError where no process listens."""
    clean: dict[str, Any] = {"clean_start": True} if version == "5" else {}
    client.connect(broker.host, broker.port, keepalive, **clean)


def stop_loop(client: mqtt.Client) -> None:
    """Ends paho's thread. A thread that ends by itself clears paho's reference to the thread, perhaps between paho's
    check and paho's wait."""
    with suppress(AttributeError):
        client.loop_stop()


@contextmanager
def _handle(sock: Any) -> Iterator[socket.socket]:
    """Yields a second handle on paho's socket, which may be wrapped for TLS or WebSocket."""
    handle = socket.socket(fileno=os.dup(sock.fileno()))
    try:
        yield handle
    finally:
        handle.close()


def no_delay(sock: Any) -> None:
    """Sets TCP_NODELAY. Without TCP_NODELAY small packets wait for the peer's delayed TCP acknowledgment, up to 40
    ms."""
    with _handle(sock) as handle:
        handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
