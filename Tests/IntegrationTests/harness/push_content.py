"""The content that every push carries, at every provider, and the fate of a push."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .push_target import Target, from_base64url

MISSED_LIFE = 86_400
"""Seconds for which a provider is to keep `missed`."""
KINDS = {
    "apnsVoIP": {"ring"},
    "apns": {"ring", "missed", "test"},
    "fcm": {"ring", "stop", "missed", "test"},
    "webPush": {"ring", "stop", "missed", "test"},
}
_TYPES: dict[str, type] = {
    "callID": str,
    "revision": int,
    "inviter": str,
    "name": str,
    "avatarURL": str,
    "media": str,
    "mode": str,
    "createdAt": int,
    "expiresAt": int,
    "expiresIn": int,
    "title": str,
    "body": str,
    "payload": str,
    "check": str,
}
_REQUIRED = {"callID", "revision", "inviter", "mode", "createdAt", "expiresAt"}


class Wrong(Exception):
    """The reason why a push breaks the contract."""


def need(holds: object, why: str) -> None:
    if not holds:
        raise Wrong(why)


@dataclass(frozen=True)
class Pushed:
    """A push attempt that arrived and met the contract."""

    at: float
    """Monotonic seconds, when its headers came."""
    target: Target
    kind: str
    call: str
    id: str
    """The id that is the same in each attempt: `apns-id`, the message's JSON, the Topic."""
    content: dict[str, Any]
    headers: dict[str, str]
    raw: bytes
    """The body as received."""
    connection: int
    stream: int
    status: int
    """The status of the answer; 0 for no answer."""

    @property
    def platform(self) -> str:
        return self.target.platform

    @property
    def outer(self) -> dict[str, Any]:
        """The body of a push whose body is JSON."""
        return json.loads(self.raw)

    @property
    def taken(self) -> bool:
        return self.status // 100 == 2


def check_content(content: Any, target: Target) -> None:
    need(isinstance(content, dict), f"the content is {content!r}")
    kind = content.get("kind")
    need(kind in KINDS[target.platform], f"{kind} by {target.platform}")
    if kind == "test":
        return
    need(_REQUIRED <= content.keys(), f"missing: {_REQUIRED - content.keys()}")
    for name, value in content.items():
        if name != "kind":
            need(name in _TYPES, f"{name} is no field of a push")
            need(type(value) is _TYPES[name], f"{name} is {value!r}")
    need(content["mode"] in ("common", "advanced"), f"mode {content['mode']}")
    need(content["createdAt"] < content["expiresAt"], "it expires before it was created")
    need(kind != "ring" or "check" in content, "a ring without check")
    need((kind == "ring") == ("expiresIn" in content), f"expiresIn in {kind}")
    if kind == "ring":
        # Two processes know the store's time to some milliseconds.
        need(0 <= content["expiresIn"] <= content["expiresAt"] - content["createdAt"] + 20, f"expiresIn {content['expiresIn']}")
    if "check" in content:
        _check_link(content["check"], content["callID"], target)


def _check_link(link: str, call: str, target: Target) -> None:
    need(link.startswith(f"{target.public_url}/v1/ring/"), f"check {link}")
    parts = urlsplit(link)
    need(parts.path == f"/v1/ring/{call}", f"check {link} of {call}")
    query = parse_qs(parts.query, strict_parsing=True)
    need(query.keys() == {"user", "device", "key"}, f"check {link}")
    need((query["user"], query["device"]) == ([target.user], [target.device]), f"{link} for {target.user}/{target.device}")
    need(len(from_base64url(query["key"][0])) >= 16, f"the key of {link}")


def check_life(kind: str, content: dict[str, Any], seconds: float, platform: str) -> None:
    """Checks how long the provider is to keep the push: the rest of the ringing, or a day for `missed`."""
    if kind == "missed":
        need(MISSED_LIFE - 3700 <= seconds <= MISSED_LIFE + 2, f"missed is kept for {seconds} s")
    elif kind in ("ring", "stop"):
        # The service's clock may differ from this machine's clock: a ring carries the time for which it still rings.
        rest = content["expiresIn"] / 1000 if kind == "ring" else content["expiresAt"] / 1000 - time.time()
        need(rest - 2 <= seconds <= max(rest, 0) + 1.2, f"{platform} keeps {kind} for {seconds} s of {rest:.3f}")


def check_age(claims: dict[str, Any], most: float) -> None:
    age = time.time() - claims["iat"]
    need(type(claims["iat"]) is int and -5 <= age <= most, f"a token {age:.0f} s old")


def bearer(headers: dict[str, str], scheme: str) -> str:
    found = re.fullmatch(rf"{scheme} (\S+)", headers.get("authorization", ""), re.IGNORECASE)
    need(found, f"authorization {headers.get('authorization')!r}")
    assert found
    return found[1]
