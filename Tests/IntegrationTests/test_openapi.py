"""docs/openapi.yaml agrees with the gateway's code. harness/gateway.py checks that the document has each answer of a
gateway."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from harness import PROJECT
from harness.openapi import OpenAPI

DOCUMENT = OpenAPI.load()
SCHEMAS: dict[str, Any] = DOCUMENT.document["components"]["schemas"]
ASYNC: dict[str, Any] = yaml.load(
    (PROJECT / "docs/asyncapi.yaml").read_text(), yaml.CSafeLoader
)["components"]["schemas"]
GATEWAY = PROJECT / "Sources/Gateway"


def routes() -> list[str]:
    found = re.findall(r'^    case \w+ = "([A-Z]+ /\S*)"$', (GATEWAY / "Route.swift").read_text(), re.MULTILINE)
    assert found
    return found


def test_it_has_the_gateways_paths_and_methods() -> None:
    assert sorted(DOCUMENT.operations) == sorted(routes())


def test_what_needs_no_token_says_so() -> None:
    text = (GATEWAY / "Route.swift").read_text()
    # A woken device shows a key instead of a token.
    cases = re.search(r"var needsToken: Bool \{\s+switch self \{\s+case ([^:]+): false\s+default: !isRing", text)
    rings = re.search(r"var isRing: Bool \{\s+switch self \{\s+case ([^:]+): true", text)
    assert cases and rings
    free = {re.search(rf'case {name} = "(.+)"', text)[1] for name in re.findall(r"\w+", f"{cases[1]} {rings[1]}")}  # type: ignore[index]
    assert {name for name, operation in DOCUMENT.operations.items() if operation.get("security") == []} == free
    assert {name for name, operation in DOCUMENT.operations.items() if "401" not in operation["responses"]} == free


def test_it_has_the_error_codes_of_the_protocol_and_of_the_gateway() -> None:
    protocol = (PROJECT / "Sources/SignalingProtocol/ErrorCode.swift").read_text()
    assert set(SCHEMAS["ErrorCode"]["enum"]) == set(re.findall(r'ErrorCode\(rawValue: "(\w+)"\)', protocol))
    own = re.findall(r'Problem\(\s*\d{3}, "(\w+)"', (GATEWAY / "Problem.swift").read_text())
    assert set(SCHEMAS["GatewayCode"]["enum"]) == set(own)


def test_each_code_stands_under_its_status() -> None:
    """The statuses are those of `Problem.status(of:)`."""
    text = (GATEWAY / "Problem.swift").read_text()
    body = text[text.index("func status(of code") :]
    status = {
        code: int(number)
        for names, number in re.findall(r"case ([.\w, ]+): (\d{3})", body[: body.index("default")])
        for code in re.findall(r"\w+", names)
    }
    status |= {code: int(number) for number, code in re.findall(r'Problem\(\s*(\d{3}), "(\w+)"', text)}
    assert len(status) > 10
    seen: set[str] = set()
    for where, response in all_responses():
        for content in response.get("content", {}).values():
            for part in content.get("schema", {}).get("allOf", []):
                properties = part.get("properties", {})
                codes = properties.get("code", {}).get("enum") or [properties.get("code", {}).get("const")]
                number = properties.get("status", {}).get("const", 409)
                for code in filter(None, codes):
                    seen.add(code)
                    # A request under a key that stood for another request is a mistake of its own (`idUsed`).
                    assert number in (status.get(code, 409), 422 if code == "badRequest" else None), (where, code)
    # None of these can be an answer to a backend.
    never = {"busy", "sessionOver", "tokenExpired", "tokenRevoked", "flooding", "slowReader", "userDisabled"}
    assert seen == set(SCHEMAS["ErrorCode"]["enum"] + SCHEMAS["GatewayCode"]["enum"]) - never


def all_responses() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{name} {status}", DOCUMENT.resolve(response))
        for name, operation in DOCUMENT.operations.items()
        for status, response in operation["responses"].items()
    ] + list(DOCUMENT.document["components"]["responses"].items())


def renamed(value: Any) -> Any:
    """docs/asyncapi.yaml calls an id `Token`, a name that has another meaning here."""
    if isinstance(value, dict):
        return {name: renamed(part) for name, part in value.items()}
    if isinstance(value, list):
        return [renamed(part) for part in value]
    return re.sub(r"^(#/components/schemas/)Token(OrNull)?$", r"\1ID\2", value) if isinstance(value, str) else value


def test_what_both_documents_describe_is_the_same() -> None:
    known = {re.sub(r"^Token(OrNull)?$", r"ID\1", name): renamed(schema) for name, schema in ASYNC.items()}
    common = known.keys() & SCHEMAS.keys()
    assert {"Call", "Member", "TraceEntry", "User", "ErrorCode", "ID"} <= common
    assert {name for name in common if known[name] != SCHEMAS[name]} == set()


@pytest.mark.parametrize(
    ("request_type", "name", "own"),
    [
        ("CallInvite", "InviteRequest", {"inviter", "device"}),
        ("CallAccept", "AcceptRequest", {"userID", "device"}),
        ("CallReject", "RejectRequest", {"userID", "device"}),
        ("CallCancel", "CancelRequest", {"userID", "device"}),
        ("CallAdd", "AddRequest", {"userID", "device"}),
        ("CallJoin", "JoinRequest", {"userID", "device"}),
        ("CallQuit", "QuitRequest", {"userID", "device"}),
        ("CallEnd", "EndRequest", {"userID", "device"}),
        ("MessageSend", "MessageRequest", {"from", "device"}),
        ("UserUpdate", "UpdateUserRequest", set()),
    ],
)
def test_a_request_has_the_fields_of_the_protocols(request_type: str, name: str, own: set[str]) -> None:
    said_elsewhere = {"type", "id"} | ({"callID"} if request_type != "CallInvite" else set()) | {"to"}
    theirs = {field: renamed(schema) for field, schema in ASYNC[request_type]["properties"].items() if field not in said_elsewhere}
    ours = {field: schema for field, schema in SCHEMAS[name]["properties"].items() if field not in own}
    assert ours.keys() == theirs.keys()
    # The two documents say in different words that the call's id may be left out.
    ours.pop("callID", None), theirs.pop("callID", None)
    assert ours == theirs


def test_every_schema_is_one_and_every_reference_leads_somewhere() -> None:
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)
    for kind, name in re.findall(r"#/components/(\w+)/(\w+)", DOCUMENT.text):
        assert name in DOCUMENT.document["components"][kind], name
    identifiers = [operation["operationId"] for operation in DOCUMENT.operations.values()]
    assert len(set(identifiers)) == len(identifiers)


def test_the_examples_are_valid() -> None:
    checked = 0
    for name, operation in DOCUMENT.operations.items():
        method, path = name.split(" ")
        where = ["paths", path, method.lower()]
        body = [([*where, "requestBody"], operation["requestBody"])] if "requestBody" in operation else []
        answers = [([*where, "responses", status], response) for status, response in operation["responses"].items() if "$ref" not in response]
        for pointer, holder in body + answers:
            checked += examples(pointer, holder)
    for name, response in DOCUMENT.document["components"]["responses"].items():
        checked += examples(["components", "responses", name], response)
    assert checked > 20


def examples(pointer: list[str], holder: dict[str, Any]) -> int:
    count = 0
    for kind, content in holder.get("content", {}).items():
        for name, example in content.get("examples", {}).items():
            wrong = DOCUMENT.schema_problem([*pointer, "content", kind, "schema"], example["value"])
            assert wrong is None, (pointer, name, wrong)
            count += 1
    return count
