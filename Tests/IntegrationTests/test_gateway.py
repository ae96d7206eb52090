"""docs/backend.md: a backend that makes calls, answers and ends them, over REST. Every answer of a gateway is held against
docs/openapi.yaml (harness/gateway.py)."""

from __future__ import annotations

import http.client
import secrets
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from conftest import Rig
from harness import PROJECT, STORES, Deploy, RedisServer, World, call_id, change_in, member, talk, wait_until
from harness.gateway import Gateway, user_path
from harness.openapi import OpenAPI
from harness.processes import free_port


@dataclass(frozen=True)
class Site:
    """A deployment with two coordinators and a gateway."""

    world: World
    gateway: Gateway


@pytest.fixture(scope="module")
def sites(deploy: Deploy, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Site]]:
    prefix = {"redis_prefix": f"bellwire-{secrets.token_hex(4)}"}
    sites = {}
    for store, flags in {"SQLite": {}, "Redis": {"store": redis_server.url} | prefix}.items():
        world = deploy(2, **flags)
        own = {} if store == "SQLite" else prefix
        directory = tmp_path_factory.mktemp("gateway")
        sites[store] = Site(world, Gateway(directory, world.broker.url, world.service.store, **own).start())
    yield sites
    for site in sites.values():
        site.gateway.stop()


@pytest.fixture(params=STORES)
def site(request: pytest.FixtureRequest, sites: dict[str, Site]) -> Iterator[Site]:
    yield from borrow(sites[request.param])


@pytest.fixture
def sqlite(sites: dict[str, Site]) -> Iterator[Site]:
    """For tests in which the store does not matter."""
    yield from borrow(sites["SQLite"])


@pytest.fixture
def mistaken(sqlite: Site) -> Iterator[str]:
    """A user in whose name a backend makes invalid requests."""
    user = sqlite.world.user("mistaken")
    sqlite.world.tap.is_mistaken = lambda message: message.levels[0] == user
    yield user
    sqlite.world.tap.settle()


def borrow(site: Site) -> Iterator[Site]:
    for world in site.world.borrow():
        yield Site(world, site.gateway)


# ---- Making a call


def test_a_backend_makes_a_phone_ring(site: Site) -> None:
    bob, alice = site.world.phone("bob"), site.world.user("alice")
    made = site.gateway.post("/v1/calls", {"inviter": alice, "invitees": [bob.user], "media": "voice"})
    call = made.ok(201)["callID"]
    assert made.headers["location"] == f"/v1/calls/{call}"
    assert made.body["offline"] == [] and made.body["call"]["callID"] == call
    event = bob.expect("call.invited", call)
    assert event["call"]["inviter"] == alice and event["call"]["media"] == "voice"
    assert member(event["call"], alice)["device"] == "server"
    bob.accept(call)
    assert site.gateway.get(made.headers["location"]).ok()["call"]["state"] == "ended"


def test_who_is_offline_or_cannot_be_invited_is_told(site: Site) -> None:
    alice, bob, carol = site.world.user("alice"), site.world.phone("bob"), site.world.user("carol")
    call = site.gateway.invite(alice, bob, mode="advanced", autoEnd=False)
    added = site.gateway.on_call(call, "add", alice, invitees=[bob.user, carol]).ok()
    assert added["offline"] == [carol]
    assert added["errors"] == [{"userID": bob.user, "code": "invalidState"}]


def test_a_backend_may_act_as_a_device(site: Site) -> None:
    """The device then holds the call, with all consequences: here, the device goes offline and the call ends."""
    alice, bob = site.world.phones("alice", "bob")
    call = site.gateway.invite(alice, bob, device="phone")
    assert member(bob.expect("call.invited", call)["call"], alice)["device"] == "phone"
    alice.logout()
    assert bob.expect("call.cancelled", call)["call"]["endReason"] == "callerLost"


# ---- Idempotency-Key


def test_a_call_is_made_once_for_its_key(site: Site) -> None:
    bob, alice, key = site.world.phone("bob"), site.world.user("alice"), secrets.token_hex(8)
    body = {"inviter": alice, "invitees": [bob.user]}
    first = site.gateway.post("/v1/calls", body, key=key)
    again = site.gateway.post("/v1/calls", body, key=key)
    assert (first.status, again.status) == (201, 200)
    assert first.body == again.body | {"revision": first.body["revision"], "time": first.body["time"], "call": first.body["call"]}
    assert first.headers["location"] == again.headers["location"]
    bob.expect("call.invited", first.body["callID"])
    assert len(site.gateway.get(f"{user_path(alice)}/calls").ok()["calls"]) == 1
    other = site.gateway.post("/v1/calls", body, key=secrets.token_hex(8)).ok(201)
    assert other["callID"] != first.body["callID"]


