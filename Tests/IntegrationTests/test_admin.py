"""docs/operations.md, Acting on calls and users: `/v1/admin`, `bellwire admin`, and the audit log, with a broker that checks tokens."""

from __future__ import annotations

import http.client
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from conftest import Rig
from harness import STORES, Attempt, RedisServer, SecureBroker, Service, World, now_ms, ring, run, talk, wait_until
from harness.gateway import Answer, Gateway
from harness.processes import free_port
from harness.receiver import Receiver


class Administered(World):
    """A deployment that checks tokens, with a gateway and an administrator."""

    def __init__(self, directory: Path, store: str) -> None:
        self.secure = SecureBroker(directory / "broker")
        token = self.secure.coordinator_token()
        super().__init__(self.secure, Service(self.secure.url, directory / "service", store=store, token_file=str(token)))
        own = directory / "gateway.token"
        own.write_text(self.secure.token("gateway", role="server"))
        self.gateway = Gateway(
            directory, self.secure.url, self.service.store, keys=str(self.secure.keys), token_file=str(own)
        ).start()
        self.admin_token = self.gateway.make_token("olivia", role="admin")
        self.token_file = directory / "olivia.token"
        self.token_file.write_text(self.admin_token + "\n")

    def ask(self, method: str, path: str, body: Any = None, token: str = "", **options: Any) -> Answer:
        return self.gateway.ask(method, f"/v1/admin/{path}", body, token=token or self.admin_token, **options)

    def admin(self, *words: str) -> tuple[int, str, str]:
        options = ("--gateway", f"http://127.0.0.1:{self.gateway.port}", "--token-file", str(self.token_file))
        done = run("admin", *words, *options)
        return done.returncode, done.stdout, done.stderr

    def audit(self) -> list[dict[str, Any]]:
        return self.ask("GET", "audit?count=100").ok()["entries"]

    def stop(self) -> None:
        self.close()
        self.gateway.stop()
        self.service.stop()
        self.secure.stop()


@pytest.fixture(scope="module", params=STORES)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Iterator[Administered]:
    world = Administered(tmp_path_factory.mktemp("administered"), "sqlite" if request.param == "SQLite" else redis_server.url)
    yield world
    world.stop()


def test_a_call_is_seen_and_ended_for_all(world: Administered) -> None:
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    listed = world.ask("GET", f"users/{quote(alice.user, safe='')}/calls").ok()
    assert [entry["callID"] for entry in listed["calls"]] == [call]
    wait_until(lambda: len(world.ask("GET", f"calls/{call}").ok()["entries"]) > 3, 5, "the timeline")
    before = now_ms()
    ended = world.ask("POST", f"calls/{call}/end", {"reason": "complaint 4711"}).ok()
    assert ended["call"]["state"] == "ended" and ended["call"]["endReason"] == "hangup"
    assert bob.expect("call.ended", call)["call"] == alice.get(call)
    entry = world.audit()[0]
    assert (entry["actor"], entry["act"], entry["callID"], entry["reason"]) == ("olivia", "end", call, "complaint 4711")
    assert before - 5_000 < entry["time"] < now_ms() + 5_000
    count = len(world.audit())
    world.ask("POST", f"calls/{call}/end").problem(409, "callEnded")
    world.ask("POST", "calls/nothing/end").problem(404, "callNotFound")
    world.ask("GET", "calls/nothing").problem(404, "callNotFound")
    world.ask("POST", f"calls/{call}/end", {"reason": 7}).problem(400, "badRequest")
    world.ask("POST", f"calls/{call}/end", {"reason": "x" * 257}).problem(400, "badRequest")
    assert len(world.audit()) == count


def test_a_common_call_that_rings_is_ended(world: Administered) -> None:
    alice, bob = world.phones("alice", "bob")
    call = alice.ok("call.invite", invitees=[bob.user])["callID"]
    bob.expect("call.invited", call)
    assert world.ask("POST", f"calls/{call}/end").ok()["call"]["state"] == "ended"
    bob.expect("call.cancelled", call)


def test_a_call_that_everybody_has_left_ends_by_itself(world: Administered) -> None:
    alice, bob = world.phones("alice", "bob")
    call = alice.ok("call.invite", invitees=[bob.user], mode="advanced", autoEnd=False)["callID"]
    bob.accept(call)
    bob.quit(call)
    alice.quit(call)
    world.ask("POST", f"calls/{call}/end").problem(409, "invalidState")


