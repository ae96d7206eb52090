"""The surroundings of a test: the deployment, and devices of users that no other test has."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .client import BeyondMachine, Deployment, Device, Journal, MachineDevice, Machines, Version, why_no_machine
from .contract import Judge, Schemas
from .options import Limits, Options, Timings


@dataclass(frozen=True)
class Role:
    """A device of a test, in a run with an SDK's machines."""

    device: str
    reason: str | None
    """The difference between the device and the SDK's machine; None for a device that is the machine."""


class Scene:
    """The devices of one run of a test."""

    def __init__(
        self,
        options: Options,
        timings: Timings,
        version: Version,
        machines: Machines | None = None,
        by_hand: Mapping[int, str] = {},
    ) -> None:
        """With `machines` each device is the SDK's machine, unless the test asks for other behaviour. `by_hand` names,
        by their place among the devices, further devices for which the test turned out to need other behaviour."""
        self.options = options
        self.timings = timings
        self.version = version
        self.journal = Journal()
        self.roles: list[Role] = []
        """The role of each device, in a run with machines."""
        self._devices: list[Device] = []
        self._machines = machines
        self._by_hand = by_hand

    @property
    def deployment(self) -> Deployment:
        return self.options.deployment

    @property
    def limits(self) -> Limits:
        return self.options.limits

    @staticmethod
    def user(name: str) -> str:
        """Returns a new user, so that the suite can run against a live system."""
        return f"{name}-{secrets.token_hex(5)}"

    def device(self, name: str, device: str = "phone", **options: Any) -> Device:
        """Returns a connected device of a new user."""
        return self.device_of(self.user(name), device, **options)

    def devices(self, *names: str, **options: Any) -> list[Device]:
        return [self.device(name, **options) for name in names]

    def another(self, of: Device, device: str, **options: Any) -> Device:
        """Returns a further connected device of the same user."""
        return self.device_of(of.user, device, **options)

    def device_of(
        self,
        user: str,
        device: str = "phone",
        *,
        presence: bool = True,
        connect: bool = True,
        unlike_machine: str | None = None,
        **options: Any,
    ) -> Device:
        """Returns a device of exactly this user. `unlike_machine`: behaviour in which the device must differ from the
        SDK's machine."""
        made = self._made(user, device, unlike_machine or why_no_machine(user, device, presence, options), options)
        self._devices.append(made)
        if not connect:
            return made
        made.connect(presence=presence)
        if not presence:
            self._make_known(made)
        return made

    def _made(self, user: str, device: str, reason: str | None, options: dict[str, Any]) -> Device:
        place = len(self._devices)
        if self._machines:
            for other in self._devices:
                if isinstance(other, MachineDevice) and (other.user, other.device) == (user, device) and other.is_here:
                    raise BeyondMachine(self._devices.index(other), "gives way to another connection of its name")
            reason = self._by_hand.get(place) or reason
            self.roles.append(Role(f"{user}/{device}", reason))
            if reason is None:
                return MachineDevice(self._machines, self.deployment, self.journal, user, device, place, options.get("qos"))
        return Device(self.deployment, self.version, self.journal, user, device, **options)

    def absent(self, name: str) -> str:
        """Returns a new user who may be invited and has no device online."""
        user = self.user(name)
        if self.options.users == "known":
            device = self.device_of(user, "once", presence=False)
            device.close()
        return user

    def absentees(self, count: int) -> list[str]:
        return [self.absent(f"guest{number}") for number in range(count)]

    def _make_known(self, device: Device) -> None:
        """Registers the user by a profile, where only registered users may be invited and the device publishes no
        presence."""
        if self.options.users == "known":
            device.ok("user.update", name=device.user)

    def close(self) -> None:
        for device in self._devices:
            device.retire()

    def violations(self, schemas: Schemas) -> list[str]:
        """Returns breaches of the contract in the messages that the devices received, and in the behaviour of the SDK's
        machine."""
        found = Judge(schemas).violations(self._devices)
        for device in self._devices:
            if isinstance(device, MachineDevice):
                found += [f"{device}: {violation}" for violation in device.violations]
        return found
