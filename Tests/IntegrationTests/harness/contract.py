"""The machine-readable contract: every message on a test broker is held against docs/asyncapi.yaml."""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from conformance.contract import schema

_REMEMBERED = 8192
_IDS = re.compile(r'"(id|callID|messageID|session)":"[A-Za-z0-9_-]{1,64}"')
_NUMBERS = re.compile(r'(?<=-)[0-9a-f]{8}(?=")|(?<=:)[0-9]{13}(?=[,}])')
"""Patterns of well-formed ids, of the ends of the names that `World.user` makes, and of times: no schema tells two such
values apart."""


class Contract:
    """The schemas `UpMessage`, `PresenceMessage` and `DownMessage`."""

    def __init__(self, path: Path) -> None:
        self._validators = schema.validators(path)
        self._is_valid = lru_cache(_REMEMBERED)(lambda name, text: self._validators[name].is_valid(json.loads(text)))

    @staticmethod
    @cache
    def load(path: Path) -> Contract:
        return Contract(path)

    def violation(self, name: str, message: Any) -> str | None:
        """The problem of `message`, or None when the message meets the schema of this name. Among messages
        that differ only in ids and times, only the first is judged: a judgement of each message took most of the
        processor time of the tests."""
        text = json.dumps(message, separators=(",", ":"))
        if self._is_valid(name, _NUMBERS.sub(_alike, _IDS.sub(r'"\1":"x"', text))):
            return None
        problem = schema.violation(self._validators[name], message)
        return problem and f"{name}: {problem}"


def _alike(found: re.Match[str]) -> str:
    return "0" * 8 if len(found[0]) == 8 else "1790000000000"
