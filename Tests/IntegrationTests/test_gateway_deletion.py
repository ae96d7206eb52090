"""`DELETE /v1/users/{userID}` leaves only the calls of others: shown by a search through the store
(docs/backend.md)."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from harness import STORES, Device, RedisServer, World, ring, talk, wait_until
from harness.gateway import Gateway, user_path

from conftest import Rig


def in_sqlite(path: str, user: bytes) -> Iterator[str]:
    """The places with the user's name: `table.column`."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    database.text_factory = bytes
    tables = [row[0].decode() for row in database.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    for table in tables:
        cursor = database.execute(f"SELECT * FROM {table}")
        names = [column[0] for column in cursor.description]
        for row in cursor:
            for name, value in zip(names, row, strict=True):
                if isinstance(value, bytes) and user in value:
                    yield f"{table}.{name}"
    database.close()


def ask(server: RedisServer, *words: str | bytes) -> Any:
    """Redis's answer to a command."""
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection, connection.makefile("rb") as reader:
        connection.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return reply(reader)


def reply(reader: BinaryIO) -> Any:
    head = reader.readline()
    kind, number = head[:1], head[1:-2]
    if kind == b"*":
        return [reply(reader) for _ in range(int(number))]
    if kind == b"$":
        return None if number == b"-1" else reader.read(int(number) + 2)[:-2]
    assert kind in b"+:", head
    return number


def in_redis(server: RedisServer, user: bytes) -> Iterator[str]:
    """The keys that name the user, or have the user's name in their value; keys of hashes come with the field."""
    for key in ask(server, "KEYS", "*"):
        kind = ask(server, "TYPE", key)
        if kind == b"none":  # its time was over a moment ago
            continue
        values = {
            b"string": lambda: [(b"", ask(server, "GET", key) or b"")],  # noqa: B023
            b"hash": lambda: list(zip(*[iter(ask(server, "HGETALL", key))] * 2, strict=True)),  # noqa: B023
            b"zset": lambda: [(v, b"") for v in ask(server, "ZRANGE", key, "0", "-1")],  # noqa: B023
            b"set": lambda: [(v, b"") for v in ask(server, "SMEMBERS", key)],  # noqa: B023
            b"list": lambda: [(v, b"") for v in ask(server, "LRANGE", key, "0", "-1")],  # noqa: B023
        }[kind]()
        if user in key:
            yield key.decode()
        for field, value in values:
            if user in field or user in value:
                yield f"{key.decode()} {field.decode(errors='replace')}"


def places(world: World, store: str, redis: RedisServer, user: str) -> set[str]:
    if store == "SQLite":
        return set(in_sqlite(world.service.store.removeprefix("sqlite:"), user.encode()))
    return set(in_redis(redis, user.encode()))


def is_allowed(place: str) -> bool:
    """The store may keep calls of others, and the number of bytes that these calls take; sessions that have just ended,
    for two minutes, so that a phone does not come back by itself; and for some twenty minutes the messages that the user
    has sent to others."""
    if place in ("calls.record", "over_sessions.user_id", "stored.user_id"):
        return True
    if ":call:" in place or ":message:" in place:
        return place.endswith(" r")
    return "}:over" in place or "}:stored:" in place


def wait_for_timelines(device: Device, call: str) -> None:
    """Both coordinators have then written all their notes up to now."""

    def writers() -> set[str]:
        for _ in range(4):
            device.get(call)
        asked = [entry for entry in device.trace(call) if entry.get("type") == "call.get" and entry.get("userID") == device.user]
        return {entry["coordinator"] for entry in asked}

    # A timeline may not be asked for all the time.
    both = {"coordinator-1", "coordinator-2"}
    wait_until(lambda: writers() == both, 20, "both have written what they noted", every=0.3)


@pytest.mark.parametrize("store", STORES)
def test_a_deleted_user_is_found_nowhere_but_in_the_calls_of_others(
    rig: Rig, redis_server: RedisServer, tmp_path: Path, store: str
) -> None:
    flags = {} if store == "SQLite" else {"store": redis_server.url}
    world = rig.world(replicas=2, **flags)
    gateway = Gateway(tmp_path / "gateway", world.broker.url, world.service.store).start()
    try:
        alice, bob, carol = world.phones("alice", "bob", "carol")
        tablet = world.another(alice, "tablet")
        alice.ok("user.update", name="Alice A.", extendedData=f"of {alice.user}")
        alice.ok("user.block", userID=carol.user)
        carol.ok("user.block", userID=alice.user)
        alice.end(talk(alice, bob))
        call = ring(bob, alice)
        alice.reject(call)
        alice.ok("call.report", callID=call, milestones={"accepted": 5})
        held = gateway.invite(alice.user, bob.user, mode="advanced")
        bob.expect("call.invited", held)
        ringing = ring(bob, alice, carol, mode="advanced")
        alice.message(bob, "hello")
        wait_until(lambda: len(alice.trace(call)) > 3, 10, "its timeline is written")
        # A message from a device after the deletion would leave new data: an ack would stand in the timeline.
        for device in (alice, tablet):
            device.auto_ack = False
            device.get(call)
        # A timeline is written up to a second later; the entries before the deletion must not be written after the
        # deletion.
        wait_for_timelines(bob, call)
        assert any(not is_allowed(place) for place in places(world, store, redis_server, alice.user)), "the search finds what is there"

        assert gateway.ask("DELETE", user_path(alice.user)).ok(204) is None
        bob.expect("call.cancelled", held)
        bob.expect_state(ringing, alice, "rejected")
        bob.end(ringing)
        for device in (alice, tablet):
            device.close()

        def left() -> set[str]:
            return {place for place in places(world, store, redis_server, alice.user) if not is_allowed(place)}

        # Timelines and lists go a moment after the records that they describe.
        wait_until(lambda: not left(), 20, lambda: f"nothing is left, but {left()}")
        assert bob.get(call)["state"] == "ended", "it is bob's as well"
    finally:
        gateway.stop()
