"""Compares the tests' sentences with the text of the protocol, so that the two cannot drift apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .suite import Test

_SHORTEST_GAP = 40
"""The length in characters below which a text without a citation counts only as the join between two cited
sentences."""


@dataclass(frozen=True)
class Audit:
    missing: list[Test]
    """Tests of a sentence that is not in the named section."""
    uncited: list[tuple[str, str]]
    """The section and text of each passage that no test cites."""


def audit(path: Path, tests: list[Test]) -> Audit:
    sections = _sections(path.read_text(encoding="utf-8"))
    cited: dict[str, list[tuple[int, int]]] = {}
    missing = []
    for test in tests:
        section = test.section.split()[0]
        spans = _find(sections.get(section, ""), _plain(test.sentence))
        if spans:
            cited.setdefault(section, []).extend(spans)
        else:
            missing.append(test)
    uncited = [
        (section, gap) for section, text in sections.items() for gap in _gaps(text, sorted(cited.get(section, [])))
    ]
    return Audit(missing, uncited)


def _sections(markdown: str) -> dict[str, str]:
    """Returns the plain text of each numbered section."""
    parts = re.split(r"^## (\d+)\. .*$", markdown, flags=re.MULTILINE)
    return {number: _plain(text) for number, text in zip(parts[1::2], parts[2::2])}


def _plain(markdown: str) -> str:
    """Returns the text without emphasis, code marks and line breaks."""
    return re.sub(r"\s+", " ", re.sub(r"[*`]|\\(?=\|)", "", markdown)).strip()


def _find(text: str, sentence: str) -> list[tuple[int, int]]:
    """Returns the positions of the parts between the sentence's `…`, in order; empty when a part is missing."""
    parts = [part.strip() for part in sentence.split("…") if part.strip()]
    first = text.find(parts[0])
    while first >= 0:
        spans = []
        position = first
        for part in parts:
            start = text.find(part, position)
            if start < 0:
                break
            position = start + len(part)
            spans.append((start, position))
        else:
            return spans
        first = text.find(parts[0], first + 1)
    return []


def _gaps(text: str, spans: list[tuple[int, int]]) -> list[str]:
    gaps = []
    position = 0
    for start, end in [*spans, (len(text), len(text))]:
        gap = text[position:start].strip(" .;:,|-#")
        if len(gap) >= _SHORTEST_GAP:
            gaps.append(gap)
        position = max(position, end)
    return gaps
