"""`/metrics` of coordinators and gateways (docs/operations.md)."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import UNLIMITED, Deploy, RedisServer, SecureBroker, Service, World, talk, wait_until
from harness.credentials import make_certificates
from harness.gateway import Gateway

OLD = {"bellwire_milestone_milliseconds", "bellwire_store_clock_skew_milliseconds"}
"""Served for two releases beside their successors."""


@pytest.fixture(scope="module")
def world(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = deploy(1, **UNLIMITED)
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    alice.ok("call.report", callID=call, milestones={"firstFrame": 700})
    alice.end(call)
    yield world
    world.close()


def linted(text: str) -> set[str]:
    """The metrics in which promtool finds a fault."""
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done
    return {line.split(" ")[0] for line in done.stderr.splitlines()}


def test_promtool_finds_fault_with_old_names_alone(world: World, tmp_path: Path) -> None:
    text = world.service.get("/metrics")[1]
    assert "bellwire_milestone_milliseconds_count" in text
    assert linted(text) <= OLD
    gateway = Gateway(tmp_path, world.broker.url, world.service.store).start()
    try:
        assert linted(gateway.ask("GET", "/metrics").raw.decode()) == set()
    finally:
        gateway.stop()
    assert linted("# TYPE queue_milliseconds counter\nqueue_milliseconds 1\n") == {"queue_milliseconds"}, "promtool is strict"


def test_durations_of_a_call_are_measured(world: World) -> None:
    metrics = world.service.metrics()
    assert metrics["bellwire_ring_seconds_count"] == 1
    assert 0 < metrics["bellwire_ring_seconds_sum"] < 5
    assert metrics['bellwire_ring_ack_seconds_count{platform="connected"}'] == 1
    assert metrics['bellwire_request_seconds_count{type="call.invite",outcome="ok"}'] == 1
    assert metrics['bellwire_request_seconds_count{type="call.accept",outcome="ok"}'] == 1
    for operation in ("read", "write", "presence"):
        assert metrics[f'bellwire_store_seconds_count{{operation="{operation}"}}'] >= 1, operation
    assert metrics['bellwire_milestone_seconds_sum{milestone="firstFrame",role="caller"}'] == 0.7


def test_the_round_trip_through_the_broker_is_measured(world: World) -> None:
    name = f'bellwire_broker_round_trip_seconds_count{{broker="127.0.0.1:{world.broker.port}"}}'
    wait_until(lambda: world.service.metrics().get(name, 0) >= 2, 10, "two canaries came back")


@pytest.mark.waits
def test_the_room_of_the_store_is_shown(world: World, deploy: Deploy, tmp_path: Path) -> None:
    """For a file: its size, and its size with the disk's free room. For Redis: its memory, and its limit if Redis has a
    limit."""
    metrics = world.service.metrics()
    size, limit = metrics["bellwire_store_memory_bytes"], metrics["bellwire_store_memory_limit_bytes"]
    assert 4_096 <= size < limit
    redis = RedisServer(tmp_path / "redis")
    other = deploy(1, store=redis.url, **UNLIMITED)
    try:
        wait_until(lambda: other.service.metrics().get("bellwire_store_memory_bytes", 0) > 100_000, 20, "the memory is shown")
        assert "bellwire_store_memory_limit_bytes" not in other.service.metrics()
        redis.command("config", "set", "maxmemory", "64mb")
        wait_until(
            lambda: other.service.metrics().get("bellwire_store_memory_limit_bytes") == 64 * 1_048_576, 20, "the limit is seen"
        )
    finally:
        other.close()
        redis.stop()


@pytest.mark.waits
def test_what_is_live_in_the_deployment_is_counted(deploy: Deploy, tmp_path: Path) -> None:
    """Every coordinator shows the same figures, and no figure while the store fails."""
    redis = RedisServer(tmp_path / "redis")
    world = deploy(2, store=redis.url, **UNLIMITED)
    names = ("bellwire_calls_live", "bellwire_invitations_ringing", "bellwire_devices_online")

    def counts() -> list[tuple[float | None, ...]]:
        return [tuple(service.metrics().get(name) for name in names) for service in world.services]

    def shows(*expected: float | None) -> None:
        wait_until(lambda: counts() == [expected] * 2, 12, lambda: f"both count {expected}, and not {counts()}")

    try:
        alice, bob, carol = world.phones("alice", "bob", "carol")
        call = alice.ok("call.invite", invitees=[bob.user, carol.user], mode="advanced")["callID"]
        bob.expect("call.invited", call)
        shows(1, 2, 3)
        bob.ok("call.accept", callID=call)
        carol.logout()
        shows(1, 1, 2)
        redis.freeze()
        shows(None, None, None)
        redis.wake()
        shows(1, 1, 2)
        alice.ok("call.end", callID=call)
        shows(0, 0, 2)
    finally:
        world.close()
        redis.stop()


def not_after(certificate: Path) -> int:
    text = subprocess.run(
        ["openssl", "x509", "-in", certificate, "-noout", "-enddate", "-dateopt", "iso_8601"], capture_output=True, text=True, check=True
    ).stdout
    stamp = re.fullmatch(r"notAfter=(.*)Z\n", text)
    assert stamp
    return int(subprocess.run(["date", "-u", "-d", stamp[1], "+%s"], capture_output=True, text=True, check=True).stdout)


def test_ends_of_certificates_and_tokens_are_shown(tmp_path: Path) -> None:
    """The metrics also show the ends of later files, since an operator replaces files while the process runs."""
    broker = SecureBroker(tmp_path / "broker")
    certificates = tmp_path / "redis-certificates"
    make_certificates(certificates)
    redis = RedisServer(tmp_path / "redis", certificates=certificates)
    token = tmp_path / "token"
    ends = int(time.time()) + 5_000
    token.write_text(broker.token("service", ends - time.time() + 0.5, role="coordinator"))
    own = tmp_path / "own.crt"
    own.write_bytes((broker.certs / "coordinator.crt").read_bytes())
    service = Service(
        f"mqtts://localhost:{broker.coordinator_port}",
        tmp_path,
        store=f"rediss://127.0.0.1:{redis.tls_port}",
        redis_ca=str(certificates / "ca.crt"),
        broker_ca=str(broker.certs / "ca.crt"),
        broker_cert=str(own),
        broker_key=str(broker.certs / "coordinator.key"),
        devices_cert=str(certificates / "coordinator.crt"),
        token_file=str(token),
    )
    try:
        metrics = service.metrics()
        expected = {
            "broker": broker.certs / "broker.crt",
            "store": certificates / "broker.crt",
            "broker-cert": broker.certs / "coordinator.crt",
            "broker-ca": broker.certs / "ca.crt",
            "devices-cert": certificates / "coordinator.crt",
            "redis-ca": certificates / "ca.crt",
        }
        for name, path in expected.items():
            assert metrics[f'bellwire_certificate_expiry_seconds{{name="{name}"}}'] == not_after(path), name
        assert metrics["bellwire_token_expiry_seconds"] == ends
        # For a file with several certificates, the end of the first to end counts.
        own.write_bytes((broker.certs / "coordinator.crt").read_bytes() + (broker.certs / "ca.crt").read_bytes())
        both = min(not_after(broker.certs / "coordinator.crt"), not_after(broker.certs / "ca.crt"))
        assert service.metrics()['bellwire_certificate_expiry_seconds{name="broker-cert"}'] == both
        own.write_text("no certificate")
        assert 'bellwire_certificate_expiry_seconds{name="broker-cert"}' not in service.metrics()
    finally:
        service.stop()
        redis.stop()
        broker.stop()
