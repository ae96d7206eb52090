"""The checks of Apple's push service, and the further promises of docs/protocol.md, section 7."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any

import jwt

from .http2 import Asked
from .push_content import bearer, check_age, check_content, check_life, need
from .push_target import App, Target, from_base64url

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
OLDEST_TOKEN = 41 * 60
"""Seconds: a provider token is made anew after 40 minutes."""


def check_apns(asked: Asked, targets: Mapping[str, Target]) -> tuple[Target, str, dict[str, Any]]:
    """The target of a push, its apns-id and its content; raises Wrong."""
    need(asked.method == "POST", f"{asked.method}")
    need(asked.headers.get(":scheme") == "https", f"scheme {asked.headers.get(':scheme')}")
    path = re.fullmatch(r"/3/device/([^/?]+)", asked.path)
    need(path, f"path {asked.path}")
    assert path
    target = targets.get(path[1])
    need(target is not None, f"nobody has the token {path[1]}")
    assert target is not None
    need(target.platform in ("apns", "apnsVoIP"), f"a token of {target.platform} at APNs")
    check_provider_token(bearer(asked.headers, "bearer"), target.app)
    body = json.loads(asked.body)
    content = body.get("bellwire")
    check_content(content, target)
    voip = target.platform == "apnsVoIP"
    _check_headers(asked.headers, target, content)
    _check_body(body, voip, target.app.shape.get(target.platform, set()))
    most = 5120 if voip else 4096
    need(len(asked.body) <= most, f"{len(asked.body)} bytes")
    return target, asked.headers["apns-id"], content


def check_provider_token(token: str, app: App) -> None:
    header = jwt.get_unverified_header(token)
    need(header.get("alg") == "ES256" and header.get("kid") == app.key_id, f"the token's header {header}")
    need(len(from_base64url(token.split(".")[2])) == 64, "the token's signature is not r and s as they are")
    claims = jwt.decode(token, app.apns_key.public_key(), algorithms=["ES256"], options={"verify_iat": False})
    need(claims.keys() == {"iss", "iat"} and claims["iss"] == app.team_id, f"the token's claims {claims}")
    check_age(claims, OLDEST_TOKEN)


def _check_headers(headers: Mapping[str, str], target: Target, content: dict[str, Any]) -> None:
    voip = target.platform == "apnsVoIP"
    expected = {
        "apns-topic": target.app.bundle + (".voip" if voip else ""),
        "apns-push-type": "voip" if voip else "alert",
        "apns-priority": "10",
        "apns-collapse-id": None if voip else content.get("callID"),
    }
    for name, value in expected.items():
        need(headers.get(name) == value or content["kind"] == "test", f"{name} is {headers.get(name)}, not {value}")
    need(_UUID.fullmatch(headers.get("apns-id", "")), f"apns-id {headers.get('apns-id')}")
    expiration = headers.get("apns-expiration", "")
    need(expiration.isdigit(), f"apns-expiration {expiration}")
    check_life(content["kind"], content, int(expiration) - time.time(), target.platform)


def _check_body(body: dict[str, Any], voip: bool, shape: set[str]) -> None:
    need(body.keys() - shape == {"aps", "bellwire"}, f"the body has {body.keys()}")
    content, aps = body["bellwire"], body["aps"]
    if voip:
        need(aps == {}, f"aps {aps}")
        return
    shown = {name: content[name] for name in ("title", "body") if name in content}
    expected = {"alert": shown, "sound": "default", "mutable-content": 1}
    need(aps == expected or content["kind"] == "test", f"aps is {aps}, not {expected}")
