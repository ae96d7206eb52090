"""The directory of scripts/release, and a clean Debian with its package. `scripts/test --step release` makes both and runs these tests."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "IntegrationTests"))

from debian import CleanDebian
from harness import PROJECT
from released import Release


@pytest.fixture(scope="session")
def release() -> Release:
    directory = os.environ.get("BELLWIRE_RELEASE")
    assert directory, "BELLWIRE_RELEASE names the directory of scripts/release"
    return Release(PROJECT / directory)


@pytest.fixture(scope="session")
def debian(release: Release) -> Iterator[CleanDebian]:
    """The package is installed there, and beside the package no more than mosquitto."""
    debian = CleanDebian(PROJECT / ".build/release-root")
    try:
        shutil.copy(release.deb, debian.path / "tmp")
        debian.install("mosquitto", f"/tmp/{release.deb.name}")
        yield debian
    finally:
        debian.remove()
