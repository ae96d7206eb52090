"""The documents name tests, errors and settings that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from harness import PROJECT, World
from harness.gateway import Gateway
from harness.processes import clean_environment

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


def test_every_command_of_backend_md_works(deployment: World, tmp_path: Path) -> None:
    """In their order, in one shell. What fails there on purpose says so."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (DOCS / "backend.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 8
    gateway = Gateway(tmp_path, deployment.broker.url, deployment.service.store).start()
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "".join(blocks)],
            capture_output=True,
            text=True,
            timeout=60,
            env=clean_environment({"GATEWAY": f"http://127.0.0.1:{gateway.port}", "TOKEN": gateway.token}),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        # What the comments say that it prints.
        lines = done.stdout.splitlines()
        expected = ["active", "hangup", '"alice"', '"server"', "204", "alice", "201", "200", '"unauthorized"', '"callNotFound"', '"callEnded"']
        rest = iter(lines)
        assert all(text in rest for text in expected), done.stdout
    finally:
        gateway.stop()