def test_a_call_in_which_nobody_is_but_phones_ring_is_ended(world: Administered) -> None:
    alice, bob = world.phones("alice", "bob")
    call = alice.ok("call.invite", invitees=[bob.user], mode="advanced", autoEnd=False, timeout=600)["callID"]
    bob.expect("call.invited", call)
    alice.quit(call)
    assert world.ask("POST", f"calls/{call}/end").status == 200
    bob.expect("call.cancelled", call)


def test_a_users_devices_are_signed_out(world: Administered) -> None:
    alice = world.phone("alice")
    for device in ("tablet", "watch"):
        world.another(alice, device)

    def online() -> set[str]:
        devices = world.gateway.ask("GET", f"/v1/users/{alice.user}/devices").ok()["devices"]
        assert world.ask("GET", f"users/{alice.user}/devices").ok() == {"disabled": False, "devices": devices}
        return {device["device"] for device in devices if device["online"]}

    assert online() == {"phone", "tablet", "watch"}
    assert world.ask("POST", f"users/{alice.user}/sign-out", {"device": "watch"}).status == 204
    assert online() == {"phone", "tablet"}
    assert world.ask("POST", f"users/{alice.user}/sign-out").status == 204
    assert online() == set()
    assert world.ask("POST", f"users/{alice.user}/sign-out", {"device": None}).status == 204
    newest = world.audit()[:3]
    assert [(entry["act"], entry["userID"], entry.get("device")) for entry in newest] == [
        ("signOut", alice.user, None), ("signOut", alice.user, None), ("signOut", alice.user, "watch"),
    ]  # fmt: skip
    world.ask("POST", f"users/{alice.user}/sign-out", {"device": "no device"}).problem(400, "badRequest")


def test_a_token_opens_its_own_paths_alone(world: Administered) -> None:
    """Role admin is for `/v1/admin`; the broker, all other paths, and `/v1/admin` for others, are closed."""
    gateway = world.gateway
    paths = [
        ("GET", "online"), ("PUT", "log-level"), ("POST", "users/alice/disable"), ("POST", "users/alice/enable"),
        ("GET", "users/alice/calls"), ("GET", "users/alice/devices"), ("GET", "calls/c"), ("POST", "calls/c/end"), ("POST", "users/alice/sign-out"), ("GET", "audit"),
        ("GET", "calls"), ("GET", "webhooks"), ("GET", "webhooks/app/dead"), ("POST", "webhooks/app/replay"),
    ]  # fmt: skip
    count = len(world.audit())
    for method, path in paths:
        for token in (gateway.token, gateway.make_token("alice"), gateway.make_token("c-1", role="coordinator")):
            world.ask(method, path, token=token).problem(403, "forbidden")
        gateway.ask(method, f"/v1/admin/{path}", token=None).problem(401, "unauthorized")
        gateway.ask(method, f"/v1/admin/{path}", token=gateway.make_token("olivia", -10, role="admin")).problem(401, "unauthorized")
    for method, path in [("POST", "/v1/calls"), ("GET", "/v1/users/alice"), ("POST", "/v1/tokens")]:
        gateway.ask(method, path, {}, token=world.admin_token).problem(403, "forbidden")
    assert gateway.ask("POST", "/call/start_call", {}, token=world.admin_token).body["code"] != 0
    for client in ("olivia/phone", "olivia"):
        assert Attempt(world.secure, client, password=world.admin_token).reason == "Not authorized"
    assert len(world.audit()) == count


