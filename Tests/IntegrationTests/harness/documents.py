"""The documents of the repository, as paths from its root, and the names that commands in the documents may use."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from .service import PROJECT, executable, run

_ROOMS = ("clients/web/*.md", "conformance/*.md", "Tests/*/README.md", "docs/**/*.md", "*.md", ".github/**/*.md")

DOCUMENTS = sorted({str(path.relative_to(PROJECT)) for room in _ROOMS for path in PROJECT.glob(room)})


def options(words: str) -> list[str]:
    return re.findall(r"(?<!\S)(--[a-z][\w-]*)", words)


@cache
def help_of(program: str, *words: str) -> str:
    """The help of `bellwire` or `bellwire-lab`, or of a command."""
    path = Path(executable()).with_name(program)
    return run(*words, "--help", program=str(path)).stdout


def unknown_options(script: Path, words: str) -> list[str]:
    """The options that occur neither in the script nor in the programs that the script runs."""
    return [option for option in options(words) if option not in _text(script)]


@cache
def _text(script: Path) -> str:
    text = script.read_text()
    for module in {*re.findall(r"Tests/\w+", text), *re.findall(r"-m (conformance)\b", text)}:
        text += "".join(each.read_text() for each in sorted((PROJECT / module).rglob("*.py")))
    return text + help_of("bellwire", "dev") if script.name == "run" else text
