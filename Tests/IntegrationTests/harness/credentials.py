"""Certificates, and tokens made by PyJWT as a stranger's backend would make them."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import jwt

from .service import PROJECT


def make_certificates(directory: Path, *hosts: str) -> None:
    """An authority and the files of a server that the authority vouches for: `ca.crt`, `broker.crt`, `broker.key`."""
    subprocess.run([PROJECT / "scripts/dev-certs", directory, *hosts], check=True, capture_output=True)


def make_token(
    key: dict[str, Any], user: str, ttl: float = 600, *, header: dict[str, Any] | None = None, **claims: Any
) -> str:
    """A token signed with a key of a key set. Claims that are None are left out."""
    all_claims = {"sub": user, "aud": "bellwire", "exp": int(time.time() + ttl)} | claims
    return jwt.encode(
        {name: value for name, value in all_claims.items() if value is not None},
        jwt.PyJWK(key).key,
        algorithm=key["alg"],
        headers={"kid": key["kid"]} | (header or {}),
    )
