"""A broker, the services on this broker, and the phones of a test."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

from .broker import Broker
from .device import Device
from .redis import RedisServer
from .service import Service
from .tap import Tap


class World:
    """Phones get user names that no other test uses, so that tests can share a deployment."""

    def __init__(self, broker: Broker, *services: Service) -> None:
        self.broker = broker
        self.services = services
        self._devices: list[Device] = []

    @property
    def service(self) -> Service:
        return self.services[0]

    @property
    def tap(self) -> Tap:
        return self.broker.tap

    @staticmethod
    def user(name: str) -> str:
        return f"{name}-{secrets.token_hex(4)}"

    def phone(self, name: str, device: str = "phone", *, presence: bool = True, **options: Any) -> Device:
        """A connected device of a new user."""
        return self.device(self.user(name), device, presence=presence, **options)

    def phones(self, *names: str, **options: Any) -> list[Device]:
        return [self.phone(name, **options) for name in names]

    def another(self, of: Device, device: str, *, presence: bool = True, **options: Any) -> Device:
        """A further connected device of the same user."""
        return self.device(of.user, device, presence=presence, **options)

    def device(
        self, user: str, device: str = "phone", *, presence: bool = True, connect: bool = True, **options: Any
    ) -> Device:
        """A device of exactly this user."""
        made = Device(self.broker, user, device, **options)
        self._devices.append(made)
        return made.connect(presence=presence) if connect else made

    def borrow(self) -> Iterator[World]:
        """This deployment for a single test, whose phones are closed after the test. For `yield from` in a fixture."""
        world = World(self.broker, *self.services)
        yield world
        world.close()

    def close(self) -> None:
        for device in self._devices:
            device.close()
        self._devices.clear()


Deploy = Callable[..., World]
"""`deploy(replicas=1, **options)`: a deployment of its own, for a module that needs other settings."""

STORES = ("SQLite", "Redis")


def on_each_store(deploy: Deploy, redis: RedisServer, replicas: int = 2, **options: Any) -> dict[str, World]:
    """The same deployment on each of `STORES`. Deployments on the same Redis do not share their keys."""
    prefix = f"bellwire-{secrets.token_hex(4)}"
    return {
        "SQLite": deploy(replicas, **options),
        "Redis": deploy(replicas, store=redis.url, redis_prefix=prefix, **options),
    }
