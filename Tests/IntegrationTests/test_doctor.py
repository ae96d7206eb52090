"""`bellwire doctor`: a running broker and store are tried, and each fault is named with its remedy."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import paho.mqtt.client as mqtt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness import Broker, RedisServer, SecureBroker, free_port, run, wait_until
from harness.http2 import Reply
from harness.media import LiveKit
from harness.push_providers import PushProviders
from harness.receiver import Receiver


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


def undelayed(*options: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Examines again while this machine is so busy that answers take as long as at a broker that holds small packets back."""

    def quick() -> tuple[int, dict[str, dict[str, Any]]] | None:
        status, checks = doctor(*options)
        small = [check for name, check in checks.items() if name.startswith("small-packets")]
        return (status, checks) if all(check["verdict"] == "ok" for check in small) else None

    return wait_until(quick, 40, "the broker holds no small packets back")


def verdicts(checks: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: check["verdict"] for name, check in checks.items() if check["verdict"] != "ok"}


CHECKS = {
    "connect", "packet-size", "receive-maximum", "publish", "largest-message", "shared-subscriptions", "message-expiry", "will", "retained",
    "small-packets", "wrong-token",
}  # fmt: skip


def test_an_open_broker_is_warned_of(tmp_path: Path, brokers: list[Broker]) -> None:
    brokers.append(OddBroker(tmp_path, "retain_available false\nset_tcp_nodelay true"))
    status, checks = undelayed("--broker", brokers[0].url)
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
        status, checks = undelayed("--broker", broker.url, "--token-file", str(token), "--store", redis.url)
    finally:
        redis.stop()
    assert (status, verdicts(checks)) == (0, {}), checks
    assert set(checks) == CHECKS | {"store", "durability", "clock", "room"}
    assert ", Redis " in checks["store"]["seen"]
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
    limits = {"packet-size": "fail", "largest-message": "fail", "receive-maximum": "warn"}
    assert (status, found) == (2, limits | {"retained": "warn", "wrong-token": "warn"})
    assert "max_packet_size 393216" in checks["packet-size"]["mend"]
    assert "max_packet_size 393216" in checks["largest-message"]["mend"]
    assert "retain_available false" in checks["retained"]["mend"]
    left: list[str] = []
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    subscribed: list[bool] = []
    client.on_message = lambda _client, _data, message: left.append(message.topic)
    client.on_subscribe = lambda *_: subscribed.append(True)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    client.subscribe("#", 1)
    wait_until(lambda: bool(subscribed), 10, "the subscription")
    client.publish("end", "1", 1).wait_for_publish(5)
    wait_until(lambda: "end" in left, 10, "all messages")
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


def test_a_gateway_with_a_token_of_its_own_is_tried_too(tmp_path: Path, brokers: list[Broker]) -> None:
    """The tokens come from a settings file. The token of one object never goes with the broker of another object."""
    secure = SecureBroker(tmp_path / "broker")
    brokers.append(secure)
    files = {name: tmp_path / f"{name}.token" for name in ("coordinator", "gateway", "bad")}
    files["coordinator"].write_text(secure.token("coordinator", role="coordinator"))
    files["gateway"].write_text(secure.token("gateway", role="server"))
    files["bad"].write_text("no token")
    config = tmp_path / "bellwire.json"

    def tried(settings: dict[str, Any]) -> tuple[int, dict[str, dict[str, Any]]]:
        config.write_text(json.dumps({"broker": secure.url} | settings))
        return undelayed("--config", str(config))

    both = {"serve": {"token-file": str(files["coordinator"])}, "gateway": {"token-file": str(files["gateway"])}}
    status, checks = tried(both)
    assert (status, set(checks)) == (0, CHECKS | {f"{name}@gateway" for name in CHECKS}), checks
    status, checks = tried(both | {"gateway": {"token-file": str(files["bad"])}})
    assert status == 2 and checks["connect"]["verdict"] == "ok" and checks["connect@gateway"]["verdict"] == "fail", checks
    status, checks = tried({"token-file": str(files["gateway"])})
    assert (status, set(checks)) == (0, CHECKS), checks
    for object_ in ("serve", "gateway"):
        # The other process has no part in this file.
        status, checks = tried({object_: {"token-file": str(files["gateway"])}})
        assert (status, set(checks)) == (0, CHECKS), checks
    status, checks = tried({"serve": {}, "gateway": {"token-file": str(files["gateway"])}})
    assert status == 2 and checks["connect"]["verdict"] == "fail" and checks["connect@gateway"]["verdict"] == "ok", checks


def test_each_broker_of_a_list_is_tried(tmp_path: Path, brokers: list[Broker]) -> None:
    brokers += [OddBroker(tmp_path / "a", "max_packet_size 100000"), OddBroker(tmp_path / "b", "message_size_limit 100000")]
    status, checks = doctor("--broker", ",".join(broker.url for broker in brokers))
    small, cut = (f"127.0.0.1:{broker.port}" for broker in brokers)
    assert set(checks) == {f"{name}@{broker}" for name in CHECKS for broker in (small, cut)}
    assert status == 2 and checks[f"packet-size@{small}"]["verdict"] == "fail"
    assert (checks[f"packet-size@{cut}"]["verdict"], checks[f"largest-message@{cut}"]["verdict"]) == ("ok", "fail")
    refused = run("doctor", "--broker", f"{brokers[0].url},{brokers[0].url}")
    assert refused.returncode == 64 and "named twice" in refused.stderr


