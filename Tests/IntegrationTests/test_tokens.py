"""Tokens (docs/protocol.md, section 1): the admission of clients, the rights of each client, the life of tokens, and
that no secret is told."""

from __future__ import annotations

import base64
import hmac
import json
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from harness import Attempt, Child, SecureBroker, Service, World, encode_user, executable, ring, run, stop_loop, wait_until
from harness.gateway import Gateway

ROOT = "bellwire/v1"
REFUSED = "Not authorized"


@pytest.fixture
def world(secure: World) -> Iterator[World]:
    yield from secure.borrow()


@pytest.fixture
def broker(secure: World) -> SecureBroker:
    assert isinstance(secure.broker, SecureBroker)
    return secure.broker


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[SecureBroker]:
    """For a test that changes its keys or its options."""
    broker = SecureBroker(tmp_path / "broker")
    yield broker
    broker.stop()


@pytest.fixture
def strict_broker(tmp_path: Path) -> Iterator[SecureBroker]:
    """The limit per second is so low that a broker on a busy machine still takes more requests than the limit, and thus
    sees a flood."""
    broker = SecureBroker(tmp_path / "broker", log_type="notice", user_rate="10/1000")
    yield broker
    broker.stop()


def refusal(broker: SecureBroker, user: str, password: str | None, client_id: str | None = None) -> str:
    """The broker's answer to a client."""
    with Attempt(broker, client_id or f"{encode_user(user)}/phone", encode_user(user), password) as attempt:
        assert attempt.reason is not None
        return attempt.reason


# ---- Admission


def test_calls_go_through_a_broker_that_checks_tokens(world: World) -> None:
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob)
    assert bob.accept(call)["call"]["endReason"] == "answered"


@pytest.mark.parametrize("options", [{"mqtt_version": 4}, {"transport": "websockets"}], ids=str)
def test_every_transport_and_version_shows_its_token(world: World, options: dict[str, Any]) -> None:
    alice, bob = world.phone("alice"), world.phone("bob", **options)
    assert bob.accept(ring(alice, bob))["ok"]


@pytest.mark.parametrize("user", ["zoë", "a/b", "50%", "a+b#c", "日本"])
def test_users_of_all_kinds_are_let_in_under_their_encoded_name(world: World, user: str) -> None:
    alice, other = world.phone("alice"), world.phone(user)
    assert other.accept(ring(alice, other))["ok"]


@pytest.mark.parametrize("algorithm", ["HS256", "RS256", "ES256", "EdDSA"])
def test_each_algorithm_is_checked(own_broker: SecureBroker, algorithm: str) -> None:
    own_broker.add_key(algorithm)
    own_broker.publish_keys()
    own_broker.restart()
    assert refusal(own_broker, "alice", own_broker.token("alice")) == "Success"
    assert refusal(own_broker, "alice", tampered(own_broker.token("alice"))) == REFUSED
    made = run("token", "--keys", str(own_broker.keys), "--user", "alice", "--device", "phone")
    assert refusal(own_broker, "alice", made.stdout.strip()) == "Success"


def tampered(token: str, part: int = 1) -> str:
    parts = token.split(".")
    text = parts[part]
    parts[part] = text[:5] + ("A" if text[5] != "A" else "B") + text[6:]
    return ".".join(parts)


def unsigned(header: dict[str, Any], claims: dict[str, Any]) -> str:
    def part(value: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part(header)}.{part(claims)}."


def signed_by_secret(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    """PyJWT refuses to take a public key for a secret; attackers do not."""
    message = unsigned(header, claims)
    code = hmac.digest(secret, message[:-1].encode(), "sha256")
    return message + base64.urlsafe_b64encode(code).rstrip(b"=").decode()


def test_what_is_no_good_token_is_refused(broker: SecureBroker) -> None:
    """Section 1: the signature, the times, and the algorithm of the key."""
    good = broker.token("alice")
    assert refusal(broker, "alice", good) == "Success"
    claims = {"sub": "alice", "aud": "bellwire", "exp": int(time.time()) + 600}
    key = broker.key_set()[0]
    public = json.dumps(json.loads(broker.published_keys.read_bytes())["keys"][0]).encode()
    foreign = jwt.PyJWK(broker.key_set()[0] | _another_es256()).key
    bad = {
        "nothing": None,
        "empty": "",
        "no token": "secret",
        "dots": "..",
        "a million bytes": "a" * 60_000,
        "expired": broker.token("alice", -1),
        "for later": broker.token("alice", nbf=int(time.time()) + 100),
        "without an end": broker.token("alice", exp=None),
        "without a user": broker.token("alice", sub=None),
        "of another user": broker.token("bob"),
        "for another device": broker.token("alice", device="web"),
        "made for something else": broker.token("alice", aud="files"),
        "made for nothing that it names": broker.token("alice", aud=None),
        "tampered claims": tampered(good),
        "tampered signature": tampered(good, 2),
        "tampered header": tampered(good, 0),
        "without its signature": good.rsplit(".", 1)[0] + ".",
        "none": unsigned({"alg": "none", "typ": "JWT"}, claims),
        "none, of the key": unsigned({"alg": "none", "typ": "JWT", "kid": key["kid"]}, claims),
        "NONE": unsigned({"alg": "nOnE"}, claims),
        "signed with what is public": signed_by_secret({"alg": "HS256"}, claims, public),
        "and under the key's name": signed_by_secret({"alg": "HS256", "kid": key["kid"]}, claims, public),
        "of a foreign key": jwt.encode(claims, foreign, "ES256"),
        "of a foreign key under the key's name": jwt.encode(claims, foreign, "ES256", {"kid": key["kid"]}),
        "of a key that is not known": broker.token("alice", header={"kid": "other"}),
        "with what must be understood": broker.token("alice", header={"crit": ["b64"], "b64": False}),
    }
    let_in = [name for name, token in bad.items() if refusal(broker, "alice", token) != REFUSED]
    assert not let_in


def _another_es256() -> dict[str, Any]:
    from cryptography.hazmat.primitives.asymmetric import ec

    return json.loads(jwt.algorithms.ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1())))


