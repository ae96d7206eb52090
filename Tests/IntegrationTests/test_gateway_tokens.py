"""docs/backend.md, Tokens: the tokens that a gateway makes, the tokens that a gateway takes, and the gateway's own
token."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest

from harness import Attempt, Device, SecureBroker, Service, World, encode_user, ring, run, wait_until
from harness.gateway import Gateway


class Secure(World):
    """A deployment that checks tokens, with a gateway that makes tokens."""

    def __init__(self, directory: Path) -> None:
        self.secure = SecureBroker(directory / "broker")
        token = self.secure.coordinator_token()
        super().__init__(self.secure, Service(self.secure.url, directory / "service", token_file=str(token)))
        self.token_file = directory / "gateway.token"
        self.renew()
        self.gateway = Gateway(
            directory, self.secure.url, self.service.store, keys=str(self.secure.keys), token_file=str(self.token_file)
        ).start()

    def renew(self, ttl: float = 600) -> None:
        self.token_file.write_text(self.secure.token("gateway", ttl, role="server") + "\n")

    def stop(self) -> None:
        self.close()
        self.gateway.stop()
        self.service.stop()
        self.secure.stop()


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    secure = Secure(tmp_path_factory.mktemp("secure"))
    yield secure
    secure.stop()


@pytest.mark.parametrize("name", ["alice", "a/b", "zoë 50%"])
def test_a_device_connects_with_a_token_that_the_gateway_made(secure: Secure, name: str) -> None:
    user = secure.user(name)
    made = secure.gateway.post("/v1/tokens", {"userID": user, "device": "phone", "ttl": 100})
    body = made.ok(201)
    assert made.headers["cache-control"] == "no-store"
    claims = jwt.decode(body["token"], options={"verify_signature": False})
    assert (claims["sub"], claims["device"], claims.get("role")) == (user, "phone", None)
    assert claims["aud"] in ("bellwire", ["bellwire"])
    assert body["expiresAt"] == claims["exp"] * 1000
    assert 95_000 < body["expiresAt"] - time.time() * 1000 <= 100_000
    phone, bob = Device(secure.broker, user), secure.phone("bob")
    phone.open(password=body["token"])
    phone.come_online()
    assert phone.accept(ring(bob, phone))["ok"]
    welcome = phone.expect_type("welcome", session=phone.session)
    assert welcome["tokenExpiresAt"] == body["expiresAt"]
    phone.close()
    other = f"{encode_user(user)}/web"
    with Attempt(secure.broker, other, encode_user(user), body["token"]) as attempt:
        assert not attempt.is_in


def test_a_token_without_a_device_is_good_for_each(secure: Secure) -> None:
    token = secure.gateway.post("/v1/tokens", {"userID": "carol"}).ok(201)
    assert 3_590_000 < token["expiresAt"] - time.time() * 1000 <= 3_600_000
    for device in ("phone", "web"):
        with Attempt(secure.broker, f"carol/{device}", "carol", token["token"]) as attempt:
            assert attempt.is_in


def test_a_devices_token_is_none_of_a_backend(secure: Secure) -> None:
    """The gateway makes no token for the name under which backends act, either."""
    token = secure.gateway.post("/v1/tokens", {"userID": "carol"}).ok(201)["token"]
    secure.gateway.get("/v1/users/carol/calls", token=token).problem(403, "forbidden")
    assert "device" in secure.gateway.post("/v1/tokens", {"userID": "carol", "device": "server"}).problem(400, "badRequest")["detail"]


def test_a_gateway_rings_through_a_broker_that_checks_tokens(secure: Secure) -> None:
    alice, bob = secure.phones("alice", "bob")
    call = secure.gateway.invite(alice, bob, mode="advanced")
    bob.expect("call.invited", call)
    alice.expect("call.created", call)
    assert secure.gateway.on_call(call, "accept", bob).ok()["call"]["state"] == "active"
    secure.gateway.on_call(call, "end", alice).ok()


def test_the_gateways_own_token_is_read_again(tmp_path: Path) -> None:
    """When the token ends, the broker disconnects the gateway, and the gateway comes back with the token that the file
    has then."""
    secure = Secure(tmp_path)
    try:
        secure.gateway.stop()
        secure.renew(ttl=6)
        secure.gateway.start()
        wait_until(lambda: secure.gateway.get("/readyz").status == 503, 20, "the token has ended")
        assert "Not authorized" in wait_until(
            lambda: t if "Not authorized" in (t := secure.gateway.get("/readyz").raw.decode()) else None, 20, "it is refused"
        )
        secure.renew()
        wait_until(lambda: secure.gateway.get("/readyz").status == 200, 30, "it is back")
        secure.gateway.invite("alice", secure.phone("bob"))
    finally:
        secure.stop()


def test_with_public_keys_it_makes_no_tokens(secure: Secure, tmp_path: Path) -> None:
    gateway = Gateway(
        tmp_path, secure.secure.url, secure.service.store, keys=str(secure.secure.published_keys), signing=secure.secure.keys,
        token_file=str(secure.token_file),
    ).start()  # fmt: skip
    try:
        assert "no private key" in gateway.post("/v1/tokens", {"userID": "alice"}).problem(501, "notImplemented")["detail"]
        gateway.post("/v1/tokens", {"userID": "alice"}, token=None).problem(401, "unauthorized")
        gateway.get("/v1/users/alice/calls").ok()
    finally:
        gateway.stop()


def test_keys_that_change_count_while_it_runs(secure: Secure, tmp_path: Path) -> None:
    """A new key counts, a removed key does not, and a file that cannot be read changes no key."""
    keys = tmp_path / "keys.json"
    gateway = Gateway(
        tmp_path, secure.secure.url, secure.service.store, keys=str(keys), token_file=str(secure.token_file)
    ).start()
    try:
        path, first = "/v1/users/alice/calls", gateway.token
        gateway.get(path, token=first).ok()
        old = json.loads(keys.read_bytes())
        added = run("keys", "generate", "--out", str(keys), "--algorithm", "EdDSA", "--add")
        assert added.returncode == 0, added.stderr
        second = gateway.make_token(role="server")
        assert jwt.get_unverified_header(first)["kid"] != jwt.get_unverified_header(second)["kid"]
        wait_until(lambda: gateway.get(path, token=second).status == 200, 15, "the new key counts")
        gateway.get(path, token=first).ok()

        whole = keys.read_bytes()
        keys.write_text("{")
        wait_until(lambda: gateway.get(path, token=second).ok() and "cannot be read" in gateway.log.read_text(), 15, "it says so")
        gateway.get(path, token=first).ok()
        keys.unlink()
        gateway.get(path, token=second).ok()

        both = json.loads(whole)["keys"]
        odd = [{"kty": "oct", "kid": "short", "k": "c2hvcnQ"}, {"kty": "RSA", "kid": both[0]["kid"], "n": "AQAB==", "e": "AQAB"}]
        keys.write_text(json.dumps({"keys": odd + both}))
        names = ("passed over", "kid short: k:", f"kid {both[0]['kid']}: n:")

        def is_told() -> bool:
            gateway.get(path, token=first).ok()
            return all(name in gateway.log.read_text() for name in names)

        wait_until(is_told, 15, "it names what it cannot use")
        gateway.get(path, token=first).ok()
        gateway.get(path, token=second).ok()
        # The gateway also starts with the odd keys; a command that added a key would lose the odd keys.
        gateway.kill()
        gateway.start()
        gateway.get(path, token=first).ok()
        added = run("keys", "generate", "--out", str(keys), "--add")
        assert added.returncode != 0 and "kid short" in added.stderr

        keys.write_text(json.dumps({"keys": [key for key in both if key["kid"] != old["keys"][0]["kid"]]}))
        wait_until(lambda: gateway.get(path, token=first).status == 401, 15, "the old key counts no longer")
        gateway.get(path, token=second).ok()
    finally:
        gateway.stop()


def test_issuer_and_audience_are_held_and_given(secure: Secure, tmp_path: Path) -> None:
    gateway = Gateway(
        tmp_path, secure.secure.url, secure.service.store, token_file=str(secure.token_file), issuer="https://app.example", audience="calls"
    ).start()
    try:
        path, right = "/v1/users/alice/calls", {"role": "server", "iss": "https://app.example", "aud": "calls"}
        good = gateway.make_token(**right)
        gateway.get(path, token=good).ok()
        for wrong in ({"iss": "other"}, {"aud": "bellwire"}):
            gateway.get(path, token=gateway.make_token(**(right | wrong))).problem(401, "unauthorized")
        token = gateway.post("/v1/tokens", {"userID": "alice"}, token=good).ok(201)["token"]
        claims = jwt.decode(token, options={"verify_signature": False})
        assert claims["iss"] == "https://app.example" and claims["aud"] in ("calls", ["calls"])
    finally:
        gateway.stop()


def test_nothing_secret_is_logged(secure: Secure) -> None:
    made = secure.gateway.post("/v1/tokens", {"userID": "dave"}).ok(201)["token"]
    log = secure.gateway.log.read_text()
    for secret in (made, secure.gateway.token, secure.token_file.read_text().strip(), secure.secure.key_set()[0]["d"]):
        assert secret not in log


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({"keys": "/nowhere/keys.json"}, "keys.json"),
        ({"http_cert": "/nowhere/cert.pem"}, "cert.pem"),
        ({"name": "a b"}, "--name"),
        ({"broker": "http://x"}, "--broker"),
        ({"http_connections": "0"}, "--http-connections 0"),
        ({"http_streams": "20001"}, "--http-streams 20001"),
        ({"http_address_connections": "-1"}, "--http-address-connections"),
        ({"http_idle": "60"}, "--http-idle 60"),
    ],
)
def test_what_is_wrong_stops_the_start(tmp_path: Path, secure: Secure, flags: dict[str, str], reason: str) -> None:
    store = f"sqlite:{tmp_path}/a.db"
    arguments = {"keys": str(secure.secure.keys), "http": "127.0.0.1:0", "broker": secure.secure.url, "store": store} | flags
    words = [word for name, value in arguments.items() for word in ("--" + name.replace("_", "-"), value)]
    done = run("gateway", *words)
    assert done.returncode != 0 and reason in done.stderr, done.stderr
