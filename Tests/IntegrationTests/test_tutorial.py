"""The tutorial of the Swift SDK: its steps are programs, and its catalog can be made into pages."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import PROJECT, World
from harness.dropin import probe_path
from harness.processes import clean_environment
from harness.wire import Wire

CATALOG = PROJECT / "Sources/BellwireClientCore/Documentation.docc"
STEPS = ("1-Connect", "2-Answer", "3-Call")
USUAL = 1883
"""The port where the tutorial's readers have theirs (scripts/run)."""


@contextmanager
def standing_in(port: int) -> Iterator[None]:
    """A client that connects to the usual port reaches the broker at `port`."""
    try:
        wire = Wire(port, at=USUAL)
    except OSError as problem:
        pytest.skip(f"somebody has 127.0.0.1:{USUAL}, as ./scripts/run does: {problem}")
    try:
        yield
    finally:
        wire.close()


def step(name: str, directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", "stdbuf", "-oL", probe_path(f"tutorial-{name}")],
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment({"XDG_DATA_HOME": str(directory)}),
    )


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


@pytest.mark.timeout(60)
def test_its_programs_call_and_answer(world: World, tmp_path: Path) -> None:
    with standing_in(world.broker.port):
        first = step("1-Connect", tmp_path)
        assert first.communicate(timeout=20)[0] == "bob is online\n"
        bob = step("2-Answer", tmp_path)
        assert line(bob) == "bob is online"
        alice = step("3-Call", tmp_path)
        said = alice.communicate(timeout=20)[0].splitlines()
        assert bob.communicate(timeout=20)[0].splitlines() == ["alice calls", "we talk", "over: hangup"]
        assert said[:2] == ["alice is accepted", "bob is inviting"]
        assert said[-2:] == ["we talk", "over: hangup"]
        assert (alice.returncode, bob.returncode) == (0, 0)


def test_its_programs_are_those_that_are_built() -> None:
    shown = (CATALOG / "Telephone.tutorial").read_text()
    for name in STEPS:
        assert f'file: "{name}.swift"' in shown
        assert (PROJECT / f"Examples/Tutorial/{name}/main.swift").samefile(CATALOG / f"Resources/{name}.swift")
    assert 'file: "4-Test.swift"' in shown
    assert (PROJECT / "Tests/TutorialTests/4-Test.swift").samefile(CATALOG / "Resources/4-Test.swift")


@pytest.mark.timeout(120)
def test_every_link_of_the_catalog_leads_somewhere(tmp_path: Path) -> None:
    if shutil.which("docc") is None:
        pytest.skip("docc is not here: Swift toolchains of some platforms come without it")
    target = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
    graphs = tmp_path / "graphs"
    graphs.mkdir()
    for module in ("SignalingProtocol", "BellwireClientCore"):
        command = ["swift", "symbolgraph-extract", "-module-name", module, "-I", str(PROJECT / ".build/debug/Modules")]
        command += ["-target", f"{target}-unknown-linux-gnu", "-output-dir", str(graphs)]
        subprocess.run(command, check=True, capture_output=True, text=True)
    names = ["--fallback-display-name", "Bellwire", "--fallback-bundle-identifier", "org.bellwire"]
    command = ["docc", "convert", str(CATALOG), "--additional-symbol-graph-dir", str(graphs), *names]
    done = subprocess.run(
        [*command, "--output-path", str(tmp_path / "pages"), "--warnings-as-errors"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
