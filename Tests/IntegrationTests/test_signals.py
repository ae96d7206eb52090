"""Signals served by several coordinators, and the cost of signals (§2, Signals)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness import STORES, Deploy, RedisServer, World, on_each_store, talk, wait_until

COUNT = 50


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, deployments: dict[str, World]) -> Iterator[World]:
    yield from deployments[request.param].borrow()


def candidate(number: int) -> dict[str, Any]:
    """An ICE candidate of about 1 KiB."""
    return {"candidate": f"candidate:{number} 1 udp 2122260223 192.0.2.7 54321 typ host", "sdpMid": "0", "pad": "x" * 930}


def test_across_coordinators_the_receiver_orders_by_seq(world: World) -> None:
    """§2: both sides send as fast as they can; no signal is lost or doubled, and `seq` brings the signals into
    order."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    for device in (alice, bob):
        for number in range(COUNT):
            device.signal(call, candidate(number), seq=number)
    for device in (alice, bob):
        device.expect_type("signal", 10, callID=call, count=COUNT)
        ordered = sorted(device.had("signal", callID=call), key=lambda m: m["seq"])
        assert [(m["seq"], m["data"]) for m in ordered] == [(number, candidate(number)) for number in range(COUNT)]


@pytest.fixture(scope="module")
def quiet_deployments(deploy: Deploy, redis_server: RedisServer) -> dict[str, World]:
    """The deployments have no timelines, since a timeline is written some time after its steps."""
    return on_each_store(deploy, redis_server, trace="off")


def changes_of(world: World, store: str, redis_server: RedisServer) -> Callable[[], Any]:
    """The counts that every write changes: the store's own count, and the service's count."""

    def commits() -> list[float]:
        return [service.metrics()["bellwire_commits_total"] for service in world.services]

    if store == "Redis":
        # All commands with which a coordinator writes, except SET: coordinators write the agreed clock again and again
        # with SET.
        writes = re.compile(rb"cmdstat_(?:h(?:m?set|setnx|del)|z(?:add|rem\w*)|rpush|del|persist|pexpire\w*):calls=\d+")
        return lambda: (commits(), sorted(writes.findall(redis_server.command("INFO", "commandstats"))))
    path = world.service.store.removeprefix("sqlite:")
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    return lambda: (commits(), database.execute("PRAGMA data_version").fetchall())


@pytest.mark.parametrize("store", STORES)
def test_nothing_is_written_for_a_signal(
    quiet_deployments: dict[str, World], redis_server: RedisServer, store: str
) -> None:
    """§2: signals are not stored. Once the call has come to rest, 200 signals do not change the store."""
    world = quiet_deployments[store]
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    changes = changes_of(world, store, redis_server)
    start = changes()

    def burst_without_a_write() -> bool:
        before, mark = changes(), bob.mark
        for number in range(200):
            alice.signal(call, candidate(number), seq=number)
        bob.expect_type("signal", callID=call, since=mark, count=200)
        return changes() == before

    wait_until(burst_without_a_write, 20, "a burst of signals without a write")
    alice.end(call)
    assert changes() != start, "a write would have shown"
    world.close()
