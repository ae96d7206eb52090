"""docs/openapi.yaml as a judge: whether the document has a gateway's answer."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from .service import PROJECT

_DOCUMENT = "urn:bellwire:openapi"
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_NOT_HTTP = {400, 413, 414, 431, 501, 503, 505}
"""The statuses with which the HTTP server itself answers."""
_EVERYWHERE = {"content-length", "content-type", "date", "connection"}


class OpenAPI:
    """OpenAPI 3.1, whose schemas are JSON Schema 2020-12."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text()
        self.document: dict[str, Any] = yaml.load(self.text, yaml.CSafeLoader)
        resource = DRAFT202012.create_resource(self.document)
        self._registry: Registry[Any] = Registry().with_resource(_DOCUMENT, resource)
        self._paths = [
            (re.compile("".join("[^/]+" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{\w+\})", path))), path)
            for path in self.document["paths"]
        ]

    @staticmethod
    @cache
    def load() -> OpenAPI:
        return OpenAPI(PROJECT / "docs/openapi.yaml")

    @property
    def operations(self) -> dict[str, dict[str, Any]]:
        """Each by method and path: `POST /v1/calls`."""
        return {
            f"{method.upper()} {path}": item[method]
            for path, item in self.document["paths"].items()
            for method in _METHODS
            if method in item
        }

    def resolve(self, value: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in value:
            found: Any = self.document
            for name in value["$ref"].removeprefix("#/").split("/"):
                found = found[name]
            value = found
        return value

    def schema_problem(self, pointer: list[str], value: Any) -> str | None:
        """The problem of `value` by the schema at `pointer`."""
        reference = "#/" + "/".join(part.replace("~", "~0").replace("/", "~1").replace("%", "%25") for part in pointer)
        validator = Draft202012Validator({"$ref": _DOCUMENT + reference}, registry=self._registry)
        if validator.is_valid(value):
            return None
        error = best_match(validator.iter_errors(value))
        return f"{error.json_path}: {error.message}"

    def names(self, method: str, target: str) -> str | None:
        """The operation, None when the document has none."""
        path = urlsplit(target).path
        found = [template for pattern, template in self._paths if pattern.fullmatch(path) or pattern.fullmatch(_decoded(path))]
        wanted = "get" if method == "HEAD" else method.lower()
        return next((f"{wanted.upper()} {template}" for template in found if wanted in self.document["paths"][template]), None)

    def _response(self, method: str, target: str, status: int) -> tuple[dict[str, Any], list[str]] | None:
        """The response in the document, and its pointer."""
        operation = self.names(method, target)
        # HEAD stands for GET, but not everywhere.
        if operation is None or (method, status) == ("HEAD", 405):
            path = urlsplit(target).path
            known = any(pattern.fullmatch(path) or pattern.fullmatch(_decoded(path)) for pattern, _ in self._paths)
            name = {400: "BadRequest", 404: None if known else "UnknownPath", 405: "MethodNotAllowed" if known else None}.get(status)
            name = name or ("NotHTTP" if status in _NOT_HTTP else None)
            pointer = ["components", "responses", name or ""]
            return (self.document["components"]["responses"][name], pointer) if name else None
        verb, template = operation.split(" ")
        responses = self.operations[operation]["responses"]
        key = str(status) if str(status) in responses else "default" if status in _NOT_HTTP else None
        if key is None:
            return None
        pointer = ["paths", template, verb.lower(), "responses", key]
        if "$ref" in responses[key]:
            pointer = responses[key]["$ref"].removeprefix("#/").split("/")
        return self.resolve(responses[key]), pointer

    def problem(self, method: str, target: str, status: int, headers: dict[str, str], raw: bytes) -> str | None:
        """The problem of an answer; `headers` has the names in lower case."""
        found = self._response(method, target, status)
        if found is None:
            return f"{status} is no answer that the document has"
        response, pointer = found
        stated = {name.lower(): self.resolve(header) for name, header in response.get("headers", {}).items()}
        for name, header in stated.items():
            if name not in headers:
                if header.get("required"):
                    return f"{status} without {name}"
                continue
            schema = header["schema"]
            value: Any = int(headers[name]) if schema.get("type") == "integer" and headers[name].isdigit() else headers[name]
            error = best_match(Draft202012Validator(schema).iter_errors(value))
            if error is not None:
                return f"{status}, {name}: {error.message}"
        if unknown := headers.keys() - stated.keys() - _EVERYWHERE:
            return f"{status} with {unknown}, which the document does not have"
        content = response.get("content")
        if content is None:
            return f"{status} with a body or a type: {headers}, {raw!r}" if raw or "content-type" in headers else None
        kind = headers.get("content-type", "").split(";")[0]
        if kind not in content and "*/*" in content:
            return None
        if kind not in content:
            return f"{status} as {kind!r}, not {sorted(content)}"
        if method == "HEAD":
            return f"{raw!r} to HEAD" if raw else None
        if kind == "application/problem+json" and status in (429, 503) and "retry-after" not in headers:
            return f"{status} without Retry-After"
        if "schema" not in content[kind]:
            return None
        value = json.loads(raw) if kind.endswith("json") else raw.decode()
        wrong = self.schema_problem([*pointer, "content", kind, "schema"], value)
        return f"{status}: {wrong}: {raw[:500]!r}" if wrong else None


def _decoded(path: str) -> str:
    """Letters that stand percent-encoded in a fixed level; slashes stay as they are."""
    return "/".join(unquote(level).replace("/", "%2F") for level in path.split("/"))