def test_a_key_with_another_body_is_refused_and_does_nothing(site: Site) -> None:
    alice, bob, carol, key = site.world.user("alice"), site.world.phone("bob"), site.world.phone("carol"), secrets.token_hex(8)
    body = {"inviter": alice, "invitees": [bob.user], "mode": "advanced", "extendedData": "ü"}
    call = site.gateway.post("/v1/calls", body, key=key).ok(201)["callID"]
    for other in ({"invitees": [carol.user]}, {"extendedData": "u"}, {"mode": "common"}):
        refused = site.gateway.post("/v1/calls", body | other, key=key)
        assert "id" in refused.problem(422, "badRequest")["detail"]
    assert site.gateway.on_call(call, "end", alice, key).problem(422, "badRequest"), "another request under the key"
    assert len(site.gateway.get(f"{user_path(alice)}/calls").ok()["calls"]) == 1
    again = dict(reversed(body.items())) | {"mode": "advanced"}
    assert site.gateway.post("/v1/calls", again, key=key).ok()["callID"] == call, "the order of fields does not matter"
    cancel = secrets.token_hex(8)
    site.gateway.on_call(call, "cancel", alice, cancel, invitees=[bob.user]).ok()
    site.gateway.on_call(call, "cancel", alice, cancel, invitees=[carol.user]).problem(422, "badRequest")
    path, key = f"{user_path(bob.user)}/messages", secrets.token_hex(8)
    message = {"from": alice, "data": {"a": 1, "b": [2]}}
    sent = site.gateway.post(path, message, key=key).ok(202)
    site.gateway.post(path, message | {"data": {"a": 2, "b": [2]}}, key=key).problem(422, "badRequest")
    assert site.gateway.post(path, message | {"data": {"b": [2], "a": 1}}, key=key).ok(202) == sent
    bob.expect_type("message", messageID=sent["messageID"])
    assert {m["messageID"]: m["data"] for m in bob.had("message")} == {sent["messageID"]: message["data"]}


def test_without_a_key_each_request_makes_its_own_call(sqlite: Site) -> None:
    alice, bob = sqlite.world.user("alice"), sqlite.world.phone("bob")
    assert sqlite.gateway.invite(alice, bob) != sqlite.gateway.invite(alice, bob)


def test_every_request_on_a_call_is_done_once_for_its_key(site: Site) -> None:
    """The second request gets the first answer, though the state has changed, and makes no change."""
    alice, bob, carol, dave = (site.world.user(name) for name in ("alice", "bob", "carol", "dave"))
    call = site.gateway.invite(alice, bob, carol, mode="advanced", autoEnd=False)
    steps: list[tuple[str, str, dict[str, Any]]] = [
        ("accept", bob, {}),
        ("reject", carol, {"reason": "busy"}),
        ("add", alice, {"invitees": [carol, dave]}),
        ("cancel", alice, {"invitees": [dave]}),
        ("join", carol, {}),
        ("quit", bob, {}),
        ("end", alice, {"reason": "done"}),
    ]
    for action, user, fields in steps:
        key = secrets.token_hex(8)
        first = site.gateway.on_call(call, action, user, key, **fields).ok()
        again = site.gateway.on_call(call, action, user, key, **fields).ok()
        assert again["revision"] == first["revision"], action
        assert {again.get("offline") == first.get("offline"), again.get("errors") == first.get("errors")} == {True}
    ended = site.gateway.call(call)
    assert (ended["endReason"], ended["endedBy"]) == ("hangup", alice)
    assert {m["userID"]: m["state"] for m in ended["members"]} == {
        alice: "accepted",
        bob: "quit",
        carol: "accepted",
        dave: "cancelled",
    }


@pytest.mark.parametrize("key", ["", "a b", "a.b", "ä", "x" * 65, "a,b"])
def test_a_key_that_cannot_be_is_refused(sqlite: Site, key: str) -> None:
    call, user = call_id(), user_path(sqlite.world.user("alice"))
    for method, path in [
        ("POST", "/v1/calls"),
        ("POST", f"/v1/calls/{call}/accept"),
        ("POST", f"/v1/calls/{call}/heartbeat"),
        ("POST", f"{user}/messages"),
        ("PATCH", user),
        ("POST", "/v1/tokens"),
    ]:
        refused = sqlite.gateway.ask(method, path, {"userID": "alice", "inviter": "alice", "invitees": ["bob"]}, key=key.encode())  # type: ignore[arg-type]
        assert "Idempotency-Key" in refused.problem(400, "badRequest")["detail"]


# ---- Phones stop ringing


@pytest.mark.parametrize("action", ["accept", "reject", "join"])
def test_who_answers_through_the_backend_stops_the_phones_ringing(site: Site, action: str) -> None:
    alice, bob = site.world.phones("alice", "bob")
    web = site.world.another(bob, "web")
    call = alice.invite(bob, mode="advanced")
    for device in (bob, web):
        device.expect("call.invited", call)
    answered = site.gateway.on_call(call, action, bob, extendedData="by mail").ok()
    expected = "rejected" if action == "reject" else "accepted"
    assert member(answered["call"], bob)["state"] == expected
    for device in (bob, web):
        device.expect("call.handledElsewhere", call)
    change = change_in(alice.expect_change(call, bob, expected), bob)
    assert (change["device"], change["extendedData"]) == ("server", "by mail")


def test_a_common_call_is_answered(site: Site) -> None:
    alice, bob = site.world.phones("alice", "bob")
    call = alice.invite(bob)
    bob.expect("call.invited", call)
    assert site.gateway.on_call(call, "accept", bob).ok()["call"]["endReason"] == "answered"
    bob.expect("call.handledElsewhere", call)
    alice.expect_change(call, bob, "accepted")


def test_what_the_backend_takes_back_stops_ringing(site: Site) -> None:
    bob, carol, alice = site.world.phone("bob"), site.world.phone("carol"), site.world.user("alice")
    call = site.gateway.invite(alice, bob, carol)
    for device in (bob, carol):
        device.expect("call.invited", call)
    site.gateway.on_call(call, "cancel", alice, invitees=[bob.user]).ok()
    bob.expect("call.cancelled", call)
    again = site.gateway.on_call(call, "cancel", alice, invitees=[bob.user, carol.user]).ok()
    assert again["errors"] == [{"userID": bob.user, "code": "invalidState"}]
    assert carol.expect("call.cancelled", call)["call"]["endReason"] == "cancelled"