def test_what_the_settings_lead_to_is_tried(tmp_path: Path, brokers: list[Broker]) -> None:
    """The settings of `serve` and `gateway` come from one file. The trial pushes to no device, and
    sends no event."""
    brokers.append(Broker(tmp_path / "broker"))
    providers, receiver, media = (kind(tmp_path / kind.__name__) for kind in (PushProviders, Receiver, LiveKit))
    made = replace(providers.target_of("doctor", "doctor", "apns"), token="0" * 64)
    providers.targets[made.token] = made
    config = tmp_path / "bellwire.json"
    config.write_text(
        json.dumps(
            {
                "broker": brokers[0].url,
                "serve": {"push": str(providers.settings()), "media": media.settings(), "request-rate": "20/200"},
                "gateway": {"webhooks": str(receiver.settings()), "http-cert": str(receiver.directory / "broker.crt")},
            }
        )
    )
    sent = {"push", "push-default-apns", "push-default-fcm", "push-default-webPush", "webhooks", "webhook-app", "media", "media-sfu"}
    _, checks = doctor("--config", str(config))
    assert set(checks) == CHECKS | sent | {"certificate-http-cert"}
    assert {name: check for name, check in checks.items() if name in sent and check["verdict"] != "ok"} == {}
    assert receiver.attempts == [] and media.problems == []
    assert [(each.method, each.status) for each in media.asked] == [("DeleteRoom", 404)]
    # The names of calls' rooms have at most 128 bytes.
    assert len(media.asked[0].body["room"]) > 128
    media.judge = lambda _method, _body: 401
    status, checks = doctor("--config", str(config))
    assert status == 2 and checks["media-sfu"]["verdict"] == "fail" and "401" in checks["media-sfu"]["seen"], checks["media-sfu"]
    assert "keyFile" in checks["media-sfu"]["mend"]
    providers.always(made, Reply(403, {"reason": "InvalidProviderToken"}))
    providers.tokens.faults = [Reply(401)]
    receiver.stop()
    media.stop()
    status, checks = doctor("--config", str(config))
    failed = {name for name in sent if checks[name]["verdict"] == "fail"}
    assert status == 2 and failed == {"push-default-apns", "push-default-fcm", "webhook-app", "media-sfu"}, checks
    assert "InvalidProviderToken" in checks["push-default-apns"]["seen"] and "no access token" in checks["push-default-fcm"]["seen"]
    _, checks = doctor("--config", str(config), "--deliver", "false")
    assert set(checks) & sent == {"push", "webhooks", "media"}, "other processes reach the servers"
    settings = json.loads(config.read_text())
    settings["serve"]["deliver"] = False
    config.write_text(json.dumps(settings))
    _, checks = doctor("--config", str(config))
    assert set(checks) & sent == {"push", "webhooks", "webhook-app", "media"}, "gateways deliver, and coordinators do not"
    providers.close()
    config.write_text(json.dumps({"broker": brokers[0].url, "serve": {"webhooks": str(config)}}))
    _, checks = doctor("--config", str(config))
    assert checks["webhooks"]["verdict"] == "fail" and "unknown field" in checks["webhooks"]["seen"]


@pytest.mark.parametrize(("days", "verdict"), [(13, "warn"), (15, "ok"), (-1, "fail")])
def test_certificates_are_warned_of_in_their_last_14_days(tmp_path: Path, days: int, verdict: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=days, minutes=1))
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (tmp_path / "own.crt").write_bytes(certificate)
    (tmp_path / "own.key").write_text("no certificate")
    _, checks = doctor("--broker", f"mqtt://127.0.0.1:{free_port()}", "--devices-cert", str(tmp_path / "own.crt"))
    assert checks["certificate-devices-cert"]["verdict"] == verdict
    _, checks = doctor("--broker", f"mqtt://127.0.0.1:{free_port()}", "--devices-cert", str(tmp_path / "own.key"))
    assert checks["certificate-devices-cert"]["verdict"] == "fail"


def test_the_mode_of_a_file_is_seen_before_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "calls.db"
    path.touch()
    path.chmod(0o644)
    options = ("--broker", f"mqtt://127.0.0.1:{free_port()}", "--store", f"sqlite:{path}")
    _, checks = doctor(*options)
    assert checks["file-mode"]["verdict"] == "warn" and "(644)" in checks["file-mode"]["seen"]
    assert checks["store"]["seen"].count("SQLite 3") == 1
    assert os.stat(path).st_mode & 0o777 == 0o600, "opening the store makes the file private"
    _, checks = doctor(*options)
    assert checks["file-mode"]["verdict"] == "ok"
