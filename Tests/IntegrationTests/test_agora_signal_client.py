"""AgoraSignalClient: apps that import only this module, each a process, on a real broker and coordinators."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import Deploy, DropIn, RedisServer, SecureBroker, World, encode_user, is_online, on_each_store, wait_until

INVALID, NOT_LOGGED_IN, NOT_DELIVERED, TOO_LARGE, TOO_MANY = -1, -2, -3, -4, -5
NOT_CONNECTED, TOKEN_EXPIRED, BAD_CONFIGURATION = -7, -8, -9
"""Codes of the errors (docs/migrate/agora-callapi.md)."""

App = Callable[..., DropIn]


@pytest.fixture(scope="module")
def own_deployment(deploy: Deploy) -> World:
    return deploy(2)


@pytest.fixture
def world(own_deployment: World) -> Iterator[World]:
    yield from own_deployment.borrow()


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """Starts an app. With `login=False` the app does not log in."""
    apps: list[DropIn] = []

    def start(
        world: World, user: str, *, login: bool = True, device: str = "phone", **options: Any
    ) -> DropIn:
        made = DropIn("agora-probe", tmp_path, world.broker.url, user, device)
        apps.append(made)
        made.do("init", broker=made.broker, user=user, device=device, **options)
        made.do("listen", name="app")
        if login:
            made.start("login")
            assert made.expect("login")["error"] == 0
        return made

    yield start
    for made in apps:
        made.expect_outside()
        made.close()


def texts(app: DropIn, listener: str = "app") -> list[str]:
    return [line["text"] for line in app.told("message") if line["listener"] == listener]


def outcomes(app: DropIn) -> dict[int, int]:
    """The error code by message; each message has a single completion."""
    told = [(line["n"], line["error"]) for line in app.told("sent")]
    assert len(told) == len(dict(told)), "a completion was called twice"
    return dict(told)


# The connection


def test_the_delegate_hears_of_the_connection_before_the_login(world: World, app: App) -> None:
    """The app is told onConnected, then the login's completion; a second login of a user who is logged in succeeds as
    well."""
    alice = app(world, world.user("alice"))
    assert [name for name in alice.names() if name in ("onConnected", "login")] == ["onConnected", "login"]
    assert alice.expect("onConnected")["isConnected"] is True
    alice.start("login")
    assert alice.expect("login", count=2)["error"] == 0
    assert len(alice.told("onConnected")) == 1


def test_after_logout_nothing_is_sent_and_another_login_connects_again(world: World, app: App) -> None:
    alice, bob = app(world, world.user("alice")), app(world, world.user("bob"))
    alice.do("logout")
    assert alice.expect("onDisconnected")["isConnected"] is False
    alice.do("send", to=bob.user)
    assert alice.expect("sent", n=1)["error"] == NOT_LOGGED_IN
    alice.start("login")
    assert alice.expect("login", 10, count=2)["error"] == 0
    alice.do("send", to=bob.user, first=2)
    assert alice.expect("sent", n=2)["error"] == 0
    bob.expect("message")
    assert texts(bob) == ["2"]


@pytest.mark.waits
def test_a_login_without_a_broker_fails_and_the_next_one_succeeds(rig: Any, app: App) -> None:
    broker = rig.broker(start=False)
    service = rig.service(broker, start=False)
    world = World(broker, service)
    alice = app(world, "alice", login=False)
    alice.start("login")
    assert alice.expect("login", 20)["error"] == NOT_CONNECTED
    alice.do("send", to="bob")
    assert alice.expect("sent", n=1)["error"] == NOT_LOGGED_IN
    broker.start()
    service.start()
    alice.start("login")
    assert alice.expect("login", 10, count=2)["error"] == 0
    assert len(alice.told("onConnected")) == 1


@pytest.mark.parametrize(
    ("user", "device", "error"),
    [("", "phone", INVALID), ("0", "phone", INVALID), ("x" * 65, "phone", INVALID), ("alice", "a phone", BAD_CONFIGURATION)],
)
def test_a_login_of_nobody_fails(world: World, app: App, user: str, device: str, error: int) -> None:
    nobody = app(world, user, login=False, device=device)
    nobody.start("login")
    assert nobody.expect("login")["error"] == error


def test_a_client_that_nobody_holds_any_more_logs_out(world: World, app: App) -> None:
    alice = app(world, world.user("alice"))
    assert is_online(world, alice.user)
    alice.do("drop")
    gone = world.tap.wait(lambda m: m.kind == "presence" and m.levels[0] == alice.user and not m.body["online"], 10, "goodbye")
    assert gone.body["reason"] == "logout"
    wait_until(lambda: not is_online(world, alice.user), 10, "the service has read the goodbye")


def test_another_connection_of_the_device_takes_its_place(world: World, app: App) -> None:
    """The broker does not tell the replaced connection: the device knows after the third time, in some seconds."""
    first = app(world, world.user("alice"))
    second = app(world, first.user)
    wait_until(lambda: not is_connected(first) or not is_connected(second), 30, "one of them gives up")


def is_connected(app: DropIn) -> bool:
    count = len(app.told("properties"))
    app.do("properties")
    return bool(app.expect("properties", count=count + 1)["isConnected"])


# Messages


def test_a_message_arrives_once_and_the_sender_is_told(world: World, app: App) -> None:
    alice, bob = app(world, world.user("alice")), app(world, world.user("bob"))
    text = 'a "message" \\ with\nsigns, 你好, \U0001f4de and \u0001'
    alice.do("send", to=bob.user, text=text)
    assert alice.expect("sent", n=1)["error"] == 0
    bob.expect("message", text=text)
    alice.do("sendQuietly", to=bob.user)
    bob.expect("message", text="quiet")
    assert texts(bob) == [text, "quiet"] and texts(alice) == []


@pytest.mark.parametrize("user", ["", "0", "x" * 65])
def test_a_message_to_nobody_is_refused(world: World, app: App, user: str) -> None:
    alice = app(world, world.user("alice"))
    alice.do("send", to=user)
    assert alice.expect("sent")["error"] == INVALID
    # Before a login as well.
    other = app(world, world.user("other"), login=False)
    other.do("send", to=user)
    assert other.expect("sent")["error"] == INVALID


def test_a_message_that_is_too_large_is_refused_and_holds_nothing_up(world: World, app: App) -> None:
    alice, bob = app(world, world.user("alice")), app(world, world.user("bob"))
    alice.do("send", to=bob.user, text="x" * 32_766, first=1)
    alice.do("send", to=bob.user, text="x" * 32_767, first=2)
    alice.do("send", to=bob.user, first=3)
    alice.expect("sent", count=3)
    assert outcomes(alice) == {1: 0, 2: TOO_LARGE, 3: 0}
    # The device has acknowledged the message; its app is told a moment later.
    bob.expect("message", count=2)
    assert texts(bob) == ["x" * 32_766, "3"]


def test_a_listener_that_is_added_twice_hears_once_and_one_that_is_removed_does_not(world: World, app: App) -> None:
    alice, bob = app(world, world.user("alice")), app(world, world.user("bob"))
    bob.do("listen", name="app")
    bob.do("listen", name="other")
    alice.do("send", to=bob.user, first=1)
    bob.expect("message", listener="other", text="1")
    bob.do("unlisten", name="app")
    # The client holds a listener weakly: the listener is gone with the app's last hold.
    bob.do("listen", name="third")
    bob.do("forget", name="third")
    alice.do("send", to=bob.user, first=2)
    bob.expect("message", listener="other", text="2")
    assert (texts(bob), texts(bob, "other"), texts(bob, "third")) == (["1"], ["1", "2"], [])


def test_without_a_peer_the_sender_is_told_when_the_time_is_over(world: World, app: App) -> None:
    alice = app(world, world.user("alice"), timeout=2)
    began = time.monotonic()
    alice.do("send", to="nobody-there", count=3)
    alice.expect("sent", 6, count=3)
    assert 1.9 <= time.monotonic() - began <= 5
    assert set(outcomes(alice).values()) == {NOT_DELIVERED}


def test_the_time_is_ten_seconds_unless_it_is_set(world: World, app: App) -> None:
    alice = app(world, world.user("alice"), login=False)
    alice.do("properties")
    assert alice.expect("properties")["messageTimeout"] == 10


@pytest.mark.parametrize(("given", "taken"), [(0, 1), (-5, 1), (1, 1), (600, 600), (601, 600)])
def test_the_time_is_1_to_600_seconds(world: World, app: App, given: int, taken: int) -> None:
    alice = app(world, world.user("alice"), login=False)
    alice.do("properties", timeout=given)
    assert alice.expect("properties")["messageTimeout"] == taken


def test_more_messages_than_the_client_keeps_are_refused(world: World, app: App) -> None:
    """32 are under way to a peer, and 1024 wait."""
    alice = app(world, world.user("alice"), timeout=3)
    alice.do("send", to=world.user("nobody"), count=1_024 + 32 + 5)
    refused = [alice.expect("sent", n=n)["error"] for n in range(1_057, 1_062)]
    assert refused == [TOO_MANY] * 5
    alice.expect("sent", 40, count=1_061)
    assert list(outcomes(alice).values()).count(NOT_DELIVERED) == 1_056


def test_listeners_are_told_for_the_apps_log(rig: Any, app: App) -> None:
    world = rig.world()
    alice = app(world, "alice", timeout=1)
    assert alice.expect("debug", text="connected")["level"] == 0
    alice.do("send", to="0")
    assert "user id" in alice.expect("debug", level=1)["text"]
    world.broker.stop()
    alice.expect("onDisconnected")
    assert alice.told("debug")[-1]["text"].startswith("disconnected: ") and alice.told("debug")[-1]["level"] == 1
    assert {line["listener"] for line in alice.told("debug")} == {"app"}


def test_without_a_broker_the_sender_is_told_in_time_and_nothing_arrives_later(rig: Any, app: App) -> None:
    """The sender is told within `messageTimeout` and 3 s more; a later message is delivered as usual."""
    world = rig.world()
    alice, bob = app(world, "alice", timeout=2), app(world, "bob")
    world.broker.stop()
    alice.expect("onDisconnected")
    began = time.monotonic()
    alice.do("send", to="bob", count=2)
    alice.expect("sent", 6, count=2)
    assert 1.9 <= time.monotonic() - began <= 5
    world.broker.start()
    for phone in (alice, bob):
        phone.expect("onConnected", 20, count=2)
    alice.do("send", to="bob", first=3)
    assert alice.expect("sent", n=3)["error"] == 0
    assert outcomes(alice) == {1: NOT_DELIVERED, 2: NOT_DELIVERED, 3: 0}
    bob.expect("message")
    assert texts(bob) == ["3"]


def test_what_waited_comes_after_the_login_and_in_its_order(world: World, app: App) -> None:
    alice = app(world, world.user("alice"))
    bob = app(world, world.user("bob"), login=False)
    alice.do("send", to=bob.user, count=40)
    bob.start("login")
    bob.expect("message", 10, text="40")
    alice.expect("sent", 10, count=40)
    names = bob.names()
    assert names.index("onConnected") < names.index("login") < names.index("message")
    assert texts(bob) == [str(n) for n in range(1, 41)]
    assert set(outcomes(alice).values()) == {0}


def test_after_messages_that_expired_the_next_one_arrives_at_once(world: World, app: App) -> None:
    """Expired messages do not hold up later messages."""
    alice, bob = app(world, world.user("alice"), timeout=3), app(world, world.user("bob"))
    alice.do("send", to=bob.user, first=1)
    bob.expect("message", text="1")
    bob.do("logout")
    bob.expect("onDisconnected")
    alice.do("send", to=bob.user, first=2, count=3)
    alice.expect("sent", count=4)
    bob.start("login")
    bob.expect("login", 10, count=2)
    began = time.monotonic()
    alice.do("send", to=bob.user, first=5)
    bob.expect("message", text="5")
    assert time.monotonic() - began < 2
    alice.expect("sent", count=5)
    assert outcomes(alice) == {1: 0, 2: NOT_DELIVERED, 3: NOT_DELIVERED, 4: NOT_DELIVERED, 5: 0}


@pytest.fixture(scope="module", params=["SQLite", "Redis"])
def several(request: pytest.FixtureRequest, deploy: Deploy, redis_server: RedisServer) -> World:
    """Three coordinators on the same store. A coordinator will die."""
    return on_each_store(deploy, redis_server, 3)[request.param]


@pytest.mark.parametrize("reconnects", ["sender", "receiver", "both"])
def test_200_messages_arrive_in_order_while_a_coordinator_dies_and_connections_break(
    several: World, app: App, reconnects: str
) -> None:
    world = several
    alice, bob = app(world, world.user("alice"), timeout=30), app(world, world.user("bob"))
    alice.do("send", to=bob.user, count=200)
    bob.expect("message", 20, count=20)
    if world.services[2].running:
        world.services[2].kill()
    for phone in (alice, bob):
        if reconnects in ("both", "sender" if phone is alice else "receiver"):
            cut(world, phone)
    alice.expect("sent", 60, count=200)
    bob.expect("message", 30, text="200")
    assert texts(bob) == [str(n) for n in range(1, 201)]
    assert set(outcomes(alice).values()) == {0}


def cut(world: World, phone: DropIn) -> None:
    """Breaks the phone's connection: another connection takes its place (MQTT 3.1.1 CONNECT, clean session), and
    goes."""
    client = f"{encode_user(phone.user)}/{phone.device}".encode()
    connect = b"\x00\x04MQTT\x04\x02\x00\x3c" + len(client).to_bytes(2, "big") + client
    with socket.create_connection(("127.0.0.1", world.broker.port), 5) as connection:
        connection.sendall(bytes([0x10, len(connect)]) + connect)
        assert connection.recv(4) == b"\x20\x02\x00\x00"
        connection.sendall(b"\xe0\x00")


# Tokens


@pytest.fixture
def checked(secure: World) -> SecureBroker:
    """The broker of `secure`."""
    assert isinstance(secure.broker, SecureBroker)
    return secure.broker


def peer(secure: World, broker: SecureBroker, app: App) -> DropIn:
    user = World.user("bob")
    return app(secure, user, tokens=[broker.token(user)])


@pytest.mark.waits
def test_tokens_of_a_provider_are_renewed_without_a_word(secure: World, checked: SecureBroker, app: App) -> None:
    user, ends = World.user("alice"), int(time.time()) + 8
    alice = app(secure, user, tokens=[checked.token(user, exp=ends), checked.token(user)])
    wait_until(lambda: time.time() > ends + 1, 15, "the first token has ended")
    bob = peer(secure, checked, app)
    bob.do("send", to=user)
    assert bob.expect("sent", 10)["error"] == 0
    alice.expect("message")
    assert texts(alice) == ["1"]
    assert not alice.told("onTokenPrivilegeWillExpire") and len(alice.told("login")) == 1


def test_a_token_that_ends_is_told_and_another_one_goes_on(secure: World, checked: SecureBroker, app: App) -> None:
    user, bob = World.user("alice"), peer(secure, checked, app)
    alice = app(secure, user, login=False)
    alice.do("renew", token="none")
    alice.start("login")
    assert alice.expect("login", 20)["error"] == NOT_CONNECTED
    alice.do("renew", token=checked.token(user, -10))
    alice.start("login")
    assert alice.expect("login", 20, count=2)["error"] == TOKEN_EXPIRED
    alice.do("renew", token=checked.token(user, 6))
    alice.start("login")
    assert alice.expect("login", 20, count=3)["error"] == 0
    assert alice.expect("onTokenPrivilegeWillExpire")["channel"] == ""
    alice.expect("onTokenPrivilegeWillExpire", 15, count=2)
    assert alice.expect("onDisconnected", 15)["isConnected"] is False
    alice.start("login")
    assert alice.expect("login", 20, count=4)["error"] == TOKEN_EXPIRED
    alice.do("renew", token=checked.token(user))
    alice.expect("onConnected", 20, count=2)
    alice.do("send", to=bob.user)
    assert alice.expect("sent", 10)["error"] == 0


def test_a_token_that_is_renewed_in_time_is_not_missed(secure: World, checked: SecureBroker, app: App) -> None:
    user, bob = World.user("alice"), peer(secure, checked, app)
    alice = app(secure, user, login=False)
    ends = int(time.time()) + 6
    alice.do("renew", token=checked.token(user, exp=ends))
    alice.start("login")
    assert alice.expect("login", 20)["error"] == 0
    alice.expect("onTokenPrivilegeWillExpire")
    alice.do("renew", token=checked.token(user))
    wait_until(lambda: time.time() > ends + 1, 10, "the first token has ended")
    alice.do("send", to=bob.user)
    assert alice.expect("sent", 10)["error"] == 0
    assert len(alice.told("onTokenPrivilegeWillExpire")) == 1 and not alice.told("onDisconnected")


# The vendor's own code


def test_callapis_own_code_calls_and_accepts(world: World, app: App) -> None:
    """Document 004: login, prepare, call, and the peer accepts from inside the message."""
    alice, bob = (app(world, "unused", login=False) for _ in range(2))
    base = time.time_ns() % 1_000_000_000
    for number, phone in enumerate((alice, bob)):
        phone.start("vendor", broker=phone.broker, user=base + number, device=f"phone-{number}")
        phone.expect("prepared", 10)
    alice.do("vendorCall", to=base + 1)
    assert alice.expect("called")["error"] == 0
    assert bob.expect("state", action=0)["from"] == base
    assert bob.expect("accepted")["error"] == 0
    assert alice.expect("state", action=2)["from"] == base + 1
    assert [line["told"] for line in alice.told("vendorConnected", "prepared")] == ["vendorConnected", "prepared"]