def test_the_backend_adds_leaves_and_ends(site: Site) -> None:
    alice, bob, carol = site.world.phones("alice", "bob", "carol")
    call = talk(alice, bob, autoEnd=False)
    assert site.gateway.on_call(call, "add", alice, device="phone", invitees=[carol.user], timeout=30).ok()["offline"] == []
    carol.expect("call.invited", call)
    assert member(site.gateway.on_call(call, "quit", bob, device="phone").ok()["call"], bob)["state"] == "quit"
    alice.expect_change(call, bob, "quit")
    ended = site.gateway.on_call(call, "end", alice, device="phone", reason="closing time").ok()
    assert ended["call"]["endedBy"] == alice.user
    assert carol.expect("call.ended", call)["call"]["endReason"] == "hangup"


# ---- A call that the backend holds


def test_all_devices_of_a_user_hear_of_a_call_that_the_backend_holds(site: Site) -> None:
    alice, bob = site.world.phones("alice", "bob")
    web = site.world.another(alice, "web")
    call = site.gateway.invite(alice, bob, mode="advanced")
    for device in (alice, web):
        assert device.expect("call.created", call)["actor"] == alice.user
    bob.accept(call)
    for device in (alice, web):
        device.expect_change(call, bob, "accepted")
    site.gateway.on_call(call, "end", alice).ok()
    for device in (alice, web, bob):
        assert device.expect("call.ended", call)["call"]["endedBy"] == alice.user


def test_a_phone_takes_over_what_the_backend_holds(site: Site) -> None:
    alice, bob = site.world.phones("alice", "bob")
    web = site.world.another(alice, "web")
    call = site.gateway.invite(alice, bob, mode="advanced")
    bob.accept(call)
    for device in (alice, web):
        device.expect_change(call, bob, "accepted")
    taken = alice.join(call)
    assert member(taken["call"], alice)["device"] == "phone"
    web.expect("call.handledElsewhere", call, after=taken["revision"] - 1)
    bob.signal(call, "to the phone")
    assert alice.expect_type("signal", data="to the phone")["from"] == bob.user
    with web.silent(0.3, call, stale=False):
        bob.quit(call)
        alice.expect("call.ended", call)


def test_a_device_that_comes_online_is_told_of_what_the_backend_holds(site: Site) -> None:
    alice, bob = site.world.user("alice"), site.world.phone("bob")
    call = site.gateway.invite(alice, bob, mode="advanced")
    phone = site.world.device(alice)
    welcome = phone.expect_type("welcome", session=phone.session)
    assert [known["callID"] for known in welcome["calls"]] == [call]
    bob.accept(call)
    phone.expect_change(call, bob, "accepted")
    assert member(phone.join(call)["call"], phone)["device"] == "phone"


# ---- Reading


def test_any_call_is_read_with_its_timeline(site: Site) -> None:
    alice, bob = site.world.phones("alice", "bob")
    call = talk(alice, bob)
    alice.ok("call.report", callID=call, milestones={"firstFrame": 400})
    alice.end(call)
    read = site.gateway.get(f"/v1/calls/{call}").ok()
    assert read["call"] == alice.get(call)
    assert read["reports"] == [{"userID": alice.user, "device": "phone", "milestones": {"firstFrame": 400}}]

    def requests() -> list[str]:
        entries = site.gateway.get(f"/v1/calls/{call}/trace").ok()["entries"]
        return [entry["type"] for entry in entries if entry["kind"] == "request"]

    # Each coordinator writes its timeline entries up to a second later.
    wait_until(lambda: sorted(requests()) == ["call.accept", "call.end", "call.get", "call.invite", "call.report"], 10, "the timeline")


def test_a_merged_call_is_found_under_both_ids(site: Site) -> None:
    alice, bob = site.world.phones("alice", "bob")
    first = bob.invite(alice, mode="advanced")
    alice.expect("call.invited", first)
    own = call_id()
    merged = site.gateway.post(
        "/v1/calls", {"inviter": alice.user, "invitees": [bob.user], "callID": own, "mode": "advanced", "glare": "merge"}
    ).ok(201)
    assert merged["merged"] is True and merged["callID"] == first
    assert site.gateway.get(f"/v1/calls/{own}").ok()["callID"] == first


def test_the_history_is_paged(site: Site) -> None:
    alice, bob = site.world.user("alice"), site.world.user("bob")
    calls = []
    for _ in range(5):
        calls.append(site.gateway.invite(alice, bob))
        site.gateway.on_call(calls[-1], "cancel", alice).ok()
    found, cursor, pages = [], "0", 0
    while True:
        page = site.gateway.get(f"{user_path(bob)}/calls?count=2&cursor={quote(cursor)}").ok()
        assert len(page["calls"]) <= 2
        found += [call["callID"] for call in page["calls"]]
        cursor, pages = page["cursor"], pages + 1
        if cursor == "0":
            break
    # Calls of the same millisecond have no order among themselves.
    assert sorted(found) == sorted(calls) and pages >= 3
    whole = site.gateway.get(f"{user_path(bob)}/calls").ok()
    assert [call["callID"] for call in whole["calls"]] == found and whole["cursor"] == "0"
    times = [call["createdAt"] for call in whole["calls"]]
    assert times == sorted(times, reverse=True)
    assert len(site.gateway.get(f"{user_path(bob)}/calls?count=99999999999999999999999").ok()["calls"]) == 5
    assert site.gateway.get(f"{user_path(site.world.user('nobody'))}/calls").ok() == {"calls": [], "cursor": "0"}


