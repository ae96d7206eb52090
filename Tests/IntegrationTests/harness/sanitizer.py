"""Tests that a build with a sanitizer, several times slower, cannot pass."""

from __future__ import annotations

import os

import pytest

needs_full_speed = pytest.mark.skipif(
    "BELLWIRE_TEST_SANITIZER" in os.environ, reason="it measures time, and a sanitizer makes the build several times slower"
)