def test_issuer_and_audience_are_held(tmp_path: Path) -> None:
    broker = SecureBroker(tmp_path, issuer="https://app.example", audience="calls")
    try:
        right = {"iss": "https://app.example", "aud": "calls"}
        assert refusal(broker, "alice", broker.token("alice", **right)) == "Success"
        assert refusal(broker, "alice", broker.token("alice", **right | {"aud": ["x", "calls"]})) == "Success"
        for wrong in [{}, {"iss": "https://app.example"}, right | {"iss": "other"}, right | {"aud": "other"}]:
            assert refusal(broker, "alice", broker.token("alice", **wrong)) == REFUSED, wrong
        made = run(
            *("token", "--keys", str(broker.keys), "--user", "alice"),
            *("--issuer", "https://app.example", "--audience", "calls"),
        )
        assert refusal(broker, "alice", made.stdout.strip()) == "Success"
    finally:
        broker.stop()


def test_what_was_made_for_something_else_means_nothing_here(tmp_path: Path) -> None:
    """Section 1: other programs use the names `role` and `admin` as well; `aud` is required unless a setting gives this
    rule up."""
    elsewhere = [{"aud": aud, **claims} for aud in (None, "files") for claims in ({"role": "server"}, {"admin": True})]
    for option, answer in (({}, REFUSED), ({"accept_tokens_made_for_others": "true"}, "Success")):
        broker = SecureBroker(tmp_path / answer, **option)
        try:
            for claims in elsewhere:
                assert refusal(broker, "ops", broker.token("ops", **claims), "backend") == answer, claims
            assert refusal(broker, "ops", broker.token("ops", aud=["files", "bellwire"])) == "Success"
            assert refusal(broker, "ops", run("token", "--keys", str(broker.keys), "--user", "ops").stdout.strip()) == "Success"
        finally:
            broker.stop()


def test_nobody_puts_anothers_device_off(world: World, broker: SecureBroker) -> None:
    """Section 1: the client id is `{user}/{device}`."""
    alice = world.phone("alice")
    mallory = broker.token("mallory")
    for username in (encode_user(alice.user), "mallory"):
        with Attempt(broker, alice.client_id, username, mallory) as attempt:
            assert attempt.reason == REFUSED
    for role in ("server", "coordinator"):
        with Attempt(broker, alice.client_id, "mallory", broker.token("mallory", role=role)) as attempt:
            assert attempt.reason == REFUSED
    for client_id in ("mallory", "coordinator", "mallory/", "mallory/a/b", "Mallory/phone", "/mallory"):
        assert refusal(broker, "mallory", mallory, client_id) == REFUSED, client_id
    assert alice.ok("call.query")["calls"] == [], "she is still there"


# ---- Rights


