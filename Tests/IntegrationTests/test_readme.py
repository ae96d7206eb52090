"""README.md: its blocks are run against `bellwire dev`, which scripts/run starts, and its commands exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import PROJECT, Child, executable, free_port, wait_until
from harness.documents import unknown_options
from harness.processes import clean_environment, mortal
from harness.web import MISSING, NODE, build_sdk

TEXT = (PROJECT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
BUILD = PROJECT / ".build/debug"
MODULES = (
    "Basics", "BellwireClient", "BellwireClientCore", "COpenSSL", "MQTTClient", "MQTTProtocol", "SignalingProtocol", "Support", "TLSClient",
)  # fmt: skip
"""The SDK and its dependencies."""


def block(language: str, number: int = 0) -> str:
    return [text for name, text in BLOCKS if name == language][number]


def test_it_fits_on_two_screens() -> None:
    assert len(TEXT.splitlines()) <= 120
    assert [name for name, _ in BLOCKS] == ["sh", "python", "swift", "js", "sh"], "a block without a test here"
    for name, text in BLOCKS:
        assert len(text.splitlines()) <= 10, name


def test_its_commands_exist_and_know_their_options() -> None:
    commands = re.findall(r"^\./(scripts/[\w-]+)(.*?)(?:#.*)?$", block("sh"), re.MULTILINE)
    assert [name for name, _ in commands] == ["scripts/run", "scripts/test"]
    contributing = (PROJECT / "CONTRIBUTING.md").read_text()
    commands += re.findall(r"`(?:\./)?(scripts/[\w-]+)([^`]*)`", TEXT + contributing)
    assert len(commands) >= 12
    for name, words in commands:
        script = PROJECT / name
        assert os.access(script, os.X_OK), name
        assert unknown_options(script, words) == [], name


class Dev:
    """The deployment that scripts/run leaves running, on ports of its own, and a phone in Python."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ports = {"1883": free_port(), "8083": free_port(), "8080": free_port()}
        self._ports = {usual: str(port) for usual, port in ports.items()}
        options = [("--port", "1883"), ("--websocket-port", "8083"), ("--gateway-port", "8080")]
        arguments = [word for option, usual in options for word in (option, self._ports[usual])]
        log = directory / "dev.log"
        self._dev = Child([executable(), "dev", "--rounds", "1", "--data", str(directory / ".bellwire"), *arguments], stdout=log)
        wait_until(lambda: "Up. Call from" in log.read_text() or not self._dev.running, 30, "bellwire dev is up")
        assert self._dev.running, log.read_text()
        self.said = directory / "phone.out"
        self._phone = Child([sys.executable, "-u", "-c", self.here(block("python"))], stdout=self.said)

    def here(self, text: str) -> str:
        """The block with the ports of this deployment."""
        return re.sub(r"\b(1883|8083|8080)\b", lambda usual: self._ports[usual[0]], text)

    def run(self, *command: str | Path, **environment: str) -> str:
        done = subprocess.run(
            mortal(*command), capture_output=True, text=True, timeout=60, cwd=self.directory, env=clean_environment(environment)
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def close(self) -> None:
        for child in (self._phone, self._dev):
            child.terminate()


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    dev = Dev(tmp_path_factory.mktemp("readme"))
    yield dev
    dev.close()


def test_curl_calls_and_the_phone_in_python_answers(dev: Dev) -> None:
    lines = dev.here(block("sh", 1)).splitlines(keepends=True)
    answered = 'until curl -sS $CALLS/$CALL -H "$AUTHORIZATION" | grep -q \'"state":"active"\'; do sleep 0.1; done\n'
    # The reader looks at each answer before the next command; here the next commands follow once bob has answered.
    said = dev.run("bash", "-euo", "pipefail", "-c", "".join([*lines[:3], answered, *lines[3:]]))
    assert '"callID":"order-' in said and '"entries":[' in said and '"endReason":"hangup"' in said
    assert "call.invited order-" in dev.said.read_text()


def test_swift_calls(dev: Dev) -> None:
    source, app = dev.directory / "main.swift", dev.directory / "call"
    source.write_text(dev.here(block("swift")))
    maps = [word for path in sorted(BUILD.glob("*.build/**/module.modulemap")) for word in ("-Xcc", f"-fmodule-map-file={path}")]
    objects = [path for module in MODULES for path in objects_of(module)]
    command = ["swiftc", "-swift-version", "6", "-I", str(BUILD / "Modules"), *maps, "-o", str(app), str(source), *objects]
    built = subprocess.run([*command, "-lssl", "-lcrypto"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert built.returncode == 0, built.stderr[-4_000:]
    assert "bob accepted" in dev.run(app, XDG_DATA_HOME=str(dev.directory)).splitlines()


def objects_of(module: str) -> list[str]:
    """The objects of the sources that the module has today: a build leaves the objects of deleted files behind."""
    folder = BUILD / f"{module}.build"
    if not (folder / "sources").exists():  # a module in C
        return [str(path) for path in sorted(folder.glob("*.c.o"))]
    return [str(folder / f"{Path(source).name}.o") for source in (folder / "sources").read_text().split()]


@pytest.mark.skipif(bool(MISSING), reason=f"there is no {', '.join(MISSING)}")
def test_javascript_calls(dev: Dev) -> None:
    build_sdk()
    assert NODE is not None
    (dev.directory / "clients").symlink_to(PROJECT / "clients")
    (dev.directory / "call.mjs").write_text(dev.here(block("js")))
    assert "bob accepted" in dev.run(NODE, "--experimental-websocket", "call.mjs").splitlines()
