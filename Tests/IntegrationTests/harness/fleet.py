"""Several brokers of a deployment, the services on these brokers, and the phones of a test."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from .broker import Broker
from .device import Device
from .processes import wait_until
from .service import Service
from .world import World


class Fleet:
    """Each device connects to a broker that the test names."""

    def __init__(self, brokers: Sequence[Broker], services: Sequence[Service]) -> None:
        self.brokers = list(brokers)
        self.services = list(services)
        self._devices: list[Device] = []

    @property
    def service(self) -> Service:
        return self.services[0]

    def name(self, place: int) -> str:
        """The broker's name in `/readyz` and metrics."""
        return f"127.0.0.1:{self.brokers[place].port}"

    def phone(self, place: int, user: str, device: str = "phone", *, presence: bool = True, **options: Any) -> Device:
        """A connected device at the broker in this place."""
        made = Device(self.brokers[place], user, device, **options)
        self._devices.append(made)
        return made.connect(presence=presence)

    @staticmethod
    def user(name: str) -> str:
        return World.user(name)

    @staticmethod
    def states(service: Service) -> dict[str, str]:
        """The brokers' states in `/readyz`."""
        states: dict[str, str] = json.loads(service.get("/readyz")[1])["brokers"]
        return states

    def await_state(self, place: int, state: str, seconds: float) -> float:
        """Waits until every coordinator has this state of the broker. Returns the seconds of the wait."""
        began = time.monotonic()
        name = self.name(place)
        wait_until(
            lambda: all(self.states(service)[name] == state for service in self.services if service.running),
            seconds,
            f"{name} is {state}",
        )
        return time.monotonic() - began

    def close(self) -> None:
        for device in self._devices:
            device.close()
