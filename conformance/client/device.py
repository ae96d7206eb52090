"""One device of one user: presence, requests with their resends, acks, and waiting for what the service sends."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import paho.mqtt.client as mqtt
from paho.mqtt.properties import Properties

from ..expect import Mismatch, equal
from .connection import Broker, BrokerRefused, Connection, Version, Will
from .message import Journal, Message
from .topics import encode_user

Value = TypeVar("Value")

_LONGEST_PAUSE_MS = 2000
"""A rate is free again by then; what waits longer is another limit."""

BACKOFF = (1.0, 2.0, 4.0, 8.0)
"""Seconds after which what has no answer is sent again (sections 1 and 2)."""

QUIET = 0.5
"""How long nothing may come, in seconds, where the absence of a message is what a test asserts."""


@dataclass(frozen=True)
class Deployment:
    """What the tests talk to."""

    broker: Broker
    root: str
    """What all topics begin with."""
    patience: float
    """How long to wait for what should come at once, in seconds."""


class Request:
    """A request on its way."""

    def __init__(self, device: Device, body: dict[str, Any], correlation: bytes | None) -> None:
        self.id: str = body["id"]
        self.fields = body
        self._device = device
        self._payload = encode(body)
        self._correlation = correlation
        self._since = device.mark
        self._send()

    def _send(self) -> None:
        self._device.publish(self._device.up, self._payload, correlation=self._correlation)

    def response(self) -> Message:
        """The response. As section 2 asks, the request is sent again after 1, 2, 4, 8 s without one."""
        for pause in BACKOFF:
            try:
                return self._device.wait(self._is_mine, pause, f"the response to {self.id}", since=self._since)
            except Mismatch:
                if pause == BACKOFF[-1]:
                    raise
                self._send()
        raise AssertionError("not reached")

    def ok(self) -> dict[str, Any]:
        body = self.response().body
        if body.get("ok") is not True:
            raise Mismatch(f"{self._text} was refused: {body.get('error')}")
        return body

    def refused(self, code: str) -> dict[str, Any]:
        """The error of the response, which must have this code."""
        body = self.response().body
        if body.get("ok") is not False:
            raise Mismatch(f"{self._text} was served, {code} expected: {json.dumps(body)}")
        equal(f"the error code of {self._text}", body["error"]["code"], code)
        return body["error"]

    def again(self) -> Request:
        """Publishes the same bytes once more; what is asked next is the response to that."""
        self._since = self._device.mark
        self._send()
        return self

    def _is_mine(self, message: Message) -> bool:
        return message.type == "response" and message.get("id") == self.id

    @property
    def _text(self) -> str:
        return self._payload[:300].decode(errors="replace")


class Device:
    """Acks every event and message by itself unless `auto_ack` is off, and never reconnects by itself."""

    def __init__(
        self,
        deployment: Deployment,
        version: Version,
        journal: Journal,
        user: str,
        device: str,
        *,
        auto_ack: bool = True,
        qos: int = 1,
        level: str | None = None,
        hears_all: bool = False,
    ) -> None:
        """`level` is the user's topic level where it is to differ from the canonical one. `hears_all`: also what comes below device topics."""
        self.user, self.device = user, device
        self.auto_ack, self.qos = auto_ack, qos
        self._hears_all = hears_all
        self.session = ""
        self.messages: list[Message] = []
        self.asked: dict[str, list[int]] = {}
        """By request id: how many messages had come each time when it was published."""
        self._deployment = deployment
        self._version = version
        self._journal = journal
        self._level = level or encode_user(user)
        self._highest: dict[str, int] = {}
        self._changed = threading.Condition()
        self._connection: Connection | None = None

    def __repr__(self) -> str:
        return f"{self.user}/{self.device}"

    # Topics

    @property
    def client_id(self) -> str:
        return f"{self._level}/{self.device}"

    @property
    def up(self) -> str:
        return f"{self._deployment.root}/up/{self.client_id}"

    @property
    def presence(self) -> str:
        return f"{self._deployment.root}/presence/{self.client_id}"

    @property
    def user_topic(self) -> str:
        return f"{self._deployment.root}/down/{self._level}"

    @property
    def device_topic(self) -> str:
        return f"{self._deployment.root}/down/{self.client_id}"

    # Connection and presence

    def connect(self, *, presence: bool = True) -> Device:
        """Connects with a new session, subscribes, waits for the SUBACK, and then comes online."""
        self.open()
        if presence:
            self.come_online()
        return self

    def open(self, **instead: str | None) -> None:
        """Connects and subscribes; presence is the caller's. The will says that this session is lost.

        `password` is given where it is not to be the user's own.
        """
        assert self._connection is None, f"{self} is connected"
        self.session = secrets.token_hex(8)
        self._highest.clear()
        will = Will(self.presence, encode({"online": False, "reason": "lost", "session": self.session}))
        broker = self._deployment.broker
        password = instead["password"] if "password" in instead else broker.password(self.user)
        connection = Connection(broker, self._version, self.client_id, self._level, password, will, self._on_message)
        # Set before it is open: what comes right after the SUBACK wants its ack.
        self._connection = connection
        try:
            connection.open(self._filters(), max(10, self._deployment.patience))
        except (BrokerRefused, OSError):
            self._connection = None
            raise
        self._journal.note(repr(self), "·", "", f"connected, MQTT {self._version}")

    def _filters(self) -> list[str]:
        return [f"{self.user_topic}/#"] if self._hears_all else [self.user_topic, self.device_topic]

    def come_online(self) -> Message:
        """Publishes its presence, again after 1, 2, 4, 8 s, until a `welcome` names its session."""
        since = self.mark
        for pause in BACKOFF:
            self.present(True)
            try:
                return self.wait(lambda m: self._welcomes(m, self.session), pause, "welcome", since=since)
            except Mismatch:
                if pause == BACKOFF[-1]:
                    raise
        raise AssertionError("not reached")

    @staticmethod
    def _welcomes(message: Message, session: str) -> bool:
        return message.type == "welcome" and message.get("session") == session

    def welcome(self, session: str, since: int = 0) -> Message:
        """The first `welcome` that names this session."""
        return self.wait(lambda m: self._welcomes(m, session), None, f"a welcome of {session!r}", since=since)

    def present(self, online: bool, reason: str | None = None, session: str | None = None) -> None:
        """Publishes a presence message, of its own session or of another one."""
        body = {"online": online, "reason": reason, "session": self.session if session is None else session}
        self.publish(self.presence, encode(_without_none(body)))

    def logout(self) -> None:
        """Says goodbye, then disconnects cleanly, so that the will does not fire."""
        self.present(False, "logout")
        self.close()

    def drop(self) -> None:
        """Loses the connection: the broker publishes the will."""
        self._take().drop()
        self._journal.note(repr(self), "·", "", "connection lost")

    def close(self) -> None:
        """Disconnects without a word about presence."""
        if self._connection:
            self._take().close()
            self._journal.note(repr(self), "·", "", "disconnected")

    def retire(self) -> None:
        """The test is over."""
        self.close()

    def _take(self) -> Connection:
        connection, self._connection = self._connection, None
        assert connection is not None, f"{self} is not connected"
        return connection

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    def wait_disconnected(self) -> None:
        """Waits until the broker has closed the connection."""
        deadline = time.monotonic() + self._deployment.patience
        while self.is_connected:
            if time.monotonic() > deadline:
                raise Mismatch(f"{self}: the broker should close this connection")
            time.sleep(0.01)

    # Sending

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        hurry: bool = False,
        correlation: bytes | None = None,
        response_topic: str | None = None,
    ) -> None:
        """Publishes as it is, and waits until the broker has it, unless in a hurry: then with QoS 0."""
        assert self._connection is not None, f"{self} is not connected"
        self._journal.note(repr(self), "→", self._short(topic), payload)
        if topic == self.up and (request := _request_id(payload)):
            self.asked.setdefault(request, []).append(self.mark)
        info = self._connection.publish(topic, payload, 0 if hurry else self.qos, retain, correlation, response_topic)
        deadline = time.monotonic() + self._deployment.patience
        try:
            while not hurry and not info.is_published() and self.is_connected and time.monotonic() < deadline:
                info.wait_for_publish(0.2)
        except RuntimeError as lost:  # paho's way to say that the broker closed the connection
            self._journal.note(repr(self), "·", "", str(lost))

    def send(self, body: dict[str, Any] | bytes, *, hurry: bool = False) -> None:
        """Publishes on the up topic."""
        self.publish(self.up, body if isinstance(body, bytes) else encode(body), hurry=hurry)

    def ack(self, call: str, revision: int) -> None:
        self.send({"type": "ack", "callID": call, "revision": revision})

    def ack_message(self, message_id: str) -> None:
        self.send({"type": "ack", "messageID": message_id})

    # Requests

    def request(self, type_: str, *, id: str | None = None, correlation: bytes | None = None, **fields: Any) -> Request:
        """Sends a request and returns at once. Fields that are None are left out."""
        body = {"type": type_, "id": id or secrets.token_hex(8)} | _without_none(fields)
        return self._make(body, correlation)

    def ask(self, body: dict[str, Any]) -> Request:
        """A request as it stands, whatever it lacks; it has an id."""
        return self._make(body, None)

    def _make(self, body: dict[str, Any], correlation: bytes | None) -> Request:
        return Request(self, body, correlation)

    def ok(self, type_: str, **fields: Any) -> dict[str, Any]:
        """The response to a request that must be served."""
        return self.request(type_, **fields).ok()

    def refused(self, type_: str, code: str, **fields: Any) -> dict[str, Any]:
        """The error of a request that must be refused with `code`."""
        return self.request(type_, **fields).refused(code)

    def invite(self, *invitees: Device | str, **fields: Any) -> str:
        """Creates a call; its id. One user may not invite another as often as some tests do: told to wait, it waits."""
        while True:
            request = self.request("call.invite", invitees=users(*invitees), **fields)
            error = request.response().body.get("error") or {}
            if error.get("code") != "rateLimited" or error.get("retryAfter", 0) > _LONGEST_PAUSE_MS:
                return request.ok()["callID"]
            time.sleep(error["retryAfter"] / 1000)

    def cancel(self, call: str, *invitees: Device | str, **fields: Any) -> dict[str, Any]:
        return self.ok("call.cancel", callID=call, invitees=users(*invitees) or None, **fields)

    def accept(self, call: str, **fields: Any) -> dict[str, Any]:
        return self.ok("call.accept", callID=call, **fields)

    def reject(self, call: str, **fields: Any) -> dict[str, Any]:
        return self.ok("call.reject", callID=call, **fields)

    def add(self, call: str, *invitees: Device | str, **fields: Any) -> dict[str, Any]:
        return self.ok("call.add", callID=call, invitees=users(*invitees), **fields)

    def join(self, call: str, **fields: Any) -> dict[str, Any]:
        return self.ok("call.join", callID=call, **fields)

    def quit(self, call: str, **fields: Any) -> dict[str, Any]:
        return self.ok("call.quit", callID=call, **fields)

    def end(self, call: str, **fields: Any) -> dict[str, Any]:
        return self.ok("call.end", callID=call, **fields)

    def call(self, call: str) -> dict[str, Any]:
        """The call object as it is now."""
        return self.ok("call.get", callID=call)["call"]

    def settle(self) -> None:
        """A round trip: what the service had to answer to earlier messages of this device has come."""
        self.refused("call.get", "callNotFound", callID=secrets.token_hex(8))

    # Receiving

    @property
    def mark(self) -> int:
        """A point in time: how many messages have come so far."""
        return len(self.messages)

    def _on_message(self, message: mqtt.MQTTMessage) -> None:
        self._receive(message.topic, bytes(message.payload), message.properties, bool(message.retain))

    def _receive(self, topic: str, raw: bytes, properties: Properties | None, retained: bool) -> Message:
        now = time.monotonic()
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None
        body = body if isinstance(body, dict) else {}
        self._journal.note(repr(self), "←", self._short(topic), raw)
        with self._changed:
            received = Message(
                topic,
                body,
                raw,
                now,
                self._note_revision(body),
                getattr(properties, "CorrelationData", None),
                getattr(properties, "MessageExpiryInterval", None),
                retained,
            )
            # First, so that what a test sends because of this message comes after it.
            if self.auto_ack:
                self._acknowledge(received)
            self.messages.append(received)
            self._changed.notify_all()
        return received

    def _note_revision(self, body: dict[str, Any]) -> bool:
        """Keeps the highest revision had as event or response; whether an event is above it (section 5)."""
        call, revision = body.get("callID"), body.get("revision")
        if body.get("type") not in ("event", "response") or not isinstance(call, str) or not isinstance(revision, int):
            return False
        highest = self._highest.get(call, 0)
        self._highest[call] = max(highest, revision)
        return body["type"] == "event" and revision > highest

    def _acknowledge(self, message: Message) -> None:
        """From paho's own thread, which must not wait for a PUBACK that it would read itself."""
        match message.type:
            case "event":
                ack = {"type": "ack", "callID": message.get("callID"), "revision": message.get("revision")}
            case "message":
                ack = {"type": "ack", "messageID": message.get("messageID")}
            case _:
                return
        connection = self._connection
        if connection:
            payload = encode(ack)
            self._journal.note(repr(self), "→", "up", payload)
            connection.publish(self.up, payload, self.qos)

    def find(self, matches: Callable[[Message], bool], since: int = 0) -> list[Message]:
        """What has come so far."""
        return [message for message in self.messages[since:] if matches(message)]

    def wait(self, matches: Callable[[Message], bool], seconds: float | None, what: str, *, since: int = 0) -> Message:
        """The first such message since the mark, waiting for it as long as needed; None is the usual patience."""
        return self.wait_for(lambda: next(iter(self.find(matches, since)), None), seconds, what)

    def wait_for(self, look: Callable[[], Value | None], seconds: float | None, what: str) -> Value:
        """Waits until `look`, which is asked again after each message, finds something."""
        patience = self._deployment.patience if seconds is None else seconds
        deadline = time.monotonic() + patience
        with self._changed:
            while (found := look()) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Mismatch(f"{self} expected within {patience:g} s: {what}; it did not come")
                self._changed.wait(left)
        return found

    def event(self, event: str, call: str, *, after: int = 0, since: int = 0, seconds: float | None = None) -> Message:
        """The first such event that this device does not ignore, of a revision above `after`."""
        return self.wait(
            lambda m: m.is_event(event, call) and m.fresh and m["revision"] > after,
            seconds,
            f"{event} of {call}" + (f" above revision {after}" if after else ""),
            since=since,
        )

    def copies(self, event: str, call: str) -> list[Message]:
        """All such events so far, also those that a device ignores."""
        return self.find(lambda m: m.is_event(event, call))

    def copy(self, number: int, event: str, call: str, seconds: float) -> Message:
        """The copy with this number, first sends and resends counted from 1."""

        def look() -> Message | None:
            copies = self.copies(event, call)
            return copies[number - 1] if len(copies) >= number else None

        return self.wait_for(look, seconds, f"copy {number} of {event} of {call}")

    def change(
        self, call: str, user: Device | str, state: str, *, after: int = 0, seconds: float | None = None
    ) -> Message:
        """The first event that tells that `user` became `state`. Changes may come merged into one event (section 5)."""
        name = user if isinstance(user, str) else user.user

        def tells(message: Message) -> bool:
            return (
                message.is_event(None, call)
                and message.fresh
                and message["revision"] > after
                and any(c["userID"] == name and c["state"] == state for c in message["changes"])
            )

        return self.wait(tells, seconds, f"an event of {call} that tells that {name} became {state}")

    def answer(self, body: dict[str, Any] | bytes, code: str) -> dict[str, Any]:
        """The error that answers a message which has no usable id, on the device topic."""
        since = self.mark
        self.send(body)
        return self.error(code, since)

    def error(self, code: str, since: int) -> dict[str, Any]:
        """The first message of type `error` since the mark, which must have this code."""
        message = self.wait(lambda m: m.type == "error", None, f"an error {code}", since=since)
        equal("the topic of the error", message.topic, self.device_topic)
        equal("the error's code", message["error"]["code"], code)
        return message["error"]

    @contextmanager
    def hears_nothing(self, what: str, matches: Callable[[Message], bool], seconds: float = QUIET) -> Iterator[None]:
        """No such message from the start of the block until `seconds` after its end."""
        since = self.mark
        yield
        self.heard_nothing(what, matches, since, seconds)

    def heard_nothing(self, what: str, matches: Callable[[Message], bool], since: int, seconds: float = QUIET) -> None:
        """No such message since the mark, nor within `seconds` from now."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                for message in self.find(matches, since):
                    raise Mismatch(f"{self} expected no {what}; it got {message.raw.decode(errors='replace')}")
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)

    def _short(self, topic: str) -> str:
        """`up`, `presence`, `down/user`, `down/device`, or another topic in full."""
        names = {
            self.up: "up",
            self.presence: "presence",
            self.user_topic: "down/user",
            self.device_topic: "down/device",
        }
        return names.get(topic, topic)


def users(*devices: Device | str) -> list[str]:
    return [device if isinstance(device, str) else device.user for device in devices]


def encode(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _request_id(payload: bytes) -> str | None:
    """The id under which the service may answer."""
    try:
        body = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    identity = body.get("id") if isinstance(body, dict) else None
    return identity if isinstance(identity, str) else None
