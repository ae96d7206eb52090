"""The JSON schemas of docs/asyncapi.yaml."""

from __future__ import annotations

import json
import re
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft7Validator
from jsonschema.exceptions import best_match
from referencing import Registry
from referencing.jsonschema import DRAFT7

_DOCUMENT = "urn:bellwire:asyncapi"
_REMEMBERED = 4096
_FREE = re.compile(
    rb'"(id|callID|messageID|userID|inviter|invitedBy|actor|from|endedBy|session)":"[A-Za-z0-9_-]{1,64}"'
    rb'|"(offline)":\["[A-Za-z0-9_-]{1,64}"\]|"(revision|expiresIn)":[1-9][0-9]{0,4}(?=[,}])'
    rb'|:[1-9][0-9]{12}(?=[,}])'
)
"""Well-formed ids, lists of such an id, positive numbers and times: the schemas treat all of a kind alike."""


class Schemas:
    """The schema of `DownMessage`: all messages that the service sends."""

    def __init__(self, path: Path) -> None:
        self._validator = validators(path)["DownMessage"]
        self._lock = threading.Lock()
        self._remembered = lru_cache(_REMEMBERED)(self._judge)

    def violation(self, raw: bytes) -> str | None:
        """Returns the breach of the schema by a message; None for a valid message.

        Messages that differ only in well-formed ids, positive numbers and times are checked once, since checking takes
        most of the time."""
        with self._lock:
            # The text of a breach quotes the message itself.
            return self._remembered(_FREE.sub(_alike, raw)) and self._judge(raw)

    def _judge(self, raw: bytes) -> str | None:
        try:
            message = json.loads(raw)
        except (ValueError, RecursionError) as problem:
            return f"not JSON: {problem}"
        return violation(self._validator, message)


def validators(path: Path) -> dict[str, Draft7Validator]:
    """Returns the validators of the messages of both directions (AsyncAPI 3: JSON Schema draft 7)."""
    document = yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    registry: Registry[Any] = Registry().with_resource(_DOCUMENT, DRAFT7.create_resource(document))
    found = {}
    for name in ("UpMessage", "PresenceMessage", "DownMessage"):
        Draft7Validator.check_schema(document["components"]["schemas"][name])
        found[name] = Draft7Validator({"$ref": f"{_DOCUMENT}#/components/schemas/{name}"}, registry=registry)
    return found


def violation(validator: Draft7Validator, message: Any) -> str | None:
    """Returns the breach of the schema by a message; None for a valid message."""
    if validator.is_valid(message):
        return None
    error = best_match(validator.iter_errors(message))
    return f"{error.json_path}: {error.message[:500]}"


def _alike(found: re.Match[bytes]) -> bytes:
    if found[1]:
        return b'"%b":"x"' % found[1]
    if found[2]:
        return b'"%b":["x"]' % found[2]
    return b'"%b":1' % found[3] if found[3] else b":1790000000000"
