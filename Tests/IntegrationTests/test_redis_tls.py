"""Redis with TLS: `rediss://` and `--redis-ca` (docs/redis-failover.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import UNLIMITED, Deploy, Device, RedisServer, run, talk, wait_until
from harness.cancelled_calls import CancelledCalls
from harness.credentials import make_certificates
from harness.redis_cluster import RedisCluster
from harness.sentinels import SentinelFleet


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    make_certificates(directory)
    return directory


@pytest.fixture
def server(tmp_path: Path, certificates: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path / "redis", certificates=certificates)
    yield server
    server.stop()


def test_calls_go_through_and_come_back_after_a_restart(deploy: Deploy, server: RedisServer, certificates: Path) -> None:
    world = deploy(2, store=f"rediss://127.0.0.1:{server.tls_port}", redis_ca=str(certificates / "ca.crt"), **UNLIMITED)
    try:
        alice, bob = world.phones("alice", "bob")
        call = talk(alice, bob)
        server.kill()
        for service in world.services:
            wait_until(lambda service=service: service.status("/readyz") == 503, 10, "the coordinator knows")
        server.start()
        for service in world.services:
            wait_until(lambda service=service: service.status("/readyz") == 200, 10, "the coordinator is ready again")
        assert alice.get(call)["state"] == "active"
        alice.end(call)
        # Replies of many TLS records: a history with long data.
        data = "x" * 2_000
        for _ in range(40):
            ended = alice.invite(bob, extendedData=data)
            alice.cancel(ended)
        assert len(alice.ok("call.query", limit=20)["calls"]) == 20
    finally:
        world.close()


def test_a_server_that_is_not_trusted_is_named(server: RedisServer, certificates: Path, tmp_path: Path) -> None:
    """No byte of a command goes to a server without a certificate of a trusted authority for its name."""
    other = tmp_path / "other"
    make_certificates(other)
    address = f"rediss://127.0.0.1:{server.tls_port}"
    for authorities in ([], ["--redis-ca", str(other / "ca.crt")]):
        refused = run("webhooks", "list", "--store", address, *authorities)
        assert refused.returncode != 0 and "is not to be trusted" in refused.stderr, refused
    refused = run("webhooks", "list", "--store", f"rediss://localhost.localdomain:{server.tls_port}", "--redis-ca", str(certificates / "ca.crt"))
    assert refused.returncode != 0, "the name is not in the certificate"
    taken = run("webhooks", "list", "--store", address, "--redis-ca", str(certificates / "ca.crt"))
    assert taken.returncode == 0, taken


def test_a_server_without_tls_is_named(server: RedisServer, certificates: Path) -> None:
    refused = run("webhooks", "list", "--store", f"rediss://127.0.0.1:{server.port}", "--redis-ca", str(certificates / "ca.crt"))
    assert refused.returncode != 0 and "127.0.0.1" in refused.stderr, refused
    refused = run("serve", "--store", "rediss-sentinel://u:secret@a,a/m")
    assert refused.returncode == 64 and "a:26379 stands twice" in refused.stderr and "secret" not in refused.stderr


def has_ended(device: Device, call: str) -> bool:
    answer = device.start("call.get", callID=call).wait()
    return answer["ok"] and answer["call"]["state"] == "ended"


@pytest.mark.long
@pytest.mark.parametrize("kind", [SentinelFleet, RedisCluster])
def test_a_failover_among_servers_with_tls_loses_no_answered_call(
    deploy: Deploy, certificates: Path, tmp_path: Path, kind: type[SentinelFleet] | type[RedisCluster]
) -> None:
    """`rediss-sentinel://` and `rediss-cluster://`: sentinels, masters and the servers that become known later are asked
    with TLS, and all are checked against `--redis-ca`."""
    fleet = kind(tmp_path / "redis", certificates=certificates)
    try:
        refused = run("webhooks", "list", "--store", fleet.url)
        assert refused.returncode != 0 and "is not to be trusted" in refused.stderr, refused
        world = deploy(2, store=fleet.url, redis_ca=str(certificates / "ca.crt"), redis_wait_replicas="1", **UNLIMITED)
        load = CancelledCalls(world)
        try:
            load.go_on()
            dead = fleet.master() if isinstance(fleet, SentinelFleet) else fleet.servers[0]
            assert dead is not None
            dead.kill()
            if isinstance(fleet, RedisCluster):
                wait_until(lambda: len(set(fleet.masters()) - {dead}) == 3, 30, "all servers know another master")
            else:
                wait_until(lambda: fleet.master() not in (None, dead), 30, "the sentinels name another master")
            # A master of the cluster refuses writes until a replica follows.
            dead.start()
            load.go_on()
        finally:
            load.stop()
        assert load.refusals <= {"unavailable"}
        for alice, call in load.answered:
            # Sentinels may begin another failover: requests are `unavailable` meanwhile.
            wait_until(lambda alice=alice, call=call: has_ended(alice, call), 10, f"{call} has ended")
        world.close()
    finally:
        fleet.stop()
