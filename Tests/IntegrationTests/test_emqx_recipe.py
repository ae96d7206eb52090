"""The rules for EMQX in docs/deployment.md, as far as a test without EMQX can check: the rights that each name has."""

from __future__ import annotations

import re
import tempfile
from itertools import product
from pathlib import Path
from typing import NamedTuple

import jwt
import pytest

from harness import run

DOCUMENT = (Path(__file__).parents[2] / "docs/deployment.md").read_text()
ROOT = "bellwire/v1"


class Rule(NamedTuple):
    is_allowed: bool
    name: str | None
    """The username must equal this name; None allows any username."""
    pattern: str | None
    """The username must contain a match of this pattern."""
    action: str
    topics: list[str]


def text(erlang: str) -> str:
    return erlang.replace("\\\\", "\\")


def rules() -> list[Rule]:
    block = DOCUMENT.split("```erlang\n")[1].split("```")[0]
    lines = [line for line in block.splitlines() if line and not line.startswith("%%")]
    parsed = []
    for line in lines:
        if line == "{deny, all}.":
            parsed.append(Rule(False, None, None, "all", ["#"]))
            continue
        whole = re.fullmatch(r"\{(allow|deny), (all|\{username, (?:\{re, )?\"(.*?)\"\}?\}), (\w+), \[(.*)\]\}\.", line)
        assert whole, line
        effect, who, given, action, topics = whole.groups()
        is_pattern = "{re," in who
        parsed.append(
            Rule(
                effect == "allow",
                text(given) if given and not is_pattern else None,
                text(given) if is_pattern else None,
                action,
                re.findall(r'"(.*?)"', topics),
            )
        )
    return parsed


def matches(topic: str, pattern: str) -> bool:
    """Matches as MQTT does. A wildcard in a subscribed filter counts as an ordinary word here."""
    words, wanted = topic.split("/"), pattern.split("/")
    for place, word in enumerate(wanted):
        if word == "#":
            return True
        if place >= len(words) or word not in ("+", words[place]):
            return False
    return len(words) == len(wanted)


def may(username: str, action: str, topic: str) -> bool:
    """Whether the first rule that fits allows the action. EMQX puts a username into a topic unchanged: wildcards in a
    username count."""
    for rule in rules():
        if rule.name not in (None, username) or (rule.pattern and not re.search(rule.pattern, username, re.DOTALL)):
            continue
        if rule.action in (action, "all") and any(matches(topic, t.replace("${username}", username)) for t in rule.topics):
            return rule.is_allowed
    return False


def coordinator() -> str:
    names = {rule.name for rule in rules() if rule.name}
    assert len(names) == 1
    return names.pop()


NAMES = ["coordinator", "coordinators", "server", "admin", "service", "bellwire", "alice", "é", "x" * 64, "$share", "$SYS"]
STRANGE = ["+", "#", "a/b", "+/+", "alice/+", "alice/#", "/", "", "%", "a\nb", "${username}", "$share/coordinators", "bob/phone"]


@pytest.mark.parametrize("name", NAMES + STRANGE + [" ", "alice\n", "\x00"])
def test_no_name_that_a_user_can_have_gives_more_than_what_is_its_own(name: str) -> None:
    others = ["bob", "bob/phone", "+", "+/+", "#", "+/#", "bob/+", "bob/#", "bob/x/y", "alice2"]
    for other in others:
        assert not may(name, "subscribe", f"{ROOT}/down/{other}"), other
        for way, share in product(("up", "presence"), ("", "$share/coordinators/", "$share/x/")):
            assert not may(name, "subscribe", f"{share}{ROOT}/{way}/{other}"), other
        assert not may(name, "publish", f"{ROOT}/down/{other}"), other
    for victim in ("bob", "carol", "x"):
        assert not may(name, "publish", f"{ROOT}/up/{victim}/phone")
        assert not may(name, "publish", f"{ROOT}/presence/{victim}/phone")
    assert not may(name, "subscribe", "#") and not may(name, "subscribe", "$SYS/#") and not may(name, "publish", ROOT)


@pytest.mark.parametrize("name", ["alice", "coordinator", "é", "x" * 64])
def test_a_user_has_what_is_its_own(name: str) -> None:
    assert may(name, "publish", f"{ROOT}/up/{name}/phone") and may(name, "publish", f"{ROOT}/presence/{name}/phone")
    assert may(name, "subscribe", f"{ROOT}/down/{name}") and may(name, "subscribe", f"{ROOT}/down/{name}/phone")
    assert not may(name, "publish", f"{ROOT}/down/{name}") and not may(name, "publish", f"{ROOT}/up/{name}")


def test_a_coordinator_has_a_name_that_no_user_can_have() -> None:
    name = coordinator()
    assert len(name.encode()) > 64, "a user id has at most 64 bytes"
    assert may(name, "subscribe", f"$share/coordinators/{ROOT}/up/#")
    assert may(name, "subscribe", f"$share/coordinators/{ROOT}/presence/#")
    assert may(name, "publish", f"{ROOT}/down/bob/phone")
    for topic in (f"{ROOT}/canary", f"{ROOT}/canary/c1", f"{ROOT}/relay/b:1883"):
        assert may(name, "publish", topic) and not may("alice", "publish", topic)
    assert may(name, "subscribe", f"$share/coordinators/{ROOT}/canary") and may(name, "subscribe", f"{ROOT}/canary/c1")
    assert may(name, "subscribe", f"$share/coordinators/{ROOT}/relay/b:1883")
    assert not may(name, "publish", f"{ROOT}/up/bob/phone") and not may(name, "subscribe", f"{ROOT}/down/bob")
    for near in (name[:-1], name + "x", name[:64], name.upper()):
        assert not may(near, "publish", f"{ROOT}/down/bob") and not may(near, "publish", f"{ROOT}/up/{near}x/phone")


def test_the_token_is_held_to_its_user_and_was_made_for_this() -> None:
    claims = re.search(r"verify_claims \{(.*?)\} #", DOCUMENT)
    assert claims and 'sub = "${username}"' in claims[1] and 'aud = "bellwire"' in claims[1]
    assert "no_match = deny" in DOCUMENT


def test_lists_of_audiences_are_named_with_the_versions_that_refuse_them() -> None:
    """EMQX before 6.0.2 compares the whole claim. All versions must take Bellwire's own tokens."""
    recipe = DOCUMENT.split("## EMQX instead of mosquitto")[1].split("\n## ")[0]
    assert "6.0.2" in recipe and "6.1.0" in recipe and '"aud":"bellwire"' in recipe
    with tempfile.TemporaryDirectory() as directory:
        keys = f"{directory}/keys.json"
        assert run("keys", "generate", "--out", keys).returncode == 0
        token = run("token", "--keys", keys, "--user", "alice").stdout.strip()
    assert jwt.decode(token, options={"verify_signature": False})["aud"] == "bellwire", "a text, and no list"
