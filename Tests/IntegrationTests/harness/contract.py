"""The machine-readable contract: every message on a test broker is held against docs/asyncapi.yaml."""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft7Validator
from jsonschema.exceptions import best_match
from referencing import Registry
from referencing.jsonschema import DRAFT7

_DOCUMENT = "urn:bellwire:asyncapi"
_REMEMBERED = 8192
_IDS = re.compile(r'"(id|callID|messageID|session)":"[A-Za-z0-9_-]{1,64}"')
_NUMBERS = re.compile(r'(?<=-)[0-9a-f]{8}(?=")|(?<=:)[0-9]{13}(?=[,}])')
"""Ids that are well-formed, the ends of the names that `World.user` makes, and times: no schema tells one from another."""


class Contract:
    """The component schemas `UpMessage`, `PresenceMessage` and `DownMessage` (AsyncAPI 3: JSON Schema draft 7)."""

    def __init__(self, path: Path) -> None:
        document = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        resource = DRAFT7.create_resource(document)
        registry: Registry[Any] = Registry().with_resource(_DOCUMENT, resource)
        self._validators = {}
        for name in ("UpMessage", "PresenceMessage", "DownMessage"):
            Draft7Validator.check_schema(document["components"]["schemas"][name])
            reference = {"$ref": f"{_DOCUMENT}#/components/schemas/{name}"}
            self._validators[name] = Draft7Validator(reference, registry=registry)
        self._is_valid = lru_cache(_REMEMBERED)(lambda schema, text: self._validators[schema].is_valid(json.loads(text)))

    @staticmethod
    @cache
    def load(path: Path) -> Contract:
        return Contract(path)

    def violation(self, schema: str, message: Any) -> str | None:
        """What is wrong with `message`, None when it meets `schema`. Of messages that differ only in ids and times one is judged: to judge
        took most of the processor time of the tests."""
        text = json.dumps(message, separators=(",", ":"))
        if self._is_valid(schema, _NUMBERS.sub(_alike, _IDS.sub(r'"\1":"x"', text))):
            return None
        error = best_match(self._validators[schema].iter_errors(message))
        return f"{schema}: {error.json_path}: {error.message}" if error else None


def _alike(found: re.Match[str]) -> str:
    return "0" * 8 if len(found[0]) == 8 else "1790000000000"
