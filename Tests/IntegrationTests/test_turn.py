"""Protocol, section 1: the TURN servers that a welcome names let in only a client with the welcome's credentials."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Rig
from harness import RedisServer, World, run, wait_until
from harness.turn import SECRET, Turn, credentials, options


@pytest.fixture
def turn(tmp_path: Path) -> Iterator[Turn]:
    turn = Turn(tmp_path)
    yield turn
    turn.terminate()


def welcome(world: World, name: str) -> dict[str, Any]:
    phone = world.phone(name)
    return phone.had("welcome")[0].body


def test_what_a_welcome_names_lets_its_bearer_in(rig: Rig, turn: Turn, tmp_path: Path) -> None:
    urls = [f"turn:127.0.0.1:{turn.port}", "turns:turn.example.com:5349?transport=tcp"]
    world = rig.world(**options(tmp_path, ",".join(urls)))
    before = time.time()
    (server,) = welcome(world, "al:ice ü")["iceServers"]
    assert server["urls"] == urls
    expiry, user = server["username"].split(":")
    assert before + 3599 <= int(expiry) <= time.time() + 3601
    assert user.startswith("al%3Aice%20%C3%BC")
    assert turn.relays(server["username"], server["credential"])
    assert not turn.relays(server["username"], server["credential"][::-1])
    assert not turn.relays(server["username"].replace(user, "bob"), server["credential"])
    assert not turn.relays("1000000000:bob", "AAAA")


def test_each_welcome_brings_new_credentials(rig: Rig, tmp_path: Path) -> None:
    world = rig.world(**options(tmp_path, "turn:127.0.0.1:3478"))
    phone = world.phone("alice")
    time.sleep(1.1)  # usernames are of whole seconds
    phone.come_online()

    def names() -> list[str]:
        return [m.body["iceServers"][0]["username"] for m in phone.messages if m.type == "welcome"]

    # A welcome comes once more when its presence was sent again.
    wait_until(lambda: int(names()[0].split(":")[0]) < int(names()[-1].split(":")[0]), 10, "a welcome with later credentials")


def test_without_servers_nothing_is_said_of_them(world: World) -> None:
    assert "iceServers" not in welcome(world, "alice")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--turn", "turn:a:3478"], "go together"),
        (["--turn-secret-file", "SECRET"], "go together"),
        (["--turn", "stun:a:3478", "--turn-secret-file", "SECRET"], "--turn stun:a:3478: expected turn:HOST:PORT"),
        (["--turn", "turn:a,", "--turn-secret-file", "SECRET"], "--turn : expected"),
        (["--turn", ",".join(["turn:a"] * 9), "--turn-secret-file", "SECRET"], "at most 8 servers"),
        (["--turn", "turn:a", "--turn-secret-file", "EMPTY"], "no secret of 1 to 256 bytes"),
        (["--turn", "turn:a", "--turn-secret-file", "/nowhere"], "/nowhere"),
    ],
)
def test_mistakes_stop_the_start(tmp_path: Path, flags: list[str], says: str) -> None:
    (tmp_path / "SECRET").write_text(SECRET)
    (tmp_path / "EMPTY").write_text("\n")
    named = [str(tmp_path / flag) if flag in ("SECRET", "EMPTY") else flag for flag in flags]
    result = run("serve", "--store", "memory:", *named)
    assert result.returncode == 64
    assert says in result.stderr


PRIVATE = ["10.1.2.3", "172.16.0.9", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.1", "192.0.0.8", "198.18.0.1", "240.0.0.1"]


def test_it_is_no_way_into_a_private_network(tmp_path: Path) -> None:
    """As in docker-compose.yml. coturn's own refusal of loopback is switched off, so that only the file refuses."""
    redis = RedisServer(tmp_path / "redis")
    turn = Turn(tmp_path, "allow-loopback-peers\n")
    try:
        assert not turn.reaches("127.0.0.1", redis.port)
        assert not [host for host in PRIVATE if turn.reaches(host)]
        denied = [line for line in turn.log.read_text().splitlines() if "denied in the range" in line]
        assert denied and all("range: " in line and "range: :" not in line for line in denied), denied
    finally:
        turn.terminate()
        redis.stop()


@pytest.mark.waits
def test_what_it_does_not_name_it_reaches(tmp_path: Path) -> None:
    """Each rule is of its own addresses alone."""
    turn = Turn(tmp_path, "allow-loopback-peers\n", lambda conf: conf.replace("denied-peer-ip=127.", "# denied-peer-ip=127."))
    try:
        assert turn.reaches("127.0.0.1")
    finally:
        turn.terminate()


def test_a_user_has_a_quota_whatever_the_credential(turn: Turn) -> None:
    """12 allocations: the allocations with credentials of an earlier welcome count as well."""
    first, second = credentials("alice", 3600), credentials("alice", 3000)
    # Each client keeps two allocations while the command runs.
    held = subprocess.Popen(
        ["turnutils_uclient", "-c", "-m", "4", "-n", "200", "-e", "127.0.0.1",
         "-p", str(turn.port), "-u", first[0], "-w", first[1], "127.0.0.1"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert held.stdout is not None
        assert any("start_mclient" in line for line in held.stdout), "it has its allocations"
        assert "486 (Allocation Quota Reached)" in turn.ask(*second, "-m", "4", "-e", "127.0.0.1")
        assert turn.relays(*credentials("bob"))
        assert held.poll() is None
    finally:
        held.kill()
        held.wait()
