"""`bellwire backup` and `bellwire restore`: a copy of a store that is in use, and a deployment that goes on from the copy."""

from __future__ import annotations

import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from conftest import Rig
from harness import STORES, UNLIMITED, Device, RedisServer, Service, World, call_id, member, ring, run, talk, wait_until
from harness.receiver import Receiver
from harness.redis_cluster import RedisCluster


@pytest.fixture
def empty_redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "empty-redis")
    yield server
    server.stop()


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    receiver = Receiver(tmp_path / "receiver")
    yield receiver
    receiver.stop()


def backup(store: str, out: Path, *options: str) -> CompletedProcess[str]:
    return run("backup", "--store", store, "--out", str(out), *options, timeout=60)


def restore(store: str, file: Path | str, *options: str) -> CompletedProcess[str]:
    return run("restore", "--store", store, str(file), *options, timeout=60)


def well(done: CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stderr
    return done.stderr


def refused(done: CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 64, (done.returncode, done.stderr)
    assert done.stderr.count("\n") == 1 and all(word in done.stderr for word in words), done.stderr


class Busy:
    """Calls that are made, answered and ended beside a test, and the longest wait for an answer."""

    def __init__(self, world: World) -> None:
        self.longest = 0.0
        self.ended = 0
        self._stop = threading.Event()
        self._pairs = [world.phones("carol", "dave") for _ in range(3)]
        self._pool = ThreadPoolExecutor(len(self._pairs))
        self._talks: list[Any] = []

    def __enter__(self) -> Busy:
        self._talks = [self._pool.submit(self._converse, *pair) for pair in self._pairs]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for talking in self._talks:
            talking.result()
        self._pool.shutdown()

    def _converse(self, carol: Device, dave: Device) -> None:
        while not self._stop.is_set():
            call = call_id()
            self._timed(carol, "call.invite", callID=call, invitees=[dave.user], mode="advanced")
            self._timed(dave, "call.accept", callID=call)
            self._timed(carol, "call.end", callID=call)
            self.ended += 1

    def _timed(self, device: Device, kind: str, **fields: Any) -> None:
        began = time.monotonic()
        device.ok(kind, **fields)
        self.longest = max(self.longest, time.monotonic() - began)


class Kept:
    """The data of a deployment, which the deployment must have again after the restore of a backup."""

    def __init__(self, world: World) -> None:
        self.alice, self.bob, self.erin = world.phones("alice", "bob", "erin")
        self.ended = talk(self.alice, self.bob)
        self.alice.end(self.ended)
        self.alice.ok("user.update", name="Alice of old")
        self.bob.ok("user.block", userID="mallory")
        self.ringing = ring(self.erin, self.bob, timeout=600)
        wait_until(lambda: member(self.erin.get(self.ringing), self.bob)["state"] == "received", 10, "the phone rings")
        self.brief = ring(self.alice, self.bob, timeout=25)
        self.calls = {self.ended: self.alice.get(self.ended), self.ringing: self.erin.get(self.ringing)}
        wait_until(lambda: self._steps() > 4, 10, "the timeline is written")
        self.steps = self._steps()

    def _steps(self) -> int:
        return len(self.alice.ok("call.trace", callID=self.ended)["entries"])

    def _listed(self, device: Device) -> list[str]:
        return [call["callID"] for call in device.ok("call.query")["calls"]]

    def move(self, world: World) -> None:
        """Moves the users to another broker."""
        for name in ("alice", "bob", "erin"):
            setattr(self, name, world.device(getattr(self, name).user))

    def check(self) -> None:
        assert self.alice.get(self.ended) == self.calls[self.ended]
        assert self.erin.get(self.ringing) == self.calls[self.ringing]
        assert self._listed(self.alice) == [self.brief, self.ended]
        assert self._listed(self.bob) == [self.brief, self.ringing, self.ended]
        assert self._steps() >= self.steps
        assert self.bob.ok("user.blockList")["blocked"] == ["mallory"]
        assert self.erin.ok("user.query", userIDs=[self.alice.user])["users"][0]["name"] == "Alice of old"
        # The call goes on: the invitation can be accepted.
        accepted = self.bob.ok("call.accept", callID=self.ringing)["call"]
        assert member(accepted, self.bob)["state"] == "accepted"


def store_of(kind: str, redis: RedisServer) -> dict[str, str]:
    return {} if kind == "SQLite" else {"store": redis.url}


@pytest.mark.waits
@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", STORES)
def test_a_deployment_goes_on_from_a_backup_that_was_made_under_load(
    rig: Rig, redis_server: RedisServer, empty_redis: RedisServer, tmp_path: Path, kind: str
) -> None:
    """Every answered change before the backup is there again, no request waits for a second, and phones ring on."""
    redis_server.command("FLUSHALL")
    broker = rig.broker()
    services = [rig.service(broker, f"before-{number}", **store_of(kind, redis_server), **UNLIMITED) for number in range(2)]
    world = rig.people(broker, *services)
    kept = Kept(world)
    file = tmp_path / "bellwire.backup"
    with Busy(world) as busy:
        wait_until(lambda: busy.ended > 20, 20, "calls before the backup")
        said = ""

        def holds_up_nobody() -> bool:
            nonlocal said
            file.unlink(missing_ok=True)
            busy.longest = 0
            said = well(backup(services[0].store, file))
            made = busy.ended
            wait_until(lambda: busy.ended > made + 3, 20, "calls after the backup")
            return busy.longest < 1

        # A busy machine may hold a request up; a backup that does so does it each time. The phone of `Kept` rings for 25 s.
        wait_until(holds_up_nobody, 10, lambda: f"no request waits for a second, but one for {busy.longest:.1f} s")
    assert "calls and messages" in said and str(file) in said
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for service in services:
        service.terminate()
    # Days of use may lie between backup and restore: the backup does not have the later changes.
    store = f"sqlite:{tmp_path / 'restored.db'}" if kind == "SQLite" else empty_redis.url
    well(restore(store, file))
    # The restored deployment has a broker of its own: a call that has changed since the backup gets other revisions
    # there than before.
    restored = rig.world(store=store, **UNLIMITED)
    kept.move(restored)
    kept.check()
    # Deadlines were restored with their calls.
    kept.bob.expect("call.timeout", kept.brief, 60)
    assert restored.service.running


def test_a_cluster_is_backed_up_and_restored(rig: Rig, tmp_path: Path, empty_redis: RedisServer) -> None:
    """Each master's keys; a backup of a cluster may be restored into a single Redis, and the other way round."""
    # On a busy machine no master is to lose its place.
    cluster = RedisCluster(tmp_path / "cluster", node_timeout=15_000)
    try:
        broker = rig.broker()
        service = rig.service(broker, "before", store=cluster.url)
        kept = Kept(rig.people(broker, service))
        well(backup(cluster.url, tmp_path / "first"))
        service.terminate()
        well(restore(empty_redis.url, tmp_path / "first"))
        well(backup(empty_redis.url, tmp_path / "second"))
        refused(restore(cluster.url, tmp_path / "second"), "is not empty")
        well(restore(cluster.url, tmp_path / "second", "--redis-prefix", "other"))
        kept.move(rig.world(store=cluster.url, redis_prefix="other"))
        kept.check()
    finally:
        cluster.stop()


@pytest.mark.parametrize("kind", STORES)
def test_waiting_webhooks_and_dead_letters_are_restored(
    rig: Rig, receiver: Receiver, redis_server: RedisServer, empty_redis: RedisServer, tmp_path: Path, kind: str
) -> None:
    redis_server.command("FLUSHALL")
    settings = str(receiver.settings(events=["call.*"]))
    broker = rig.broker()
    service = rig.service(broker, "before", webhooks=settings, **store_of(kind, redis_server))
    world = rig.people(broker, service)
    alice, bob = world.phones("alice", "bob")
    receiver.judge = lambda _id, _body: 410
    dead = talk(alice, bob)
    alice.end(dead)
    count = alice.get(dead)["revision"]
    listed = lambda store: run("webhooks", "list", "--store", store).stdout  # noqa: E731
    wait_until(lambda: f" 0 waiting, {count} dead" in listed(service.store), 20, "dead letters")
    assert run("webhooks", "on", "--store", service.store, "--endpoint", "app").stdout == "app: on\n"
    receiver.judge = lambda _id, _body: 503
    waiting = talk(alice, bob)
    alice.end(waiting)
    last = alice.get(waiting)["revision"]
    wait_until(lambda: f" {last} waiting" in listed(service.store), 20, "webhooks wait")
    service.terminate()
    before = listed(service.store)
    file = tmp_path / "backup"
    well(backup(service.store, file))
    store = f"sqlite:{tmp_path / 'restored.db'}" if kind == "SQLite" else empty_redis.url
    well(restore(store, file))
    after = listed(store)
    strip = lambda text: [part for part in text.split(", ") if not part.startswith("the oldest")]  # noqa: E731
    assert strip(before) == strip(after) and " dead" in after, (before, after)
    dead_before = run("webhooks", "dead", "--store", service.store).stdout
    assert dead_before and run("webhooks", "dead", "--store", store).stdout == dead_before
    receiver.judge = lambda _id, _body: 200
    restored = rig.service(broker, "after", store=store, webhooks=settings)
    wait_until(lambda: [e.body["data"]["revision"] for e in receiver.of_call(waiting)][-1:] == [last], 20, "what waited arrives")
    well(run("webhooks", "replay", "--store", store, "--endpoint", "app"))
    wait_until(lambda: len(receiver.of_call(dead)) > 0, 20, "dead letters are sent again")
    wait_until(lambda: " 0 waiting, 0 dead, 0 bytes" in listed(store), 20, lambda: f"nothing is left, but {listed(store)}")
    wait_until(lambda: restored.metrics()['bellwire_webhook_backlog{endpoint="app"}'] == 0, 20, "the counts are right")


# Refusals


@pytest.fixture(scope="module")
def backups(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer, deploy: Any) -> dict[str, Path]:
    """A backup of each kind."""
    files = {}
    for kind in STORES:
        redis_server.command("FLUSHALL")
        world = deploy(1, **store_of(kind, redis_server))
        alice, bob = world.phones("alice", "bob")
        alice.end(talk(alice, bob))
        files[kind] = tmp_path_factory.mktemp("backups") / kind
        well(backup(world.service.store, files[kind]))
        world.service.terminate()
        world.close()
    return files


@pytest.mark.parametrize("kind", STORES)
def test_a_damaged_or_cut_backup_is_refused_before_anything_is_written(
    backups: dict[str, Path], empty_redis: RedisServer, tmp_path: Path, kind: str
) -> None:
    whole = backups[kind].read_bytes()
    store = f"sqlite:{tmp_path / 'restored.db'}" if kind == "SQLite" else empty_redis.url
    file = tmp_path / "damaged"
    places = [0, 30, len(whole) // 3, len(whole) // 2, len(whole) - 33, len(whole) - 1]
    damaged = [whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in places]
    cut = [whole[:length] for length in (0, 1, 17, 100, len(whole) // 2, len(whole) - 32, len(whole) - 1)]
    for content in [*damaged, *cut, whole + b"\0", b"x" * 5000]:
        file.write_bytes(content)
        done = restore(store, file)
        assert done.returncode == 64 and str(file) in done.stderr, done.stderr
        assert empty_redis.command("DBSIZE") == b":0\r\n"
        assert [path.name for path in tmp_path.glob("restored.db*")] == []
    refused(restore(store, tmp_path / "missing"), "No such file")
    refused(restore(store, tmp_path), "is not a file")


@pytest.mark.parametrize("kind", STORES)
def test_a_store_that_is_not_empty_is_refused_and_stays(
    backups: dict[str, Path], empty_redis: RedisServer, tmp_path: Path, kind: str
) -> None:
    file = tmp_path / "restored.db"
    store = f"sqlite:{file}" if kind == "SQLite" else empty_redis.url
    well(restore(store, backups[kind]))
    content = file.read_bytes() if kind == "SQLite" else empty_redis.command("DBSIZE")
    refused(restore(store, backups[kind]), "is not empty", "Nothing in it was changed")
    assert content == (file.read_bytes() if kind == "SQLite" else empty_redis.command("DBSIZE"))
    if kind == "SQLite":
        file.rename(tmp_path / "elsewhere")
        (tmp_path / "restored.db-wal").write_bytes(b"an old log")
        refused(restore(store, backups[kind]), "restored.db-wal")
    else:
        # Other programs may use the same Redis.
        empty_redis.command("FLUSHALL")
        empty_redis.command("SET", "another:key", "1")
        well(restore(store, backups[kind]))


def test_a_backup_of_another_kind_or_format_is_refused(backups: dict[str, Path], empty_redis: RedisServer, tmp_path: Path) -> None:
    refused(restore(f"sqlite:{tmp_path / 'x.db'}", backups["Redis"]), "cannot be restored into sqlite:")
    refused(restore(empty_redis.url, backups["SQLite"]), "cannot be restored into redis:")
    assert empty_redis.command("DBSIZE") == b":0\r\n" and not (tmp_path / "x.db").exists()


def test_what_cannot_be_backed_up_is_said(backups: dict[str, Path], empty_redis: RedisServer, tmp_path: Path) -> None:
    refused(backup(empty_redis.url, tmp_path / "a"), "no data of Bellwire under the prefix bellwire")
    refused(backup("memory:", tmp_path / "a"), "memory")
    refused(backup(f"sqlite:{tmp_path / 'missing.db'}", tmp_path / "a"), "No such file")
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE other(x)").connection.close()
    refused(backup(f"sqlite:{tmp_path / 'other.db'}", tmp_path / "a"), "names no format")
    refused(backup("redis://127.0.0.1:1", tmp_path / "a"), "redis://127.0.0.1:1")
    well(restore(f"sqlite:{tmp_path / 'x.db'}", backups["SQLite"]))
    there = tmp_path / "there"
    there.write_text("an older backup")
    refused(backup(f"sqlite:{tmp_path / 'x.db'}", there), "is there already")
    assert there.read_text() == "an older backup"
    refused(backup(f"sqlite:{tmp_path / 'x.db'}", tmp_path / "no" / "folder"), "No such file")
    refused(run("backup", "--store", f"sqlite:{tmp_path / 'x.db'}"), "--out is required")
    # No half-written file stays behind.
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} <= {"there", "x.db", "other.db"}


def test_a_backup_goes_through_a_pipe(backups: dict[str, Path], tmp_path: Path) -> None:
    """`docker compose run` needs a pipe: the container writes no file of the host."""
    import subprocess

    from harness import executable

    store = f"sqlite:{tmp_path / 'piped.db'}"
    with backups["SQLite"].open("rb") as source:
        subprocess.run([executable(), "restore", "--store", store, "-"], stdin=source, check=True, timeout=30)
    with (tmp_path / "piped").open("wb") as target:
        subprocess.run([executable(), "backup", "--store", store, "--out", "-"], stdout=target, check=True, timeout=30)
    well(restore(f"sqlite:{tmp_path / 'again.db'}", tmp_path / "piped"))


def test_an_account_without_the_right_to_restore_is_told_and_leaves_a_redis_that_nobody_uses(
    rig: Rig, backups: dict[str, Path], empty_redis: RedisServer
) -> None:
    rights = "+@read +@write +@scripting +@connection +time +wait +config|get +info +role -@dangerous"
    empty_redis.command("ACL", "SETUSER", "limited", "on", ">secret", "~bellwire:*", *rights.split())
    url = empty_redis.url.replace("redis://", "redis://limited:secret@")
    refused(restore(url, backups["Redis"]), "restore")
    # A coordinator does not begin with a part of the data.
    service = rig.service(rig.broker(), "early", store=empty_redis.url, start=False)
    service.start(ready=False)
    assert service.exit_status() != 0 and "#restore-unfinished" in service.log.read_text()
    refused(restore(empty_redis.url, backups["Redis"]), "is not empty")
    refused(backup(empty_redis.url, backups["Redis"].with_name("half")), "a part of a backup")
    empty_redis.command("FLUSHALL")
    empty_redis.command("ACL", "SETUSER", "limited", "+restore")
    well(restore(url, backups["Redis"]))
    # The same account, without the right to restore, makes backups.
    empty_redis.command("ACL", "SETUSER", "limited", "-restore")
    well(backup(url, backups["Redis"].with_name("by-limited")))
