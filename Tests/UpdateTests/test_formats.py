"""Each build reads the settings, keys, tokens and SQLite files of the other build."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from harness import Broker, Device, Service, World, ring, run, talk, wait_until
from harness.gateway import Gateway
from harness.receiver import Receiver

from builds import Build
from deployment import UpdateBroker


def test_settings_of_the_old_build_are_read(old: Build, new: Build, tmp_path: Path) -> None:
    """The example names every setting of the old build."""
    example = tmp_path / "old.json"
    example.write_text(old.run("config", "--example"))
    for build in (old, new):
        assert build.run("config", "--check", str(example)) == "ok\n"


def test_settings_that_only_the_new_build_has_are_refused_by_the_old(old: Build, new: Build, tmp_path: Path) -> None:
    """Therefore docs/operations.md asks operators to wait with such settings until there is no way back."""
    example = tmp_path / "new.json"
    example.write_text(new.run("config", "--example"))
    checked = run("config", "--check", str(example), program=old.program)
    assert checked.returncode == 64 and "unknown setting" in checked.stderr, checked.stderr


@pytest.mark.parametrize("direction", ["forward", "back"])
def test_keys_and_tokens_are_accepted(old: Build, new: Build, tmp_path: Path, direction: str) -> None:
    """A build makes a key set and the tokens of all roles; plugin, coordinator and gateway of the other build accept
    these."""
    maker, reader = (old, new) if direction == "forward" else (new, old)
    broker = UpdateBroker(tmp_path / "broker", maker)
    broker.build = reader
    broker.start()
    token = str(broker.role_token("coordinator"))
    service = Service(broker.url, tmp_path / "service", program=reader.program, token_file=token)
    server = broker.role_token("server")
    gateway = Gateway(
        tmp_path / "gateway", broker.url, service.store, signing=broker.keys, keys=str(broker.keys), token_file=str(server)
    )
    gateway.program = reader.program
    gateway.start()
    alice = Device(broker, "alice").connect()
    try:
        answer = gateway.post("/v1/calls", {"inviter": "backend", "invitees": ["alice"]}, token=server.read_text().strip())
        alice.accept(answer.ok(201)["callID"])
    finally:
        alice.close()
        gateway.stop()
        service.stop()
        broker.stop()


class Kept:
    """A coordinator on an SQLite file, people, and the data that must stay in the file over each change of the
    build."""

    def __init__(self, directory: Path, build: Build) -> None:
        self.receiver = Receiver(directory / "receiver")
        webhooks = str(self.receiver.settings())
        self.broker = Broker(directory / "broker")
        self.service = Service(self.broker.url, directory / "service", program=build.program, webhooks=webhooks)
        self.world = World(self.broker, self.service)
        self.alice, self.bob, self.carol, self.dave = (self.world.device(name) for name in ("alice", "bob", "carol", "dave"))
        self.calls: dict[str, dict[str, Any]] = {}
        self.messages: list[str] = []
        self.ringing: list[str] = []
        self.talks: list[str] = []

    def go_on(self, build: Build) -> None:
        """The coordinator ends, and a coordinator of this build opens the file."""
        assert self.service.terminate()[0] == 0
        self.service.program = build.program
        self.service.start()

    def add(self) -> None:
        """Adds a record of each kind, while the backend takes no webhook."""
        self.receiver.stop()
        ended = self.alice.invite(self.bob)
        self.bob.accept(ended)
        self.ringing.append(ring(self.alice, self.bob, timeout=600))
        self.talks.append(talk(self.carol, self.dave, timeout=60))
        self.messages.append(self.alice.message("erin", ttl=600))
        # The inviter's view is complete when the ack is in the store.
        wait_until(lambda: self._steps(ended) >= 4, 10, "the timeline is written")
        self.calls |= {ended: self.alice.get(ended), self.ringing[-1]: self.alice.get(self.ringing[-1])}

    def _steps(self, call: str) -> int:
        return len(self.alice.trace(call))

    def check(self) -> None:
        """Records and timelines are there; the backend gets its waiting webhooks."""
        for call, known in self.calls.items():
            assert self.alice.get(call) == known
            assert self._steps(call) >= 2
        self.receiver.restart()
        for call, known in self.calls.items():
            wait_until(lambda: len(self._revisions(call)) >= known["revision"], 30, f"the webhooks of {call}")
            assert self._revisions(call) == list(range(1, known["revision"] + 1))

    def _revisions(self, call: str) -> list[int]:
        return [event.body["data"]["revision"] for event in self.receiver.of_call(call)]

    def finish(self) -> None:
        """Brings the calls and messages of the other build to their end."""
        for call in self.ringing:
            self.bob.accept(call)
            self.alice.expect_state(call, self.bob, "accepted")
            self.calls[call] = self.alice.get(call)
        for call in self.talks:
            assert self.dave.end(call)["call"]["state"] == "ended"
            self.carol.expect("call.ended", call)
        erin = self.world.device("erin")
        wait_until(lambda: {m["messageID"] for m in erin.had("message")} >= set(self.messages), 10, "the messages")
        erin.logout()
        self.ringing, self.talks, self.messages = [], [], []

    @property
    def format(self) -> int:
        with closing(sqlite3.connect(self.service.store.removeprefix("sqlite:"))) as file:
            return int(file.execute("PRAGMA user_version").fetchone()[0])

    def stop(self) -> None:
        self.world.close()
        self.service.stop()
        self.broker.stop()
        self.receiver.stop()


@pytest.fixture
def kept(old: Build, tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path, old)
    yield kept
    kept.stop()


def test_an_sqlite_file_goes_forward_and_back(old: Build, new: Build, kept: Kept) -> None:
    """Calls that ended, that ring and that go on, timelines, messages and webhooks that wait: each build finishes the
    work that the other build began."""
    before = kept.format
    for build in (new, old, new):
        kept.add()
        kept.go_on(build)
        kept.check()
        kept.finish()
        assert kept.format == before
