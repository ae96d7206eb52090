"""Shows that the checker catches a broken service."""

from pathlib import Path


def self_test(directory: Path, seed: int) -> int:
    raise NotImplementedError
