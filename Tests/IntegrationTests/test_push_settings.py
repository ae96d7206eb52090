"""docs/push.md: the settings file, `bellwire push keys` and `bellwire push test`."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from conftest import Rig
from harness import STORES, RedisServer, run
from harness.gateway import Gateway
from harness.http2 import Reply
from harness.push_providers import GONE, PushProviders
from harness.push_target import PLATFORMS, base64url, point
from harness.pushing import asleep


def default(settings: dict[str, Any]) -> dict[str, Any]:
    return settings["apps"]["default"]


MISTAKES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda s: s.update({"publicUrl": "https://x"}), "publicUrl"),
    (lambda s: s.update({"publicURL": "ring.example.com"}), "publicURL"),
    (lambda s: s.update({"publicURL": "http://ring.example.com"}), "publicURL"),
    (lambda s: s.update({"publicURL": "https://ring.example.com/?a=b"}), "publicURL"),
    (lambda s: s.update({"after": -1}), "after"),
    (lambda s: s.update({"after": "1"}), "after"),
    (lambda s: s.update({"certificateAuthorityFile": "none.crt"}), "certificateAuthorityFile"),
    (lambda s: s.pop("apps"), "apps"),
    (lambda s: s.update({"apps": {}}), "apps"),
    (lambda s: s.update({"apps": {"a b": default(s)}}), "apps"),
    (lambda s: s.update({"apps": {"default": {}}}), "apps.default"),
    (lambda s: default(s).update({"adm": {}}), "apps.default.adm"),
    (lambda s: default(s)["apns"].pop("keyID"), "apps.default.apns.keyID"),
    (lambda s: default(s)["apns"].update({"keyId": "x"}), "apps.default.apns.keyId"),
    (lambda s: default(s)["apns"].update({"keyFile": "none.p8"}), "apps.default.apns.keyFile"),
    (lambda s: default(s)["apns"].update({"keyFile": "default.account.json"}), "apps.default.apns.keyFile"),
    (lambda s: default(s)["apns"].update({"bundleID": ""}), "apps.default.apns.bundleID"),
    (lambda s: default(s)["apns"].update({"bundleID": "a\nb"}), "apps.default.apns.bundleID"),
    (lambda s: default(s)["apns"].update({"endpoint": "http://127.0.0.1"}), "apps.default.apns.endpoint"),
    (lambda s: default(s)["fcm"].update({"serviceAccountFile": "default.p8"}), "apps.default.fcm.serviceAccountFile"),
    (lambda s: default(s)["fcm"].update({"endpoint": ""}), "apps.default.fcm.endpoint"),
    (lambda s: default(s)["webPush"].update({"keyFile": "."}), "apps.default.webPush.keyFile"),
    (lambda s: default(s)["webPush"].update({"subject": "ops"}), "apps.default.webPush.subject"),
    (lambda s: default(s)["webPush"].update({"allowedNetworks": ["10.1.2.3/8"]}), "apps.default.webPush.allowedNetworks[0]"),
    (lambda s: default(s)["texts"].update({"stop": {}}), "apps.default.texts.stop"),
    (lambda s: default(s)["texts"]["ring"].update({"title": "{nmae}"}), "apps.default.texts.ring.title"),
    (lambda s: default(s)["texts"]["ring"].update({"body": 7}), "apps.default.texts.ring.body"),
]


@pytest.mark.parametrize(("change", "place"), MISTAKES)
def test_a_mistake_in_the_settings_stops_the_start_with_its_place(
    providers: PushProviders, change: Callable[[dict[str, Any]], object], place: str
) -> None:
    settings = str(providers.settings(change))
    done = run("serve", "--store", "memory:", "--push", settings)
    assert done.returncode != 0 and place in done.stderr, done.stderr
    assert "PRIVATE" not in done.stderr


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"apps":', "\udcff"])
def test_a_file_that_is_none_stops_the_start(providers: PushProviders, text: str, tmp_path: Path) -> None:
    path = tmp_path / "push.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    for settings in (path, tmp_path / "none.json", tmp_path):
        done = run("serve", "--store", "memory:", "--push", str(settings))
        assert done.returncode != 0 and str(settings) in done.stderr, done.stderr


@pytest.mark.parametrize("member", ["private_key", "client_email", "project_id", "token_uri"])
def test_a_service_account_that_lacks_something_stops_the_start(providers: PushProviders, member: str) -> None:
    settings = providers.settings()
    account = providers.directory / "default.account.json"
    account.write_text(json.dumps({name: value for name, value in json.loads(account.read_text()).items() if name != member}))
    done = run("serve", "--store", "memory:", "--push", str(settings))
    assert done.returncode != 0 and member in done.stderr and "apps.default.fcm" in done.stderr, done.stderr


def test_a_gateway_reads_them_as_well(providers: PushProviders, rig: Rig, tmp_path: Path) -> None:
    world = rig.world()
    settings = providers.settings(lambda s: default(s).update({"adm": {}}))
    done = Gateway(tmp_path, world.broker.url, world.service.store, push=str(settings)).exit()
    assert done.returncode != 0 and "apps.default.adm" in done.stderr, done.stderr


def test_keys_are_made(tmp_path: Path) -> None:
    path = tmp_path / "vapid.pem"
    done = run("push", "keys", "--out", str(path))
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_bytes()
    assert text.startswith(b"-----BEGIN PRIVATE KEY-----"), "PKCS#8"
    key = load_pem_private_key(text, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1)
    assert done.stdout.split()[-1] == base64url(point(key.public_key()))
    again = run("push", "keys", "--out", str(path))
    assert again.returncode != 0 and path.read_bytes() == text, "a key that is there stays"
    assert run("push", "keys").returncode != 0


def test_keys_that_were_made_serve(providers: PushProviders, rig: Rig) -> None:
    settings = providers.settings()
    path = providers.directory / "default.vapid.pem"
    path.unlink()
    assert run("push", "keys", "--out", str(path)).returncode == 0
    key = load_pem_private_key(path.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    providers.apps[0].vapid_key = key
    world = rig.world(push=str(settings))
    bob = asleep(world, providers, "bob", "webPush")
    providers.expect(bob.only, "ring", world.phone("alice").invite(bob.user))


@pytest.mark.parametrize("store", STORES)
def test_an_operator_looks_whether_pushes_arrive(
    providers: PushProviders, rig: Rig, redis_server: RedisServer, tmp_path: Path, store: str
) -> None:
    common = {} if store == "SQLite" else {"store": redis_server.url, "redis_prefix": tmp_path.name}
    settings = str(providers.settings())
    world = rig.world(push=settings, **common)
    bob = world.phone("bob", presence=False)
    targets = {target.platform: target for target in providers.register(bob, *PLATFORMS)}
    tablet = world.another(bob, "tablet", presence=False)
    (gone,) = providers.register(tablet, "fcm")
    providers.fail(gone, GONE["fcm"]())
    providers.fail(targets["apns"], Reply(400, {"reason": "BadDeviceToken"}))
    where = ["--redis-prefix", common["redis_prefix"]] if "redis_prefix" in common else []
    done = run("push", "test", bob.user, "--push", settings, "--store", world.service.store, *where, timeout=30)
    lines = done.stdout.splitlines()
    print(done.stdout, done.stderr)

    def line(device: str, platform: str) -> str:
        found = [text for text in lines if device in text and platform in text.replace("apnsVoIP", "VoIP")]
        assert len(found) == 1, lines
        return found[0]

    assert "sent" in line("phone", "fcm") and "sent" in line("phone", "webPush")
    assert "refused" in line("phone", "apns") and "BadDeviceToken" in line("phone", "apns")
    assert "gone" in line("tablet", "fcm")
    for platform in ("apns", "fcm", "webPush"):
        assert [push.kind for push in providers.of(targets[platform])] == ["test"]
    assert not providers.of(targets["apnsVoIP"]), "iOS would have to show a call"
    for target in [*targets.values(), gone]:
        assert target.token not in done.stdout + done.stderr
    nobody = run("push", "test", "nobody", "--push", settings, "--store", world.service.store, *where)
    assert "nobody" in nobody.stdout + nobody.stderr


def test_the_command_line_names_what_is_wrong(tmp_path: Path) -> None:
    for words, reason in [
        (("test", "bob", "--store", "redis://127.0.0.1:1"), "--push"),
        (("test", "--push", "x", "--store", "redis://127.0.0.1:1"), "USER"),
        (("burn",), "keys"),
    ]:
        done = run("push", *words)
        assert done.returncode != 0 and reason.lower() in done.stderr.lower(), (words, done.stderr)
