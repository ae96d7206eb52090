"""The documents name tests, errors and settings that exist."""

from __future__ import annotations

import re

import pytest

from harness import PROJECT

DOCS = PROJECT / "docs"


def named_tests() -> list[str]:
    pattern = r"`(section_\d\w+::\w+|test_\w+\.py::test_\w+|(?!XTests)\w+Tests/\w+\.[a-z]\w+)`"
    return sorted(set(re.findall(pattern, (DOCS / "sources.md").read_text())))


def test_every_test_that_sources_md_names_exists() -> None:
    """The table proves something only as long as its tests are there."""
    missing = []
    for test in named_tests():
        if test.startswith("section"):
            file, name = test.split("::")
            path, definition = PROJECT / "conformance/tests" / f"{file}.py", rf"^def {name}\("
        elif "::" in test:
            file, name = test.split("::")
            path, definition = PROJECT / "Tests/IntegrationTests" / file, rf"^def {name}\("
        else:
            directory, rest = test.split("/")
            file, name = rest.split(".")
            path, definition = PROJECT / "Tests" / directory / f"{file}.swift", rf"func {name}\b"
        if not path.exists() or not re.search(definition, path.read_text(), re.MULTILINE):
            missing.append(test)
    assert named_tests()
    assert not missing


def test_every_contradiction_that_sources_md_refers_to_is_listed() -> None:
    text = (DOCS / "sources.md").read_text()
    referred = {int(number) for number in re.findall(r"\bC(\d+)\b", text)}
    listed = {int(number) for number in re.findall(r"^\| C(\d+) \|", text, re.MULTILINE)}
    assert referred <= listed and listed == set(range(1, max(listed) + 1))


@pytest.mark.parametrize("document", sorted(p.name for p in DOCS.glob("*.md")) + ["../README.md"])
def test_links_within_the_project_lead_somewhere(document: str) -> None:
    path = DOCS / document
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target
