"""Runs the conformance suite as a stranger does, against real deployments (conformance/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import RedisServer
from harness.conformance import CONNECTIONS, SHORT, check, deployment, fleet, told
from harness.gateway import Gateway
from harness.media import LiveKit
from harness.push_providers import PushProviders
from harness.push_target import PLATFORMS
from harness.redis_cluster import RedisCluster
from harness.sentinels import SentinelFleet

_brief = pytest.mark.conformance
"""The marker of tests with short timers, which no browser may delay."""


@_brief
@pytest.mark.timeout(1200)
def test_a_deployment_with_short_timers_conforms(tmp_path: Path) -> None:
    """Two coordinators that share Redis, both MQTT versions, QoS 0."""
    redis = RedisServer(tmp_path / "redis")
    try:
        with deployment(tmp_path, redis.url, replicas=2, **SHORT) as broker:
            check(broker, "--replicas", "2", "--qos", "0", *told(SHORT))
    finally:
        redis.stop()


@_brief
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("sections", [CONNECTIONS, pytest.param("", marks=pytest.mark.long)])
def test_a_deployment_with_three_brokers_conforms(tmp_path: Path, sections: str) -> None:
    """Devices of the same user, and users of the same call, are at different brokers, with QoS 1."""
    only = ["-k", sections] if sections else []
    redis = RedisServer(tmp_path / "redis")
    try:
        with fleet(tmp_path, redis.url, 3, replicas=2, publish_qos="1", **SHORT) as brokers:
            check(brokers, "--replicas", "2", "--mqtt", "5", *told(SHORT), *only)
    finally:
        redis.stop()


@pytest.mark.stores
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("servers", [SentinelFleet, RedisCluster])
def test_a_deployment_on_servers_that_fail_over_conforms(
    tmp_path: Path, servers: type[SentinelFleet] | type[RedisCluster]
) -> None:
    store = servers(tmp_path / "fleet")
    try:
        with deployment(tmp_path, store.url, replicas=2, redis_wait_replicas="1", **SHORT) as broker:
            check(broker, "--replicas", "2", *told(SHORT))
    finally:
        store.stop()


@pytest.mark.waits
@pytest.mark.timeout(1200)
def test_a_deployment_with_the_protocols_timers_conforms(tmp_path: Path) -> None:
    """This run waits for 10 s, 30 s, 60 s and 120 s. The other runs have the tests with shorter waits."""
    with deployment(tmp_path, "sqlite") as broker:
        check(broker, "--mqtt", "5", "--slow")


@_brief
@pytest.mark.timeout(120)
def test_a_deployment_for_registered_users_without_timelines_conforms(tmp_path: Path) -> None:
    """The policies that a stranger cannot change. The lease is short only in this run: a device that renews its
    presence gets unacknowledged deliveries again, and these would disturb tests of resends."""
    with deployment(tmp_path, "sqlite", users="known", trace="off", presence_lease="6s") as broker:
        pattern = "Users|known|timeline|lease"
        check(broker, "--users", "known", "--trace", "none", "--mqtt", "5", "-k", pattern)


@_brief
@pytest.mark.timeout(120)
def test_a_deployment_with_media_servers_conforms(tmp_path: Path) -> None:
    livekit = LiveKit(tmp_path / "livekit")
    try:
        with deployment(tmp_path, "sqlite", replicas=2, media=livekit.settings()) as broker:
            said = check(broker, "--replicas", "2", "-k", "^8")
        assert "skipped" not in said or " 0 skipped" in said, said
    finally:
        livekit.stop()
    assert not livekit.problems


@_brief
@pytest.mark.timeout(120)
def test_a_deployment_with_push_conforms(tmp_path: Path) -> None:
    """The suite registers made-up addresses: the providers refuse the tokens, and no push service is at
    push.invalid."""
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
