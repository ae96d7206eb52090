"""`bellwire top` (docs/operations.md, At a glance)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import UNLIMITED, Deploy, RedisServer, World, executable, free_port, run, talk, wait_until
from harness.cancelled_calls import CancelledCalls


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    redis = RedisServer(tmp_path_factory.mktemp("redis"))
    yield redis
    redis.stop()


@pytest.fixture(scope="module")
def world(deploy: Deploy, redis: RedisServer) -> Iterator[World]:
    world = deploy(2, store=redis.url, **UNLIMITED)
    yield world
    world.close()


def addresses(world: World) -> str:
    return ",".join(f"127.0.0.1:{service.http_port}" for service in world.services)


def states(world: World) -> set[int]:
    """The statuses of `/readyz`."""
    return {service.status("/readyz") for service in world.services}


def test_a_healthy_deployment_at_a_glance(world: World, redis: RedisServer) -> None:
    alice, bob, _ = world.phones("alice", "bob", "carol")
    alice.ok("call.invite", invitees=[bob.user], mode="advanced")
    load = CancelledCalls(world)
    try:
        wait_until(lambda: len(load.answered) > 10, 20, "calls go through")
        online = "bellwire_devices_online"
        wait_until(lambda: all(each.metrics().get(online) == 9 for each in world.services), 30, "coordinators count the devices")
        done = run("top", "--http", addresses(world), "--store", redis.url, "--once", "--interval", "1")
    finally:
        load.stop()
    assert done.returncode == 0, done
    page = done.stdout
    live = re.search(r"^live +calls (\d+) +pending invitations (\d+) +devices (\d+)$", page, re.M)
    assert live and 1 <= int(live[1]) <= 4 and 1 <= int(live[2]) <= 4 and int(live[3]) == 9, page
    rings = re.search(r"^rings +([\d.]+)/s +p50 ([\d.]+) ms +p99 ([\d.]+) ms", page, re.M)
    assert rings and float(rings[1]) > 1 and float(rings[2]) <= float(rings[3]), page
    assert re.search(r"^ended +[\d.]+/s +cancelled [\d.]+$", page, re.M), page
    assert len(re.findall(r"^http://127\.0\.0\.1:\d+ +ready +[\d.]+ .* MiB +\d+\.\d+\.\d+$", page, re.M)) == 2, page
    assert page.endswith("nothing is wrong\n")


def test_what_is_wrong_is_named(world: World, redis: RedisServer) -> None:
    nobody = free_port()
    redis.freeze()
    try:
        wait_until(lambda: states(world) == {503}, 20, "both coordinators notice")
        done = run("top", "--http", f"http://127.0.0.1:{nobody}/,{addresses(world)}", "--once", "--interval", "1")
    finally:
        redis.wake()
    assert done.returncode == 1, done
    assert "live       calls -   pending invitations -   devices -\n" in done.stdout
    assert f"wrong: http://127.0.0.1:{nobody} cannot be read: no connection: Connection refused\n" in done.stdout
    assert re.search(rf"^wrong: http://127.0.0.1:{world.service.http_port} is not ready: store: ", done.stdout, re.M), done.stdout
    wait_until(lambda: states(world) == {200}, 20, "both coordinators are ready again")


def test_counters_that_began_anew_are_no_rates(world: World) -> None:
    """A coordinator that is restarted between two readings."""
    for _ in range(5):
        alice, bob = world.phones("alice", "bob")
        alice.end(talk(alice, bob))
    words = [executable(), "top", "--http", addresses(world), "--interval", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as top:
        assert top.stdout

        def page() -> str:
            """The next page: a page ends with an empty line behind its line about faults."""
            lines: list[str] = []
            while not (lines and not lines[-1].strip() and any(line.startswith(("nothing is wrong", "wrong: ")) for line in lines)):
                lines.append(top.stdout.readline())
            return "".join(lines)

        try:
            page()
            world.service.restart()
            pages = page() + page()
        finally:
            top.terminate()
    assert not re.search(r" -[\d.]+", pages), pages


@pytest.mark.parametrize("wrong", ["", "ftp://a", "http://", "a:1,a:1", "a:1,", ",".join(f"a:{port}" for port in range(1, 102))])
def test_wrong_addresses_are_refused(wrong: str) -> None:
    done = run("top", "--http", wrong)
    assert done.returncode == 64
    assert "bellwire top: --http" in done.stderr


def test_an_unreadable_store_is_named(world: World) -> None:
    done = run("top", "--http", addresses(world), "--store", f"redis://127.0.0.1:{free_port()}", "--once", "--interval", "1")
    assert done.returncode == 1
    assert re.search(r"^wrong: the store: .*Connection refused", done.stdout, re.M), done
