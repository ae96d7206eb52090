"""Examples/Telephone: an app of some forty lines, as a stranger would write the app."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness import World
from harness.dropin import probe_path
from harness.processes import clean_environment
from harness.telephone import Telephone


def test_it_calls_answers_and_hangs_up(world: World, tmp_path: Path) -> None:
    alice, bob = world.user("alice"), world.user("bob")
    called = Telephone(world, tmp_path, [probe_path("Telephone"), bob])
    calling = None
    try:
        called.says(f"{bob} is online")
        calling = Telephone(world, tmp_path, [probe_path("Telephone"), alice, bob])
        called.says("ringing: remoteCall")
        called.press_enter()
        called.says("connected: mediaConnected")
        calling.says("connected: mediaConnected")
        calling.press_enter()
        calling.says("idle: localHangup")
        called.says("idle: remoteHangup")
        calling.ends()
        called.ends()
    finally:
        for telephone in filter(None, (called, calling)):
            telephone.close()


def test_two_of_one_user_and_home_directory_are_two_devices(world: World, tmp_path: Path) -> None:
    alice, bob = world.user("alice"), world.user("bob")
    telephones: list[Telephone] = []

    def started(directory: Path, *names: str) -> Telephone:
        directory.mkdir(exist_ok=True)
        telephones.append(Telephone(world, directory, [probe_path("Telephone"), *names]))
        telephones[-1].says(f"{names[0]} is online")
        return telephones[-1]

    def kept() -> dict[str, str]:
        return {path.name: path.read_text() for path in (tmp_path / "bob/bellwire").iterdir()}

    try:
        first, second = started(tmp_path / "bob", bob), started(tmp_path / "bob", bob)
        devices = kept()
        assert sorted(devices) == ["device", "device-2"] and len(set(devices.values())) == 2
        # However a program ends, the next program has its device.
        second.close()
        second = started(tmp_path / "bob", bob)
        assert kept() == devices
        calling = started(tmp_path / "alice", alice, bob)
        first.says("ringing: remoteCall")
        second.says("ringing: remoteCall")
        second.press_enter()
        second.says("connected: mediaConnected")
        first.says("idle: handledElsewhere")
        calling.press_enter()
        second.says("idle: remoteHangup")
    finally:
        for telephone in telephones:
            telephone.close()


def test_without_a_broker_it_says_so(tmp_path: Path) -> None:
    done = subprocess.run(
        [probe_path("Telephone"), "carol"],
        env=clean_environment({"BROKER": "mqtt://127.0.0.1:9", "XDG_DATA_HOME": str(tmp_path)}),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode != 0
    assert "cannot reach the broker" in done.stderr
