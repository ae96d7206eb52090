"""A listener on all messages that pass through a broker, in both directions."""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.subscribeoptions import SubscribeOptions

from conformance.client import stop_loop

_TOPIC = re.compile(r"^.+?/(up|down|presence)/(.*)$", re.DOTALL)


@dataclass(frozen=True)
class Tapped:
    """A message as the broker passed the message on."""

    topic: str
    raw: bytes
    at: float
    retain: bool
    response_topic: str | None = None
    """The topic of the answer, by MQTT 5's Response Topic."""

    @cached_property
    def kind(self) -> str:
        """`up`, `down`, `presence`, or empty for a topic that is none of the service's."""
        match = _TOPIC.match(self.topic)
        return match[1] if match else ""

    @cached_property
    def levels(self) -> list[str]:
        """The topic levels after `up/`, `down/` or `presence/`: user and perhaps device."""
        match = _TOPIC.match(self.topic)
        return match[2].split("/") if match else []

    @cached_property
    def body(self) -> dict[str, Any]:
        """The JSON object, empty when the payload is none."""
        try:
            body = json.loads(self.raw)
        except (ValueError, RecursionError):
            return {}
        return body if isinstance(body, dict) else {}


class Tap:
    """Records all messages of a broker. The judgement comes later, in the main thread: a judgement takes time that
    would distort the tests' measurements."""

    def __init__(self) -> None:
        self.messages: list[Tapped] = []
        self.deliberately_bad: set[tuple[str, bytes]] = set()
        self.is_mistaken: Callable[[Tapped], bool] = lambda _: False
        """Whether a request breaks the contract on purpose, for a test that does not know how a gateway will treat the
        request."""
        self.returns: list[float] = []
        """The times at which the tap connected again, after starts of the broker: devices may have been faster."""
        self._changed = threading.Condition()
        self._client: mqtt.Client | None = None
        self._was_connected = False

    def connect(self, port: int) -> None:
        if self._was_connected:
            self.returns.append(time.monotonic())
        self._was_connected = True
        subscribed = threading.Event()
        client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            f"tap-{secrets.token_hex(8)}",
            protocol=mqtt.MQTTv5,
            reconnect_on_failure=False,
        )
        options = SubscribeOptions(qos=0, retainAsPublished=True)
        client.on_connect = lambda c, *_: c.subscribe("#", options=options)
        client.on_subscribe = lambda *_: subscribed.set()
        client.on_message = self._on_message
        client.connect("127.0.0.1", port)
        client.loop_start()
        assert subscribed.wait(30), "the tap could not subscribe"
        self._client = client

    def disconnect(self) -> None:
        if self._client:
            self._client.disconnect()
            stop_loop(self._client)
        self._client = None

    def _on_message(self, client: mqtt.Client, _: Any, message: mqtt.MQTTMessage) -> None:
        answer = getattr(message.properties, "ResponseTopic", None)
        with self._changed:
            self.messages.append(Tapped(message.topic, bytes(message.payload), time.monotonic(), message.retain, answer))
            self._changed.notify_all()

    def wait(self, matches: Callable[[Tapped], bool], timeout: float, what: str, since: int = 0) -> Tapped:
        """The first message recorded at or after index `since` that matches. Waits for the message when needed."""
        deadline = time.monotonic() + timeout
        position = since
        with self._changed:
            while True:
                while position < len(self.messages):
                    if matches(self.messages[position]):
                        return self.messages[position]
                    position += 1
                left = deadline - time.monotonic()
                assert left > 0, f"not seen on the broker within {timeout} s: {what}"
                self._changed.wait(left)

    def settle(self) -> None:
        """Returns when all messages are recorded that the broker had passed on before this call."""
        if self._client:
            topic = f"tap/{secrets.token_hex(8)}"
            self._client.publish(topic)
            self.wait(lambda message: message.topic == topic, 30, "the tap's own message")

    def take(self) -> list[Tapped]:
        """All messages recorded so far, which the tap then forgets."""
        with self._changed:
            messages, self.messages = self.messages, []
        return messages