def test_a_device_may_do_only_what_is_its_own(world: World, broker: SecureBroker) -> None:
    served = "bellwire_messages_received_total"
    earlier = _sum(world.service.metrics(), served)
    alice = world.phone("alice")
    # The answer may come before the count.
    wait_until(lambda: _sum(world.service.metrics(), served) > earlier, 10, "the count of alice's presence")
    user = World.user("mallory")
    name = encode_user(user)
    own, other = f"{name}/phone", alice.client_id
    with Attempt(broker, own, name, broker.token(user)) as mallory:
        granted = [f"{ROOT}/down/{name}", f"{ROOT}/down/{own}"]
        assert mallory.subscribe(*granted) == ["Granted QoS 1"] * 2
        denied = [
            f"{ROOT}/down/{encode_user(alice.user)}",
            f"{ROOT}/down/{other}",
            f"{ROOT}/down/+",
            f"{ROOT}/down/#",
            f"{ROOT}/up/#",
            f"{ROOT}/up/{own}",
            f"{ROOT}/presence/#",
            "#",
            "+/#",
            "$SYS/#",
            f"$share/coordinators/{ROOT}/up/#",
            f"$share/other/{ROOT}/down/{name}",
            "other",
        ]
        assert mallory.subscribe(*denied) == [REFUSED] * len(denied)

        # In another user's name, to another user, and as a retained message: no message arrives.
        before = world.service.metrics()
        request = {"type": "user.update", "id": secrets.token_hex(8), "name": "Mallory"}
        for topic in (
            f"{ROOT}/up/{other}",
            f"{ROOT}/up/{name}/web",
            f"{ROOT}/presence/{other}",
            f"{ROOT}/down/{other}",
            f"{ROOT}/down/{encode_user(alice.user)}",
            f"{ROOT}/up/{name}/phone/x",
            f"{ROOT}/up/%6Dallory/phone",
            "$SYS/broker",
        ):
            mallory.publish(topic, json.dumps(request).encode())
        mallory.publish(f"{ROOT}/up/{own}", b"{}", retain=True)
        # The service serves the device's own request after all these messages.
        mallory.publish(f"{ROOT}/up/{own}", json.dumps({"type": "call.query", "id": "mine"}).encode())
        wait_until(lambda: mallory.messages, 10, "the answer to what is its own")
        assert [json.loads(message.payload)["id"] for message in mallory.messages] == ["mine"]
        wait_until(lambda: _sum(world.service.metrics(), served) > _sum(before, served), 10, "the count of messages")
        assert _sum(world.service.metrics(), served) - _sum(before, served) == 1
        assert "name" not in alice.ok("user.query", userIDs=[alice.user])["users"][0]


def _sum(metrics: dict[str, float], name: str) -> float:
    return sum(value for key, value in metrics.items() if key.split("{")[0] == name)


def test_a_device_subscribes_to_few_filters_however_many_it_asks_for(strict_broker: SecureBroker) -> None:
    """Section 1: the user's topic, a level below this topic, and no more than 32 filters at once; a device that goes on
    asking floods."""
    down = f"{ROOT}/down/mallory"
    device = Attempt(strict_broker, "mallory/phone", "mallory", strict_broker.token("mallory"))
    assert device.subscribe(down, f"{down}/phone", f"{down}/+", f"{down}/#") == ["Granted QoS 1"] * 4
    assert device.subscribe(f"{down}/a/b", f"{down}/+/+", f"{down}/+/#", f"{down}/a/#", f"{down}/") == [REFUSED] * 5
    assert device.subscribe(*(f"{down}/d{n}" for n in range(100))) == ["Granted QoS 1"] * 28 + [REFUSED] * 72
    device.client.unsubscribe(f"{down}/d0")
    assert device.subscribe(f"{down}/d99", f"{down}/d98", down) == ["Granted QoS 1", REFUSED, "Granted QoS 1"]
    other = Attempt(strict_broker, "other/phone", "other", strict_broker.token("other"))
    for n in range(20):
        # The next packet waits for the answer to the one before: at a connection with unread packets, the end of the
        # session is a reset, and what the device was told may be lost.
        device.granted.clear()
        if not device.disconnected.is_set():
            device.client.subscribe([(f"{down}/{n}-{m}", 1) for m in range(1_000)])
        wait_until(lambda: device.granted or device.disconnected.is_set(), 30, "SUBACK, or the end of the session")
    assert other.subscribe(f"{ROOT}/down/other") == ["Granted QoS 1"]
    assert farewell(device)[0] == "flooding"
    other.close()


def test_a_user_has_so_many_connections_and_its_address_too(tmp_path: Path) -> None:
    """Section 1. A client that takes the place of its own former connection needs no room."""
    broker = SecureBroker(tmp_path, address_connections="25")
    try:
        held = [Attempt(broker, f"mallory/d{n}", "mallory", broker.token("mallory")) for n in range(21)]
        assert [attempt.is_in for attempt in held] == [True] * 20 + [False]
        assert refusal(broker, "mallory", broker.token("mallory"), "mallory/d7") == "Success"
        assert held[7].disconnected.wait(30)
        # The replaced connection has gone as well: 19.
        held += [Attempt(broker, f"u{n}/phone", f"u{n}", broker.token(f"u{n}")) for n in range(7)]
        assert [attempt.is_in for attempt in held[21:]] == [True] * 6 + [False]
        log = broker.log.read_text()
        assert "the user has 20 connections" in log and "its address has 25 connections" in log
        for attempt in held:
            attempt.close()
        assert refusal(broker, "mallory", broker.token("mallory")) == "Success"
    finally:
        broker.stop()


