"""The limits in the deployment's configurations: every container and every broker has a bound on its memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).parents[2]
SERVICES: dict[str, Any] = yaml.load((PROJECT / "docker-compose.yml").read_text(), yaml.CSafeLoader)["services"]


def size(text: str) -> int:
    """The size that a setting has when its variable is not set."""
    text = re.sub(r"\$\{\w+:-(\w+)\}", r"\1", text)
    number, unit = re.fullmatch(r"(\d+)([kmg]?)b?", text).groups()  # type: ignore[union-attr]
    return int(number) << {"": 0, "k": 10, "m": 20, "g": 30}[unit]


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_has_a_bound_on_memory_and_processes(name: str) -> None:
    assert size(SERVICES[name]["mem_limit"]) >= 64 << 20
    assert 16 <= SERVICES[name]["pids_limit"] <= 256


def test_redis_has_room_to_rewrite_its_file() -> None:
    command = SERVICES["redis"]["command"]
    assert 2 * size(command[command.index("--maxmemory") + 1]) <= size(SERVICES["redis"]["mem_limit"])


@pytest.mark.parametrize("path", ["deploy/mosquitto/mosquitto.conf", "Sources/BellwireCommands/Processes/BrokerProcess.swift"])
def test_every_broker_of_ours_bounds_what_it_holds(path: str) -> None:
    text = (PROJECT / path).read_text()
    found = {name: int(value) for name, value in re.findall(r"^ *(max_\w+|memory_limit) (\d+)$", text, re.MULTILINE)}
    # mosquitto 2.0.11 looks at the bytes only when both are set.
    assert 0 < found["max_inflight_bytes"] + found["max_queued_bytes"] <= 72 << 20
    assert 0 < found["max_inflight_messages"] <= 1000 and 0 < found["max_queued_messages"] <= 100_000
    assert found["max_packet_size"] <= 2 << 20
    assert 10 * (found["max_inflight_bytes"] + found["max_queued_bytes"]) < found["memory_limit"]
    assert found["memory_limit"] < size(SERVICES["mosquitto"]["mem_limit"])
