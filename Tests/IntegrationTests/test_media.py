"""docs/media.md: a member who answers gets a token for the room of the call, and rooms are closed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import jwt
import pytest

from harness import PROJECT, STORES, Child, Device, RedisServer, World, free_port, ring, run, talk, wait_until
from harness.gateway import Gateway
from harness.heartbeats import beating
from harness.media import LiveKit
from harness.processes import listening
from harness.receiver import Receiver

from conftest import Rig

HMAC = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def livekit(tmp_path: Path) -> Iterator[LiveKit]:
    livekit = LiveKit(tmp_path / "livekit")
    yield livekit
    livekit.stop()
    assert not livekit.problems


def options(store: str, redis: RedisServer, tmp_path: Path) -> dict[str, Any]:
    return {} if store == "SQLite" else {"store": redis.url, "redis_prefix": tmp_path.name}


def session(device: Device, type_: str, call: str, **fields: Any) -> dict[str, Any]:
    return device.ok(type_, callID=call, **fields)["mediaSession"]


@pytest.mark.parametrize("store", STORES)
def test_who_answers_is_in_the_room_also_when_a_coordinator_dies(
    rig: Rig, livekit: LiveKit, redis_server: RedisServer, tmp_path: Path, store: str
) -> None:
    world = rig.world(2, media=livekit.settings(ttl=300, agents=["notes"]), **options(store, redis_server, tmp_path))
    alice, bob = world.phones("alice", "bob")
    before = int(time.time())
    made = alice.ok("call.invite", invitees=[bob.user], mode="advanced")
    call, own = made["callID"], made["mediaSession"]
    assert (own["server"], own["type"], own["url"], own["room"]) == ("sfu", "livekit", "wss://sfu.example.com", call)
    assert before + 300 <= own["expiresAt"] / 1000 <= time.time() + 300
    claims = livekit.join(own)
    assert (claims.identity, claims.name) == (alice.user, alice.user)
    assert json.loads(claims.metadata) == {"callID": call, "device": "phone"}
    assert claims.room_config is not None and [agent.agent_name for agent in claims.room_config.agents] == ["notes"]
    video = claims.video
    assert video is not None and video.can_publish and video.can_subscribe and video.can_publish_data and not video.room_admin
    answered = session(bob, "call.accept", call)
    assert livekit.join(answered).identity == bob.user
    world.services[0].kill()
    again = session(bob, "call.media", call)
    assert again["token"] != answered["token"] or again["expiresAt"] == answered["expiresAt"]
    assert livekit.join(again).identity == bob.user
    alice.ok("call.end", callID=call)
    wait_until(lambda: livekit.of(call) == ["DeleteRoom"], 10, "the room is closed")
    assert livekit.participants(call) is None
    done = 'bellwire_media_rooms_total{server="sfu",outcome="done"}'
    wait_until(lambda: world.services[1].metrics().get(done) == 1, 5, "the room is counted")
    bob.refused("call.media", "callEnded", callID=call)


def test_jitsi_and_ones_own_server_get_their_tokens(rig: Rig, livekit: LiveKit) -> None:
    world = rig.world(media=livekit.settings())
    alice, bob = world.phones("alice", "bob")
    alice.ok("user.update", name="Alice", avatarURL="https://example.org/alice.png")
    made = alice.ok("call.invite", invitees=[bob.user], media="video", callID="Call-X1")
    assert (made["mediaSession"]["type"], made["mediaSession"]["room"]) == ("jitsi", ".call-.x1")
    claims = jwt.decode(made["mediaSession"]["token"], HMAC, ["HS256"], audience="jitsi", issuer="bellwire")
    assert (claims["sub"], claims["room"]) == ("meet.example.com", ".call-.x1")
    assert claims["context"] == {"user": {"id": alice.user, "name": "Alice", "avatar": "https://example.org/alice.png"}}
    assert claims["exp"] - claims["nbf"] == 610
    answered = session(bob, "call.accept", made["callID"])
    assert jwt.decode(answered["token"], HMAC, ["HS256"], audience="jitsi")["context"]["user"]["name"] == bob.user
    own = alice.ok("call.invite", invitees=[bob.user], media="data")
    assert own["mediaSession"]["room"] == f"r-{own['callID']}"
    claims = jwt.decode(own["mediaSession"]["token"], HMAC, ["HS256"])
    assert abs(claims["iat"] - time.time()) < 30 and (claims["iat"] - claims["nbf"], claims["exp"] - claims["iat"]) == (10, 600)
    assert claims | {"iat": 0, "nbf": 0, "exp": 0} == {
        "sub": alice.user, "on": "phone", "in": {"room": f"r-{own['callID']}"}, "iat": 0, "nbf": 0, "exp": 0,
    }  # fmt: skip


def test_a_room_with_a_name_that_is_too_long_is_counted(rig: Rig, livekit: LiveKit) -> None:
    """Each capital letter of a callID takes two bytes of a room at Jitsi."""
    media = Path(livekit.settings())
    settings = json.loads(media.read_text())
    settings["servers"]["meet"]["room"] = "of {callID}"
    media.write_text(json.dumps(settings))
    world = rig.world(media=str(media))
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    fits = alice.ok("call.invite", invitees=[bob.user], media="video", callID="C" * 61 + "ccc")
    assert len(fits["mediaSession"]["room"]) == 128
    call = carol.ok("call.invite", invitees=[dave.user], media="video", callID="C" * 62 + "cc")
    assert "mediaSession" not in call
    assert carol.start("call.media", callID=call["callID"]).wait()["error"]["code"] == "unavailable"
    metric = 'bellwire_media_sessions_failed_total{server="meet"}'
    # A request that is sent again counts again.
    wait_until(lambda: world.service.metrics().get(metric, 0) >= 2, 5, lambda: str(world.service.metrics()))


def test_the_keys_of_files_verify_each_algorithm(rig: Rig, livekit: LiveKit, tmp_path: Path) -> None:
    livekit.settings()
    keys = tmp_path / "livekit"
    made = {
        "RS256": ["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
        "ES256": ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
        "EdDSA": ["genpkey", "-algorithm", "ed25519"],
    }
    servers: dict[str, Any] = {}
    for name, arguments in made.items():
        subprocess.run(["openssl", *arguments, "-out", str(keys / f"{name}.pem")], check=True, capture_output=True)
        subprocess.run(["openssl", "pkey", "-in", str(keys / f"{name}.pem"), "-pubout", "-out", str(keys / f"{name}.pub")], check=True)
        servers[name] = {"type": "jwt", "url": "https://m", "keyFile": f"{name}.pem", "algorithm": name, "keyID": "k1"}
    servers["jitsi"] = {"type": "jitsi", "url": "https://m", "keyFile": "RS256.pem", "keyID": "k1", "appID": "b"}
    (keys / "all.json").write_text(json.dumps({"servers": servers, "use": {name: name for name in servers}}))
    world = rig.world(media=str(keys / "all.json"))
    alice = world.phone("alice")
    for name in servers:
        token = alice.ok("call.invite", invitees=["nobody"], media=name)["mediaSession"]["token"]
        algorithm = "RS256" if name == "jitsi" else name
        assert jwt.get_unverified_header(token) == {"alg": algorithm, "typ": "JWT", "kid": "k1"}
        assert jwt.decode(token, (keys / f"{algorithm}.pub").read_text(), [algorithm], audience="jitsi" if name == "jitsi" else None)
    assert "mediaSession" not in alice.ok("call.invite", invitees=["nobody"], media="voice")


@pytest.mark.parametrize("store", STORES)
def test_rooms_are_closed_in_order_although_the_server_and_a_worker_die(
    rig: Rig, livekit: LiveKit, redis_server: RedisServer, tmp_path: Path, store: str
) -> None:
    world = rig.world(2, media=livekit.settings(), **options(store, redis_server, tmp_path))
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob, carol, autoEnd=False)
    for device in (alice, bob, carol):
        livekit.join(session(device, "call.media", call))
    bob.ok("call.quit", callID=call)
    wait_until(lambda: livekit.participants(call) == {alice.user, carol.user}, 10, "bob is removed")
    livekit.stop()
    carol.ok("call.quit", callID=call)
    world.services[0].kill()
    wait_until(lambda: "mediaSession" in alice.ok("call.media", callID=call), 10, "the other coordinator serves")
    alice.ok("call.end", callID=call)
    livekit.restart()
    wait_until(lambda: livekit.participants(call) is None, 15, "the room is closed")
    # A request with a lost response comes again: at least once, in order.
    asked = [request for request, _ in groupby(livekit.of(call))]
    assert asked == [f"RemoveParticipant {bob.user}", f"RemoveParticipant {carol.user}", "DeleteRoom"]


def test_who_joined_again_is_not_removed_and_who_falls_silent_is(rig: Rig, livekit: LiveKit) -> None:
    refuses = True
    livekit.judge = lambda method, _body: 503 if refuses and method == "RemoveParticipant" else 200
    world = rig.world(media=livekit.settings(), heartbeat_timeout="3s", heartbeat_interval="1s")
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = talk(alice, bob, carol)
    metric = 'bellwire_media_rooms_total{server="sfu",outcome="%s"}'
    with beating(call, alice, bob, carol):
        for device in (alice, bob, carol):
            livekit.join(session(device, "call.media", call))
        bob.ok("call.quit", callID=call)
        wait_until(lambda: any(asked.status == 503 for asked in livekit.asked), 10, "a refused removal")

        def listed() -> str:
            return run("webhooks", "list", "--store", world.service.store).stdout

        wait_until(lambda: re.search("^rooms:sfu.* last attempt: HTTP 503$", listed(), re.MULTILINE), 10, listed)
        bob.ok("call.join", callID=call)
    refuses = False
    with beating(call, alice, bob):
        wait_until(lambda: f"RemoveParticipant {carol.user}" in livekit.of(call), 15, "carol, who is silent, is removed")
        assert livekit.participants(call) == {alice.user, bob.user}
        wait_until(lambda: world.service.metrics().get(metric % "done") == 1, 5, "the removal is counted")
        metrics = world.service.metrics()
        assert metrics[metric % "skipped"] == 1 and metrics[metric % "failed"] >= 1
        assert metrics['bellwire_media_sessions_total{server="sfu"}'] == 7


def test_rooms_are_closed_over_tls_at_a_server_of_the_named_authority(rig: Rig, tmp_path: Path) -> None:
    livekit = LiveKit(tmp_path / "livekit", tls=True)
    try:
        for authority, closed in (("ca.crt", True), (None, False)):
            world = rig.world(media=livekit.settings(authority=authority))
            alice, bob = world.phones("alice", "bob")
            call = talk(alice, bob)
            livekit.join(session(bob, "call.media", call))
            alice.ok("call.end", callID=call)
            if closed:
                wait_until(lambda call=call: livekit.participants(call) is None, 10, "the room is closed")
                continue

            def listed(world: World = world) -> str:
                return run("webhooks", "list", "--store", world.service.store).stdout

            wait_until(lambda listed=listed: re.search("^rooms:sfu.* last attempt: .*certificate", listed(), re.MULTILINE), 10, listed)
            assert livekit.participants(call) == {bob.user}
    finally:
        livekit.stop()
    assert not livekit.problems


@pytest.mark.parametrize("store", STORES)
def test_a_gateway_closes_the_rooms_of_coordinators(
    rig: Rig, livekit: LiveKit, redis_server: RedisServer, tmp_path: Path, store: str
) -> None:
    """A deleted user leaves the room as well."""
    media, common = livekit.settings(), options(store, redis_server, tmp_path)
    world = rig.world(media=media, deliver="false", **common)
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    call = talk(alice, bob, carol, dave)
    livekit.join(session(bob, "call.media", call))
    bob.ok("call.quit", callID=call)
    prefix = {key: value for key, value in common.items() if key == "redis_prefix"}
    gateway = Gateway(tmp_path / "gateway", world.broker.url, world.service.store, media=media, **prefix).start()
    try:
        wait_until(lambda: livekit.participants(call) == set(), 10, "bob is removed")
        livekit.join(session(carol, "call.media", call))
        gateway.ask("DELETE", f"/v1/users/{carol.user}").ok(204)
        wait_until(lambda: livekit.of(call)[-1:] == [f"RemoveParticipant {carol.user}"], 10, "carol is removed")
        assert livekit.participants(call) == set()
        gateway.ask("DELETE", f"/v1/users/{dave.user}").ok(204)
        # Alice is alone: the call has ended with the same revision.
        wait_until(lambda: livekit.of(call)[-1:] == ["DeleteRoom"], 10, "the room is closed")
        done = b'bellwire_media_rooms_total{server="sfu",outcome="done"} 3'
        wait_until(lambda: done in gateway.ask("GET", "/metrics").raw, 5, "all three are counted")
    finally:
        gateway.stop()


def test_a_backend_gets_the_session_by_rest(rig: Rig, livekit: LiveKit, tmp_path: Path) -> None:
    world = rig.world(media=livekit.settings(use={"*": "sfu", "video": "meet"}))
    gateway = Gateway(tmp_path / "gateway", world.broker.url, world.service.store).start()
    try:
        alice = world.phone("alice")
        shop = World.user("shop")
        made = gateway.post("/v1/calls", {"inviter": shop, "invitees": [alice.user], "mode": "advanced"}).ok(201)
        call = made["callID"]
        assert json.loads(livekit.join(made["mediaSession"]).metadata)["device"] == "server"
        gateway.post(f"/v1/calls/{call}/media", {"userID": alice.user}).problem(409, "invalidState")
        gateway.post("/v1/calls/none/media", {"userID": shop}).problem(404, "callNotFound")
        alice.ok("call.accept", callID=call)
        joined = gateway.post(f"/v1/calls/{call}/join", {"userID": shop}).ok()
        assert joined["mediaSession"]["room"] == call
        again = gateway.post(f"/v1/calls/{call}/media", {"userID": shop}).ok()
        assert set(again) == {"callID", "revision", "time", "call", "mediaSession"}
        assert livekit.join(again["mediaSession"]).identity == shop
        gateway.post(f"/v1/calls/{call}/end", {"userID": shop}).ok()
        gateway.post(f"/v1/calls/{call}/media", {"userID": shop}).problem(409, "callEnded")
        ringing = alice.ok("call.invite", invitees=[shop], media="voice", mode="advanced")["callID"]
        accepted = gateway.post(f"/v1/calls/{ringing}/accept", {"userID": shop}).ok()
        assert livekit.join(accepted["mediaSession"]).identity == shop
    finally:
        gateway.stop()


def test_without_settings_there_is_no_media(world: World, tmp_path: Path) -> None:
    alice, bob = world.phones("alice", "bob")
    made = alice.ok("call.invite", invitees=[bob.user], mode="advanced")
    assert "mediaSession" not in made
    bob.refused("call.media", "invalidState", callID=made["callID"])
    assert "mediaSession" not in bob.ok("call.accept", callID=made["callID"])
    bob.refused("call.media", "noMedia", callID=made["callID"])
    bob.refused("call.media", "callNotFound", callID="none")
    bob.come_online()
    assert all("mediaSessions" not in message.body for message in bob.messages if message.type == "welcome")
    assert not [name for name in world.service.metrics() if name.startswith("bellwire_media_")]
    gateway = Gateway(tmp_path, world.broker.url, world.service.store).start()
    try:
        bot = World.user("bot")
        call = gateway.post("/v1/calls", {"inviter": bot, "invitees": [bob.user]}).ok(201)["callID"]
        gateway.post(f"/v1/calls/{call}/media", {"userID": bot}).problem(409, "noMedia")
    finally:
        gateway.stop()


def test_a_welcome_has_the_sessions_of_the_device(rig: Rig, livekit: LiveKit) -> None:
    world = rig.world(media=livekit.settings())
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    tablet = world.another(bob, "tablet")
    (told,) = bob.come_online()["mediaSessions"]
    assert told.pop("callID") == call
    assert livekit.join(told).identity == bob.user
    assert all("mediaSessions" not in message.body for message in tablet.had("welcome"))
    refused = tablet.start("call.media", callID=call).wait()["error"]
    assert (refused["code"], refused["message"]) == ("invalidState", "the user is accepted on another device")


# Places without a token


@pytest.mark.parametrize("store", STORES)
def test_a_token_stands_in_responses_and_welcomes_alone(
    rig: Rig, livekit: LiveKit, redis_server: RedisServer, tmp_path: Path, store: str
) -> None:
    """The test looks through events, the store, logs, webhooks, timelines and metrics for each token, and for the keys."""
    receiver = Receiver(tmp_path / "receiver")
    common = options(store, redis_server, tmp_path)
    world = rig.world(2, media=livekit.settings(), webhooks=str(receiver.settings()), log_level="debug", **common)
    prefix = {key: value for key, value in common.items() if key == "redis_prefix"}
    gateway = Gateway(tmp_path / "gateway", world.broker.url, world.service.store, media=livekit.settings(), **prefix).start()
    try:
        alice, bob, carol = world.phones("alice", "bob", "carol")
        call = talk(alice, bob, carol)
        alice.come_online()
        tokens = [session(device, "call.media", call)["token"] for device in (alice, bob, carol)]
        bob.ok("call.quit", callID=call)
        # A refused request stays in the outbox during the search through the store.
        livekit.judge = lambda _method, _body: 503
        alice.ok("call.end", callID=call)
        wait_until(lambda: any(asked.status == 503 for asked in livekit.asked), 10, "a refused request")
        wait_until(lambda: [e for e in receiver.of_call(call) if e.type == "call.ended"] != [], 20, "the last webhook")
        told = {(device.user, "phone", "sfu") for device in (alice, bob, carol)}

        def media() -> set[tuple[str, str, str]]:
            entries = alice.ok("call.trace", callID=call)["entries"]
            return {(entry["userID"], entry["device"], entry["server"]) for entry in entries if entry["kind"] == "media"}

        wait_until(lambda: media() == told, 5, "the timelines of both coordinators")
        trace = alice.ok("call.trace", callID=call)
        wait_until(lambda: world.services[0].metrics() != {}, 5, "metrics")
        places = {
            "webhooks": b"".join(attempt.raw for attempt in receiver.attempts),
            "timeline": json.dumps(trace).encode(),
            "rest": gateway.ask("GET", f"/v1/calls/{call}").raw + gateway.ask("GET", f"/v1/calls/{call}/trace").raw,
            "metrics": b"".join(service.get("/metrics")[1].encode() for service in world.services) + gateway.ask("GET", "/metrics").raw,
            "logs": b"".join(log.read_bytes() for log in [*(service.log for service in world.services), gateway.log]),
            "store": stored(store, redis_server, world),
        }
        seen = b"".join(m.raw for device in (alice, bob, carol) for m in device.messages if m.type not in ("response", "welcome"))
        places["messages"] = seen
        for token in tokens:
            signature = token.rpartition(".")[2].encode()
            assert [name for name, content in places.items() if signature in content] == []
        for key in (livekit.secret.encode(), HMAC.encode()):
            assert [name for name, content in places.items() if key in content] == []
        assert call.encode() in places["store"], "the test has looked where calls are"
    finally:
        gateway.stop()
        receiver.stop()


def stored(store: str, redis: RedisServer, world: World) -> bytes:
    """All that the store has."""
    if store == "SQLite":
        return b"".join(path.read_bytes() for path in world.service.directory.glob("bellwire.db*"))
    return b"".join(path.read_bytes() for path in redis.log.parent.rglob("*") if path.is_file())


# Settings


@pytest.mark.alone
def test_a_new_key_counts_within_a_second_and_a_bad_file_changes_nothing(rig: Rig, livekit: LiveKit) -> None:
    world = rig.world(media=livekit.settings())
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    file = livekit.directory / "livekit.key"

    def issuer() -> str:
        return str(jwt.decode(session(alice, "call.media", call)["token"], options={"verify_signature": False})["iss"])

    assert issuer() == livekit.key
    file.write_text("no key at all")
    wait_until(lambda: "cannot be used" in world.service.log.read_text(), 10, "the file is logged")
    assert issuer() == livekit.key
    file.write_text("APIother: othersecret")
    began = time.monotonic()
    wait_until(lambda: issuer() == "APIother", 3, "the new key")
    assert time.monotonic() - began < 1.2
    log = world.service.log.read_text()
    assert "no key at all" not in log and "othersecret" not in log


@pytest.mark.parametrize("command", ["serve", "gateway", "dev"])
def test_mistakes_stop_the_start(livekit: LiveKit, tmp_path: Path, command: str) -> None:
    settings = json.loads(Path(livekit.settings()).read_text())
    settings["servers"]["sfu"]["ttl"] = 5
    path = livekit.directory / "wrong.json"
    path.write_text(json.dumps(settings))
    keys = tmp_path / "keys.json"
    assert run("keys", "generate", "--out", str(keys)).returncode == 0
    more = {"serve": ["--store", "memory:"], "gateway": ["--keys", str(keys), "--store", "memory:"], "dev": []}
    result = run(command, *more[command], "--media", str(path))
    assert result.returncode == 64
    assert "servers.sfu.ttl: expected a whole number of seconds from 60 to 86400" in result.stderr


# The bot


def test_the_bot_of_the_examples_is_called_answers_and_verifies_its_token(rig: Rig, livekit: LiveKit, tmp_path: Path) -> None:
    source = (PROJECT / "Examples/media-bot/bot.py").read_text()
    assert len(source.splitlines()) <= 60
    receiver = Receiver(tmp_path / "receiver")
    receiver.stop()
    port = free_port()
    webhooks = receiver.settings(url=f"https://127.0.0.1:{port}/")
    world = rig.world(media=livekit.settings(), webhooks=str(webhooks))
    gateway = Gateway(tmp_path / "gateway", world.broker.url, world.service.store).start()
    token, name, log = tmp_path / "server-token", World.user("bot"), tmp_path / "bot.log"
    token.write_text(gateway.token)
    shutil.copy(PROJECT / "Examples/media-bot/bot.py", tmp_path / "bot.py")
    files = [receiver.directory / "app.whsec", livekit.directory / "livekit.key", receiver.directory / "broker.crt", receiver.directory / "broker.key"]
    bot = Child(
        [sys.executable, str(tmp_path / "bot.py"), name, str(token), *map(str, files)], stdout=log,
        env={"BELLWIRE": f"http://127.0.0.1:{gateway.port}", "PORT": str(port)},
    )  # fmt: skip
    try:
        wait_until(lambda: listening(port), 30, "the bot listens")
        alice = world.phone("alice")
        call = alice.ok("call.invite", invitees=[name], mode="advanced")["callID"]
        alice.expect_change(call, name, "accepted", seconds=15)
        lines = wait_until(lambda: [line for line in log.read_text().splitlines() if line.startswith("{")], 10, "the bot tells of the room")
        assert json.loads(lines[0]) == {"url": "wss://sfu.example.com", "room": call, "identity": name}
    finally:
        bot.kill()
        gateway.stop()


def test_no_ring_is_later_for_a_call_that_nobody_answers(rig: Rig, livekit: LiveKit) -> None:
    """The room of a waiting inviter is closed when the ringing ends."""
    world = rig.world(media=livekit.settings())
    alice, bob = world.phones("alice", "bob")
    call = ring(alice, bob, mode="advanced")
    livekit.join(session(alice, "call.media", call))
    alice.cancel(call)
    wait_until(lambda: livekit.of(call) == ["DeleteRoom"], 10, "the room is closed")
    common = ring(alice, bob)
    assert "mediaSession" in bob.ok("call.accept", callID=common)
    assert livekit.join(session(alice, "call.media", common)).identity == alice.user
    time.sleep(1)
    assert livekit.of(common) == [], "a common call has no end that the service knows of"