def test_a_will_is_held_to_the_same_rules(broker: SecureBroker, world: World) -> None:
    """A will is published when its client is gone: no client can leave a will in another's name."""
    alice = world.phone("alice")
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, "mallory/phone", protocol=mqtt.MQTTv5)
    client.username_pw_set("mallory", broker.token("mallory"))
    client.will_set(alice.presence_topic, json.dumps({"online": False, "session": alice.session}), 1)
    reasons: list[str] = []
    client.on_connect = lambda _client, _data, _flags, reason, _properties: reasons.append(str(reason))
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    wait_until(lambda: reasons, 10, "CONNACK")
    sock = client.socket()
    if sock is not None:
        sock.close()
    stop_loop(client)
    bob = world.phone("bob")
    assert bob.ok("user.query", userIDs=[alice.user])["users"][0]["online"] is True


def test_a_backend_acts_for_any_user(world: World, broker: SecureBroker) -> None:
    """Section 1: the role `server`."""
    alice = world.phone("alice")
    for claims in ({"role": "server"}, {"admin": True}):
        with Attempt(broker, "backend", "backend", broker.token("backend", **claims)) as backend:
            topic = f"{encode_user(alice.user)}/backend"
            assert backend.subscribe(f"{ROOT}/down/{topic}", f"{ROOT}/down/#") == ["Granted QoS 1"] * 2
            assert backend.subscribe(f"{ROOT}/up/#", "#") == [REFUSED] * 2
            backend.publish(f"{ROOT}/up/{topic}", json.dumps({"type": "call.query", "id": "b1"}).encode())
            wait_until(lambda: backend.messages, 10, "the answer")
            assert json.loads(backend.messages[0].payload)["ok"] is True


# ---- For how long


def test_the_welcome_says_when_the_token_ends(world: World, broker: SecureBroker) -> None:
    for version in (5, 4):
        before = int(time.time()) + 600
        alice = world.phone("alice", mqtt_version=version)
        welcome = next(message for message in alice.messages if message.type == "welcome")
        assert before * 1000 <= welcome["tokenExpiresAt"] <= (time.time() + 600) * 1000


def test_what_a_device_says_of_its_token_does_not_count(world: World, broker: SecureBroker) -> None:
    user = World.user("alice")
    with Attempt(broker, f"{user}/phone", user, broker.token(user)) as device:
        device.subscribe(f"{ROOT}/down/{user}/phone")
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = [("tokenExpiresAt", "1"), ("tokenExpiresAt", "2")]
        device.publish(f"{ROOT}/presence/{user}/phone", b'{"online":true,"session":"s"}', properties=properties)
        wait_until(lambda: device.messages, 10, "welcome")
        assert json.loads(device.messages[0].payload)["tokenExpiresAt"] > time.time() * 1000


def test_a_device_is_told_and_its_session_ends_with_its_token(world: World, broker: SecureBroker) -> None:
    """Section 1: `tokenWillExpire`; the others see a device that is lost."""
    user = World.user("alice")
    presence = f"{ROOT}/presence/{user}/phone"
    bob = world.phone("bob")
    token = broker.token(user, 6)
    ends_at = jwt.decode(token, options={"verify_signature": False})["exp"]
    device = Attempt(broker, f"{user}/phone", user, token)
    device.subscribe(f"{ROOT}/down/{user}", f"{ROOT}/down/{user}/phone")
    device.publish(presence, b'{"online":true,"session":"s"}')
    wait_until(lambda: len(device.messages) >= 2, 6, "welcome and warning")
    warnings = [json.loads(m.payload) for m in device.messages if b"tokenWillExpire" in m.payload]
    assert warnings == [{"type": "tokenWillExpire", "expiresAt": ends_at * 1000}]
    assert bob.ok("user.query", userIDs=[user])["users"][0]["online"] is True
    assert device.disconnected.wait(30)
    assert -0.1 <= time.time() - ends_at < 3
    device.close()
    assert refusal(broker, user, token) == REFUSED


def farewell(device: Attempt) -> tuple[str | None, str | None]:
    """The error code that the device was told before the disconnect, or None, and the reason of the DISCONNECT, or
    None."""
    assert device.disconnected.wait(30), "the broker ends the session"
    told = [json.loads(message.payload) for message in device.messages if b'"type":"error"' in message.payload]
    assert len(told) <= 1 and all(message["error"]["message"] for message in told)
    return (told[0]["error"]["code"] if told else None), device.farewell


