"""The two builds, for every test."""

from __future__ import annotations

import pytest

from builds import Build, builds


@pytest.fixture(scope="session")
def old() -> Build:
    return builds()[0]


@pytest.fixture(scope="session")
def new() -> Build:
    return builds()[1]
