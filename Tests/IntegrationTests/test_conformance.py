"""The conformance suite, as a stranger runs it, against real deployments (conformance/README.md)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import PROJECT, Broker, RedisServer, Service

SHORT = {
    "caller_grace": "1s",
    "heartbeat_interval": "2s",
    "heartbeat_timeout": "8s",
    "not_received_after": "2s",
    "invitation_timeout": "4s",
    "ended_retention": "6s",
    "empty_call_timeout": "2s",
    "cancel_memory": "4s",
    "session_memory": "4s",
}
"""Timers of a deployment that is to be checked fast. Heartbeats are told by `welcome`."""
TOLD = ("caller_grace", "not_received_after", "invitation_timeout", "ended_retention", "empty_call_timeout")
TOLD += ("cancel_memory", "session_memory")


@contextmanager
def deployment(directory: Path, store: str, replicas: int = 1, **flags: str) -> Iterator[Broker]:
    """A broker and its coordinators. The suite itself judges the traffic."""
    broker = Broker(directory / "broker")
    services = [
        Service(broker.url, directory / "service", store, f"coordinator-{number}", **flags)
        for number in range(replicas)
    ]
    try:
        yield broker
    finally:
        for service in services:
            service.stop()
        broker.stop()


def check(broker: Broker, *options: str) -> None:
    """Runs the suite; every sentence that can be tested must hold."""
    command = [str(PROJECT / "scripts/conformance"), "--broker", broker.url, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=290, check=False)
    failures = done.stdout[max(0, done.stdout.find("FAILED  ")) :]
    assert done.returncode == 0, failures[:60_000] + done.stderr[-2_000:]
    print("\n".join(done.stdout.splitlines()[-12:]))


@pytest.mark.timeout(300)
def test_a_deployment_with_short_timers_conforms(tmp_path: Path) -> None:
    """Two coordinators that share Redis, both MQTT versions."""
    redis = RedisServer(tmp_path / "redis")
    try:
        with deployment(tmp_path, redis.url, replicas=2, **SHORT) as broker:
            told = [f"--{name.replace('_', '-')}={SHORT[name].removesuffix('s')}" for name in TOLD]
            check(broker, "--replicas", "2", *told)
    finally:
        redis.stop()


@pytest.mark.timeout(300)
def test_a_deployment_with_the_protocols_timers_conforms(tmp_path: Path) -> None:
    """One coordinator with SQLite: 5 s, 10 s, 30 s, 60 s and 120 s are waited for."""
    with deployment(tmp_path, "sqlite") as broker:
        check(broker, "--mqtt", "5")


@pytest.mark.timeout(120)
def test_a_deployment_for_registered_users_without_timelines_conforms(tmp_path: Path) -> None:
    """The policies that a stranger cannot change. The lease is short here alone: whoever renews presence is sent again what
    it has not acked, which is no time for tests of resends."""
    with deployment(tmp_path, "sqlite", users="known", trace="off", presence_lease="6s") as broker:
        pattern = "Users|known|timeline|lease"
        check(broker, "--users", "known", "--trace", "none", "--mqtt", "5", "-k", pattern)
