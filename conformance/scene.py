"""What a test stands on: the deployment, and devices of users that nobody else is."""

from __future__ import annotations

import secrets
from typing import Any

from .client import Deployment, Device, Journal, Version
from .contract import Judge, Schemas
from .options import Limits, Options, Timings


class Scene:
    """The devices of one run of one test."""

    def __init__(self, options: Options, timings: Timings, version: Version) -> None:
        self.options = options
        self.timings = timings
        self.version = version
        self.journal = Journal()
        self._devices: list[Device] = []

    @property
    def deployment(self) -> Deployment:
        return self.options.deployment

    @property
    def limits(self) -> Limits:
        return self.options.limits

    @staticmethod
    def user(name: str) -> str:
        """A new user, so that the suite can run against a live system."""
        return f"{name}-{secrets.token_hex(5)}"

    def device(self, name: str, device: str = "phone", **options: Any) -> Device:
        """A connected device of a new user."""
        return self.device_of(self.user(name), device, **options)

    def devices(self, *names: str, **options: Any) -> list[Device]:
        return [self.device(name, **options) for name in names]

    def another(self, of: Device, device: str, **options: Any) -> Device:
        """A further connected device of the same user."""
        return self.device_of(of.user, device, **options)

    def device_of(
        self, user: str, device: str = "phone", *, presence: bool = True, connect: bool = True, **options: Any
    ) -> Device:
        """A device of exactly this user."""
        made = Device(self.deployment, self.version, self.journal, user, device, **options)
        self._devices.append(made)
        if not connect:
            return made
        made.connect(presence=presence)
        if not presence:
            self._make_known(made)
        return made

    def absent(self, name: str) -> str:
        """A new user who may be invited and has no device online."""
        user = self.user(name)
        if self.options.users == "known":
            device = self.device_of(user, "once", presence=False)
            device.close()
        return user

    def absentees(self, count: int) -> list[str]:
        return [self.absent(f"guest{number}") for number in range(count)]

    def _make_known(self, device: Device) -> None:
        """Where only registered users may be invited, one who never publishes presence registers by a profile."""
        if self.options.users == "known":
            device.ok("user.update", name=device.user)

    def close(self) -> None:
        for device in self._devices:
            device.close()

    def violations(self, schemas: Schemas) -> list[str]:
        """What breaks the contract in all that the devices received."""
        return Judge(schemas).violations(self._devices)
