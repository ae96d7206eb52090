"""Devices that are an SDK of Bellwire, with its machine, driver and transport. The tests give the orders that an app
would give."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any, NoReturn

from ..expect import Mismatch
from .connection import BrokerRefused
from .device import Deployment, Device, Request
from .endpoint import BACKOFF
from .machines import Machines
from .message import Journal, Message
from .packets import CONNECT, PUBACK, PUBLISH, Publish, read_packet_id, read_publish

_ONLINE_SECONDS = 25.0
"""The time for two attempts to connect, and the resends of a presence message."""
_UNNUMBERED = -1
_GAP_SECONDS = 1.0
"""How long the SDK waits for a missing signal before a later signal."""
_RETRIED = ("rateLimited", "unavailable")
"""Error codes after which the SDK sends the request again."""


class BeyondMachine(Exception):
    """The test needs behaviour of a device that the SDK's machine never shows: the device must be made by hand."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(reason)
        self.number = number
        """The number of the device, in the order in which the test made devices."""
        self.reason = reason


def why_no_machine(user: str, device: str, presence: bool, options: dict[str, Any]) -> str | None:
    """Returns how a device with these options differs from the SDK; None without a difference."""
    if not presence:
        return "publishes no presence"
    if options.get("auto_ack") is False:
        return "acks nothing by itself"
    if options.get("level") is not None or not re.fullmatch(r"[A-Za-z0-9._~-]{1,64}", device):
        return "has an invalid name"
    if device == "server":
        return "uses the device id of backends"
    if options.get("hears_all"):
        return "subscribes to other topics"
    return None


class MachineRequest(Request):
    """A request that the app makes by the SDK. The SDK resends the request, and tells the app the outcome."""

    _device: MachineDevice

    def send(self) -> None:
        self._had = len(self._device.outcomes.get(self.id, []))
        self._device.make(self.fields)

    def again(self) -> Request:
        """Lets the app make the same request again, after its outcome is known."""
        if self.id in self._device.pending:
            self.response()
        return super().again()

    def response(self, seconds: float | None = None, *, resend: bool = True) -> Message:
        """Returns the response that brought the outcome. The response and the outcome must agree."""
        had, patience = self._had, sum(BACKOFF) if seconds is None else seconds

        def look() -> tuple[int, str | None] | None:
            outcomes = self._device.outcomes.get(self.id, [])
            return outcomes[had] if len(outcomes) > had else None

        position, code = self._device.wait_for(look, patience, f"the outcome of {self._text}")
        answers = [m for m in self._device.messages[self._since : position] if self._is_mine(m)]
        if not answers:
            raise Mismatch(f"without a response the SDK tells of {self._text}: {code or 'success'}")
        said = (answers[-1].get("error") or {}).get("code")
        # For the SDK a cancel has succeeded if its call no longer exists.
        if said != code and not (self.fields["type"] == "call.cancel" and said == "callNotFound"):
            raise Mismatch(f"the service answered {said or 'ok'} to {self._text}, the SDK tells {code or 'success'}")
        return answers[-1]


