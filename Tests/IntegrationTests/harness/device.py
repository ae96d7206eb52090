"""A device of the tests: the conformance suite's device, at a broker of the tests. The suite's device shares no code
with the project's own SDK."""

from __future__ import annotations

import secrets
from typing import Any, Literal

from conformance import client
from conformance.client import ROOT, Deployment, Request, encode, without_none

from .broker import Broker

_PATIENCE, _ANSWER_PATIENCE = 8, 20
"""Seconds. The first is less than the grace of a lost caller, 10 s: what a logout does at once comes in this time."""


class Device(client.Device):
    """The device does not wait for a PUBACK, so that two devices can ask at the same instant."""

    def __init__(
        self,
        broker: Broker,
        user: str,
        device: str = "phone",
        *,
        mqtt_version: int = 5,
        transport: Literal["tcp", "websockets"] = "tcp",
        auto_ack: bool = True,
        qos: int = 1,
        root: str = ROOT,
        port: int | None = None,
    ) -> None:
        """`port`: the port to which the device connects, unless the device connects to the broker itself."""
        self._tapped = broker
        scheme, own_port = ("mqtt", broker.port) if transport == "tcp" else ("ws", broker.web_port)
        url = f"{scheme}://127.0.0.1:{port or own_port}"
        there = client.Broker.at(url, None, lambda user: broker.password(user, device))
        deployment = Deployment(there, root, _PATIENCE, _ANSWER_PATIENCE, waits_for_broker=False)
        version: client.Version = "5" if mqtt_version == 5 else "3.1.1"
        super().__init__(deployment, version, None, user, device, auto_ack=auto_ack, qos=qos)

    def publish(self, topic: str, payload: bytes, *, bad: bool = False, **options: Any) -> None:
        """`bad` says that the message breaks the contract on purpose."""
        if bad:
            self._tapped.tap.deliberately_bad.add((topic, payload))
        super().publish(topic, payload, **options)

    def send(self, body: dict[str, Any] | bytes, *, bad: bool = False, hurry: bool = False) -> None:
        self.publish(self.up, body if isinstance(body, bytes) else encode(body), bad=bad, hurry=hurry)

    def start(
        self, type_: str, *, id: str | None = None, correlation: bytes | None = None, bad: bool = False, **fields: Any
    ) -> Request:
        body = {"type": type_, "id": id or secrets.token_hex(8)} | without_none(fields)
        if bad:
            self._tapped.tap.deliberately_bad.add((self.up, encode(body)))
        return self._make(body, correlation)

    def invite(self, *invitees: client.Device | str, **fields: Any) -> str:
        """Makes a single attempt to place a call, even when the service tells the device to wait; returns the call's
        id."""
        return self.ok("call.invite", invitees=client.users(*invitees), **fields)["callID"]
