"""The machine-readable contract: every message on a test broker is held against docs/asyncapi.yaml."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft7Validator
from jsonschema.exceptions import best_match
from referencing import Registry
from referencing.jsonschema import DRAFT7

_DOCUMENT = "urn:bellwire:asyncapi"


class Contract:
    """The component schemas `UpMessage`, `PresenceMessage` and `DownMessage` (AsyncAPI 3: JSON Schema draft 7)."""

    def __init__(self, path: Path) -> None:
        document = yaml.safe_load(path.read_text())
        resource = DRAFT7.create_resource(document)
        registry: Registry[Any] = Registry().with_resource(_DOCUMENT, resource)
        self._validators = {}
        for name in ("UpMessage", "PresenceMessage", "DownMessage"):
            Draft7Validator.check_schema(document["components"]["schemas"][name])
            reference = {"$ref": f"{_DOCUMENT}#/components/schemas/{name}"}
            self._validators[name] = Draft7Validator(reference, registry=registry)

    @staticmethod
    @cache
    def load(path: Path) -> Contract:
        return Contract(path)

    def violation(self, schema: str, message: Any) -> str | None:
        """What is wrong with `message`, None when it meets `schema`."""
        validator = self._validators[schema]
        if validator.is_valid(message):
            return None
        error = best_match(validator.iter_errors(message))
        return f"{schema}: {error.json_path}: {error.message}"