@pytest.mark.parametrize("query", ["count=0", "count=-1", "count=x", "count=", "count=1.5", "count=%2B5", "cursor=", "cursor=x", "count=%ff"])
def test_a_page_that_cannot_be_is_refused(sqlite: Site, mistaken: str, query: str) -> None:
    sqlite.gateway.get(f"{user_path(mistaken)}/calls?{query}").problem(400, "badRequest")


# ---- Users


def test_a_profile_is_written_and_read(site: Site) -> None:
    alice = site.world.user("alice")
    path = user_path(alice)
    site.gateway.get(path).problem(404, "userNotRegistered")
    profile = {"name": "Alice Ä", "avatarURL": "https://example.org/a.png", "extendedData": '{"a":1}'}
    expected = {"userID": alice, "online": False} | profile
    assert site.gateway.ask("PATCH", path, profile).ok() == {"user": expected}
    assert site.gateway.get(path).ok() == {"user": expected}
    phone = site.world.device(alice)
    wait_until(lambda: site.gateway.get(path).ok()["user"]["online"], 10, "she is online")
    assert site.gateway.ask("PATCH", path, {"name": "", "avatarURL": None}).ok()["user"] == {
        name: value for name, value in expected.items() if name != "name"
    } | {"online": True}
    phone.logout()
    bob = site.world.phone("bob")
    site.gateway.ask("PATCH", path, {"name": "Alice"}).ok()
    call = site.gateway.invite(alice, bob)
    assert member(bob.expect("call.invited", call)["call"], alice)["name"] == "Alice"


def test_the_devices_of_a_user(site: Site) -> None:
    alice = site.world.phone("alice")
    web = site.world.another(alice, "web")
    site.world.another(alice, "silent", presence=False)
    path = f"{user_path(alice)}/devices"
    devices = site.gateway.get(path).ok()["devices"]
    assert [(d["device"], d["online"], d["push"]) for d in devices] == [("phone", True, []), ("web", True, [])]
    web.logout()
    wait_until(
        lambda: [d["device"] for d in site.gateway.get(path).ok()["devices"] if d["online"]] == ["phone"], 10, "one is left"
    )
    assert site.gateway.get(f"{user_path(site.world.user('nobody'))}/devices").ok() == {"devices": []}


USERS = ["a/b", "50%", "%2F", "a b", "a+b", "a?b#c", "zoë", "日本", "😀", "..", "a;b=c&d", "~", "\x01", "e\u0301"]


@pytest.mark.parametrize("name", USERS)
def test_any_user_is_named_in_a_path(sqlite: Site, name: str) -> None:
    user = sqlite.world.user(name)
    phone, carol = sqlite.world.device(user), sqlite.world.phone("carol")
    path = user_path(user)
    wait_until(lambda: sqlite.gateway.get(path).ok()["user"] == {"userID": user, "online": True}, 10, user)
    sqlite.gateway.post(f"{path}/messages", {"from": carol.user, "data": name}).ok(202)
    assert phone.expect_type("message", data=name)["from"] == carol.user
    call = sqlite.gateway.invite(user, carol)
    assert carol.expect("call.invited", call)["call"]["inviter"] == user
    phone.expect("call.created", call)
    assert [found["callID"] for found in sqlite.gateway.get(f"{path}/calls").ok()["calls"]] == [call]
    assert [device["device"] for device in sqlite.gateway.get(f"{path}/devices").ok()["devices"]] == ["phone"]


@pytest.mark.parametrize("level", ["%ff", "%", "%2", "%zz", "%c0%af", "x" * 65, "%c2%80", "%ef%bf%bf"])
def test_what_is_no_user_is_refused(sqlite: Site, level: str) -> None:
    for path in (f"/v1/users/{level}", f"/v1/users/{level}/calls", f"/v1/users/{level}/devices"):
        sqlite.gateway.get(path).problem(400, "badRequest")
    sqlite.gateway.post(f"/v1/users/{level}/messages", {"from": "alice", "data": 1}).problem(400, "badRequest")


# ---- Messages


def test_a_message_arrives_once(site: Site) -> None:
    bob, alice, key = site.world.phone("bob"), site.world.user("alice"), secrets.token_hex(8)
    path, data = f"{user_path(bob)}/messages", {"text": "hällo", "n": [1, None, 2.50]}
    sent = site.gateway.post(path, {"from": alice, "data": data, "ttl": 30}, key=key).ok(202)
    message = bob.expect_type("message", messageID=sent["messageID"])
    assert (message["from"], message["fromDevice"], message["data"]) == (alice, "server", data)
    assert site.gateway.post(path, {"from": alice, "data": data, "ttl": 30}, key=key).ok(202) == sent
    named = call_id()
    for _ in range(2):
        assert site.gateway.post(path, {"from": alice, "data": 1, "messageID": named}).ok(202) == {"messageID": named}
    bob.expect_type("message", messageID=named)
    site.gateway.post(path, {"from": alice, "data": "last", "seq": 1, "stream": "s"}).ok(202)
    bob.expect_type("message", data="last", seq=1, stream="s")
    assert len({m["messageID"] for m in bob.had("message")}) == 3
    site.gateway.post(path, {"from": bob.user, "data": 1, "messageID": named}).problem(400, "badRequest")


def test_data_is_passed_on_byte_for_byte(sqlite: Site) -> None:
    bob = sqlite.world.phone("bob")
    data = b'{ "b" : 1.50, "a":[1e400 , "\\u00e9\\/"], "a":2 }'
    sqlite.gateway.post(f"{user_path(bob)}/messages", b'{"from":"carol","data":' + data + b"}").ok(202)
    assert bob.wait(lambda m: m.carries(data), None, "the data as they were")


