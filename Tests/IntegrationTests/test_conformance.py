"""The conformance suite, as a stranger runs it, against real deployments (conformance/README.md)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import PROJECT, Broker, RedisServer, Service
from harness.gateway import Gateway
from harness.push_providers import PushProviders
from harness.push_target import PLATFORMS
from harness.web import MISSING

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


def told(timers: dict[str, str]) -> list[str]:
    """As options of the suite."""
    return [f"--{name.replace('_', '-')}={timers[name].removesuffix('s')}" for name in TOLD]


def check(broker: Broker, *options: str) -> str:
    """Runs the suite; every sentence that can be tested must hold. Returns its output."""
    command = [str(PROJECT / "scripts/conformance"), "--broker", broker.url, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=290, check=False)
    failures = done.stdout[max(0, done.stdout.find("FAILED  ")) :]
    assert done.returncode == 0, failures[:60_000] + done.stderr[-2_000:]
    print("\n".join(done.stdout.splitlines()[-12:]))
    return done.stdout


@pytest.mark.timeout(300)
def test_a_deployment_with_short_timers_conforms(tmp_path: Path) -> None:
    """Two coordinators that share Redis, both MQTT versions."""
    redis = RedisServer(tmp_path / "redis")
    try:
        with deployment(tmp_path, redis.url, replicas=2, **SHORT) as broker:
            check(broker, "--replicas", "2", *told(SHORT))
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


@pytest.mark.timeout(120)
def test_a_deployment_with_push_conforms(tmp_path: Path) -> None:
    """What the suite registers is nobody's: the providers refuse it, and no push service is at push.invalid."""
    providers = PushProviders(tmp_path / "providers")
    settings = str(providers.settings())
    try:
        with deployment(tmp_path, "sqlite", replicas=2, push=settings) as broker:
            store = f"sqlite:{tmp_path / 'service' / 'bellwire.db'}"
            gateway = Gateway(tmp_path, broker.url, store, push=settings).start()
            try:
                url = f"http://127.0.0.1:{gateway.port}"
                check(broker, "--replicas", "2", "--push", ",".join(PLATFORMS), "--gateway", url, "-k", "^7|push")
            finally:
                gateway.stop()
    finally:
        providers.close()


@pytest.mark.timeout(300)
@pytest.mark.skipif(bool(MISSING), reason=f"not here: {', '.join(MISSING)}")
def test_the_web_sdk_conforms_as_the_device(tmp_path: Path) -> None:
    """The web SDK's own machine, driver and transport in Node, wherever a test's device keeps to the rules."""
    with whole_deployment(tmp_path) as (broker, push):
        device = ["--device", "web", "--websocket", f"ws://127.0.0.1:{broker.web_port}/mqtt"]
        output = check(broker, *device, *push, *told(SHORT))
    # What is written by hand grows when a test asks more of its device than an app could: that is to be seen, and decided.
    with_machine, by_hand = scenarios(output)
    assert with_machine >= 360 and by_hand <= 60, f"{with_machine} with the machine, {by_hand} by hand"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("device", ["swift", "swift-mosquitto"])
def test_the_swift_sdk_conforms_as_the_device(tmp_path: Path, device: str) -> None:
    """The same of the Swift SDK, over each of its transports."""
    with whole_deployment(tmp_path) as (broker, push):
        output = check(broker, "--device", device, *push, *told(SHORT))
    # More by hand than of the web SDK: its types do not let a request be worded in every way.
    with_machine, by_hand = scenarios(output)
    assert with_machine >= 340 and by_hand <= 85, f"{with_machine} with the machine, {by_hand} by hand"


@contextmanager
def whole_deployment(directory: Path) -> Iterator[tuple[Broker, list[str]]]:
    """With short timers, push and a gateway, and the suite's options for them."""
    providers = PushProviders(directory / "providers")
    settings = str(providers.settings())
    try:
        with deployment(directory, "sqlite", push=settings, **SHORT) as broker:
            store = f"sqlite:{directory / 'service' / 'bellwire.db'}"
            gateway = Gateway(directory, broker.url, store, push=settings).start()
            try:
                yield broker, ["--push", ",".join(PLATFORMS), "--gateway", f"http://127.0.0.1:{gateway.port}"]
            finally:
                gateway.stop()
    finally:
        providers.close()


def scenarios(output: str) -> tuple[int, int]:
    """With the SDK's machine as the device, and without."""
    counted = re.search(r"^(\d+) scenarios with the SDK's machine as the device .*, (\d+) need a client that", output, re.M)
    assert counted, output[-2_000:]
    return int(counted[1]), int(counted[2])
