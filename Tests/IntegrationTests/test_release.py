"""`scripts/release` refuses before anything is built; `scripts/test --step release` makes a release and tests its files."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import PROJECT

STATED = (
    "CHANGELOG.md",
    "Sources/BellwireCommands/Program.swift",
    "Sources/ZIMCompat/ZIM.swift",
    "clients/web/package.json",
    "deploy/Dockerfile",
    "deploy/kubernetes/base/kustomization.yaml",
    "deploy/kubernetes/helm/bellwire/Chart.yaml",
    "docs/asyncapi.yaml",
    "docs/openapi.yaml",
)
VERSION = re.search(r"^## (\d+\.\d+\.\d+)$", (PROJECT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]  # type: ignore[index]
ACCEPTED = 42
"""The exit status of the step after the checks of the sources."""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with only the files that state a version. The script that installs packages ends the run there."""
    for name in (*STATED, "scripts/release"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / name, tmp_path / name)
    (tmp_path / "scripts/deps").write_text(f"#!/bin/sh\nexit {ACCEPTED}\n")
    (tmp_path / "scripts/deps").chmod(0o755)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(directory: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    subprocess.run(["git", "-C", directory, *identity, *arguments], check=True, capture_output=True, timeout=20)


def commit(directory: Path) -> None:
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--message", "changes")


def release(directory: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run([directory / "scripts/release", *arguments], capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "arguments", [(), ("1.2",), ("v1.2.3",), ("0.2.0", "0.2.1"), ("--quick", "0.2.0")], ids=["none", "short", "letter", "two", "option"]
)
def test_a_wrong_command_line_is_refused(clone: Path, arguments: tuple[str, ...]) -> None:
    status, text = release(clone, *arguments)
    assert status == 2 and text.startswith("scripts/release: ") and text.count("\n") == 1, text


def test_help_names_every_option() -> None:
    status, text = release(PROJECT, "--help")
    options = set(re.findall(r"^    (--[a-z-]+)(?= \||\))", (PROJECT / "scripts/release").read_text(), re.MULTILINE))
    assert status == 0 and len(options) == 3
    assert options - {"--help"} <= set(re.findall(r"--[a-z-]+", text))


def test_the_version_of_clean_sources_is_accepted(clone: Path) -> None:
    assert release(clone, VERSION)[0] == ACCEPTED, release(clone, VERSION)[1]


def test_another_version_is_refused_with_every_file_that_states_one(clone: Path) -> None:
    status, text = release(clone, "98.7.6")
    assert status == 2
    assert text.splitlines()[1:] == [f"  {name}: {VERSION}" for name in STATED]


@pytest.mark.parametrize("name", STATED)
def test_one_file_with_another_version_is_enough(clone: Path, name: str) -> None:
    text = (clone / name).read_text()
    assert VERSION in text
    (clone / name).write_text(text.replace(VERSION, "0.1.99", 1))
    commit(clone)
    status, text = release(clone, VERSION)
    assert status == 2
    [line] = text.splitlines()[1:]
    # Each file under deploy/ states the version twice.
    assert line == f"  {name}: " + (f"0.1.99, {VERSION}" if name.startswith("deploy/") else "0.1.99")


def test_changes_that_are_not_committed_are_refused(clone: Path) -> None:
    """A new file counts too, since the compiler would take the file."""
    (clone / "Sources/BellwireCommands/New.swift").write_text("\n")
    status, text = release(clone, VERSION)
    assert status == 2 and "Sources/BellwireCommands/New.swift" in text
    assert release(clone, VERSION, "--uncommitted")[0] == ACCEPTED


def test_the_broker_of_the_package_has_the_bounds_of_the_image() -> None:
    """The package has all of the image's settings with the same values, except the settings of the log and of
    coordinators' certificates."""

    def settings(path: str) -> dict[str, str]:
        lines = [line for line in (PROJECT / path).read_text().splitlines() if line and not line.startswith("#")]
        return dict(line.split(" ", 1) for line in lines[: next(i for i, line in enumerate(lines) if line.startswith("listener"))])

    package, image = settings("deploy/debian/mosquitto.conf"), settings("deploy/mosquitto/mosquitto.conf")
    own = {"plugin", "plugin_opt_keys"}
    of_image = {"plugin_opt_coordinator", "log_dest", "log_timestamp_format", "log_type", "connection_messages"}
    assert set(image) - set(package) == of_image and set(package) <= set(image)
    assert [name for name in package if name not in own and package[name] != image[name]] == []


@pytest.mark.parametrize("path", ["deploy/debian/mosquitto.conf", "Sources/BellwireCommands/Processes/BrokerProcess.swift"])
def test_web_socket_listeners_of_this_machine_name_their_kind_of_socket(path: str) -> None:
    """Without `socket_domain`, mosquitto 2.0 opens a WebSocket listener at all addresses."""
    lines = [line.strip() for line in (PROJECT / path).read_text().splitlines()]
    listeners: list[list[str]] = []
    for line in lines:
        if line.startswith("listener "):
            listeners.append([])
        if listeners:
            listeners[-1].append(line)
    local = [listener for listener in listeners if listener[0].endswith("127.0.0.1") and "protocol websockets" in listener]
    assert local and all("socket_domain ipv4" in listener for listener in local)