@pytest.mark.alone
@pytest.mark.parametrize("transport", ["tcp", "websockets"])
@pytest.mark.parametrize("version", [mqtt.MQTTv5, mqtt.MQTTv311])
def test_a_device_is_told_why_it_is_put_off(strict_broker: SecureBroker, transport: str, version: int) -> None:
    """Section 1: the device is told the particular cause, also when the device has no subscription."""

    def connect(user: str, token: str, device: str = "phone") -> Attempt:
        attempt = Attempt(strict_broker, f"{user}/{device}", user, token, version=version, transport=transport)
        assert attempt.is_in
        return attempt

    put_off = "Administrative action" if version == mqtt.MQTTv5 else "Unspecified error"
    first, second = connect("alice", strict_broker.token("alice")), connect("alice", strict_broker.token("alice"))
    assert farewell(first) == (None, put_off), "replaced"
    assert second.subscribe(f"{ROOT}/down/alice") == ["Granted QoS 1"], "which is there"
    second.close()

    assert farewell(connect("bob", strict_broker.token("bob", 2))) == ("tokenExpired", put_off)

    mallory, web = connect("mallory", strict_broker.token("mallory")), connect("mallory", strict_broker.token("mallory"), "web")
    for _ in range(100):
        if not mallory.disconnected.is_set():
            for _ in range(1_000):
                mallory.client.publish(f"{ROOT}/up/mallory/phone", b"x", 0)
            wait_until(lambda: mallory.disconnected.is_set() or not mallory.client.want_write(), 10, "all is written")
    # The further packets of the flooding device make the broker's kernel reset the connection, and the DISCONNECT may
    # be lost.
    assert farewell(mallory)[0] == "flooding"
    assert farewell(web) == ("flooding", put_off)

    carol = connect("carol", strict_broker.token("carol"))
    strict_broker.keys.unlink()
    strict_broker.add_key("ES256")
    strict_broker.publish_keys()
    strict_broker.reload()
    assert farewell(carol) == ("tokenRevoked", put_off)
    for user, reason in ("alice", "replaced"), ("bob", "tokenExpired"), ("mallory", "flooding"), ("carol", "tokenRevoked"):
        line = f'client "{user}/phone" is put off: {reason}'
        assert (line in strict_broker.log.read_text()) == (reason != "replaced"), line


def test_a_device_that_is_lost_is_lost(world: World) -> None:
    """Section 1: its will passes."""
    alice, bob = world.phones("alice", "bob")
    alice.drop()
    wait_until(lambda: bob.ok("user.query", userIDs=[alice.user])["users"][0]["online"] is False, 10, "lost")


def test_the_will_of_an_ended_session_is_published(world: World, broker: SecureBroker) -> None:
    user = World.user("alice")
    bob = world.phone("bob")
    client = mqtt.Client(
        mqtt.CallbackAPIVersion.VERSION2, f"{user}/phone", protocol=mqtt.MQTTv5, reconnect_on_failure=False
    )
    client.username_pw_set(user, broker.token(user, 5))
    client.will_set(f"{ROOT}/presence/{user}/phone", '{"online":false,"reason":"lost","session":"s"}', 1)
    client.on_connect = lambda c, *_: c.publish(f"{ROOT}/presence/{user}/phone", '{"online":true,"session":"s"}', 1)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()

    def online() -> bool:
        answer = bob.ok("user.query", userIDs=[user])
        return bool(answer["users"]) and answer["users"][0]["online"]

    wait_until(online, 5, "online")
    wait_until(lambda: not online(), 15, "lost when its token ended")
    stop_loop(client)


def test_keys_are_replaced_while_the_broker_runs(own_broker: SecureBroker) -> None:
    """Section 1: several keys, by `kid`; SIGHUP."""
    old = own_broker.token("alice")
    session = Attempt(own_broker, "alice/phone", "alice", old)
    assert session.is_in
    own_broker.add_key("EdDSA")
    own_broker.publish_keys()
    assert refusal(own_broker, "bob", own_broker.token("bob")) == REFUSED, "not before it is told"
    _reload(own_broker, "tokens are now checked by EdDSA")
    for key in (0, 1):
        assert refusal(own_broker, "bob", own_broker.token("bob", key=key)) == "Success"
    assert not session.disconnected.is_set()

    # A file that cannot be used changes no key.
    good = own_broker.published_keys.read_bytes()
    own_broker.published_keys.write_text('{"keys": [')
    _reload(own_broker, "the keys stay as they were")
    assert refusal(own_broker, "bob", own_broker.token("bob")) == "Success"

    # The broker passes over a key that cannot be used, and names the key; the others count. A set of such keys alone
    # changes no key.
    odd = [{"kty": "EC", "crv": "P-256", "kid": "odd", "x": "AA", "y": "AA"}, {"kid": "kindless"}]
    own_broker.published_keys.write_text(json.dumps({"keys": odd + json.loads(good)["keys"]}))
    _reload(own_broker, "kid kindless: kty: missing")
    assert "a key cannot be used and is passed over: key 1, kid odd: x: expected 32 bytes" in own_broker.log.read_text()
    assert refusal(own_broker, "bob", own_broker.token("bob")) == "Success"
    own_broker.published_keys.write_text(json.dumps({"keys": odd}))
    _reload(own_broker, "the keys stay as they were")
    assert refusal(own_broker, "bob", own_broker.token("bob")) == "Success"

    # A client whose key is taken away loses its access.
    own_broker.published_keys.write_text(json.dumps({"keys": json.loads(good)["keys"][:1]}))
    _reload(own_broker, "1 clients lose their access")
    assert session.disconnected.wait(30)
    assert refusal(own_broker, "alice", old) == REFUSED
    assert refusal(own_broker, "bob", own_broker.token("bob")) == "Success"
    session.close()