# ---- Refusals

OPENAPI = OpenAPI.load()
OPERATIONS = sorted(name for name, operation in OPENAPI.operations.items() if "security" not in operation)
"""The operations for backends. test_zego_http.py has the operations for users."""


def concrete(operation: str) -> tuple[str, str]:
    """The operation's method, and a path for the operation."""
    method, path = operation.split(" ")
    return method, path.replace("{callID}", "none").replace("{userID}", "nobody").replace("{device}", "phone")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_without_a_backends_token_nothing_is_done(sqlite: Site, operation: str) -> None:
    gateway, (method, path) = sqlite.gateway, concrete(operation)
    good = gateway.token
    parts = good.split(".")
    bad = {
        "none": None,
        "expired": gateway.make_token(role="server", ttl=-10),
        "not yet": gateway.make_token(role="server", nbf=2_000_000_000),
        "for others": gateway.make_token(role="server", aud="files"),
        "not signed": f"{parts[0]}.{parts[1]}.",
        "changed": f"{parts[0]}.{parts[1][:-2]}.{parts[2]}",
        "no token": "secret",
    }
    for name, token in bad.items():
        refused = gateway.ask(method, path, {}, token=token)
        assert refused.problem(401, "unauthorized"), name
        assert refused.headers["www-authenticate"] == "Bearer"
    for role in ({}, {"role": "coordinator"}, {"role": "Server"}, {"role": ["server"]}):
        gateway.ask(method, path, {}, token=gateway.make_token(**role)).problem(403, "forbidden")


@pytest.mark.parametrize("value", ["", "Bearer", "Basic {0}", "{0}", "Bearer {0} x", "Bearer  "])
def test_what_is_no_authorization_is_refused(sqlite: Site, value: str) -> None:
    header = value.format(sqlite.gateway.token)
    answer = sqlite.gateway.get("/v1/users/nobody", token=None, Authorization=header)
    answer.problem(401, "unauthorized")


def test_the_scheme_is_read_in_any_case_and_an_admin_is_a_server(sqlite: Site) -> None:
    path = "/v1/users/nobody/calls"
    sqlite.gateway.get(path, token=None, Authorization=f"bEARER   {sqlite.gateway.token}").ok()
    sqlite.gateway.get(path, token=sqlite.gateway.make_token(admin=True)).ok()
    two = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + 2 * f"Authorization: Bearer {sqlite.gateway.token}\r\n" + "\r\n"
    assert sqlite.gateway.raw(two.encode()).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("path", sorted(OPENAPI.document["paths"]))
