"""A device of the conformance suite, driven by the loop: the phone resends, comes back by itself, and tells its
observations at once."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from conformance.client import BACKOFF, ROOT, Broker, Endpoint, ack_of, encode, without_none

from .history import History
from .link import Link, Trouble
from .loop import Loop, Timer

TEMPORARY = {"unavailable", "rateLimited", "internal"}
Body = dict[str, Any]


class Listener(Protocol):
    """A listener decides how the people at the phones act."""

    def saw(self, phone: Phone, call: Body) -> None: ...
    def rang(self, phone: Phone, event: Body) -> None: ...


@dataclass
class Pending:
    """A request that waits for its answer."""

    body: Body
    done: Callable[[Body | None], None]
    double_after: float | None = None
    resends: list[int] = field(default_factory=lambda: list(BACKOFF))
    timer: Timer | None = None


class Phone(Endpoint):
    """A device of a user. `online` and `offline` say the wish of the device's owner; the network may prevent the
    wish."""

    def __init__(
        self,
        loop: Loop,
        history: History,
        rng: random.Random,
        brokers: Sequence[Broker],
        user: str,
        device: str,
        qos: int,
        listener: Listener,
        presence: bool = True,
    ) -> None:
        """`brokers`: each connection goes to the next."""
        super().__init__(ROOT, user, device)
        self.is_welcome = False
        self.is_wanted = False
        self.welcomed_at = 0
        self.views: dict[str, Body] = {}
        """The last state of each call that this device had in this session, from an event or a response."""
        self.requests_sent = 0
        self.shown: list[str] = []
        """Peer messages that the phone showed its user, each once."""
        self.unreceipted: dict[tuple[str, str], Body] = {}
        """Requests of messages that the service took, by recipient and id, while there is no receipt."""
        self.trouble: Trouble | None = None
        self._loop, self._history, self._rng, self._qos = loop, history, rng, qos
        self._brokers = itertools.cycle(brokers)
        self._listener, self._has_presence = listener, presence
        self._link: Link | None = None
        self._pending: dict[str, Pending] = {}
        self._presence_timer: Timer | None = None
        self._heartbeats: set[str] = set()
        self._is_ready = False

    # Connection

    @property
    def is_connected(self) -> bool:
        return self._is_ready

    def online(self) -> None:
        self.is_wanted = True
        if self._link is None:
            self._connect()

    def _connect(self) -> None:
        if self._link is not None or not self.is_wanted:
            return
        will = self.begin_session(f"{self._rng.getrandbits(48):012x}")
        self.views.clear()
        self._link = Link(
            self._loop,
            self._history,
            self._rng,
            next(self._brokers),
            self,
            will=will,
            qos=self._qos,
            on_ready=self._ready,
            on_message=self._received,
            on_end=self._ended,
        )
        self._link.trouble = self.trouble
        link = self._link
        # A broker that dies while it answers leaves a connection that never becomes ready.
        self._loop.after(5, lambda: link.drop() if link is self._link and not self._is_ready else None)

    def set_trouble(self, trouble: Trouble | None) -> None:
        self.trouble = trouble
        if self._link:
            self._link.trouble = trouble

    def _ready(self) -> None:
        self._is_ready = True
        self._history.device("connected", self.client_id, session=self.session)
        if self._has_presence:
            self._present(list(BACKOFF))
        for request in list(self._pending):
            self._send(request)

    def _present(self, backoff: list[int]) -> None:
        if not self._is_ready or not self._link:
            return
        self._link.publish("presented", self.presence_topic, self.presence(True))
        # The last pause repeats until a welcome comes.
        pause = backoff.pop(0) if len(backoff) > 1 else backoff[0]
        if self._presence_timer:
            self._presence_timer.cancel()
        self._presence_timer = self._loop.after(pause, lambda: None if self.is_welcome else self._present(backoff))

    def _ended(self) -> None:
        if self._is_ready:
            self._history.device("disconnected", self.client_id)
        self._link, self._is_ready, self.is_welcome = None, False, False
        if self._presence_timer:
            self._presence_timer.cancel()
        if self.is_wanted:
            self._loop.after(self._rng.uniform(0.1, 1.0), self._connect)

    def drop(self, away: float) -> None:
        """Loses its connection and comes back after `away` seconds."""
        if self._link:
            self.is_wanted = False
            self._link.drop()
            self._loop.after(away, self.online)

    def logout(self, away: float) -> None:
        """Says goodbye and comes back after `away` seconds."""
        if self._link and self._is_ready:
            self.is_wanted = False
            self._link.trouble = None
            self._link.publish("presented", self.presence_topic, self.presence(False, "logout"))
            self._link.close()
            self._loop.after(away, self.online)

    def close(self) -> None:
        self.is_wanted = False
        if self._link:
            self._link.close()

    # Requests

    @property
    def is_waiting(self) -> bool:
        return bool(self._pending)

    def is_busy(self, call: str) -> bool:
        """The phone waits for the response to a request on this call, so the phone must not send the next request
        (§2)."""
        return any(pending.body.get("callID") == call for pending in self._pending.values())

    def request(
        self,
        type_: str,
        done: Callable[[Body | None], None] | None = None,
        *,
        double_after: float | None = None,
        **fields: Any,
    ) -> None:
        """Sends a request, again after 1, 2, 4, 8 s, and gives up after that: then `done` gets None."""
        identity = f"{self._rng.getrandbits(64):016x}"
        body = {"type": type_, "id": identity} | without_none(fields)
        self.repeat(body, done, double_after)

    def repeat(
        self, body: Body, done: Callable[[Body | None], None] | None = None, double_after: float | None = None
    ) -> None:
        """Sends a request that may have been sent before."""
        self._pending[body["id"]] = Pending(body, done or (lambda _: None), double_after)
        self.requests_sent += 1
        self._send(body["id"])

    def message(self, to: str, double_after: float | None = None, **fields: Any) -> None:
        """Sends a peer message, and waits for its receipt."""
        body: Body = {"to": to} | fields
        done = partial(self._sent_message, body=body)
        self.request("message.send", done, double_after=double_after, **body)

    def ask_for_receipts(self) -> None:
        """Repeats the requests of messages without a receipt: each response tells the fate of its message (§2)."""
        for body in list(self.unreceipted.values()):
            self.repeat(body, partial(self._sent_message, body=body))

    def _sent_message(self, response: Body | None, body: Body) -> None:
        if not response or not response["ok"]:
            return
        key = (body["to"], response["messageID"])
        if response["state"] == "sent":
            self.unreceipted[key] = {"type": "message.send", "id": response["id"]} | without_none(body)
        else:
            self.unreceipted.pop(key, None)

    def _send(self, identity: str) -> None:
        pending = self._pending.get(identity)
        if not pending or not self._is_ready or not self._link:
            return
        payload = encode(pending.body)
        link = self._link
        link.publish("sent", self.up, payload)
        if pending.double_after is not None:
            self._loop.after(
                pending.double_after, lambda: link.publish("sent", self.up, payload) if link.is_open else None
            )
            pending.double_after = None
        if pending.timer:
            pending.timer.cancel()
        if pending.resends:
            pending.timer = self._loop.after(pending.resends.pop(0), lambda: self._send(identity))
        else:
            pending.timer = self._loop.after(BACKOFF[-1], lambda: self._answered(identity, None))

    def _answered(self, identity: str, response: Body | None) -> None:
        pending = self._pending.pop(identity, None)
        if pending:
            if pending.timer:
                pending.timer.cancel()
            pending.done(response)

    # Receiving

    def _received(self, payload: bytes) -> None:
        self._history.device("received", self.client_id, payload)
        body = json.loads(payload)
        if ack := ack_of(body):
            self._publish_up(ack)
        match body["type"]:
            case "welcome":
                self._welcomed(body)
            case "error":
                self._refused(body["error"])
            case "event":
                if self._learn(body["call"]) and body["event"] == "call.invited":
                    self._listener.rang(self, body)
            case "message":
                self._received_message(body)
            case "receipt":
                self.unreceipted.pop((body["to"], body["messageID"]), None)
            case "response":
                if body["ok"]:
                    if "call" in body:
                        self._learn(body["call"])
                elif body["error"]["code"] in TEMPORARY:
                    return  # the phone sends the request again, with the same id, as if no response had come
                self._answered(body["id"], body)

    def _refused(self, error: Body) -> None:
        """A session that is over needs another connection (§1). No other device has this device's id: a newer session
        at another broker is a session of this device that came late."""
        if error["code"] == "sessionOver" and error.get("session") == self.session and self._link:
            self._link.drop()

    def _received_message(self, body: Body) -> None:
        # A device drops a message that the device has had (§2). Message ids come again only long after.
        if body["messageID"] not in self.shown:
            self.shown = [*self.shown[-500:], body["messageID"]]

    def _welcomed(self, body: Body) -> None:
        if body["session"] != self.session:
            self._present(list(BACKOFF))
            return
        self.is_welcome = True
        self.welcomed_at = body["serverTime"]
        for call in body["calls"]:
            self._track_heartbeat(call)
            self._listener.saw(self, call)

    def _learn(self, call: Body) -> bool:
        """Whether the revision is above the highest that this device had (§5)."""
        self._listener.saw(self, call)
        known = self.views.get(call["callID"])
        if known and known["revision"] >= call["revision"]:
            return False
        self.views[call["callID"]] = call
        self._track_heartbeat(call)
        return True

    def forget(self, call: str) -> None:
        self.views.pop(call, None)
        self._heartbeats.discard(call)

    def _track_heartbeat(self, call: Body) -> None:
        own = member(call, self.user) or {}
        is_in = (
            call["mode"] == "advanced"
            and call["state"] != "ended"
            and own.get("state") == "accepted"
            and own.get("device") == self.device
        )
        (self._heartbeats.add if is_in else self._heartbeats.discard)(call["callID"])

    def beat(self) -> None:
        for call in sorted(self._heartbeats):
            self._publish_up({"type": "call.heartbeat", "callID": call})

    def _publish_up(self, body: Body) -> None:
        if self._link and self._is_ready:
            self._link.publish("sent", self.up, encode(body))


def member(call: Body, user: str) -> Body | None:
    return next((entry for entry in call["members"] if entry["userID"] == user), None)