def test_a_reload_drops_nobody_and_forgets_nothing(own_broker: SecureBroker, tmp_path: Path) -> None:
    """mosquitto checks all clients again: coordinators have no username, and devices have subscribed long ago."""
    token = str(own_broker.coordinator_token())
    certificate = {
        "broker_ca": str(own_broker.certs / "ca.crt"),
        "broker_cert": str(own_broker.certs / "coordinator.crt"),
        "broker_key": str(own_broker.certs / "coordinator.key"),
    }
    by_name = f"mqtts://localhost:{own_broker.coordinator_port}"
    services = [
        Service(own_broker.url, tmp_path, name="by-token", token_file=token),
        Service(by_name, tmp_path, name="by-certificate", **certificate),
    ]
    world = World(own_broker, *services)
    try:
        alice, bob = world.phones("alice", "bob")
        web = world.phone("web", transport="websockets")
        own_broker.add_key("ES256")
        own_broker.publish_keys()
        _reload(own_broker, "tokens are now checked by")
        for _ in range(6):
            assert bob.accept(ring(alice, bob))["ok"]
        assert web.ok("call.query")["calls"] == []
        alice.drop()
        wait_until(lambda: bob.ok("user.query", userIDs=[alice.user])["users"][0]["online"] is False, 10, "its will")
        for service in services:
            assert "connection lost" not in service.log.read_text()
    finally:
        world.close()
        for service in services:
            service.stop()


def _reload(broker: SecureBroker, line: str) -> None:
    place = broker.log.stat().st_size
    broker.reload()
    wait_until(lambda: line in broker.log.read_text()[place:], 20, line)


def listen(broker: SecureBroker, user: str, token: Path, output: Path, *arguments: str) -> Child:
    return Child(
        [executable(), "listen", "--as", user, "--device", "cli", "--broker", broker.url, "--token-file", str(token)]
        + ["--json", *arguments],
        stdout=output,
    )


@pytest.mark.waits
def test_the_sdk_renews_its_token_and_the_app_sees_nothing(
    world: World, broker: SecureBroker, tmp_path: Path
) -> None:
    """Section 1: a quick reconnect, and a resync without a change."""
    user = World.user("bob")
    file, output = tmp_path / "token", tmp_path / "output"
    file.write_text(broker.token(user, 8))
    first_ends = time.monotonic() + 8
    listen(broker, user, file, output, "--auto", "accept", "--after", "9s", "--once")
    wait_until(lambda: '"online"' in output.read_text(), 8, "online")
    file.write_text(broker.token(user, 600))
    alice = world.phone("alice")
    call = alice.invite(user)
    alice.expect_change(call, user, "received")
    connections = f"as {user}/cli"
    wait_until(lambda: broker.log.read_text().count(connections) == 2, 8, "it connects again")
    assert time.monotonic() < first_ends
    alice.expect_change(call, user, "accepted", 20)
    assert time.monotonic() > first_ends
    told = [json.loads(line)["event"] for line in output.read_text().splitlines()]
    assert "offline" not in told and told.count("online") == 1 and told.count("ringing") == 1, told


def test_a_client_whose_token_has_ended_asks_until_there_is_another(
    world: World, broker: SecureBroker, tmp_path: Path
) -> None:
    user = World.user("bob")
    file, output = tmp_path / "token", tmp_path / "output"
    file.write_text(broker.token(user, 6))
    phone = listen(broker, user, file, output)
    wait_until(lambda: f'"{user}/cli" at' in broker.log.read_text(), 20, "refused")
    file.write_text(broker.token(user))

    def told() -> list[str]:
        return [json.loads(line)["event"] for line in output.read_text().splitlines()]

    # The app is told of the refusal later than the broker's log.
    wait_until(lambda: told().count("online") == 2, 20, "online again")
    assert told().count("offline") == 1
    # Half of six seconds, then no more often than each second.
    assert broker.log.read_text().count(f"as {user}/cli") <= 7
    phone.kill()


def test_a_coordinator_takes_up_its_next_token(own_broker: SecureBroker, tmp_path: Path) -> None:
    """The broker puts the coordinator off when its token ends, and the coordinator reads its file again."""
    service = Service(own_broker.url, tmp_path, token_file=str(own_broker.coordinator_token(6)))
    try:
        own_broker.coordinator_token(600)
        wait_until(lambda: "broker connection lost" in service.log.read_text(), 20, "its token ends")
        service.wait_ready()
        world = World(own_broker, service)
        alice, bob = world.phones("alice", "bob")
        assert bob.accept(ring(alice, bob))["ok"]
        world.close()
    finally:
        service.stop()