def test_a_disabled_user_is_kept_out_until_enabled(world: Administered) -> None:
    """The broker ends the user's sessions and refuses the tokens; others go on; coordinators and brokers that start later know."""
    alice, bob, carol = world.phones("alice", "bob", "carol")
    call = ring(carol, bob)
    assert world.admin("disable", alice.user)[:2] == (0, "")
    wait_until(lambda: not alice.is_connected, 10, "the session ends")
    assert world.ask("GET", f"users/{alice.user}/devices").ok()["disabled"] is True
    assert alice.find(lambda m: m.type == "error")[-1]["error"]["code"] == "userDisabled"

    def refused() -> bool:
        attempt = Attempt(world.secure, f"{alice.user}/phone", alice.user, world.secure.token(alice.user))
        attempt.close()
        return attempt.reason == "Not authorized"

    assert refused()
    token = world.secure.token(alice.user)
    wait_until(lambda: b"disabled" in world.gateway.ask("POST", "/call/start_call", {}, token=token).raw, 10, "gateways refuse the user, too")
    bob.accept(call)
    # The service serves requests of the app's backend for the user; the user's devices do not ring.
    made = world.gateway.ask("POST", "/v1/calls", {"inviter": alice.user, "invitees": [bob.user], "mode": "advanced"})
    assert made.status == 201
    assert world.ask("POST", f"calls/{made.body['callID']}/end").status == 200
    world.service.restart()
    bob.close()
    carol.close()
    world.secure.restart()
    wait_until(refused, 20, "a broker that has just started knows the user")
    assert world.admin("enable", alice.user)[:2] == (0, "")
    wait_until(lambda: not refused(), 10, "the user is let in again")
    assert [(entry["act"], entry["userID"]) for entry in world.audit()[:1]] == [("enable", alice.user)]


def test_the_devices_that_are_online_are_listed(world: Administered) -> None:
    phones = world.phones(*(f"user/{number} ü" for number in range(7)))
    gone = world.phone("gone")
    gone.logout()

    def online(count: int) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        cursor = "0"
        for _ in range(100):
            page = world.ask("GET", f"online?count={count}&cursor={quote(cursor)}").ok()
            found += [(device["userID"], device["device"]) for device in page["devices"]]
            cursor = page["cursor"]
            if cursor == "0":
                return found
        raise AssertionError("the pages have no end")

    wait_until(lambda: (gone.user, "phone") not in online(100), 10, "the service has read the logout")
    for count in (1, 3, 100):
        found = online(count)
        assert {(phone.user, "phone") for phone in phones} <= set(found)
        assert (gone.user, "phone") not in found
    status, out, _ = world.admin("online", "--count", "100")
    assert status == 0 and (phones[0].user, "phone") in [(d["userID"], d["device"]) for d in json.loads(out)["devices"]]


