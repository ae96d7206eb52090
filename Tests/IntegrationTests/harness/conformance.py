"""Runs the conformance suite as a stranger does (conformance/README.md)."""

from __future__ import annotations

import fcntl
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .broker import Broker
from .gateway import Gateway
from .push_providers import PushProviders
from .push_target import PLATFORMS
from .service import PROJECT, Service

SHORT = {
    "caller_grace": "1s",
    "heartbeat_interval": "2s",
    "heartbeat_timeout": "8s",
    "not_received_after": "2s",
    # A call must not end while a slow machine plays a scenario: no scenario waits for this timer.
    "invitation_timeout": "30s",
    "ended_retention": "6s",
    "empty_call_timeout": "2s",
    "cancel_memory": "4s",
    "session_memory": "4s",
}
"""Timers of a deployment that is to be checked fast. Heartbeats are told by `welcome`."""
CONNECTIONS = "^[15]"
"""The pattern of sections 1 and 5 of docs/protocol.md: connections, presence, deliveries, resends and acks."""
LENIENT = SHORT | {"caller_grace": "5s"}
"""For devices that take a second to connect again: a caller who comes back must not be lost meanwhile."""
TOLD = ("caller_grace", "not_received_after", "invitation_timeout", "ended_retention", "empty_call_timeout")
TOLD += ("cancel_memory", "session_memory")


@contextmanager
def deployment(directory: Path, store: str, replicas: int = 1, **flags: str) -> Iterator[Broker]:
    """A broker and its coordinators. The suite itself judges the traffic."""
    with fleet(directory, store, 1, replicas, **flags) as brokers:
        yield brokers[0]


@contextmanager
def fleet(directory: Path, store: str, count: int, replicas: int = 1, **flags: str) -> Iterator[list[Broker]]:
    """Brokers without a link between them, and their coordinators."""
    brokers = [Broker(directory / f"broker-{number}") for number in range(count)]
    urls = ",".join(broker.url for broker in brokers)
    services = [
        Service(urls, directory / "service", store, f"coordinator-{number}", **flags) for number in range(replicas)
    ]
    try:
        yield brokers
    finally:
        for service in services:
            service.stop()
        for broker in brokers:
            broker.stop()


def told(timers: dict[str, str]) -> list[str]:
    """The timers as options of the suite."""
    return [f"--{name.replace('_', '-')}={timers[name].removesuffix('s')}" for name in TOLD]


def check(broker: Broker | Sequence[Broker], *options: str) -> str:
    """Runs the suite; every sentence that can be tested must hold. Returns its output."""
    suite = str(PROJECT / "scripts/conformance")
    with (PROJECT / ".build/conformance.lock").open("w") as lock:
        # The first run makes a virtual environment: not two at once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run([suite, "--list"], check=True, capture_output=True)
    # Other tests run at the same time. Fewer scenarios run at once, so that no scenario runs out of its short timers,
    # and an immediate message may take longer.
    brokers = [broker] if isinstance(broker, Broker) else broker
    command = [suite, "--broker", ",".join(broker.url for broker in brokers), "--parallel", "10", "--patience", "15", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1190, check=False)
    failures = done.stdout[max(0, done.stdout.find("FAILED  §")) :]
    assert done.returncode == 0, failures[:60_000] + done.stderr[-2_000:]
    print("\n".join(done.stdout.splitlines()[-12:]))
    return done.stdout


@contextmanager
def whole_deployment(directory: Path, timers: dict[str, str] = SHORT) -> Iterator[tuple[Broker, list[str]]]:
    """A deployment with these timers, push and a gateway, and the suite's options for these parts."""
    providers = PushProviders(directory / "providers")
    settings = str(providers.settings())
    try:
        with deployment(directory, "sqlite", push=settings, **timers) as broker:
            store = f"sqlite:{directory / 'service' / 'bellwire.db'}"
            gateway = Gateway(directory, broker.url, store, push=settings).start()
            try:
                yield broker, ["--push", ",".join(PLATFORMS), "--gateway", f"http://127.0.0.1:{gateway.port}", *told(timers)]
            finally:
                gateway.stop()
    finally:
        providers.close()


def scenarios(output: str) -> tuple[int, int]:
    """The number of scenarios with the SDK's machine as the device, and the number without this machine."""
    counted = re.search(r"^(\d+) scenarios with the SDK's machine as the device .*, (\d+) need a client that", output, re.M)
    assert counted, output[-2_000:]
    return int(counted[1]), int(counted[2])