# ---- Transport


@pytest.mark.waits
def test_tls_and_certificates(world: World, broker: SecureBroker, tmp_path: Path) -> None:
    """Clients and coordinators over TLS; a coordinator is let in by its certificate."""
    trusted = {"ca_certs": str(broker.certs / "ca.crt")}
    with Attempt(
        broker, "alice/phone", "alice", broker.token("alice"), port=broker.tls_port, tls=trusted
    ) as attempt:
        assert attempt.is_in
    pair = {"certfile": str(broker.certs / "coordinator.crt"), "keyfile": str(broker.certs / "coordinator.key")}
    with Attempt(broker, "coordinator-x", port=broker.coordinator_port, tls=trusted | pair) as attempt:
        assert attempt.is_in
        assert attempt.subscribe(f"$share/x/{ROOT}/up/#", "#") == ["Granted QoS 1", REFUSED]
    with Attempt(broker, "alice/phone", port=broker.coordinator_port, tls=trusted | pair) as attempt:
        assert attempt.reason == REFUSED, "a coordinator is no device"
    with pytest.raises(Exception, match="(?i)certificate|ssl|eof|reset|CONNACK"):
        Attempt(broker, "coordinator-y", port=broker.coordinator_port, tls=trusted)

    service = Service(
        f"mqtts://localhost:{broker.coordinator_port}",
        tmp_path,
        group="tls",
        broker_ca=str(broker.certs / "ca.crt"),
        broker_cert=pair["certfile"],
        broker_key=pair["keyfile"],
    )
    try:
        assert service.running
    finally:
        service.stop()


def test_the_terminal_calls_over_tls_and_trusts_nobody_else(world: World, broker: SecureBroker) -> None:
    user = World.user("carol")
    bob = world.phone("bob")
    call = ["call", bob.user, "--as", user, "--broker", f"mqtts://localhost:{broker.tls_port}", "--timeout", "1s"]
    environment = {"BELLWIRE_TOKEN": broker.token(user)}
    rung = run(*call, "--broker-ca", str(broker.certs / "ca.crt"), env=environment, timeout=20)
    assert rung.returncode == 3, rung.stdout + rung.stderr
    other = broker.directory / "other-certs"
    subprocess.run([Path(__file__).parents[2] / "scripts/dev-certs", other], check=True, capture_output=True)
    foreign = run(*call, "--broker-ca", str(other / "ca.crt"), env=environment, timeout=30)
    assert foreign.returncode == 1 and "broker" in foreign.stderr + foreign.stdout
    stranger = run(*call[:-2], "--broker-ca", str(broker.certs / "ca.crt"), timeout=20)
    assert stranger.returncode == 1 and "refused" in stranger.stderr + stranger.stdout


def test_a_token_that_lives_too_long_is_refused(tmp_path: Path) -> None:
    """The plugin and a gateway refuse the token, for devices and administrators; the tokens of coordinator and gateway
    live longer."""
    broker = SecureBroker(tmp_path / "broker", longest_token_life="60")
    life = {"keys": str(broker.keys), "longest_token_life": "60"}
    token = tmp_path / "gateway.token"
    token.write_text(broker.token("gateway", 600, role="server"))
    service = Service(broker.url, tmp_path / "service", token_file=str(broker.coordinator_token()))
    gateway = Gateway(tmp_path, broker.url, service.store, token_file=str(token), **life).start()
    try:
        with Attempt(broker, "alice/phone", "alice", broker.token("alice", 50)) as alice:
            assert alice.is_in
        for claims in ({}, {"iat": int(time.time()) - 100}, {"role": "device"}):
            with Attempt(broker, "alice/phone", "alice", broker.token("alice", 120 if "iat" not in claims else 10, **claims)) as alice:
                assert not alice.is_in, claims
        wait_until(lambda: "lives longer than 60 s" in broker.log.read_text(), 10, "the broker's log names the reason")
        for ttl, status in ((50, 200), (600, 401)):
            answer = gateway.ask("GET", "/v1/admin/audit", token=broker.token("olivia", ttl, role="admin"))
            assert answer.status == status, answer
        made = gateway.post("/v1/tokens", {"userID": "alice", "ttl": 600}).ok(201)
        assert made["expiresAt"] - time.time() * 1000 <= 60_000
        with Attempt(broker, "alice/phone", "alice", made["token"]) as alice:
            assert alice.is_in
    finally:
        gateway.stop()
        service.stop()
        broker.stop()


