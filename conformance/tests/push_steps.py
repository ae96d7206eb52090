"""Short steps of the tests of push."""

from __future__ import annotations

import secrets
from typing import Any

from ..client import Device
from ..scene import Scene
from ..suite import require

Registrations = list[dict[str, Any]]

KEYS = {
    # The keys of the example in RFC 8291, section 5.
    "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    "auth": "BTBZMqHH6r4Tts7J_aSIgg",
}
TOKENS = ("apns", "apnsVoIP", "fcm")


def served(scene: Scene, *preferred: str) -> str:
    """Returns a platform that the deployment serves."""
    all_served = scene.options.push
    require(bool(all_served), "this deployment serves no push (--push)")
    return next((platform for platform in preferred if platform in all_served), all_served[0])


def target_of(platform: str) -> dict[str, Any]:
    """Returns a target that no device has: a push to this target reaches no device."""
    if platform == "webPush":
        endpoint = f"https://push.invalid/{secrets.token_hex(16)}"
        return {"platform": platform, "subscription": {"endpoint": endpoint, "keys": KEYS}}
    return {"platform": platform, "token": secrets.token_hex(32)}


def register(device: Device, platform: str) -> Registrations:
    return device.ok("push.register", **target_of(platform))["registrations"]


def registrations_of(device: Device) -> Registrations:
    """Returns the device's registrations, from the response to ending a registration that does not exist."""
    return device.ok("push.unregister", app=secrets.token_hex(8))["registrations"]


def platforms_of(registrations: Registrations) -> list[str]:
    return [entry["platform"] for entry in registrations]
