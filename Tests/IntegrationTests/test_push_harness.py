"""The fake providers of the push tests find every fault of a push: a correct push for each provider, and each
mistake."""

from __future__ import annotations

import json
import socket
import ssl
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode

import h2.connection
import h2.events
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from harness.device import Device
from harness.http2 import Reply
from harness.push_providers import PushProviders
from harness.push_target import PUBLIC_URL, Target, _derive, base64url, point

SALT = bytes(range(16))


class Client:
    """A connection with a single request at a time."""

    def __init__(self, providers: PushProviders, port: int) -> None:
        context = ssl.create_default_context(cafile=str(providers.directory / "ca.crt"))
        context.set_alpn_protocols(["h2"])
        self._socket = context.wrap_socket(socket.create_connection(("127.0.0.1", port), 5), server_hostname="localhost")
        self._h2 = h2.connection.H2Connection()
        self._h2.initiate_connection()

    def post(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Status and body; 0 when the stream or the connection was cut."""
        stream = self._h2.get_next_available_stream_id()
        named = {":method": "POST", ":scheme": "https", ":authority": "localhost", ":path": path} | headers
        self._h2.send_headers(stream, list(named.items()))
        self._h2.send_data(stream, body, end_stream=True)
        self._socket.sendall(self._h2.data_to_send())
        status, answer = 0, b""
        while data := self._socket.recv(65536):
            for event in self._h2.receive_data(data):
                match event:
                    case h2.events.ResponseReceived():
                        status = int(dict(event.headers)[b":status"])
                    case h2.events.DataReceived():
                        answer += event.data
                        self._h2.acknowledge_received_data(event.flow_controlled_length, stream)
                    case h2.events.StreamEnded():
                        return status, answer
                    case h2.events.StreamReset() | h2.events.ConnectionTerminated():
                        return 0, b""
            self._socket.sendall(self._h2.data_to_send())
        return 0, b""


@pytest.fixture
def providers(tmp_path: Path) -> Iterator[PushProviders]:
    providers = PushProviders(tmp_path)
    providers.settings()
    yield providers
    providers.close()


def made(providers: PushProviders, platform: str) -> Target:
    return providers.target(cast(Device, SimpleNamespace(user="bob", device="phone")), platform)


def content(kind: str = "ring", **fields: Any) -> dict[str, Any]:
    now = int(time.time() * 1000)
    told = {"kind": kind, "callID": "c1", "revision": 1, "inviter": "alice", "mode": "common", "createdAt": now}
    link = f"{PUBLIC_URL}/v1/ring/c1?user=bob&device=phone&key={base64url(SALT)}"
    return told | {"expiresAt": now + 60_000, "title": "alice", "body": "Call", "check": link} | ({"expiresIn": 60_000} if kind == "ring" else {}) | fields


def apns(target: Target, change: Callable[[dict[str, str], dict[str, Any]], object] = lambda *_: None) -> tuple[str, dict[str, str], bytes]:
    app = target.app
    token = jwt.encode({"iss": app.team_id, "iat": int(time.time())}, app.apns_key, "ES256", {"kid": app.key_id, "typ": None})
    told = content()
    headers = {
        "authorization": f"bearer {token}",
        "apns-topic": f"{app.bundle}.voip",
        "apns-push-type": "voip",
        "apns-priority": "10",
        "apns-expiration": str(told["expiresAt"] // 1000),
        "apns-id": str(uuid.uuid4()),
    }
    body = {"aps": {}, "bellwire": told}
    change(headers, body)
    return f"/3/device/{target.token}", headers, json.dumps(body).encode()


def test_apns_takes_what_is_right_and_tells_what_is_not(providers: PushProviders) -> None:
    target = made(providers, "apnsVoIP")
    client = Client(providers, providers.apns.port)
    request = apns(target)
    assert client.post(*request)[0] == 200
    assert client.post(*request)[0] == 200, "the same again, under the same id"
    assert providers.ids(target, "ring", "c1") == {request[1]["apns-id"]: 2}
    assert not providers.problems

    def other_key(headers: dict[str, str], _: dict[str, Any]) -> None:
        claims, head = {"iss": target.app.team_id, "iat": int(time.time())}, {"kid": target.app.key_id}
        headers["authorization"] = "bearer " + jwt.encode(claims, ec.generate_private_key(ec.SECP256R1()), "ES256", head)

    def old(headers: dict[str, str], _: dict[str, Any]) -> None:
        claims, head = {"iss": target.app.team_id, "iat": int(time.time()) - 3000}, {"kid": target.app.key_id}
        headers["authorization"] = "bearer " + jwt.encode(claims, target.app.apns_key, "ES256", head)

    mistakes: list[Callable[[dict[str, str], dict[str, Any]], object]] = [
        other_key,
        old,
        lambda headers, _: headers.update({"apns-topic": target.app.bundle}),
        lambda headers, _: headers.update({"apns-push-type": "alert"}),
        lambda headers, _: headers.update({"apns-priority": "5"}),
        lambda headers, _: headers.update({"apns-expiration": "0"}),
        lambda headers, _: headers.update({"apns-id": "1"}),
        lambda headers, _: headers.update({"apns-collapse-id": "c1"}),
        lambda _, body: body.update({"aps": {"alert": {}}}),
        lambda _, body: body["bellwire"].update({"kind": "stop"}),
        lambda _, body: body["bellwire"].update({"kind": "missed"}),
        lambda _, body: body["bellwire"].update({"media": None}),
        lambda _, body: body["bellwire"].update({"payload": "x" * 5000}),
        lambda _, body: body["bellwire"].update({"check": body["bellwire"]["check"].replace("bob", "eve")}),
        lambda _, body: body["bellwire"].pop("check"),
        lambda _, body: body["bellwire"].pop("expiresIn"),
    ]
    for number, mistake in enumerate(mistakes, 1):
        assert Client(providers, providers.apns.port).post(*apns(target, mistake))[0] == 400, f"mistake {number}"
        assert len(providers.problems) == number
    assert client.post("/3/device/unknown", *request[1:])[0] == 400
    assert client.post(*apns(target))[0] == 400, "another provider token, too soon"


def access(providers: PushProviders, client: Client, **changes: Any) -> tuple[int, bytes]:
    app = providers.apps[0]
    now = int(time.time())
    claims = {"iss": app.account, "scope": "https://www.googleapis.com/auth/firebase.messaging", "aud": providers.tokens.audience}
    claims |= {"iat": now, "exp": now + 3600} | changes
    assertion = jwt.encode(claims, app.account_key, "RS256", {"kid": app.account_key_id})
    form = urlencode({"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion})
    return client.post("/token", {"content-type": "application/x-www-form-urlencoded"}, form.encode())


def test_fcm_takes_what_is_right_and_tells_what_is_not(providers: PushProviders) -> None:
    target = made(providers, "fcm")
    client = Client(providers, providers.fcm.port)
    for wrong in ({"scope": "x"}, {"aud": "https://elsewhere"}, {"iss": "x"}, {"exp": int(time.time()) + 7200}):
        assert access(providers, client, **wrong)[0] == 400
    providers.problems.clear()
    status, given = access(providers, client)
    assert status == 200
    path = f"/v1/projects/{target.app.project}/messages:send"
    headers = {"authorization": f"Bearer {json.loads(given)['access_token']}", "content-type": "application/json"}

    def message(told: dict[str, Any], ttl: str = "59s", **fields: Any) -> bytes:
        android = {"priority": "HIGH", "ttl": ttl}
        body = {"token": target.token, "data": {"bellwire": json.dumps(told)}, "android": android} | fields
        return json.dumps({"message": body}).encode()

    shown = {"title": "alice", "body": "Call"}
    assert client.post(path, headers, message(content("missed", callID="c2", check=f"{PUBLIC_URL}/v1/ring/c2?user=bob&device=phone&key={base64url(SALT)}"), "86400s", notification=shown))[0] == 200
    assert client.post(path, headers, message(content()))[0] == 200
    assert client.post(path, headers, message(content("missed"), "86400s"))[0] == 200
    assert not providers.problems
    for wrong in (
        message(content("missed"), "86400s", notification=shown),
        message(content(), notification=shown),
        message(content(), "70s"),
        message(content(), "0s"),
        message(content(payload="x" * 4096)),
        message(content(), token="unknown"),
    ):
        assert client.post(path, headers, wrong)[0] == 400
    assert len(providers.problems) == 6
    providers.tokens.revoke()
    assert client.post(path, headers, message(content()))[0] == 401
    assert client.post(path, headers | {"authorization": "Bearer x"}, message(content()))[0] == 400


def test_web_push_takes_what_is_right_and_tells_what_is_not(providers: PushProviders) -> None:
    target = made(providers, "webPush")
    assert target.key is not None
    client = Client(providers, providers.web.port)
    key = ec.generate_private_key(ec.SECP256R1())
    sender, own = point(key.public_key()), point(target.key.public_key())
    material = _derive(key.exchange(ec.ECDH(), target.key.public_key()), target.auth, b"WebPush: info\0" + own + sender, 32)
    secret = _derive(material, SALT, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derive(material, SALT, b"Content-Encoding: nonce\0", 12)

    def sealed(told: dict[str, Any], end: bytes = b"\2") -> bytes:
        plain = AESGCM(secret).encrypt(nonce, json.dumps(told).encode() + end, None)
        return SALT + (4096).to_bytes(4) + bytes([65]) + sender + plain

    def headers(aud: str = target.origin, life: float = 3600, **changes: str) -> dict[str, str]:
        app = target.app
        claims = {"aud": aud, "exp": int(time.time() + life), "sub": app.subject}
        token = jwt.encode(claims, app.vapid_key, "ES256")
        vapid = f"vapid t={token}, k={app.vapid_public}"
        usual = {"authorization": vapid, "ttl": "59", "urgency": "high", "topic": "abc", "content-encoding": "aes128gcm"}
        return usual | changes

    path = f"/push/{target.token}"
    assert client.post(path, headers(), sealed(content()))[0] == 201
    assert client.post(path, headers(ttl="86400"), sealed(content("missed")))[0] == 201
    assert providers.of(target)[0].content["inviter"] == "alice"
    assert not providers.problems
    wrongs: list[tuple[dict[str, str], bytes]] = [
        (headers("https://elsewhere"), sealed(content())),
        (headers(life=90_000), sealed(content())),
        (headers(ttl="62"), sealed(content())),
        (headers(ttl="0"), sealed(content("missed"))),
        (headers(urgency="normal"), sealed(content())),
        (headers(topic="x" * 33), sealed(content())),
        (headers(authorization="vapid t=1"), sealed(content())),
        (headers(), sealed(content(), b"\1")),
        (headers(), sealed(content())[:-1] + b"x"),
    ]
    for number, wrong in enumerate(wrongs, 1):
        assert client.post(path, *wrong)[0] == 400, f"mistake {number}"
        assert len(providers.problems) == number


def test_a_provider_fails_as_it_is_told(providers: PushProviders) -> None:
    target = made(providers, "apnsVoIP")
    port = providers.apns.port
    big = bytes(200_000)
    # A request is right for two seconds, since its expiration is a time and its ringing is a duration.
    request = apns(target)
    providers.fail(target, Reply(503, big, {"retry-after": "3"}), times=2)
    client = Client(providers, port)
    assert [client.post(*request) for _ in range(2)] == [(503, big)] * 2
    assert client.post(*request)[0] == 200
    for cut in ("reset", "refuse", "close", "goaway"):
        providers.fail(target, Reply(cut=cut))
        assert Client(providers, port).post(*apns(target))[0] == 0, cut
    providers.fail(target, Reply(delay=0.2))
    began = time.monotonic()
    assert Client(providers, port).post(*apns(target))[0] == 200
    assert time.monotonic() - began >= 0.2
    assert [push.status for push in providers.of(target)] == [503, 503, 200, 0, 0, 0, 0, 200]
    providers.apns.hold_handshakes()
    with pytest.raises(OSError):
        late = socket.create_connection(("127.0.0.1", port), 0.2)
        ssl.create_default_context(cafile=str(providers.directory / "ca.crt")).wrap_socket(late, server_hostname="localhost")
    providers.apns.release_handshakes()
    assert Client(providers, port).post(*apns(target))[0] == 200
    providers.apns.stop()
    with pytest.raises(OSError):
        Client(providers, port)
    providers.apns.start()
    assert Client(providers, port).post(*apns(target))[0] == 200
    assert not providers.problems