# ---- Faults are named without secrets


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keys": None}, "plugin_opt_keys FILE is missing"),
        ({"keys": "/nowhere/keys.json"}, "/nowhere/keys.json: No such file or directory"),
        ({"topic_root": "a/#"}, "plugin_opt_topic_root"),
        ({"isuer": "x"}, "plugin_opt_isuer: unknown option"),
        ({"user_connections": "-1"}, "plugin_opt_user_connections"),
        ({"address_connections": "many"}, "plugin_opt_address_connections"),
        ({"longest_token_life": "1h"}, "plugin_opt_longest_token_life"),
        ({"accept_tokens_made_for_others": "no"}, "plugin_opt_accept_tokens_made_for_others"),
        ({"accept_tokens_made_for_others": "true", "audience": "x"}, "plugin_opt_audience"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_broker_that_cannot_check_does_not_start(
    tmp_path: Path, options: dict[str, str | None], message: str
) -> None:
    broker = SecureBroker(tmp_path, start=False, **{k: v for k, v in options.items() if k != "keys" and v})
    configuration = broker._configuration()
    if "keys" in options:
        given = f"plugin_opt_keys {options['keys']}" if options["keys"] else ""
        configuration = re.sub(r"plugin_opt_keys .*", given, configuration)
    path = tmp_path / "broken.conf"
    path.write_text(configuration)
    mosquitto = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    ended = subprocess.run([mosquitto, "-c", str(path)], capture_output=True, text=True, timeout=60)
    assert ended.returncode != 0
    assert f"bellwire: {message}" in ended.stderr + ended.stdout


def test_keys_and_tokens_from_the_command_line(tmp_path: Path) -> None:
    keys, public = tmp_path / "keys.json", tmp_path / "public.json"
    assert run("keys", "generate", "--out", str(keys)).returncode == 0
    assert keys.stat().st_mode & 0o777 == 0o600
    assert run("keys", "public", "--keys", str(keys), "--out", str(public)).returncode == 0
    assert "d" not in json.loads(public.read_bytes())["keys"][0]
    again = run("keys", "generate", "--out", str(keys))
    assert again.returncode == 64 and "--add" in again.stderr
    assert run("keys", "generate", "--out", str(keys), "--algorithm", "EdDSA", "--add").returncode == 0
    assert [key["kty"] for key in json.loads(keys.read_bytes())["keys"]] == ["OKP", "EC"]

    for arguments, audience in ((), "bellwire"), (("--audience", "a"), "a"), (("--audience", ""), None):
        token = run("token", "--keys", str(keys), "--user", "zoë", *arguments)
        claims = jwt.decode(token.stdout.strip(), options={"verify_signature": False})
        assert claims.get("aud") == audience
    token = run(
        *("token", "--keys", str(keys), "--user", "zoë", "--device", "web", "--ttl", "2h"),
        *("--issuer", "i", "--audience", "a", "--role", "server"),
    )
    claims = jwt.decode(
        token.stdout.strip(), jwt.PyJWK(json.loads(keys.read_bytes())["keys"][0]).key, ["EdDSA"], audience="a", issuer="i"
    )
    assert claims["sub"] == "zoë" and claims["device"] == "web" and claims["role"] == "server"
    assert 7190 < claims["exp"] - time.time() <= 7200

    for arguments, said in [
        (["token", "--keys", str(public), "--user", "a"], "no private key"),
        (["token", "--keys", str(tmp_path / "none"), "--user", "a"], "No such file"),
        (["token", "--user", "a"], "--keys"),
        (["token", "--keys", str(keys), "--user", "a", "--role", "king"], "device, server, coordinator"),
        (["token", "--keys", str(keys), "--user", "a", "--ttl", "0s"], "--ttl"),
        (["keys", "generate", "--out", str(tmp_path / "no/such/keys.json")], "cannot be written"),
        (["keys", "sell"], "expected generate, public, list, add, remove or rotate"),
    ]:
        refused = run(*arguments)
        assert refused.returncode in (1, 64) and said in refused.stderr, (arguments, refused.stderr)
    assert run("keys", "generate", "--out", str(tmp_path / "hs.json"), "--algorithm", "HS256").returncode == 0
    secret = run("keys", "public", "--keys", str(tmp_path / "hs.json"))
    assert secret.returncode == 64 and json.loads((tmp_path / "hs.json").read_bytes())["keys"][0]["k"] not in secret.stderr


def test_no_secret_reaches_a_log_a_metric_or_a_core(secure: World, broker: SecureBroker) -> None:
    """After all that the tests of this module did."""
    told = broker.log.read_text() + secure.service.log.read_text() + secure.service.get("/metrics")[1]
    assert "eyJ" not in told, "a token begins like this"
    for key in broker.key_set():
        assert key["d"] not in told
    for pid in (broker.pid, secure.service.pid):
        limits = Path(f"/proc/{pid}/limits").read_text()
        assert re.search(r"Max core file size\s+0\s+0\s", limits)
        assert b"eyJ" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert executable() in Path(f"/proc/{secure.service.pid}/cmdline").read_text()
