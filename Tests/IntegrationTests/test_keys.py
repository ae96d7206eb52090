"""`bellwire keys`: the keys of a set are listed, added, removed and rotated (docs/deployment.md, Tokens)."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest

from harness import Attempt, SecureBroker, run, wait_until
from harness.credentials import make_token


def keys(*words: str) -> subprocess.CompletedProcess[str]:
    return run("keys", *words)


def listed(path: Path) -> list[list[str]]:
    done = keys("list", "--keys", str(path))
    assert done.returncode == 0, done
    return [line.split(" ", 2) for line in done.stdout.splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    assert keys("generate", "--out", str(path)).returncode == 0
    return path


def test_a_rotation_keeps_the_former_key_and_public_keys(path: Path, tmp_path: Path) -> None:
    """A rotation adds only the public halves of the keys of another set."""
    backend = tmp_path / "backend.json"
    assert keys("generate", "--out", str(backend), "--algorithm", "RS256").returncode == 0
    [[first, algorithm, use]] = listed(path)
    assert (algorithm, use) == ("ES256", "signs")
    added = keys("add", "--keys", str(path), "--from", str(backend))
    assert added.returncode == 0 and "RS256 key" in added.stderr
    assert keys("add", "--keys", str(path), "--from", str(backend)).stderr == f"{path} has these keys already\n"
    for _ in range(2):
        assert keys("rotate", "--keys", str(path), "--algorithm", "EdDSA").returncode == 0
    [third, second, rest] = listed(path)
    assert third[1:] == ["EdDSA", "signs"] and second[1:] == ["EdDSA", "checks tokens, private"]
    assert rest == [listed(backend)[0][0], "RS256", "checks tokens, public"]
    assert first not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    last = keys("rotate", "--keys", str(path), "--keep", "0")
    assert last.stderr.count(" removed\n") == 2
    assert [use for _, _, use in listed(path)] == ["signs", "checks tokens, public"]


def test_a_removed_key_ends_its_tokens(path: Path, tmp_path: Path) -> None:
    """At a running broker: after a rotation both keys count, and after the removal the new key alone."""
    broker = SecureBroker(tmp_path / "broker")
    former = json.loads(broker.keys.read_bytes())["keys"][0]
    try:
        assert keys("rotate", "--keys", str(broker.keys)).returncode == 0
        new = json.loads(broker.keys.read_bytes())["keys"][0]
        assert keys("public", "--keys", str(broker.keys), "--out", str(broker.published_keys)).returncode == 0
        broker.reload()

        def enters(key: dict[str, str]) -> bool:
            with Attempt(broker, "alice/phone", "alice", make_token(key, "alice")) as alice:
                return alice.is_in

        wait_until(lambda: enters(new), 10, "the broker knows the new key")
        assert enters(former)
        removed = keys("remove", "--keys", str(broker.keys), former["kid"])
        assert removed.returncode == 0 and f"key {former['kid']} removed; key {new['kid']} signs" in removed.stderr
        assert keys("public", "--keys", str(broker.keys), "--out", str(broker.published_keys)).returncode == 0
        broker.reload()
        wait_until(lambda: not enters(former), 10, "the broker has forgotten the former key")
        assert enters(new)
    finally:
        broker.stop()


def test_what_would_lose_keys_is_refused(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    kid = json.loads(before)["keys"][0]["kid"]
    other = tmp_path / "other.json"
    assert keys("generate", "--out", str(other)).returncode == 0
    clash = json.loads(other.read_bytes())
    clash["keys"][0]["kid"] = kid
    other.write_text(json.dumps(clash))
    public, shared = tmp_path / "public.json", tmp_path / "shared.json"
    assert keys("public", "--keys", str(other), "--out", str(public)).returncode == 0
    assert keys("generate", "--out", str(shared), "--algorithm", "HS256").returncode == 0
    odd = tmp_path / "odd.json"
    odd.write_text(json.dumps({"keys": [*json.loads(before)["keys"], {"kty": "oct", "k": "AA", "kid": "short"}]}))
    for words, reason in (
        (("remove", "--keys", str(path), kid), f"{kid} is the last key"),
        (("remove", "--keys", str(path), "nobody"), "has no key nobody"),
        (("remove", "--keys", str(path)), "missing argument"),
        (("add", "--keys", str(path), "--from", str(other)), f"another key has the kid {kid}"),
        (("add", "--keys", str(path), "--from", str(tmp_path / "missing")), "No such file"),
        (("rotate", "--keys", str(public)), "public keys alone"),
        (("add", "--keys", str(path), "--from", str(shared)), "no public half"),
        (("rotate", "--keys", str(odd)), "has keys that would be lost: key 2, kid short"),
        (("rotate", "--keys", str(path), "--keep", "-1"), "--keep"),
        (("list",), "--keys is required"),
    ):
        done = keys(*words)
        assert done.returncode != 0 and reason in done.stderr, done
    assert path.read_bytes() == before