def test_live_calls_are_listed(world: Administered) -> None:
    alice, bob, carol, dave = world.phones("alice", "bob", "carol", "dave")
    active, ringing, ended = talk(alice, bob), ring(carol, dave), talk(*world.phones("erin", "frank"))
    waiting = alice.message(bob, {"text": "is no call"})
    assert world.ask("POST", f"calls/{ended}/end").status == 200

    def live(count: int) -> dict[str, dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor = "0"
        for _ in range(200):
            page = world.ask("GET", f"calls?count={count}&cursor={quote(cursor)}").ok()
            found += page["calls"]
            cursor = page["cursor"]
            if cursor == "0":
                return {call["callID"]: call for call in found}
        raise AssertionError("the pages have no end")

    for count in (1, 3, 100):
        calls = live(count)
        assert {active, ringing} <= set(calls) and not {ended, waiting} & set(calls)
        assert calls[active]["members"] == [alice.user, bob.user] and calls[active]["inviter"] == alice.user
        assert (calls[active]["state"], calls[ringing]["state"]) == ("active", "ringing")
    status, out, _ = world.admin("live", "--count", "100")
    assert status == 0 and json.loads(out)["calls"] is not None
    world.ask("GET", "calls?count=x").problem(400, "badRequest")
    assert world.ask("GET", "calls?cursor=nonsense").status == 200


def test_the_log_of_all_processes_follows(world: Administered) -> None:
    alice = world.phone("alice")
    logs = [world.service.log, world.gateway.log]
    assert world.admin("log-level", "debug")[:2] == (0, "")
    order = "an administrator has set the level of the log level=debug"
    wait_until(lambda: all(order in log.read_text() for log in logs), 10, "both obey")
    alice.ok("user.blockList")
    line = f"DEBUG response to=bellwire/v1/down/{alice.user}/phone type=user.blockList outcome=ok microseconds="
    wait_until(lambda: line in world.service.log.read_text(), 5, "a line for the response")
    assert world.audit()[0]["level"] == "debug"
    assert world.admin("log-level", "warning")[:2] == (0, "")
    wait_until(lambda: all("set the level of the log level=warning" in log.read_text() for log in logs), 10, "both obey")
    size = world.service.log.stat().st_size
    alice.ok("user.blockList")
    # The level holds until the process restarts: an order from before the start does not count.
    world.service.restart()
    assert "INFO coordinator starts" in world.service.log.read_text()[size:]
    world.ask("PUT", "log-level", {"level": "verbose"}).problem(400, "badRequest")
    assert world.admin("log-level", "verbose")[0] == 1


def test_without_the_plugin_coordinators_refuse_a_disabled_user(rig: Rig, tmp_path: Path) -> None:
    plain = rig.world()
    gateway = Gateway(tmp_path, plain.broker.url, plain.service.store).start()
    try:
        alice, bob = plain.phones("alice", "bob")
        call = talk(alice, bob)
        disable = gateway.ask("POST", f"/v1/admin/users/{alice.user}/disable", token=gateway.make_token("olivia", role="admin"))
        assert disable.status == 204
        wait_until(lambda: alice.start("call.get", callID=call).wait(10)["ok"] is False, 10, "requests are refused")
        alice.refused("call.get", "userDisabled", callID=call)
        alice.refused("push.register", "userDisabled", platform="fcm", token="t")
        since = alice.mark
        alice.present(True)
        alice.expect_error("userDisabled", since)
        assert gateway.ask("GET", f"/v1/users/{alice.user}/devices").ok()["devices"][0]["online"] is False
        enable = gateway.ask("POST", f"/v1/admin/users/{alice.user}/enable", token=gateway.make_token("olivia", role="admin"))
        assert enable.status == 204
        wait_until(lambda: alice.start("call.get", callID=call).wait(10)["ok"], 10, "the user is served again")
    finally:
        gateway.stop()


@pytest.mark.parametrize("store", STORES)
def test_dead_letters_are_seen_and_sent_again(rig: Rig, redis_server: RedisServer, tmp_path: Path, store: str) -> None:
    """The gateway shows and does the same as `bellwire webhooks` (test_webhooks.py)."""
    receiver = Receiver(tmp_path / "receiver", lambda _id, _body: 503)
    common = {} if store == "SQLite" else {"store": redis_server.url, "redis_prefix": tmp_path.name}
    world = rig.world(webhooks=str(receiver.settings(events=["call.*"], retryFor=0)), **common)
    prefix = {"redis_prefix": tmp_path.name} if common else {}
    gateway = Gateway(tmp_path, world.broker.url, world.service.store, **prefix).start()
    token = gateway.make_token("olivia", role="admin")

    def ask(method: str, path: str, body: Any = None) -> Answer:
        """A busy store may be too late for a gateway, which then asks for a repetition."""

        def answer() -> Answer | None:
            found = gateway.ask(method, f"/v1/admin/{path}", body, token=token)
            return None if method == "GET" and found.status == 503 else found

        return wait_until(answer, 30, f"an answer to {path}")

    def endpoint() -> dict[str, Any]:
        [endpoint] = ask("GET", "webhooks").ok()["endpoints"]
        return endpoint

    def dead(count: int) -> list[str]:
        found: list[str] = []
        cursor = "0"
        while True:
            page = ask("GET", f"webhooks/app/dead?count={count}&cursor={cursor}").ok()
            assert len(page["letters"]) <= count
            found += [letter["id"] for letter in page["letters"]]
            cursor = page["cursor"]
            if cursor == "0":
                return found

    try:
        alice, bob = world.phones("alice", "bob")
        call = talk(alice, bob)
        alice.end(call)
        ids = [f"{call}_{number}" for number in range(1, alice.get(call)["revision"] + 1)]
        wait_until(lambda: dead(100) == ids, 20, "dead letters")
        for count in (1, 2, len(ids)):
            assert dead(count) == ids
        known = endpoint()
        assert (known["name"], known["turnedOff"], known["waiting"], known["dead"]) == ("app", False, 0, len(ids))
        assert known["events"] == ["call.*"] and known["bytes"] > 0
        wait_until(lambda: endpoint().get("lastAttempt") == "HTTP 503", 20, "the last attempt is noted")
        receiver.judge = lambda _id, _body: 200
        time = ask("GET", "webhooks/app/dead?count=1&cursor=nonsense").ok()["letters"][0]["time"]
        assert ask("POST", "webhooks/app/replay", {"id": "none"}).ok() == {"replayed": 0, "more": False, "turnedOff": False}
        assert ask("POST", "webhooks/app/replay", {"since": 99_999_999_999_999}).ok()["replayed"] == 0
        assert ask("POST", "webhooks/app/replay", {"id": ids[1], "since": time}).ok()["replayed"] == 1
        wait_until(lambda: [event.id for event in receiver.taken] == [ids[1]], 10, "the one that was asked for")
        assert ask("POST", "webhooks/app/replay").ok()["replayed"] == len(ids) - 1
        wait_until(lambda: sorted(event.id for event in receiver.taken) == ids, 10, "all of them")
        wait_until(lambda: (endpoint()["waiting"], endpoint()["dead"]) == (0, 0), 5, "nothing is left")
        acts = ask("GET", "audit").ok()["entries"]
        assert [{name: entry.get(name) for name in ("act", "endpoint", "webhookID", "since")} for entry in acts] == [
            {"act": "replay", "endpoint": "app", "webhookID": None, "since": None},
            {"act": "replay", "endpoint": "app", "webhookID": ids[1], "since": time},
            {"act": "replay", "endpoint": "app", "webhookID": None, "since": 99_999_999_999_999},
            {"act": "replay", "endpoint": "app", "webhookID": "none", "since": None},
        ]
        for path in ("other", "no%20name"):
            ask("GET", f"webhooks/{path}/dead").problem(404, "notFound")
            ask("POST", f"webhooks/{path}/replay").problem(404, "notFound")
        for body in ({"id": 7}, {"id": ""}, {"id": "x" * 257}, {"since": -1}, {"since": "yesterday"}, []):
            ask("POST", "webhooks/app/replay", body).problem(400, "badRequest")
        assert ask("GET", "audit").ok()["entries"] == acts
    finally:
        gateway.stop()
        receiver.stop()
        assert not receiver.problems


def test_the_command_line(world: Administered) -> None:
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    status, out, _ = world.admin("calls", alice.user)
    assert status == 0 and json.loads(out)["calls"][0]["callID"] == call
    assert json.loads(world.admin("call", call)[1])["call"]["state"] == "active"
    status, out, error = world.admin("end", call, "--reason", "why not")
    assert (status, json.loads(out)["call"]["state"]) == (0, "ended"), error
    status, out, error = world.admin("end", call)
    assert (status, out) == (1, "") and "callEnded" in error and error.count("\n") == 1
    assert world.admin("sign-out", alice.user, "phone")[:2] == (0, "")
    assert world.admin("sign-out", alice.user)[:2] == (0, "")
    page = json.loads(world.admin("audit", "--count", "2")[1])
    assert [entry["act"] for entry in page["entries"]] == ["signOut", "signOut"] and page["cursor"] != "0"
    following = json.loads(world.admin("audit", "--count", "1", "--cursor", page["cursor"])[1])
    assert following["entries"][0]["reason"] == "why not"
    world.token_file.write_text(world.gateway.token)
    try:
        status, out, error = world.admin("audit")
        assert (status, out) == (1, "") and "role is not admin" in error
    finally:
        world.token_file.write_text(world.admin_token)
    assert run("admin", "audit", "--gateway", "ftp://x", "--token-file", str(world.token_file)).returncode == 64
    assert run("admin", "audit", "--token-file", str(world.token_file)).returncode == 64
    assert run("admin", "audit", "--gateway", "http://127.0.0.1:1", "--token-file", "missing").returncode == 64
    assert run("admin", "sleep").returncode == 64
    away = run("admin", "audit", "--gateway", "http://127.0.0.1:1", "--token-file", str(world.token_file))
    assert away.returncode == 1 and away.stderr.count("\n") == 1


def test_the_audit_log_is_read_in_pages(world: Administered) -> None:
    alice = world.phone("alice")
    for number in range(7):
        assert world.ask("POST", f"users/{alice.user}/sign-out", {"device": f"d{number}"}).status == 204
    seen: list[str] = []
    cursor = "0"
    while True:
        page = world.ask("GET", f"audit?count=3&cursor={cursor}").ok()
        seen += [entry.get("device", "") for entry in page["entries"]]
        cursor = page["cursor"]
        if cursor == "0":
            break
    assert seen[:7] == [f"d{number}" for number in reversed(range(7))]
    assert len(seen) == len(world.audit()) < 100
    assert world.ask("GET", "audit?cursor=nonsense&count=1").ok()["entries"][0]["device"] == "d6"
    world.ask("GET", "audit?count=x").problem(400, "badRequest")
    assert len(world.ask("GET", "audit?count=0").ok()["entries"]) == 1


def test_without_an_audience_nobody_is_an_administrator(world: Administered, tmp_path: Path) -> None:
    gateway = Gateway(
        tmp_path, world.secure.url, world.service.store, keys=str(world.secure.keys), audience="",
        token_file=str(world.token_file.with_name("gateway.token")),
    ).start()  # fmt: skip
    try:
        gateway.ask("GET", "/v1/admin/audit", token=world.admin_token).problem(403, "forbidden")
    finally:
        gateway.stop()


def test_administrators_have_a_listener_of_their_own(world: Administered, tmp_path: Path) -> None:
    """`--admin-http`: the listener for backends does not know the administrators' paths, and the other way around."""
    port = free_port()
    gateway = Gateway(
        tmp_path, world.secure.url, world.service.store, keys=str(world.secure.keys), admin_http=f"127.0.0.1:{port}",
        token_file=str(world.token_file.with_name("gateway.token")),
    ).start()  # fmt: skip
    try:
        assert gateway.ask("GET", "/v1/admin/audit", token=world.admin_token, port=port).status == 200
        gateway.ask("GET", "/v1/admin/audit", token=gateway.token, port=port).problem(403, "forbidden")
        gateway.ask("PUT", "/v1/admin/audit", token=world.admin_token, port=port).problem(405, "methodNotAllowed")
        for path in ("/healthz", "/readyz"):
            assert [gateway.get(path, token=None, port=at).status for at in (gateway.port, port)] == [200, 200]
        for method, path in [
            ("GET", "/v1/admin/audit"), ("PUT", "/v1/admin/audit"), ("POST", "/v1/admin/users/alice/disable"), ("GET", "/v1/admin"),
            ("GET", "/v1/%61dmin/audit"), ("GET", "/admin/"), ("GET", "/admin/admin.js"), ("GET", "/admin"),
        ]:  # fmt: skip
            status, code = plain(gateway.port, method, path, world.admin_token)
            assert (status, code) == (404, "notFound"), path
        for method, path in [
            ("GET", "/"), ("GET", "/metrics"), ("GET", "/openapi.yaml"), ("POST", "/v1/calls"), ("GET", "/v1/users/alice"), ("GET", "/v1/ring/c"),
            ("POST", "/call/start_call"), ("GET", "/healthz/"), ("GET", "/v1"),
        ]:  # fmt: skip
            status, code = plain(port, method, path, gateway.token)
            assert (status, code) == (404, "notFound"), path
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/admin/", timeout=5) as answer:
            assert answer.status == 200
        done = run("admin", "audit", "--gateway", f"http://127.0.0.1:{port}", "--token-file", str(world.token_file))
        assert done.returncode == 0
    finally:
        gateway.stop()
    for flag in ("nowhere", f"127.0.0.1:{world.gateway.port}"):
        refused = Gateway(tmp_path, world.secure.url, world.service.store, keys=str(world.secure.keys), admin_http=flag).exit()
        assert refused.returncode != 0 and "--admin-http" in refused.stderr and flag in refused.stderr


def test_the_page_is_served_with_a_strict_policy(world: Administered) -> None:
    """test_admin_page.py tests the page's behaviour."""
    kinds = {"": "text/html", "admin.js": "text/javascript", "admin.css": "text/css"}
    for name, kind in kinds.items():
        with urllib.request.urlopen(f"http://127.0.0.1:{world.gateway.port}/admin/{name}", timeout=5) as answer:
            headers, body = answer.headers, answer.read()
        assert headers["Content-Type"] == f"{kind}; charset=utf-8" and body
        policy = headers["Content-Security-Policy"].split("; ")
        assert policy[0] == "default-src 'none'" and {"script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"} <= set(policy)
        assert not any("unsafe" in rule or "*" in rule or "blob" in rule for rule in policy)
        assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-cache"
    with urllib.request.urlopen(f"http://127.0.0.1:{world.gateway.port}/admin", timeout=5) as answer:
        assert answer.url.endswith("/admin/")
    for method, path in [("GET", "/admin/index.html"), ("GET", "/admin//"), ("POST", "/admin/"), ("GET", "/admin/admin.js/")]:
        assert plain(world.gateway.port, method, path, world.admin_token) == (404, "notFound")


def plain(port: int, method: str, path: str, token: str) -> tuple[int, str]:
    """The status, and the problem's code. A listener does not have every path of docs/openapi.yaml, so this answer is
    not held against the document as other answers are."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path, None, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())["code"]
    finally:
        connection.close()
