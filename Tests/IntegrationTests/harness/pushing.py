"""A deployment with push: coordinators, a gateway, the providers, and phones that sleep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .device import Device
from .gateway import Answer, Gateway
from .http2 import Http2Server
from .processes import wait_until
from .push_content import Pushed
from .push_providers import PushProviders
from .push_target import App, Target
from .redis import RedisServer
from .world import World

APPS = (App(), App("work"))
"""Made once: a service account's key takes a while."""

SLACK = 0.35
"""Seconds that a push may be on its way on a busy machine, besides the 100 ms that a reading may be old."""


@dataclass
class Sleeper:
    """A device that is registered and not online."""

    device: Device
    targets: list[Target]

    @property
    def user(self) -> str:
        return self.device.user

    def target(self, platform: str) -> Target:
        return next(target for target in self.targets if target.platform == platform)

    @property
    def only(self) -> Target:
        assert len(self.targets) == 1
        return self.targets[0]

    def wake(self, **options: Any) -> Device:
        """The app starts and connects."""
        self.device.auto_ack = options.get("auto_ack", True)
        return self.device.connect()


def store_options(store: str, redis: RedisServer, directory: Path) -> dict[str, Any]:
    """The flags of a service for a store of `STORES`."""
    return {} if store == "SQLite" else {"store": redis.url, "redis_prefix": directory.name}


def connecting(server: Http2Server, count: int) -> None:
    """Waits until the server has had so many connections."""
    wait_until(lambda: server.connections >= count, 5, f"{count} connections")


def asleep(world: World, providers: PushProviders, name: str, *platforms: str) -> Sleeper:
    """A new user's device, which was never online."""
    return fall_asleep(world.phone(name, presence=False), providers, *platforms)


def fall_asleep(phone: Device, providers: PushProviders, *platforms: str, app: App | None = None) -> Sleeper:
    """Registers a device without presence and disconnects the device: a connected device would ack its messages."""
    targets = providers.register(phone, *platforms, app=app)
    phone.close()
    return Sleeper(phone, targets)


@dataclass(frozen=True)
class Pushing:
    world: World
    gateway: Gateway
    providers: PushProviders

    def sleeper(self, name: str, *platforms: str, device: str = "phone", app: App | None = None) -> Sleeper:
        """A new user's device, which was never online."""
        return self.sleeper_of(self.world.user(name), *platforms, device=device, app=app)

    def sleeper_of(self, user: str, *platforms: str, device: str = "phone", app: App | None = None) -> Sleeper:
        return fall_asleep(self.world.device(user, device, presence=False), self.providers, *platforms or ("apnsVoIP",), app=app)

    def registrations(self, device: Device) -> list[tuple[str, str]]:
        """The registrations of a connected device, each as app and platform. The question is an `unregister` of an
        unknown app."""
        left = device.ok("push.unregister", app="nobody-has-this")["registrations"]
        return [(entry["app"], entry["platform"]) for entry in left]

    def check(self, push: Pushed, action: str = "") -> Answer:
        """Asks as the device that got the push does: with the link of the push and without a token."""
        parts = urlsplit(push.content["check"])
        path = f"{parts.path}{action}?{parts.query}"
        return self.gateway.ask("POST" if action else "GET", path, token=None)

    def wait_offline(self, *devices: Device) -> None:
        """Waits until the service does not count these devices online."""
        for device in devices:

            def offline(device: Device = device) -> bool:
                listed = self.gateway.get(f"/v1/users/{device.user}/devices").ok()["devices"]
                return not any(entry["device"] == device.device and entry["online"] for entry in listed)

            wait_until(offline, 5, f"{device} goes offline")

    def told(self, call: str) -> list[dict[str, Any]]:
        """The pushes in a call's timeline, as a backend sees them."""
        entries = self.gateway.get(f"/v1/calls/{call}/trace").ok()["entries"]
        return [entry for entry in entries if entry["kind"] == "push"]

    def expect_told(self, call: str, timeout: float = 15, **fields: Any) -> dict[str, Any]:
        """The first such entry of the timeline."""

        def found() -> dict[str, Any] | None:
            return next((e for e in self.told(call) if all(e.get(n) == v for n, v in fields.items())), None)

        try:
            return wait_until(found, timeout, f"a push with {fields} in the timeline of {call}", every=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}; it has {self.told(call)}") from None

    def logs(self) -> Iterator[tuple[Path, str]]:
        for log in [service.log for service in self.world.services] + [self.gateway.log]:
            yield log, log.read_text(errors="replace")

    def expect_secrets_kept(self) -> None:
        """No token, key or JWT stands in a log."""
        words = {target.token for target in self.providers.targets.values()}
        for push in self.providers.of():
            words.add(push.headers["authorization"].split()[1])
            if "check" in push.content:
                words.add(push.content["check"].rsplit("key=", 1)[1].split("&")[0])
        for log, text in self.logs():
            for word in words:
                assert word not in text, f"{word[:12]}… stands in {log}"

