"""The documents name tests, errors and settings that exist."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness import PROJECT, World
from harness.gateway import Gateway
from harness.processes import clean_environment

DOCS = PROJECT / "docs"


NAMED = re.compile(
    r"`(?:(?P<section>section_\d\w+)(?:::(?P<scenario>\w+))?"
    r"|(?P<file>test_\w+\.py)(?:::(?P<of_file>test_\w+))?"
    r"|(?P<case>test_\w+)"
    r"|(?!XTests)(?:(?P<target>\w+Tests)/)?(?P<suite>\w+Tests)(?:\.(?P<method>[a-z]\w+))?)`"
)
"""A scenario of the conformance suite, an integration test, or a Swift test: their forms in the documents."""
SWIFT = {path: path.read_text() for path in (PROJECT / "Tests").rglob("*.swift")}
DOCUMENTS = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def defines(paths: Iterable[Path], name: str | None) -> bool:
    return any(path.exists() and (name is None or re.search(rf"^def {name}\(", path.read_text(), re.MULTILINE)) for path in paths)


def exists(named: re.Match[str]) -> bool:
    if named["section"]:
        return defines([PROJECT / "conformance/tests" / f"{named['section']}.py"], named["scenario"])
    integration = PROJECT / "Tests/IntegrationTests"
    if named["file"]:
        return defines([integration / named["file"]], named["of_file"])
    if named["case"]:
        return defines(integration.glob("test_*.py"), named["case"])
    suite, method = named["suite"], named["method"]
    if named["target"] is None and method is None and (PROJECT / "Tests" / suite).is_dir():
        return True
    texts = [
        text
        for path, text in SWIFT.items()
        if named["target"] in (None, path.parent.name)
        and (path.stem == suite or re.search(rf"(struct|class|extension) {suite}\b", text))
    ]
    return any(method is None or re.search(rf"func {method}\b", text) for text in texts)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_test_that_a_document_names_exists(document: str) -> None:
    """What a document promises is guarded only as long as its test is there."""
    text = (DOCS / document).read_text()
    assert [named[0] for named in NAMED.finditer(text) if not exists(named)] == []


def test_the_tables_of_promises_name_tests() -> None:
    for document, least in (("sources.md", 100), ("threat-model.md", 60)):
        assert len(list(NAMED.finditer((DOCS / document).read_text()))) >= least, document


def test_whatever_test_a_document_names_is_run_by_scripts_test() -> None:
    """Every Swift test and every integration test, among them the conformance suite; and the scripts that the documents name as proof."""
    steps = (PROJECT / "scripts/test").read_text()
    swift = ('swift test --skip-build --skip "$waiting"', 'swift test --skip-build --filter "$waiting"')
    for part in (*swift, '-m "not alone and not conformance"', "-m conformance", "-m alone"):
        assert part in steps, part
    assert "pytest Tests/IntegrationTests" in steps
    proofs = set(re.findall(r"`(scripts/[a-z-]+)", (DOCS / "threat-model.md").read_text() + (DOCS / "sources.md").read_text()))
    assert {"scripts/hostile", "scripts/test-compose"} <= proofs
    assert [script for script in proofs if script not in steps] == []


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
