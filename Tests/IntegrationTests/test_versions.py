"""The version of Bellwire is stated in several places, and the formats of the stores in two."""

from __future__ import annotations

import json
import re
from pathlib import Path

from harness import run

ROOT = Path(__file__).parents[2]


def stated(path: str, pattern: str) -> list[str]:
    found = re.findall(pattern, (ROOT / path).read_text(), re.MULTILINE)
    assert found, f"{path}: no {pattern}"
    return found


def test_every_place_states_the_same_version() -> None:
    version = stated("CHANGELOG.md", r"^## (\d+\.\d+\.\d+)$")[0]
    assert run("--version").stdout == f"bellwire {version}\n"
    assert json.loads((ROOT / "clients/web/package.json").read_text())["version"] == version
    for path in ("docs/openapi.yaml", "docs/asyncapi.yaml"):
        assert stated(path, r"^  version: (.+)$") == [version]
    assert stated("Sources/ZIMCompat/ZIM.swift", r'getVersion\(\) -> String \{ "(.+)" \}') == [version]
    images = stated("deploy/Dockerfile", r'^LABEL org.opencontainers.image.version="(.+)"$')
    assert images == [version] * 2
    assert stated("deploy/kubernetes/base/kustomization.yaml", r'name: bellwire-\w+, newTag: "(.+)"') == [version] * 2
    assert stated("deploy/kubernetes/helm/bellwire/Chart.yaml", r"^(?:v|appV)ersion: (.+)$") == [version] * 2


def test_the_changes_name_the_formats_of_the_stores() -> None:
    """The first entry names those that this version reads and writes, and each has its list."""
    sqlite = stated("Sources/SQLiteStore/SQLiteSchema.swift", r"format = StoreFormat\((\d+)\)")[0]
    redis = stated("Sources/RedisStore/RedisFormat.swift", r"format = StoreFormat\((\d+)\)")[0]
    assert stated("CHANGELOG.md", r"Formats: (SQLite \d+, Redis \d+)\.")[0] == f"SQLite {sqlite}, Redis {redis}"
    for name in (f"sqlite-{sqlite}", f"redis-{redis}"):
        assert (ROOT / "Tests/StoreFormats" / f"{name}.txt").stat().st_size > 1_000