def test_a_method_that_a_path_does_not_have(sqlite: Site, path: str) -> None:
    """405 with the path's methods, whoever asks."""
    _, target = concrete(f"GET {path}")
    allowed = {method.upper() for method in OPENAPI.document["paths"][path] if method != "parameters"}
    # GET on these two paths has an effect: a phone's ack, and the user's presence.
    allowed |= {"HEAD"} if "GET" in allowed and path not in ("/v1/ring/{callID}", "/call/events") else set()
    for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"} - allowed:
        refused = sqlite.gateway.ask(method, target, token=None)
        assert refused.status == 405, method
        assert set(refused.headers["allow"].split(", ")) == allowed
        if method != "HEAD":
            refused.problem(405, "methodNotAllowed")


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/", "/v1/call", "/v1/calls/", "/V1/calls", "/v1/calls/a/b/c", "/v1/users//calls", "/v1/users/", "/v1/calls/a/ring", "/v1//calls", "/v1/users",
             "/v1/users/a/devices/b/c", "/v2/calls", "/healthz/", "/v1/calls%2Fa", "//healthz", "/page.json"]
)  # fmt: skip
def test_a_path_that_is_not_there(sqlite: Site, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        if not (method == "DELETE" and path == "/v1/users/a/devices/"):
            sqlite.gateway.ask(method, path, token=None).problem(404, "notFound")


def test_head_is_get_without_a_body(sqlite: Site) -> None:
    for path in ("/healthz", "/readyz", "/openapi.yaml", "/metrics", "/v1/users/nobody/calls"):
        got, head = sqlite.gateway.get(path), sqlite.gateway.ask("HEAD", path)
        assert (head.status, head.raw, head.headers["content-type"]) == (200, b"", got.headers["content-type"])
        if path != "/metrics":
            assert head.headers["content-length"] == str(len(got.raw))


def test_a_call_that_is_not_there(site: Site) -> None:
    """The answer is the same for an impossible call id, and for a user who is no member of the call."""
    alice, bob, mallory = site.world.user("alice"), site.world.user("bob"), site.world.user("mallory")
    call = site.gateway.invite(alice, bob, mode="advanced")
    for unknown in (call_id(), "x" * 65, "a.b", "%20", "%2F"):
        for path in (f"/v1/calls/{unknown}", f"/v1/calls/{unknown}/trace"):
            site.gateway.get(path).problem(404, "callNotFound")
    for action in ("accept", "reject", "add", "join", "quit", "end"):
        fields = {"invitees": [alice]} if action == "add" else {}
        for unknown, user in ((call, mallory), (call_id(), alice), ("a.b", alice)):
            site.gateway.on_call(unknown, action, user, **fields).problem(404, "callNotFound")
    site.gateway.on_call(call_id(), "cancel", alice).problem(404, "callNotFound")
    site.gateway.on_call("a.b", "heartbeat", alice).problem(404, "callNotFound")
    site.gateway.on_call(call_id(), "heartbeat", alice).ok(204)


def test_a_cancel_that_came_first_is_remembered(site: Site) -> None:
    alice, bob, call = site.world.user("alice"), site.world.phone("bob"), call_id()
    site.gateway.on_call(call, "cancel", alice).problem(404, "callNotFound")
    made = site.gateway.post("/v1/calls", {"inviter": alice, "invitees": [bob.user], "callID": call}).ok(201)
    assert made["call"]["endReason"] == "cancelled"
    bob.expect_silence(0.3, call, since=0)


def test_what_the_state_does_not_allow(site: Site) -> None:
    """Each 409 and the 403 of the contract, with the further fields of the answer."""
    gateway = site.gateway
    alice, bob, carol, dave = (site.world.user(name) for name in ("alice", "bob", "carol", "dave"))
    common = gateway.invite(alice, bob, carol)
    for action in ("add", "join", "quit", "end"):
        gateway.on_call(common, action, alice, **({"invitees": [dave]} if action == "add" else {})).problem(409, "wrongMode")
    gateway.on_call(common, "cancel", bob).problem(403, "notInviter")
    assert gateway.on_call(common, "accept", alice).problem(409, "invalidState")["state"] == "accepted"
    gateway.on_call(common, "reject", bob, device="phone").ok()
    gateway.on_call(common, "accept", bob, device="web").problem(409, "answeredElsewhere")
    gateway.post("/v1/calls", {"inviter": alice, "invitees": [bob], "callID": common}).problem(409, "callExists")
    gateway.on_call(common, "cancel", alice).ok()
    assert gateway.on_call(common, "cancel", alice).problem(409, "invalidState")["state"] == "cancelled"
    assert gateway.on_call(common, "accept", carol).problem(409, "callEnded")["state"] == "cancelled"

    group = gateway.invite(alice, bob, mode="advanced", autoEnd=False)
    gateway.on_call(group, "add", alice, invitees=[bob]).problem(409, "noInvitees")
    many = [site.world.user("more") for _ in range(9)]
    gateway.on_call(group, "add", alice, invitees=many).problem(409, "callFull")
    assert gateway.on_call(group, "quit", bob).problem(409, "invalidState")["state"] == "inviting"
    busy = gateway.post("/v1/calls", {"inviter": alice, "invitees": [carol]}).problem(409, "alreadyInCall")
    assert busy["callID"] == group
    gateway.on_call(group, "end", alice).ok()
    for action in ("accept", "reject", "cancel", "add", "join", "quit", "end"):
        user = bob if action in ("accept", "reject") else alice
        fields = {"invitees": [dave]} if action == "add" else {}
        assert "state" in gateway.on_call(group, action, user, **fields).problem(409, "callEnded")


ME = "mistaken"
"""Stands for the user of the fixture of this name."""

BODIES: list[tuple[str, Any]] = [
    ("nothing", None),
    ("no JSON", "{"),
    ("not UTF-8", b'{"userID":"\xff"}'),
    ("a list", "[]"),
    ("a text", '"x"'),
    ("null", "null"),
    ("two objects", "{}{}"),
    ("nested too deep", '{"a":' + "[" * 70 + "]" * 70 + "}"),
    ("no user", {}),
    ("a user of the wrong type", {"userID": 5, "inviter": 5, "from": 5, "name": 5}),
    ("no user's name", {"userID": "", "inviter": "", "from": "", "name": "\x01"}),
    ("a long name", {"userID": "x" * 65, "inviter": "x" * 65, "from": "x" * 65, "name": "x" * 257}),
    ("a device that cannot be", {"userID": ME, "inviter": ME, "from": ME, "device": "a b", "extendedData": 5}),
    ("a device of the wrong type", {"userID": ME, "inviter": ME, "from": ME, "device": 5, "avatarURL": "x" * 513}),
]


@pytest.mark.parametrize("body", [body for _, body in BODIES], ids=[name for name, _ in BODIES])
def test_a_body_that_cannot_be(sqlite: Site, mistaken: str, body: Any) -> None:
    actions = ("accept", "reject", "cancel", "add", "join", "quit", "end", "heartbeat")
    paths = ["/v1/calls", f"/v1/users/{mistaken}/messages", "/v1/tokens", *(f"/v1/calls/none/{action}" for action in actions)]
    for path in paths:
        assert sqlite.gateway.post(path, body).problem(400, "badRequest")["detail"]
    # An empty body is a valid change of a profile.
    if body != {}:
        sqlite.gateway.ask("PATCH", f"/v1/users/{mistaken}", body).problem(400, "badRequest")


@pytest.mark.parametrize(
    ("path", "fields", "named"),
    [
        ("/v1/calls", {"inviter": ME, "invitees": []}, "invitees"),
        ("/v1/calls", {"inviter": ME, "invitees": [ME]}, "invitees"),
        ("/v1/calls", {"inviter": ME, "invitees": ["b", "b"]}, "invitees"),
        ("/v1/calls", {"inviter": ME, "invitees": [str(n) for n in range(10)]}, "invitees"),
        ("/v1/calls", {"inviter": ME, "invitees": ["b"], "mode": "x"}, "mode"),
        ("/v1/calls", {"inviter": ME, "invitees": ["b"], "timeout": 601}, "timeout"),
        ("/v1/calls", {"inviter": ME, "invitees": ["b"], "callID": "a.b"}, "callID"),
        ("/v1/calls", {"inviter": ME, "invitees": ["b"], "extendedData": "x" * 2049}, "extendedData"),
        ("/v1/calls/none/reject", {"userID": ME, "reason": "x" * 257}, "reason"),
        ("/v1/users/b/messages", {"from": ME}, "data"),
        ("/v1/users/b/messages", {"from": ME, "data": 1, "ttl": 0}, "ttl"),
        ("/v1/users/b/messages", {"from": ME, "data": 1, "stream": "a.b"}, "stream"),
        ("/v1/users/b/messages", {"from": ME, "data": "x" * 32_768}, "data"),
        ("/v1/tokens", {"userID": ME, "ttl": 0}, "ttl"),
        ("/v1/tokens", {"userID": ME, "ttl": 86_401}, "ttl"),
        ("/v1/tokens", {"userID": ME, "ttl": 1.5}, "ttl"),
        ("/v1/tokens", {"userID": ME, "ttl": "60"}, "ttl"),
    ],
)
def test_a_field_that_cannot_be_is_named(sqlite: Site, mistaken: str, path: str, fields: dict[str, Any], named: str) -> None:
    body = {name: mistaken if value == ME else [mistaken] if value == [ME] else value for name, value in fields.items()}
    assert named in sqlite.gateway.post(path, body).problem(400, "badRequest")["detail"]


def test_what_stands_in_the_path_counts_and_null_is_nothing(sqlite: Site) -> None:
    alice, bob = sqlite.world.user("alice"), sqlite.world.phone("bob")
    call = sqlite.gateway.post(
        "/v1/calls", {"inviter": alice, "invitees": [bob.user], "device": None, "callID": None, "type": "call.end", "id": "x", "new": 1}
    ).ok(201)["callID"]
    assert member(bob.expect("call.invited", call)["call"], alice)["device"] == "server"
    assert sqlite.gateway.on_call(call, "cancel", alice, callID="other", type="call.end", id=7).ok()["callID"] == call
    sent = sqlite.gateway.post(f"{user_path(bob)}/messages", {"from": alice, "to": "other", "data": "x"}).ok(202)
    bob.expect_type("message", messageID=sent["messageID"])


def test_what_is_too_large_is_refused(sqlite: Site) -> None:
    """The coordinator refuses a large request, as over MQTT; the HTTP server refuses a body that is too large for any
    request, and does not read that body."""
    bob = sqlite.world.phone("bob")
    path = f"{user_path(bob)}/messages"
    body = {"from": "alice", "data": "x" * 32_000, "more": ""}
    sqlite.gateway.post(path, body | {"more": "x" * 33_000}).ok(202)
    sqlite.gateway.post(path, body | {"more": "x" * 33_600}).problem(413, "tooLarge")
    assert sqlite.gateway.post(path, body | {"more": "x" * 100_000}).status == 413
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {sqlite.gateway.token}\r\nContent-Length: 1000000000\r\n\r\n"
    assert sqlite.gateway.raw(head.encode()).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("status", "request_head"),
    [
        (400, "GET /healthz HTTP/1.1\r\n"),
        (400, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
        (400, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n"),
        (414, "GET /" + "x" * 40_000 + " HTTP/1.1\r\nHost: x\r\n"),
        (431, "GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + "x" * 40_000 + "\r\n"),
        (501, "POST /v1/calls HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n"),
    ],
    ids=["no host", "two lengths", "no length", "a long path", "long headers", "an unknown coding"],
)
def test_what_is_no_http_is_answered_as_the_document_says(sqlite: Site, status: int, request_head: str) -> None:
    answer = sqlite.gateway.raw((request_head + "\r\n").encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    assert first.startswith(f"HTTP/1.1 {status} "), answer
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    assert OPENAPI.problem("GET", "/healthz", status, headers, body) is None


def test_who_asks_too_often_is_told_when_to_come_back(rig: Rig, tmp_path: Path) -> None:
    world = rig.world(invite_rate="1/2", message_rate="1/1", request_rate="1/3")
    gateway = Gateway(tmp_path, world.broker.url, world.service.store).start()
    try:
        body = {"inviter": "alice", "invitees": ["bob"]}
        attempts: list[Any] = []
        for ask, free in (
            (lambda: gateway.post("/v1/calls", body), 2),
            (lambda: gateway.post("/v1/users/bob/messages", {"from": "alice", "data": 1}), 1),
            (lambda: gateway.get("/v1/users/alice/calls"), 3),
        ):
            began = time.monotonic()
            answers = [ask() for _ in range(free + 3)]
            refused = [answer for answer in answers if answer.status == 429]
            # Each second lets one through besides.
            assert len(refused) >= 2 - (time.monotonic() - began)
            for answer in refused:
                problem = answer.problem(429, "rateLimited")
                assert int(answer.headers["retry-after"]) == max(1, -(-problem["retryAfter"] // 1000))
            attempts += answers
        # The limit does not count requests that only read, and does not concern other users.
        call = attempts[0].ok(201)["callID"]
        for _ in range(10):
            gateway.call(call)
        gateway.post("/v1/calls", {"inviter": "carol", "invitees": ["dave"]}).ok(201)
    finally:
        gateway.stop()


def test_with_known_users_alone_a_stranger_is_not_invited_nor_written_to(rig: Rig, tmp_path: Path) -> None:
    world = rig.world(users="known")
    gateway = Gateway(tmp_path, world.broker.url, world.service.store).start()
    try:
        bob = world.phone("bob")
        gateway.post("/v1/calls", {"inviter": "alice", "invitees": ["nobody"]}).problem(409, "noInvitees")
        made = gateway.post("/v1/calls", {"inviter": "alice", "invitees": ["nobody", bob.user]}).ok(201)
        assert made["errors"] == [{"userID": "nobody", "code": "userNotRegistered"}]
        gateway.post("/v1/users/nobody/messages", {"from": "alice", "data": 1}).problem(404, "userNotRegistered")
        gateway.ask("PATCH", "/v1/users/nobody", {}).ok()
        gateway.post("/v1/users/nobody/messages", {"from": "alice", "data": 1}).ok(202)
    finally:
        gateway.stop()


# ---- The gateway itself


def test_the_document_is_served(sqlite: Site) -> None:
    served = sqlite.gateway.get("/openapi.yaml", token=None)
    assert served.raw.decode() == OPENAPI.text and served.headers["content-type"] == "application/yaml"


def test_the_gateway_tells_how_it_is(sqlite: Site) -> None:
    assert sqlite.gateway.get("/healthz", token=None).raw == b"ok\n"
    assert sqlite.gateway.get("/readyz", token=None).raw == b"ready\n"
    name = 'bellwire_gateway_responses_total{route="GET /v1/calls/{callID}",status="404"}'
    before = sqlite.gateway.metrics().get(name, 0)
    sqlite.gateway.get(f"/v1/calls/{call_id()}").problem(404, "callNotFound")
    after = sqlite.gateway.metrics()
    assert after[name] == before + 1
    assert after["bellwire_gateway_listening"] == 1 and after["bellwire_http_connections"] >= 1


def test_it_serves_https(sqlite: Site, tmp_path: Path) -> None:
    certificates = tmp_path / "certs"
    renewed = tmp_path / "renewed"
    subprocess.run([PROJECT / "scripts/dev-certs", certificates], check=True, capture_output=True)
    made = time.time()
    world = sqlite.world
    admin = free_port()
    flags = {"http_cert": str(certificates / "broker.crt"), "http_key": str(certificates / "broker.key"), "admin_http": f"127.0.0.1:{admin}"}
    gateway = Gateway(tmp_path, world.broker.url, world.service.store, **flags).start(ready=False)
    try:
        trust = ssl.create_default_context(cafile=certificates / "ca.crt")

        def get(path: str, port: int = 0) -> int:
            connection = http.client.HTTPSConnection("localhost", port or gateway.port, context=trust, timeout=10)
            try:
                connection.request("GET", path, headers={"Authorization": f"Bearer {gateway.token}"})
                return connection.getresponse().status
            except OSError:
                return 0
            finally:
                connection.close()

        wait_until(lambda: get("/readyz") == 200, 30, "it serves")
        assert get("/v1/users/nobody/calls") == 200
        assert get("/admin/", admin) == 200, "the administrators' listener has the same certificate"
        assert gateway.get("/healthz", timeout=2, port=admin).status == 0, "plain HTTP"
        assert gateway.get("/healthz", timeout=2).status == 0, "plain HTTP"

        # SIGHUP: both listeners get the new certificate; a file that cannot be used changes no listener.
        def seen(port: int) -> str:
            return ssl.get_server_certificate(("127.0.0.1", port), timeout=10)

        def end() -> str:
            page = http.client.HTTPSConnection("localhost", gateway.port, context=ssl._create_unverified_context(), timeout=10)
            page.request("GET", "/metrics")
            text = page.getresponse().read().decode()
            page.close()
            return next(line for line in text.splitlines() if 'expiry_seconds{name="http-cert"}' in line)

        first, first_end = seen(gateway.port), end()
        # The end is in whole seconds.
        wait_until(lambda: time.time() > made + 2, 10, "certificates with another end")
        subprocess.run([PROJECT / "scripts/dev-certs", renewed], check=True, capture_output=True)
        for name in ("broker.crt", "broker.key"):
            (certificates / name).write_bytes((renewed / name).read_bytes())
        assert seen(gateway.port) == first, "nobody has asked for it"
        assert end() == first_end, "the certificate in use"
        gateway.hang_up()
        wait_until(lambda: seen(gateway.port) == seen(admin) != first, 15, "the new certificate")
        wait_until(lambda: end() != first_end, 10, "the end of the new certificate")
        assert seen(admin) in (renewed / "broker.crt").read_text()
        (certificates / "broker.key").write_text("no key")
        gateway.hang_up()
        wait_until(lambda: "cannot be used; the former certificate stays" in gateway.log.read_text(), 10, "a word in the log")
        assert seen(gateway.port) in (renewed / "broker.crt").read_text()
    finally:
        gateway.stop()


def test_a_device_and_a_user_are_signed_out(site: Site) -> None:
    alice, bob = site.world.phones("alice", "bob")
    web = site.world.another(alice, "web")
    assert site.gateway.ask("DELETE", f"{user_path(alice)}/devices/web").ok(204) is None
    devices = {d["device"]: d["online"] for d in site.gateway.get(f"{user_path(alice)}/devices").ok()["devices"]}
    assert devices["phone"] and not devices["web"]
    assert site.gateway.ask("DELETE", f"{user_path(alice)}/devices/none").ok(204) is None
    site.gateway.on_call(site.gateway.invite(alice, bob), "cancel", alice).ok()
    assert site.gateway.ask("DELETE", user_path(alice)).ok(204) is None
    site.gateway.get(user_path(alice)).problem(404, "userNotRegistered")
    assert site.gateway.get(f"{user_path(alice)}/calls").ok()["calls"] == []
    assert site.gateway.ask("DELETE", user_path(site.world.user("nobody"))).ok(204) is None
