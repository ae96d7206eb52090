"""A device of a user: presence, requests with their resends, acks, and waiting for messages of the service."""

from __future__ import annotations

import json
import secrets
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

import paho.mqtt.client as mqtt
from paho.mqtt.properties import Properties

from ..expect import Mismatch, equal
from .connection import Broker, BrokerRefused, Connection, Version
from .endpoint import BACKOFF, Endpoint, ack_of, encode, without_none
from .message import Journal, Message

Value = TypeVar("Value")

_LONGEST_PAUSE_MS = 2000
"""The longest wait after `rateLimited`, in milliseconds: a request that must wait longer has reached another limit than
the rate."""

QUIET = 0.5
"""The number of seconds in which no message may come, when a test asserts the absence of a message."""


@dataclass(frozen=True)
class Deployment:
    """The deployment under test."""

    broker: Broker
    """The first broker of the deployment."""
    root: str
    """The root of all topics."""
    patience: float
    """How long to wait for a message that should come at once, in seconds."""
    answer_patience: float = sum(BACKOFF)
    """How long to wait for the response to a request, with its resends, in seconds."""
    waits_for_broker: bool = True
    """Whether a device that publishes waits until the broker has the message; with QoS 0, until the message is sent."""
    qos: int = 1
    """The QoS of the devices' subscriptions and messages."""
    others: Sequence[Broker] = ()
    """The other brokers of the deployment."""

    def broker_of(self, device: str) -> Broker:
        """The broker of a device, always the same: devices are spread over all brokers. A second connection with the
        same client id thus meets the first one."""
        brokers = (self.broker, *self.others)
        return brokers[zlib.crc32(device.encode()) % len(brokers)]


class Request:
    """A request that was sent."""

    def __init__(self, device: Device, body: dict[str, Any], correlation: bytes | None) -> None:
        self.id: str = body["id"]
        self.fields = body
        self._device = device
        self._payload = encode(body)
        self._correlation = correlation
        self._since = device.mark
        self.send()

    def send(self) -> None:
        """Publishes the request; later calls publish the same bytes again."""
        self._device.publish(self._device.up, self._payload, correlation=self._correlation)

    def again(self) -> Request:
        """Sends the request again, and from now on waits for the response to this copy."""
        self._since = self._device.mark
        self.send()
        return self

    @property
    def done(self) -> bool:
        """Whether a response has come."""
        return self._device.first(self._is_mine, self._since) is not None

    def response(self, seconds: float | None = None, *, resend: bool = True) -> Message:
        """Returns the response. As section 2 says, the request is sent again after 1, 2, 4, 8 s without a response."""
        deadline = time.monotonic() + (self._device.deployment.answer_patience if seconds is None else seconds)
        pauses = list(BACKOFF) if resend else []
        while True:
            left = deadline - time.monotonic()
            pause = min(left, pauses.pop(0)) if pauses else left
            try:
                return self._device.wait(self._is_mine, pause, f"the response to {self._text}", since=self._since)
            except Mismatch:
                if time.monotonic() >= deadline:
                    raise
                self.send()

    def wait(self, seconds: float | None = None, *, resend: bool = True) -> dict[str, Any]:
        """Returns the body of the response, whether an error or not."""
        return self.response(seconds, resend=resend).body

    def ok(self, seconds: float | None = None, *, resend: bool = True) -> dict[str, Any]:
        body = self.wait(seconds, resend=resend)
        if body.get("ok") is not True:
            raise Mismatch(f"{self._text} was refused: {body.get('error')}")
        return body

    def refused(self, code: str) -> dict[str, Any]:
        """Returns the error of the response, which must have this code."""
        body = self.wait()
        if body.get("ok") is not False:
            raise Mismatch(f"{self._text} was served, {code} expected: {json.dumps(body)}")
        equal(f"the error code of {self._text}", body["error"]["code"], code)
        return body["error"]

    def _is_mine(self, message: Message) -> bool:
        return message.type == "response" and message.get("id") == self.id

    @property
    def _text(self) -> str:
        return self._payload[:300].decode(errors="replace")