class MachineDevice(Device):
    """A device that is the SDK: the SDK connects, tells its presence, acks, sends heartbeats, resends and reconnects by
    itself. If a test needs other behaviour, the methods raise `BeyondMachine`."""

    def __init__(
        self, machines: Machines, deployment: Deployment, journal: Journal, user: str, device: str, place: int, qos: int | None
    ) -> None:
        """`place`: the device's number among the devices of the test."""
        super().__init__(deployment, "5", journal, user, device, qos=qos)
        self._place = place
        self._machines = machines
        self.outcomes: dict[str, list[tuple[int, str | None]]] = {}
        """By request id, for each outcome: the number of messages that had come, and the error code, None for
        success."""
        self.violations: list[str] = []
        """Breaches of the protocol's rules for clients by the SDK."""
        self._stage: str = "new"
        """`new`, `open` (but not online), `online`, `away`."""
        self._has_driver = False
        self._is_connected = False
        self._refusal: str | None = None
        self._unacknowledged: set[int] = set()
        """The ids of packets at QoS 1 that the broker has not acknowledged."""
        self._handed = 0
        """The number of messages that an SDK reported as published, where the wire shows them later."""
        self._went_out = 0
        """The number of messages that were seen on the wire."""
        self._is_leaving = False
        """Whether the device is about to lose its connection: messages that come now may or may not be acked and told
        to the app."""
        self._beyond: str | None = None
        """The reason why the SDK cannot follow an order."""
        self.pending: set[str] = set()
        """The ids of requests without an outcome from the SDK."""
        self._beats: dict[str, float] = {}
        """The time of the last heartbeat, by call."""
        self._forget()
        self._number = machines.enrol(self)

    def _forget(self) -> None:
        """Forgets all state, since the next driver starts without this state."""
        self._owed: list[dict[str, Any]] = []
        """Acks that the SDK still has to send."""
        self._heard: dict[str, int] = {}
        """The highest revision of an event or response, by call."""
        self._shown: set[str] = set()
        self._to_tell: list[tuple[str, int]] = []
        """Messages that the SDK still has to tell the app, in order: events by call and revision, peer messages by id
        and 0, signals without a number by call."""
        self._ordered: set[str] = set()
        """Peer messages in streams that the SDK still has to tell the app, each in its turn."""
        self._signals: dict[str, float | None] = {}
        """The time at which each signal came that the SDK still has to tell the app, by place; None for a signal that
        the SDK has told."""
        self.pending.clear()

    def beyond(self, reason: str) -> NoReturn:
        raise BeyondMachine(self._place, reason)

    @property
    def auto_ack(self) -> bool:
        # The SDK sends the acks, not this class.
        return False

    @auto_ack.setter
    def auto_ack(self, value: bool) -> None:
        if not value:
            self.beyond("acks nothing by itself")

    # Connection and presence

    @property
    def is_here(self) -> bool:
        """Whether the device is connected, or tries to connect."""
        return self._stage in ("online", "away")

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    def connect(self, *, presence: bool = True) -> Device:
        if not presence:
            self.beyond("publishes no presence")
        return super().connect()

    def open(self, **instead: str | None) -> None:
        """Prepares to connect: the SDK connects and comes online in a single step, in `come_online`."""
        if instead:
            self.beyond("uses a password of another user")
        assert self._stage in ("new", "away"), f"{self} is connected"
        self._stage = "open"
        self._highest.clear()

    def come_online(self) -> Message:
        if self._stage != "open":
            self.beyond("publishes presence when it is told to")
        since = self.mark
        self.session = ""
        self._refusal = None
        self._is_leaving = False
        self._stage = "online"
        if self._has_driver:
            self._handed = self._went_out = 0
            self._machines.find(self._number)
        else:
            self._has_driver = True
            self._machines.begin(self._number, self._settings())
        return self.wait_for(lambda: self._welcome(since), _ONLINE_SECONDS, "welcome")

    def _settings(self) -> dict[str, Any]:
        token = self.deployment.broker.password(self.user)
        settings = {"user": self.user, "device": self.device, "keepAlive": 60, "topicRoot": self.deployment.root, "qos": self.qos}
        return settings | ({} if token is None else {"token": token})

    def _welcome(self, since: int) -> Message | None:
        if self._refusal:
            raise BrokerRefused(self._refusal)
        return next((m for m in self.messages[since:] if self._welcomes(m, self.session)), None)

    def present(self, online: bool, reason: str | None = None, session: str | None = None) -> None:
        self.beyond("publishes presence when it is told to")

    def logout(self) -> None:
        assert self._stage == "online", f"{self} is not connected"
        self._end()

    def drop(self) -> None:
        """Takes the network away: the SDK tries in vain to connect again until `connect`."""
        assert self._stage == "online", f"{self} is not connected"
        self._stage = "away"
        self._settle()
        self._machines.lose(self._number)
        self._journal.note(repr(self), "·", "", "connection lost")

    def close(self) -> None:
        self.beyond("disconnects without telling its presence")

    def retire(self) -> None:
        if self._has_driver:
            self._end()
        self._machines.dismiss(self._number)

    def _end(self) -> None:
        """Disconnects like an app. All received messages must then have been acked and told."""
        self._settle()
        self._machines.end(self._number)
        with self._changed:
            if self._owed:
                self.violations.append(f"the SDK did not ack {self._owed}")
            if self._to_tell:
                self.violations.append(f"the SDK did not tell the app {self._to_tell}")
            if self._ordered:
                self.violations.append(f"the SDK did not tell the app of the messages {self._ordered}")
            # The SDK waits a second for the signals before a signal that came too early.
            late = time.monotonic() - 2 * _GAP_SECONDS
            for signal in [signal for signal, at in self._signals.items() if at is not None and at < late]:
                self.violations.append(f"the SDK did not tell the app of the signal {signal}")
            self._forget()
            self._lost(None)
            self._stage = "new"
            self._has_driver = False
            self._changed.notify_all()

    def _settle(self) -> None:
        """Waits, before the connection breaks, until the SDK has handled the messages that were seen on its wire. From
        then on further messages need not reach the SDK."""
        deadline = time.monotonic() + self.deployment.patience
        with self._changed:
            while self._is_connected and (self._owed or self._to_tell or self._ordered) and time.monotonic() < deadline:
                self._changed.wait(0.2)
            self._is_leaving = True

    # Sending

    def publish(self, topic: str, payload: bytes, **options: Any) -> None:
        self.beyond("publishes bytes of its own")

    def send(self, body: dict[str, Any] | bytes, *, hurry: bool = False) -> None:
        if hurry or isinstance(body, bytes):
            self.beyond("floods" if hurry else "publishes bytes of its own")
        match body.get("type"):
            case "ack":
                self.beyond("acks when it is told to")
            case "call.heartbeat":
                self._await_heartbeat(body)
            case "call.signal" if "id" not in body:
                self._signal(body)
            case _:
                self.make(body)

    def ack(self, call: str, revision: int) -> None:
        self.beyond("acks when it is told to")

    def ack_message(self, message_id: str) -> None:
        self.beyond("acks when it is told to")

    def _make(self, body: dict[str, Any], correlation: bytes | None) -> Request:
        if correlation is not None:
            self.beyond("gives Correlation Data")
        return MachineRequest(self, body, None)

    def make(self, body: dict[str, Any]) -> None:
        """Makes a request with the app's own fields, by the SDK's function for requests without a method."""
        if not _is_request(body):
            self.beyond("sends a message that is no request")
        if body["id"] in self.pending:
            self.beyond("repeats a request that is not answered")
        self.pending.add(body["id"])
        had = len(self.asked.get(body["id"], []))
        self._order("request", text=json.dumps(body))
        if body["id"] not in self.pending and len(self.asked.get(body["id"], [])) == had:
            self.beyond(f"asks for what the SDK refuses by itself ({self.outcomes[body['id']][-1][1]})")

    def refused(self, type_: str, code: str, **fields: Any) -> dict[str, Any]:
        if code in _RETRIED:
            self.beyond(f"accepts {code} as an answer")
        return super().refused(type_, code, **fields)

    def _signal(self, body: dict[str, Any]) -> None:
        if not {"seq", "stream"}.isdisjoint(body):
            self.beyond("numbers its signals by itself")
        if "data" not in body or not isinstance(body.get("callID"), str):
            self.beyond("sends a message that is no signal")
        self._order("signal", text=json.dumps(body))

    def _order(self, order: str, **fields: Any) -> None:
        """Gives an order to the SDK. Returns when the broker has the messages that the SDK publishes at once; with QoS 0,
        when these messages are sent."""
        if self._stage == "open":
            self.beyond("speaks before it has told its presence")
        assert self._stage == "online", f"{self} is not connected"
        self._machines.order(order, self._number, **fields)
        self._machines.sync(self._number)
        if self._beyond:
            self.beyond(self._beyond)
        deadline = time.monotonic() + self.deployment.patience
        with self._changed:
            while self._is_under_way and self._is_connected and time.monotonic() < deadline:
                self._changed.wait(0.2)

    @property
    def _is_under_way(self) -> bool:
        """Whether the broker lacks messages that the SDK has published."""
        return bool(self._unacknowledged) or self._went_out < self._handed

    def _await_heartbeat(self, body: dict[str, Any]) -> None:
        """Waits for a heartbeat, since an app cannot order a heartbeat: the SDK sends heartbeats when needed. A
        heartbeat must come within the interval."""
        call = body.get("callID")
        now = next((m["call"] for m in reversed(self.messages) if m.get("call") and m["callID"] == call), None)
        own = {"userID": self.user, "device": self.device, "state": "accepted"}
        if not now or now["mode"] != "advanced" or not any(own.items() <= m.items() for m in now["members"]):
            self.beyond("beats for calls that it is not in")
        interval = next(m["heartbeatInterval"] for m in reversed(self.messages) if m.type == "welcome")
        earliest = time.monotonic() - interval
        self.wait_for(
            lambda: self._beats.get(call, 0) > earliest or None, interval + 2, f"a heartbeat of the SDK in {call}"
        )

    # Reports of the process

    def reported(self, told: dict[str, Any]) -> None:
        match told:
            case {"outcome": request}:
                self._note(lambda: self._settled(request, told.get("code")))
            case {"told": "event"}:
                self._note(lambda: self._told(told["callID"], told["revision"]))
            case {"told": "message"}:
                self._note(lambda: self._told_message(told["messageID"]))
            case {"told": "signal", "signal": signal}:
                self._note(lambda: self._told_signal(signal))
            case {"closed": why}:
                self._journal.note(repr(self), "·", "", f"connection ended: {why}")
                self._note(lambda: self._lost(why if told.get("refused") else None))
            case {"noRoom": call}:
                self._note(lambda: self.violations.append(f"the SDK had no room for {call}"))
            case {"handed": _}:
                self._note(self._handed_over)
            case {"beyond": reason}:
                self._beyond = reason
            case {"raised": error}:
                self._note(lambda: self.violations.append(f"the SDK threw {error}"))

    def received(self, type_: int, flags: int, body: bytes) -> None:
        """Receives a packet of the broker."""
        if type_ == PUBLISH:
            self._came(read_publish(flags, body))
        elif type_ == PUBACK:
            self._note(lambda: self._unacknowledged.discard(read_packet_id(body)))

    def sent(self, type_: int, flags: int, body: bytes) -> None:
        """Receives a packet of the SDK."""
        if type_ == PUBLISH:
            self._went(read_publish(flags, body))
        elif type_ == CONNECT:
            self._note(self._connects)

    def _handed_over(self) -> None:
        self._handed += 1

    def _note(self, change: Callable[[], Any]) -> None:
        with self._changed:
            change()
            self._changed.notify_all()

    def _connects(self) -> None:
        self._unacknowledged.clear()
        self._is_connected = True
        self._journal.note(repr(self), "·", "", f"connects, {self._machines.name}")

    def _lost(self, refusal: str | None) -> None:
        self._is_connected = False
        self._refusal = refusal

    def _settled(self, request: str, code: str | None) -> None:
        self.pending.discard(request)
        self.outcomes.setdefault(request, []).append((self.mark, code))

    def _came(self, publish: Publish) -> None:
        # A scene that waits for the message goes on only when the message is noted as well.
        with self._changed:
            message = self._receive(publish.topic, publish.payload, publish.properties, publish.retained)
            match message.body:
                case _ if self._is_leaving:
                    pass
                case {"type": "event", "callID": call, "revision": revision}:
                    self._owed.append({"callID": call, "revision": revision})
                    if revision > self._heard.get(call, 0):
                        self._to_tell.append((call, revision))
                        self._heard[call] = revision
                case {"type": "response", "callID": call, "revision": revision}:
                    self._heard[call] = max(revision, self._heard.get(call, 0))
                case {"type": "message", "messageID": identity}:
                    self._owed.append({"messageID": identity})
                    if identity not in self._shown:
                        self._shown.add(identity)
                        if {"seq", "stream"} <= message.body.keys():
                            self._ordered.add(identity)
                        else:
                            self._to_tell.append((identity, 0))
                case {"type": "signal", "seq": _}:
                    self._signals.setdefault(_place(message.body), message.at)
                case {"type": "signal", "callID": call}:
                    self._to_tell.append((call, _UNNUMBERED))

    def _told(self, identity: str, revision: int) -> None:
        """Checks a report to the app: the SDK tells the app each fresh event and each peer message once, in the order
        of their arrival."""
        if self._to_tell[:1] == [(identity, revision)]:
            self._to_tell.pop(0)
        elif not self._is_leaving:
            self.violations.append(f"the SDK told the app {identity}, revision {revision}; expected: {self._to_tell}")

    def _told_message(self, identity: str) -> None:
        """Checks a report of a peer message: the SDK tells the app each message of a stream once, in its turn, and
        other messages in the order of their arrival."""
        if identity in self._ordered:
            self._ordered.remove(identity)
        else:
            self._told(identity, 0)

    def _told_signal(self, signal: dict[str, Any]) -> None:
        """Checks a report of a signal: the SDK tells the app each signal of a stream once, and other signals in the
        order of their arrival."""
        if "seq" not in signal:
            return self._told(signal["callID"], _UNNUMBERED)
        place = _place(signal)
        if self._signals.get(place) is None and not self._is_leaving:
            self.violations.append(f"the SDK told the app of the signal {place}, which the app was told before")
        self._signals[place] = None

    def _went(self, publish: Publish) -> None:
        self._journal.note(repr(self), "→", self._short(publish.topic), publish.payload)
        body = json.loads(publish.payload)
        with self._changed:
            self._went_out += 1
            if publish.packet is not None and self.qos == 0:
                self.violations.append("the SDK published with QoS 1, and its setting is QoS 0")
            if publish.packet is not None:
                self._unacknowledged.add(publish.packet)
            if publish.retained:
                self.violations.append("the SDK published a retained message")
            match body:
                case {"online": True, "session": session} if publish.topic == self.presence_topic:
                    self.session = session
                case {"online": False} if publish.topic == self.presence_topic:
                    pass
                case _ if publish.topic != self.up:
                    self.violations.append(f"the SDK published on {publish.topic}")
                case {"type": "ack"}:
                    self._owed = [owed for owed in self._owed if not _is_acked(owed, body)]
                case {"type": "call.heartbeat", "callID": call}:
                    self._beats[call] = time.monotonic()
                case {"id": request}:
                    self.asked.setdefault(request, []).append(self.mark)
            self._changed.notify_all()


def _place(signal: dict[str, Any]) -> str:
    """Returns the stream of a signal, and the signal's number in the stream."""
    return json.dumps([signal.get(name) for name in ("callID", "from", "fromDevice", "stream", "seq")])


def _is_request(body: dict[str, Any]) -> bool:
    type_, identity = body.get("type"), body.get("id")
    return isinstance(type_, str) and isinstance(identity, str) and bool(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", identity))


def _is_acked(owed: dict[str, Any], ack: dict[str, Any]) -> bool:
    """Whether the ack covers the message. Acks of a call are cumulative."""
    if "messageID" in owed:
        return ack.get("messageID") == owed["messageID"]
    return ack.get("callID") == owed["callID"] and ack["revision"] >= owed["revision"]
