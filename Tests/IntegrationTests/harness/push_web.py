"""The checks of a browser's push service, the browser's decryption, and the further promises of docs/protocol.md,
section 7."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any

import jwt

from .http2 import Asked
from .push_content import check_content, check_life, need
from .push_target import Target, from_base64url

MOST = 3993
"""Bytes before encryption."""


def check_web_push(asked: Asked, targets: Mapping[str, Target]) -> tuple[Target, str, dict[str, Any]]:
    """The target of a push, its Topic and its content; raises Wrong."""
    need(asked.method == "POST", asked.method)
    path = re.fullmatch(r"/push/([0-9a-f]+)", asked.path)
    need(path, f"path {asked.path}")
    assert path
    target = targets.get(path[1])
    need(target is not None, f"nobody has the endpoint {path[1]}")
    assert target is not None
    headers = asked.headers
    need(headers.get("content-encoding") == "aes128gcm", f"content-encoding {headers.get('content-encoding')}")
    need(headers.get("urgency") == "high", f"urgency {headers.get('urgency')}")
    need(re.fullmatch(r"\d+", headers.get("ttl", "")), f"TTL {headers.get('ttl')}")
    check_vapid(bearer_of_vapid(headers), target)
    need(len(asked.body) <= 4096, f"{len(asked.body)} bytes")
    plain = target.decrypt(asked.body)
    need(len(plain) <= MOST, f"{len(plain)} bytes before encryption")
    content = json.loads(plain)
    check_content(content, target)
    topic = headers.get("topic", "")
    need(re.fullmatch(r"[A-Za-z0-9_-]{1,32}", topic) or content["kind"] == "test", f"Topic {topic}")
    check_life(content["kind"], content, int(headers["ttl"]), "webPush")
    return target, topic, content


def bearer_of_vapid(headers: Mapping[str, str]) -> dict[str, str]:
    text = headers.get("authorization", "")
    need(re.match(r"vapid ", text, re.IGNORECASE), f"authorization {text}")
    parts = dict(part.strip().split("=", 1) for part in text[6:].split(","))
    need(parts.keys() == {"t", "k"}, f"authorization {text}")
    return parts


def check_vapid(parts: Mapping[str, str], target: Target) -> None:
    need(parts["k"] == target.app.vapid_public, "another public key than the app's")
    need(len(from_base64url(parts["k"])) == 65, f"k {parts['k']}")
    header = jwt.get_unverified_header(parts["t"])
    need(header.get("alg") == "ES256" and header.get("typ", "JWT") == "JWT", f"the token's header {header}")
    need(len(from_base64url(parts["t"].split(".")[2])) == 64, "the token's signature is not r and s as they are")
    key = target.app.vapid_key.public_key()
    claims = jwt.decode(parts["t"], key, algorithms=["ES256"], audience=target.origin)
    need(claims.get("sub") == target.app.subject, f"sub {claims.get('sub')}")
    need(time.time() < claims["exp"] <= time.time() + 86_400, f"exp {claims['exp']}")