class Device(Endpoint):
    """A device with blocking calls: paho's thread receives messages, and the test's own thread waits for messages. The
    device acks every event and peer message unless `auto_ack` is off, and never reconnects by itself."""

    def __init__(
        self,
        deployment: Deployment,
        version: Version,
        journal: Journal | None,
        user: str,
        device: str,
        *,
        auto_ack: bool = True,
        qos: int | None = None,
        level: str | None = None,
        hears_all: bool = False,
    ) -> None:
        """Without `qos` the device has the deployment's. `level` is the user's topic level where the level differs from the canonical level. `hears_all`: whether the
        device also receives messages below its device topic. Without a journal the device does not record its
        messages."""
        super().__init__(deployment.root, user, device, level)
        self.auto_ack, self.qos = auto_ack, deployment.qos if qos is None else qos
        self._hears_all = hears_all
        self.messages: list[Message] = []
        self.asked: dict[str, list[int]] = {}
        """With a journal, by request id: the number of received messages at each time when the request was
        published."""
        self.deployment = deployment
        self._version = version
        self._journal = journal
        self._changed = threading.Condition()
        self._connection: Connection | None = None

    # Connection and presence

    def connect(self, *, presence: bool = True) -> Self:
        """Connects with a new session, subscribes, waits for the SUBACK, and then comes online."""
        self.open()
        if presence:
            self.come_online()
        return self

    def open(self, **instead: str | None) -> None:
        """Connects and subscribes without publishing presence. The will says that this session is lost.

        `password` replaces the user's own password."""
        assert self._connection is None, f"{self} is connected"
        will = self.begin_session()
        broker = self.deployment.broker_of(self.client_id)
        password = instead["password"] if "password" in instead else broker.password(self.user)
        connection = Connection(broker, self._version, self.client_id, self.level, password, will, self._on_message)
        # `_connection` is set before the connection is open, since a message right after the SUBACK needs its ack.
        self._connection = connection
        try:
            connection.open(self._filters(), self.qos, max(10, self.deployment.patience))
        except (BrokerRefused, OSError):
            self._connection = None
            raise
        self._log("·", "", f"connected, MQTT {self._version}")

    def _filters(self) -> list[str]:
        return [f"{self.user_topic}/#"] if self._hears_all else [*self.down]

    def come_online(self) -> Message:
        """Publishes the presence, again after 1, 2, 4, 8 s, until a `welcome` names its session."""
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
        """Returns the first `welcome` that names this session."""
        return self.wait(lambda m: self._welcomes(m, session), None, f"a welcome of {session!r}", since=since)

    def present(self, online: bool, reason: str | None = None, session: str | None = None) -> None:
        """Publishes a presence message, of its own session or of another session, and waits until the broker has the
        message."""
        self.publish(self.presence_topic, self.presence(online, reason, session), wait=True)

    def logout(self) -> None:
        """Publishes its logout, then disconnects cleanly, so that the will is not published."""
        self.present(False, "logout")
        self.close()

    def drop(self) -> None:
        """Breaks the connection: the broker publishes the will."""
        self._take().drop()
        self._log("·", "", "connection lost")

    def close(self) -> None:
        """Disconnects without publishing presence."""
        if self._connection:
            self._take().close()
            self._log("·", "", "disconnected")

    def retire(self) -> None:
        """Closes the device at the end of the test."""
        self.close()

    def _take(self) -> Connection:
        connection, self._connection = self._connection, None
        assert connection is not None, f"{self} is not connected"
        return connection

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    def wait_disconnected(self) -> None:
        """Waits until the broker has closed and forgotten the connection."""
        deadline = time.monotonic() + max(5, self.deployment.patience)
        while self.is_connected:
            if time.monotonic() > deadline:
                raise Mismatch(f"{self}: the broker should close this connection")
            time.sleep(0.005)
        self.close()

    # Sending

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        wait: bool | None = None,
        hurry: bool = False,
        correlation: bytes | None = None,
        response_topic: str | None = None,
        user_properties: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Publishes the given bytes. `wait`: whether to wait until the broker has the message; None for the
        deployment's default. In a `hurry` the message has QoS 0."""
        assert self._connection is not None, f"{self} is not connected"
        if self._journal:
            self._log("→", self._short(topic), payload)
            if topic == self.up and (request := _request_id(payload)):
                self.asked.setdefault(request, []).append(self.mark)
        info = self._connection.publish(
            topic, payload, 0 if hurry else self.qos, retain, correlation, response_topic, user_properties
        )
        if hurry or not (self.deployment.waits_for_broker if wait is None else wait):
            return
        deadline = time.monotonic() + self.deployment.patience
        try:
            while not info.is_published() and self.is_connected and time.monotonic() < deadline:
                info.wait_for_publish(0.2)
        except RuntimeError as lost:  # paho raises this when the broker closed the connection
            self._log("·", "", str(lost))

    def send(self, body: dict[str, Any] | bytes, *, hurry: bool = False) -> None:
        """Publishes on the up topic."""
        self.publish(self.up, body if isinstance(body, bytes) else encode(body), hurry=hurry)

    def ack(self, call: str, revision: int) -> None:
        self.send({"type": "ack", "callID": call, "revision": revision})

    def ack_message(self, message_id: str) -> None:
        self.send({"type": "ack", "messageID": message_id})

    def heartbeat(self, call: str) -> None:
        self.send({"type": "call.heartbeat", "callID": call})

    def signal(self, call: str, data: Any, **fields: Any) -> None:
        """Sends a signal without `id`. The service answers such a signal only by a refusal."""
        self.send({"type": "call.signal", "callID": call, "data": data} | fields)

    # Requests

    def start(self, type_: str, *, id: str | None = None, correlation: bytes | None = None, **fields: Any) -> Request:
        """Sends a request and returns at once. Fields that are None are left out."""
        body = {"type": type_, "id": id or secrets.token_hex(8)} | without_none(fields)
        return self._make(body, correlation)

    def ask(self, body: dict[str, Any]) -> Request:
        """Sends a request with exactly these fields, which include an id."""
        return self._make(body, None)

    def _make(self, body: dict[str, Any], correlation: bytes | None) -> Request:
        return Request(self, body, correlation)

    def ok(self, type_: str, **fields: Any) -> dict[str, Any]:
        """Returns the response to a request that must be served."""
        return self.start(type_, **fields).ok()

    def refused(self, type_: str, code: str, **fields: Any) -> dict[str, Any]:
        """Returns the error of a request that must be refused with `code`."""
        return self.start(type_, **fields).refused(code)

    def invite(self, *invitees: Device | str, **fields: Any) -> str:
        """Creates a call and returns its id. Some tests exceed the rate at which a user may invite another user: then
        this function waits for the time in the error."""
        while True:
            request = self.start("call.invite", invitees=users(*invitees), **fields)
            error = request.wait().get("error") or {}
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

    def get(self, call: str) -> dict[str, Any]:
        """Returns the current call object."""
        return self.ok("call.get", callID=call)["call"]

    def trace(self, call: str) -> list[dict[str, Any]]:
        """Returns the call's timeline."""
        return self.ok("call.trace", callID=call)["entries"]

    def message(self, to: Device | str, data: Any = "hello", **fields: Any) -> str:
        """Sends a peer message and returns its id."""
        return self.ok("message.send", to=users(to)[0], data=data, **fields)["messageID"]

    def settle(self) -> None:
        """Makes a round trip, after which all answers to earlier messages of this device have come."""
        self.refused("call.get", "callNotFound", callID=secrets.token_hex(8))

    # Receiving

    @property
    def mark(self) -> int:
        """A mark in time: the number of messages that have come so far."""
        return len(self.messages)

    def _on_message(self, message: mqtt.MQTTMessage) -> None:
        self._receive(message.topic, bytes(message.payload), message.properties, bool(message.retain))

    def _receive(self, topic: str, raw: bytes, properties: Properties | None, retained: bool) -> Message:
        now, wall = time.monotonic(), time.time() * 1000
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None
        body = body if isinstance(body, dict) else {}
        self._log("←", self._short(topic), raw)
        with self._changed:
            # The ack is sent first, so that messages that a test sends because of this message come after the ack.
            if self.auto_ack:
                self._acknowledge(body)
            fresh = self.note_revision(body)
            received = Message(
                topic,
                body,
                raw,
                now,
                wall,
                fresh,
                not fresh and self.answers_ack(body),
                getattr(properties, "CorrelationData", None),
                getattr(properties, "MessageExpiryInterval", None),
                retained,
            )
            self.messages.append(received)
            self._changed.notify_all()
        return received

    def _acknowledge(self, body: dict[str, Any]) -> None:
        """Acks in paho's own thread, which must not wait for a PUBACK that the same thread would read."""
        connection, ack = self._connection, ack_of(body)
        if connection and ack:
            payload = encode(ack)
            self._log("→", "up", payload)
            connection.publish(self.up, payload, self.qos)
            self.note_ack(ack)

    def find(self, matches: Callable[[Message], bool], since: int = 0) -> list[Message]:
        """Returns the matching messages that have come so far, since the mark."""
        return [message for message in self.messages[since:] if matches(message)]

    def first(self, matches: Callable[[Message], bool], since: int = 0) -> Message | None:
        """Returns the first matching message that has come since the mark, if any."""
        return next((message for message in self.messages[since:] if matches(message)), None)

    def wait(self, matches: Callable[[Message], bool], seconds: float | None, what: str, *, since: int = 0) -> Message:
        """Waits for the first matching message since the mark. `seconds`: how long to wait; None for the usual
        patience."""
        seen = since

        def look() -> Message | None:
            nonlocal seen
            begin, seen = seen, self.mark
            return self.first(matches, begin)

        return self.wait_for(look, seconds, what)

    def wait_for(self, look: Callable[[], Value | None], seconds: float | None, what: str) -> Value:
        """Waits until `look`, which is called again after each message, returns a value."""
        patience = self.deployment.patience if seconds is None else seconds
        deadline = time.monotonic() + patience
        with self._changed:
            while (found := look()) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Mismatch(f"{self} expected within {patience:.3g} s: {what}; none came{self._had()}")
                self._changed.wait(left)
        return found

    def _had(self) -> str:
        """Returns the latest messages, for a failure without a journal."""
        if self._journal:
            return ""
        return ". It received:" + "".join(f"\n    {m.topic} {m.raw[:400]!r}" for m in self.messages[-20:])

    def events(
        self, call: str | None = None, event: str | None = None, *, since: int = 0, stale: bool = False
    ) -> list[Message]:
        """Returns the events so far. With `stale` the result has stale events too, except answers to acks that crossed
        newer events."""
        return self.find(lambda m: m.is_event(event, call) and (m.fresh or (stale and not m.crossed)), since)

    def expect(
        self,
        event: str,
        call: str | None = None,
        seconds: float | None = None,
        *,
        after: int = 0,
        since: int = 0,
        stale: bool = False,
    ) -> Message:
        """Waits for the first such event of a revision above `after`. Without `stale`, stale events do not count."""
        return self.wait(
            lambda m: m.is_event(event, call) and (m.fresh or (stale and not m.crossed)) and m["revision"] > after,
            seconds,
            f"{event} of {call}" + (f" above revision {after}" if after else ""),
            since=since,
        )

    def copies(self, event: str, call: str) -> list[Message]:
        """Returns all such events so far, including stale events."""
        return self.find(lambda m: m.is_event(event, call))

    def copy(self, number: int, event: str, call: str, seconds: float) -> Message:
        """Waits for the copy with this number, counted from 1 over first sends and resends, for so many seconds or the
        usual patience."""

        def look() -> Message | None:
            copies = self.copies(event, call)
            return copies[number - 1] if len(copies) >= number else None

        return self.wait_for(look, max(seconds, self.deployment.patience), f"copy {number} of {event} of {call}")

    def expect_change(
        self, call: str, user: Device | str, state: str, seconds: float | None = None, *, after: int = 0
    ) -> Message:
        """Waits for the first event that tells that `user` became `state`. Several changes may come in a single event
        (section 5)."""
        (name,) = users(user)

        def tells(message: Message) -> bool:
            return (
                message.is_event(None, call)
                and message.fresh
                and message["revision"] > after
                and any(c["userID"] == name and c["state"] == state for c in message["changes"])
            )

        return self.wait(tells, seconds, f"an event of {call} that tells that {name} became {state}")

    def expect_state(self, call: str, user: Device | str, state: str, seconds: float | None = None) -> Message:
        """Waits for the first message that shows `user` in `state`: an event, or the response to a request of this
        device."""
        (name,) = users(user)

        def shows(message: Message) -> bool:
            shown = message.get("call") or {}
            members = [(m["userID"], m["state"]) for m in shown.get("members", [])]
            return shown.get("callID") == call and (name, state) in members

        return self.wait(shows, seconds, f"{name} {state} in {call}")

    def had(self, type_: str, *, since: int = 0, **fields: Any) -> list[Message]:
        """Returns the messages of this type with these fields so far: every copy of a `message`, a `signal`, a
        `receipt`."""
        return self.find(lambda m: m.type == type_ and all(m.get(name) == value for name, value in fields.items()), since)

    def expect_type(
        self, type_: str, seconds: float | None = None, *, since: int = 0, count: int = 1, **fields: Any
    ) -> Message:
        """Waits for the first, or the `count`-th, message of this type with these fields since the mark."""

        def look() -> Message | None:
            found = self.had(type_, since=since, **fields)
            return found[count - 1] if len(found) >= count else None

        return self.wait_for(look, seconds, f"{type_} number {count} with {fields}")

    def answer(self, body: dict[str, Any] | bytes, code: str) -> dict[str, Any]:
        """Sends a message without a usable id. Returns the error that answers the message on the device topic."""
        since = self.mark
        self.send(body)
        return self.expect_error(code, since)

    def expect_error(self, code: str, since: int) -> dict[str, Any]:
        """Waits for the first message of type `error` since the mark, which must have this code."""
        message = self.wait(lambda m: m.type == "error", None, f"an error {code}", since=since)
        equal("the topic of the error", message.topic, self.device_topic)
        equal("the error's code", message["error"]["code"], code)
        return message["error"]

    @contextmanager
    def hears_nothing(self, what: str, matches: Callable[[Message], bool], seconds: float = QUIET) -> Iterator[None]:
        """Asserts that no such message comes from the start of the block until `seconds` after its end."""
        since = self.mark
        yield
        self.heard_nothing(what, matches, since, seconds)

    def heard_nothing(self, what: str, matches: Callable[[Message], bool], since: int, seconds: float = QUIET) -> None:
        """Asserts that no such message has come since the mark, nor comes within `seconds` from now."""
        deadline = time.monotonic() + seconds
        with self._changed:
            while True:
                for message in self.find(matches, since):
                    raise Mismatch(f"{self} expected no {what}, but received {message.raw.decode(errors='replace')}")
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(left)

    def expect_silence(
        self,
        seconds: float = 0.4,
        call: str | None = None,
        event: str | None = None,
        *,
        since: int | None = None,
        stale: bool = True,
    ) -> None:
        """Asserts that no such event comes from the mark `since` (default: now) until `seconds` from now. With `stale`
        off, stale events may come."""
        self.heard_nothing(
            f"{event or 'event'} of {call or 'any call'}",
            lambda m: m.is_event(event, call) and (m.fresh or (stale and not m.crossed)),
            self.mark if since is None else since,
            seconds,
        )

    @contextmanager
    def silent(
        self, seconds: float = 0.4, call: str | None = None, event: str | None = None, *, stale: bool = True
    ) -> Iterator[None]:
        """Asserts that no such event comes from the start of the block until `seconds` after its end."""
        since = self.mark
        yield
        self.expect_silence(seconds, call, event, since=since, stale=stale)

    def _log(self, direction: Literal["→", "←", "·"], topic: str, payload: bytes | str) -> None:
        if self._journal:
            self._journal.note(repr(self), direction, topic, payload)

    def _short(self, topic: str) -> str:
        """Returns `up`, `presence`, `down/user`, `down/device`, or another topic in full."""
        names = {
            self.up: "up",
            self.presence_topic: "presence",
            self.user_topic: "down/user",
            self.device_topic: "down/device",
        }
        return names.get(topic, topic)


def users(*devices: Device | str) -> list[str]:
    return [device if isinstance(device, str) else device.user for device in devices]


def _request_id(payload: bytes) -> str | None:
    """Returns the id with which the service may answer."""
    try:
        body = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    identity = body.get("id") if isinstance(body, dict) else None
    return identity if isinstance(identity, str) else None
