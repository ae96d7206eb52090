"""`bellwire doctor`: a running broker and store are tried, and each fault is named with its remedy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest

from harness import Broker, RedisServer, SecureBroker, free_port, run, wait_until


class OddBroker(Broker):
    """A broker with settings of its own, and without a tap."""

    def __init__(self, directory: Path, settings: str) -> None:
        self._settings = settings
        super().__init__(directory)

    def _configuration(self) -> str:
        return super()._configuration().replace("set_tcp_nodelay true\n", "").replace("listener", self._settings + "\nlistener", 1)

    def _listen(self) -> None:
        pass


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[Broker]]:
    brokers: list[Broker] = []
    yield brokers
    for broker in brokers:
        broker.stop()


def doctor(*options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = run("doctor", "--json", *options)
    checks = json.loads(done.stdout)["checks"]
    assert len({check["name"] for check in checks}) == len(checks)
    for check in checks:
        assert check["seen"] and (check["verdict"] == "ok") == ("mend" not in check), check
    return done.returncode, {check["name"]: check for check in checks}


def verdicts(checks: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: check["verdict"] for name, check in checks.items() if check["verdict"] != "ok"}


CHECKS = {
    "connect", "packet-size", "receive-maximum", "publish", "shared-subscriptions", "message-expiry", "will", "retained",
    "small-packets", "wrong-token",
}  # fmt: skip


def test_an_open_broker_is_warned_of(tmp_path: Path, brokers: list[Broker]) -> None:
    brokers.append(OddBroker(tmp_path, "retain_available false\nset_tcp_nodelay true"))
    status, checks = doctor("--broker", brokers[0].url)
    assert set(checks) == CHECKS
    assert (status, verdicts(checks)) == (1, {"wrong-token": "warn"})
    text = run("doctor", "--broker", brokers[0].url).stdout
    assert "ok   will: " in text and "warn wrong-token: the broker checks no tokens" in text and "→ for production" in text


def test_a_broker_with_tokens_and_a_store_are_well(tmp_path: Path, brokers: list[Broker]) -> None:
    """A server's token is enough, also for wills, shared subscriptions and topics below `doctor`."""
    broker = SecureBroker(tmp_path / "broker")
    brokers.append(broker)
    token = tmp_path / "token"
    token.write_text(broker.token("backend", role="server"))
    redis = RedisServer(tmp_path / "redis", appendfsync="everysec", arguments=("--maxmemory", "1gb"))
    try:
        status, checks = doctor("--broker", broker.url, "--token-file", str(token), "--store", redis.url)
    finally:
        redis.stop()
    assert (status, verdicts(checks)) == (0, {}), checks
    assert set(checks) == CHECKS | {"store", "durability", "clock", "room"}
    token.write_text(broker.token("alice"))
    status, checks = doctor("--broker", broker.url, "--token-file", str(token))
    assert status == 2 and "--role server" in checks["connect"]["mend"]


def test_each_bad_setting_is_named(tmp_path: Path, brokers: list[Broker]) -> None:
    """The doctor leaves no retained message at the broker."""
    broker = OddBroker(tmp_path, "max_packet_size 100000\nmax_inflight_messages 5")
    brokers.append(broker)
    status, checks = doctor("--broker", broker.url)
    found = verdicts(checks)
    found.pop("small-packets", None)
    assert (status, found) == (2, {"packet-size": "fail", "receive-maximum": "warn", "retained": "warn", "wrong-token": "warn"})
    assert "max_packet_size 393216" in checks["packet-size"]["mend"]
    assert "retain_available false" in checks["retained"]["mend"]
    left: list[str] = []
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    subscribed: list[bool] = []
    client.on_message = lambda _client, _data, message: left.append(message.topic)
    client.on_subscribe = lambda *_: subscribed.append(True)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    client.subscribe("#", 1)
    wait_until(lambda: bool(subscribed), 5, "the subscription")
    client.publish("end", "1", 1).wait_for_publish(5)
    wait_until(lambda: "end" in left, 5, "all messages")
    client.loop_stop()
    assert left == ["end"]


def test_a_missing_broker_and_a_store_that_loses_calls(tmp_path: Path) -> None:
    redis = RedisServer(tmp_path / "redis", maxmemory_policy="allkeys-lru")
    try:
        redis.command("CONFIG", "SET", "appendonly", "no")
        status, checks = doctor("--broker", f"mqtt://127.0.0.1:{free_port()}", "--store", redis.url)
    finally:
        redis.stop()
    assert status == 2 and {"connect", "store-evicts", "store-keepsNothing"} <= set(verdicts(checks))
    assert "noeviction" in checks["store-evicts"]["mend"]
    status, checks = doctor("--broker", f"mqtt://127.0.0.1:{free_port()}", "--store", redis.url)
    assert status == 2 and checks["store"]["verdict"] == "fail" and str(redis.port) in checks["store"]["seen"]
    full = RedisServer(tmp_path / "full")
    try:
        full.command("CONFIG", "SET", "maxmemory", "1")
        status, checks = doctor("--broker", f"mqtt://127.0.0.1:{free_port()}", "--store", full.url)
    finally:
        full.stop()
    assert "OOM" in checks["store"]["seen"] and "script" not in checks["store"]["seen"], checks
    assert "raise maxmemory" in checks["store"]["mend"]
    refused = run("doctor", "--store", "redis://u:secret@host:x")
    assert refused.returncode == 64 and "secret" not in refused.stderr
