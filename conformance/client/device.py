"""One device of one user: presence, requests with their resends, acks, and waiting for what the service sends."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
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
"""A rate is free again by then; what waits longer is another limit."""

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
    answer_patience: float = sum(BACKOFF)
    """How long to wait for the response to a request, with its resends, in seconds."""
    waits_for_broker: bool = True
    """Whether a device that publishes waits until the broker has it."""


class Request:
    """A request on its way."""

    def __init__(self, device: Device, body: dict[str, Any], correlation: bytes | None) -> None:
        self.id: str = body["id"]
        self.fields = body
        self._device = device
        self._payload = encode(body)
        self._correlation = correlation
        self._since = device.mark
        self.send()

    def send(self) -> None:
        """Publishes the same bytes, once more if they were sent before."""
        self._device.publish(self._device.up, self._payload, correlation=self._correlation)

    def again(self) -> Request:
        """Sends it once more; what is asked next is the response to that."""
        self._since = self._device.mark
        self.send()
        return self

    @property
    def done(self) -> bool:
        """Whether there is a response."""
        return self._device.first(self._is_mine, self._since) is not None

    def response(self, seconds: float | None = None, *, resend: bool = True) -> Message:
        """The response. As section 2 asks, the request is sent again after 1, 2, 4, 8 s without one."""
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
        """The body of the response, whatever it says."""
        return self.response(seconds, resend=resend).body

    def ok(self, seconds: float | None = None, *, resend: bool = True) -> dict[str, Any]:
        body = self.wait(seconds, resend=resend)
        if body.get("ok") is not True:
            raise Mismatch(f"{self._text} was refused: {body.get('error')}")
        return body

    def refused(self, code: str) -> dict[str, Any]:
        """The error of the response, which must have this code."""
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
    """A device that waits: paho's thread takes what comes, and the test's own thread waits for it. It acks every event and message by
    itself unless `auto_ack` is off, and never reconnects by itself."""

    def __init__(
        self,
        deployment: Deployment,
        version: Version,
        journal: Journal | None,
        user: str,
        device: str,
        *,
        auto_ack: bool = True,
        qos: int = 1,
        level: str | None = None,
        hears_all: bool = False,
    ) -> None:
        """`level` is the user's topic level where it is to differ from the canonical one. `hears_all`: also what comes below device topics.
        Without a journal nothing is kept of what this device sends."""
        super().__init__(deployment.root, user, device, level)
        self.auto_ack, self.qos = auto_ack, qos
        self._hears_all = hears_all
        self.messages: list[Message] = []
        self.asked: dict[str, list[int]] = {}
        """With a journal, by request id: how many messages had come each time when it was published."""
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
        """Connects and subscribes; presence is the caller's. The will says that this session is lost.

        `password` is given where it is not to be the user's own.
        """
        assert self._connection is None, f"{self} is connected"
        will = self.begin_session()
        broker = self.deployment.broker
        password = instead["password"] if "password" in instead else broker.password(self.user)
        connection = Connection(broker, self._version, self.client_id, self.level, password, will, self._on_message)
        # Set before it is open: what comes right after the SUBACK wants its ack.
        self._connection = connection
        try:
            connection.open(self._filters(), max(10, self.deployment.patience))
        except (BrokerRefused, OSError):
            self._connection = None
            raise
        self._log("·", "", f"connected, MQTT {self._version}")

    def _filters(self) -> list[str]:
        return [f"{self.user_topic}/#"] if self._hears_all else [*self.down]

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
        """Publishes a presence message, of its own session or of another one, and waits until the broker has it."""
        self.publish(self.presence_topic, self.presence(online, reason, session), wait=True)

    def logout(self) -> None:
        """Says goodbye, then disconnects cleanly, so that the will does not fire."""
        self.present(False, "logout")
        self.close()

    def drop(self) -> None:
        """Loses the connection: the broker publishes the will."""
        self._take().drop()
        self._log("·", "", "connection lost")

    def close(self) -> None:
        """Disconnects without a word about presence."""
        if self._connection:
            self._take().close()
            self._log("·", "", "disconnected")

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
        """Waits until the broker has closed the connection, and is done with it."""
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
    ) -> None:
        """Publishes as it is. `wait`: until the broker has it; as the deployment has it by default. In a hurry it publishes with QoS 0."""
        assert self._connection is not None, f"{self} is not connected"
        if self._journal:
            self._log("→", self._short(topic), payload)
            if topic == self.up and (request := _request_id(payload)):
                self.asked.setdefault(request, []).append(self.mark)
        info = self._connection.publish(topic, payload, 0 if hurry else self.qos, retain, correlation, response_topic)
        if hurry or not (self.deployment.waits_for_broker if wait is None else wait):
            return
        deadline = time.monotonic() + self.deployment.patience
        try:
            while not info.is_published() and self.is_connected and time.monotonic() < deadline:
                info.wait_for_publish(0.2)
        except RuntimeError as lost:  # paho's way to say that the broker closed the connection
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
        """A signal without `id`, which is answered only when it is refused."""
        self.send({"type": "call.signal", "callID": call, "data": data} | fields)

    # Requests

    def start(self, type_: str, *, id: str | None = None, correlation: bytes | None = None, **fields: Any) -> Request:
        """Sends a request and returns at once. Fields that are None are left out."""
        body = {"type": type_, "id": id or secrets.token_hex(8)} | without_none(fields)
        return self._make(body, correlation)

    def ask(self, body: dict[str, Any]) -> Request:
        """A request as it stands, whatever it lacks; it has an id."""
        return self._make(body, None)

    def _make(self, body: dict[str, Any], correlation: bytes | None) -> Request:
        return Request(self, body, correlation)

    def ok(self, type_: str, **fields: Any) -> dict[str, Any]:
        """The response to a request that must be served."""
        return self.start(type_, **fields).ok()

    def refused(self, type_: str, code: str, **fields: Any) -> dict[str, Any]:
        """The error of a request that must be refused with `code`."""
        return self.start(type_, **fields).refused(code)

    def invite(self, *invitees: Device | str, **fields: Any) -> str:
        """Creates a call; its id. One user may not invite another as often as some tests do: told to wait, it waits."""
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
        """The call object as it is now."""
        return self.ok("call.get", callID=call)["call"]

    def trace(self, call: str) -> list[dict[str, Any]]:
        """The call's timeline."""
        return self.ok("call.trace", callID=call)["entries"]

    def message(self, to: Device | str, data: Any = "hello", **fields: Any) -> str:
        """Sends a peer message; its id."""
        return self.ok("message.send", to=users(to)[0], data=data, **fields)["messageID"]

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
        now, wall = time.monotonic(), time.time() * 1000
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None
        body = body if isinstance(body, dict) else {}
        self._log("←", self._short(topic), raw)
        with self._changed:
            # First, so that what a test sends because of this message comes after it.
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
        """From paho's own thread, which must not wait for a PUBACK that it would read itself."""
        connection, ack = self._connection, ack_of(body)
        if connection and ack:
            payload = encode(ack)
            self._log("→", "up", payload)
            connection.publish(self.up, payload, self.qos)
            self.note_ack(ack)

    def find(self, matches: Callable[[Message], bool], since: int = 0) -> list[Message]:
        """What has come so far."""
        return [message for message in self.messages[since:] if matches(message)]

    def first(self, matches: Callable[[Message], bool], since: int = 0) -> Message | None:
        """The first such message of those that have come since the mark."""
        return next((message for message in self.messages[since:] if matches(message)), None)

    def wait(self, matches: Callable[[Message], bool], seconds: float | None, what: str, *, since: int = 0) -> Message:
        """The first such message since the mark, waiting for it as long as needed; None is the usual patience."""
        seen = since

        def look() -> Message | None:
            nonlocal seen
            begin, seen = seen, self.mark
            return self.first(matches, begin)

        return self.wait_for(look, seconds, what)

    def wait_for(self, look: Callable[[], Value | None], seconds: float | None, what: str) -> Value:
        """Waits until `look`, which is asked again after each message, finds something."""
        patience = self.deployment.patience if seconds is None else seconds
        deadline = time.monotonic() + patience
        with self._changed:
            while (found := look()) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Mismatch(f"{self} expected within {patience:.3g} s: {what}; it did not come{self._had()}")
                self._changed.wait(left)
        return found

    def _had(self) -> str:
        """The latest messages, for a failure that no journal explains."""
        if self._journal:
            return ""
        return ". It had:" + "".join(f"\n    {m.topic} {m.raw[:400]!r}" for m in self.messages[-20:])

    def events(
        self, call: str | None = None, event: str | None = None, *, since: int = 0, stale: bool = False
    ) -> list[Message]:
        """The events so far; with `stale` also those that a device ignores, answers to acks that crossed them aside."""
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
        """The first such event of a revision above `after` that this device does not ignore; with `stale` also one that it ignores."""
        return self.wait(
            lambda m: m.is_event(event, call) and (m.fresh or (stale and not m.crossed)) and m["revision"] > after,
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

    def expect_change(
        self, call: str, user: Device | str, state: str, seconds: float | None = None, *, after: int = 0
    ) -> Message:
        """The first event that tells that `user` became `state`. Changes may come merged into one event (section 5)."""
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
        """The first message that shows `user` in `state`: an event, or the response of an own request that came between."""
        (name,) = users(user)

        def shows(message: Message) -> bool:
            shown = message.get("call") or {}
            members = [(m["userID"], m["state"]) for m in shown.get("members", [])]
            return shown.get("callID") == call and (name, state) in members

        return self.wait(shows, seconds, f"{name} {state} in {call}")

    def had(self, type_: str, *, since: int = 0, **fields: Any) -> list[Message]:
        """The messages of this type so far with these fields: every copy of a `message`, a `signal`, a `receipt`."""
        return self.find(lambda m: m.type == type_ and all(m.get(name) == value for name, value in fields.items()), since)

    def expect_type(
        self, type_: str, seconds: float | None = None, *, since: int = 0, count: int = 1, **fields: Any
    ) -> Message:
        """The first, or the `count`-th, message of this type with these fields that came since the mark."""

        def look() -> Message | None:
            found = self.had(type_, since=since, **fields)
            return found[count - 1] if len(found) >= count else None

        return self.wait_for(look, seconds, f"{type_} number {count} with {fields}")

    def answer(self, body: dict[str, Any] | bytes, code: str) -> dict[str, Any]:
        """The error that answers a message which has no usable id, on the device topic."""
        since = self.mark
        self.send(body)
        return self.expect_error(code, since)

    def expect_error(self, code: str, since: int) -> dict[str, Any]:
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

    def expect_silence(
        self,
        seconds: float = 0.4,
        call: str | None = None,
        event: str | None = None,
        *,
        since: int | None = None,
        stale: bool = True,
    ) -> None:
        """No such event from the mark `since` (default: now) until `seconds` from now. Without `stale`, resends may come."""
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
        """No such event from the start of the block until `seconds` after its end."""
        since = self.mark
        yield
        self.expect_silence(seconds, call, event, since=since, stale=stale)

    def _log(self, direction: Literal["→", "←", "·"], topic: str, payload: bytes | str) -> None:
        if self._journal:
            self._journal.note(repr(self), direction, topic, payload)

    def _short(self, topic: str) -> str:
        """`up`, `presence`, `down/user`, `down/device`, or another topic in full."""
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
    """The id under which the service may answer."""
    try:
        body = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    identity = body.get("id") if isinstance(body, dict) else None
    return identity if isinstance(identity, str) else None
