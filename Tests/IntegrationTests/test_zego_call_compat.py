"""ZegoCallCompat: apps that import only this module, each a process, on a real broker and coordinators."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import Deploy, DropIn, RedisServer, SecureBroker, World, on_each_store, wait_until
from harness.gateway import Gateway
from harness.zego import HTTPUser, done

FAILED, INVALID, NETWORK, NOT_LOGGED_IN, WRONG_STATUS, TOKEN_EXPIRED = 1001, 1002, 1004, 1005, 2001, 2002
START, CANCEL, ACCEPT = "/call/start_call", "/call/cancel_call", "/call/accept_call"
DECLINE, END, HEARTBEAT = "/call/decline_call", "/call/end_call", "/call/heartbeat"
INVITED, CANCELED, ACCEPTED = "/call/notify_call_invited", "/call/notify_call_canceled", "/call/notify_call_accept"
DECLINED, ENDED, TIMED_OUT = "/call/notify_call_decline", "/call/notify_call_end", "/call/notify_timeout"
NOTIFICATIONS = (INVITED, CANCELED, ACCEPTED, DECLINED, ENDED, TIMED_OUT)


@pytest.fixture(scope="module")
def own_deployment(deploy: Deploy) -> World:
    return deploy(2)


@pytest.fixture
def world(own_deployment: World) -> Iterator[World]:
    yield from own_deployment.borrow()


@pytest.fixture(scope="module")
def short_deployment(deploy: Deploy) -> World:
    """A member who is silent for 5 s counts as gone, a caller after 1 s."""
    return deploy(2, heartbeat_interval="1s", heartbeat_timeout="5s", caller_grace="1s")


@pytest.fixture
def short(short_deployment: World) -> Iterator[World]:
    yield from short_deployment.borrow()


class Party:
    """An app with a user."""

    def __init__(self, app: DropIn, name: str) -> None:
        self.app, self.name = app, name
        self.user = app.user

    def connect(self, code: int = 0, **options: Any) -> Party:
        count = len(self.app.told("connect")) + 1
        self.app.start(
            "connect", broker=self.app.broker, user=self.user, name=self.name, device=self.app.device, **options
        )
        assert self.app.expect("connect", 10, count)["code"] == code
        return self

    def start(self, call: str, *callees: Party, type: int = 1) -> None:
        """`start_call`, without its callback."""
        self.app.start("call", path=START, call_id=call, name=self.name, callees=listed(*callees), type=type)

    def ask(self, path: str, call: str, **fields: Any) -> int:
        """The code of the callback."""
        tag = f"{path} {len(self.app.told())} {time.monotonic()}"
        self.app.start("call", path=path, call_id=call, tag=tag, **fields)
        answer = self.app.expect("callback", 15, tag=tag)
        assert answer["code"] != 0 or answer["void"], answer
        return int(answer["code"])

    def call(self, call: str, *callees: Party, type: int = 1) -> int:
        return self.ask(START, call, name=self.name, callees=listed(*callees), type=type)

    def raw(self, path: str, **parameter: Any) -> int:
        tag = f"raw {len(self.app.told())} {time.monotonic()}"
        self.app.start("request", path=path, parameter=parameter, tag=tag)
        return int(self.app.expect("callback", 15, tag=tag)["code"])

    def told(self, path: str, timeout: float = 15, count: int = 1, **fields: Any) -> dict[str, Any]:
        """The parameter of a notification with these fields."""

        def matching() -> list[dict[str, Any]]:
            told = [line["parameter"] for line in self.app.told(path)]
            return [p for p in told if all(p.get(key) == value for key, value in fields.items())]

        wait_until(
            lambda: len(matching()) >= count, timeout, lambda: f"{self.name} is told {path} {fields}: {self.app.told()}"
        )
        return matching()[count - 1]

    def notifications(self, call: str) -> list[str]:
        return [line["told"] for line in self.app.told(*NOTIFICATIONS) if line["parameter"]["call_id"] == call]


def listed(*callees: Party) -> list[dict[str, str]]:
    return [{"id": callee.user, "name": callee.name} for callee in callees]


Join = Callable[..., Party]


@pytest.fixture
def join(tmp_path: Path) -> Iterator[Join]:
    """An app that listens, and is connected unless `connect=False`."""
    apps: list[DropIn] = []

    def start(
        world: World, name: str, *, user: str | None = None, device: str = "phone", connect: bool = True
    ) -> Party:
        app = DropIn("zego-probe", tmp_path, world.broker.url, user or world.user(name.lower()), device)
        apps.append(app)
        app.do("listen")
        party = Party(app, name)
        return party.connect() if connect else party

    yield start
    for app in apps:
        app.expect_outside()
        app.close()


def settled(*parties: Party) -> None:
    """Waits for all messages that were on their way: each party makes another call to a user who is not there, and
    takes the call back."""
    for party in parties:
        call = f"settle-{time.monotonic_ns()}"
        count = len(party.app.told("callback"))
        party.app.start(
            "startAndCancel", path=START, call_id=call, callees=[{"id": "nobody", "name": ""}], callee_id="nobody"
        )
        wait_until(lambda: len(party.app.told("callback")) >= count + 2, 10, "both are answered")


# A call


def test_a_call_from_start_to_end(world: World, join: Join) -> None:
    alice, bob = join(world, "Alice Ä"), join(world, "Bob 你")
    call = f"{alice.user}-{time.time_ns()}"
    assert alice.call(call, bob, type=2) == 0
    invited = bob.told(INVITED)
    assert invited == {
        "call_id": call,
        "caller": {"id": alice.user, "name": "Alice Ä"},
        "callees": [{"id": bob.user, "name": "Bob 你"}],
        "type": 2,
        "call_type": 2,
    }
    assert bob.ask(ACCEPT, call) == 0
    assert alice.told(ACCEPTED) == {"call_id": call, "callee_id": bob.user}
    for party in (alice, bob):
        assert party.ask(HEARTBEAT, call) == 0
    assert bob.ask(END, call) == 0
    assert alice.told(ENDED) == {"call_id": call, "id": bob.user}
    settled(alice, bob)
    assert alice.notifications(call) == [ACCEPTED, ENDED]
    assert bob.notifications(call) == [INVITED]


@pytest.mark.parametrize("type", [1, 2])
def test_a_decline_is_told_once_and_no_end_follows(world: World, join: Join, type: int) -> None:
    call = f"declined-{type}"
    alice, bob = join(world, "Alice"), join(world, "Bob")
    assert alice.call(call, bob) == 0
    bob.told(INVITED)
    assert bob.ask(DECLINE, call, caller_id=alice.user, type=type) == 0
    assert alice.told(DECLINED) == {"call_id": call, "callee_id": bob.user, "type": type}
    settled(alice, bob)
    assert (alice.notifications(call), bob.notifications(call)) == ([DECLINED], [INVITED])


def test_a_cancel_is_told_once_and_no_end_follows(world: World, join: Join) -> None:
    alice, bob = join(world, "Alice"), join(world, "Bob")
    assert alice.call("c-1", bob) == 0
    bob.told(INVITED)
    assert alice.ask(CANCEL, "c-1", callee_id=bob.user) == 0
    assert bob.told(CANCELED) == {"call_id": "c-1", "caller_id": alice.user, "callee_id": bob.user}
    settled(alice, bob)
    assert (alice.notifications("c-1"), bob.notifications("c-1")) == ([], [INVITED, CANCELED])


def test_a_cancel_right_behind_its_start_succeeds(world: World, join: Join) -> None:
    """The callee is told of both or of neither."""
    alice, bob = join(world, "Alice"), join(world, "Bob")
    for number in range(20):
        call = f"fast-{number}"
        alice.app.start(
            "startAndCancel", path=START, call_id=call, name="Alice", callees=listed(bob), callee_id=bob.user
        )
        alice.app.expect("callback", 10, count=number + 1, path=CANCEL, code=0)
        alice.app.expect("callback", 10, count=number + 1, path=START, code=0)
    settled(alice, bob)
    for number in range(20):
        assert bob.notifications(f"fast-{number}") in ([], [INVITED, CANCELED])


CALL_IDS = ["123", "x" * 77, "user id/1 é 你好", "a", "_-", "\U0001f4de" * 20]


def test_a_call_id_is_any_text(world: World, join: Join) -> None:
    alice, bob = join(world, "Alice"), join(world, "Bob")
    for call in CALL_IDS:
        assert alice.call(call, bob) == 0
        assert bob.told(INVITED, call_id=call)["caller"]["id"] == alice.user
        assert bob.ask(ACCEPT, call) == 0
        alice.told(ACCEPTED, call_id=call)
        assert alice.ask(END, call) == 0
        bob.told(ENDED, call_id=call)


def test_the_invitation_goes_as_the_gateway_has_it(world: World, join: Join) -> None:
    """An advanced call of 60 s, its media by the type, and the parameters as its extended data."""
    alice, bob = join(world, "Alice"), world.phone("bob")
    callee = Party(alice.app, "Bob")
    callee.user = bob.user
    assert alice.call("a b", callee, type=2) == 0
    call = bob.expect("call.invited")["call"]
    assert call["callID"] == "c8687a08aa5d6ed2044328fa6a697ab8"
    assert (call["mode"], call["timeout"], call["media"]) == ("advanced", 60, "video")
    assert json.loads(call["extendedData"]) == {
        "zegoCall": {
            "call_id": "a b",
            "caller": {"id": alice.user, "name": "Alice"},
            "callees": [{"id": bob.user, "name": "Bob"}],
            "type": 2,
        }
    }
    bob.reject(call["callID"], reason="busy")
    assert alice.told(DECLINED) == {"call_id": "a b", "callee_id": bob.user, "type": 2}


def test_the_name_of_the_connection_is_the_users_profile(world: World, join: Join) -> None:
    alice, bob = join(world, "Alice Ä"), world.phone("bob")

    def name() -> object:
        return bob.ok("user.query", userIDs=[alice.user])["users"][0].get("name")

    wait_until(lambda: name() == "Alice Ä", 10, "the profile is stored", every=0.05)


def test_a_call_of_three_ends_when_one_party_ends_it(world: World, join: Join) -> None:
    alice, bob, carol = join(world, "Alice"), join(world, "Bob"), join(world, "Carol")
    assert alice.call("three", bob, carol) == 0
    assert [user["id"] for user in carol.told(INVITED)["callees"]] == [bob.user, carol.user]
    assert bob.ask(ACCEPT, "three") == 0
    alice.told(ACCEPTED, callee_id=bob.user)
    # A cancel names its invitee.
    assert alice.ask(CANCEL, "three", callee_id=carol.user) == 0
    carol.told(CANCELED)
    assert alice.ask(END, "three") == 0
    assert bob.told(ENDED)["id"] == alice.user
    settled(alice, bob, carol)
    assert alice.notifications("three") == [ACCEPTED]
    assert bob.notifications("three") == [INVITED, ENDED]
    assert carol.notifications("three") == [INVITED, CANCELED]


# Refusals


def test_what_is_not_as_the_document_has_it_is_refused(world: World, join: Join) -> None:
    alice, bob = join(world, "Alice"), join(world, "Bob")
    caller, callees = {"id": alice.user, "name": "Alice"}, listed(bob)
    good: dict[str, Any] = {"call_id": "1", "caller": caller, "callees": callees, "type": 1}
    for path in ("", "/call", "/call/unknown", "/user/login", INVITED):
        assert alice.raw(path, **good) == INVALID
    for wrong in (
        {"caller": {"id": bob.user, "name": "Bob"}},
        {"caller": "Alice"},
        {"callees": []},
        {"callees": "Bob"},
        {"callees": [{"id": alice.user, "name": "Alice"}]},
        {"callees": callees * 2},
        {"type": 3},
        {"type": "1"},
        {"call_id": ""},
        {"call_id": 5},
    ):
        assert alice.raw(START, **(good | wrong)) == INVALID, wrong
    for missing in good:
        assert alice.raw(START, **{key: value for key, value in good.items() if key != missing}) == INVALID
    assert alice.raw(CANCEL, id=alice.user, call_id="1") == INVALID
    assert alice.raw(ACCEPT, id=bob.user, call_id="1") == INVALID
    assert alice.raw(DECLINE, id=alice.user, caller_id=bob.user, call_id="1", type=0) == INVALID
    # Longer than goes with an invitation (2048 bytes).
    assert alice.raw(START, **(good | {"caller": caller | {"name": "n" * 2048}})) == INVALID
    settled(alice)
    assert bob.app.told(*NOTIFICATIONS) == []


def test_whoever_is_not_connected_is_told_so(world: World, join: Join) -> None:
    alice, bob = join(world, "Alice", connect=False), join(world, "Bob")
    parameter = {"call_id": "1", "caller": {"id": "x", "name": ""}, "callees": listed(bob), "type": 1}
    assert alice.raw("") == INVALID
    assert alice.raw(START, **parameter) == NOT_LOGGED_IN
    alice.connect()
    assert alice.call("1", bob) == 0
    alice.app.do("disconnect")
    assert alice.raw(HEARTBEAT, id=alice.user, call_id="1") == NOT_LOGGED_IN


def test_what_does_not_fit_the_call_is_refused(world: World, join: Join) -> None:
    alice, bob = join(world, "Alice"), join(world, "Bob")
    assert alice.ask(ACCEPT, "no-such") == FAILED
    assert alice.ask(END, "no-such") == FAILED
    assert alice.ask(HEARTBEAT, "no-such") == FAILED
    assert alice.call("one", bob) == 0
    bob.told(INVITED)
    assert alice.call("one", bob) == WRONG_STATUS
    assert alice.call("two", bob) == WRONG_STATUS
    assert bob.ask(END, "one") == WRONG_STATUS
    assert bob.ask(HEARTBEAT, "one") == WRONG_STATUS
    assert bob.ask(ACCEPT, "one") == 0
    assert bob.ask(DECLINE, "one", caller_id=alice.user, type=1) == WRONG_STATUS
    assert alice.ask(CANCEL, "one", callee_id=bob.user) == 0, "a cancel that comes too late ends the call"
    bob.told(ENDED)
    assert alice.ask(END, "one") == WRONG_STATUS
    assert bob.ask(END, "one") == WRONG_STATUS
    assert bob.ask(HEARTBEAT, "one") == WRONG_STATUS
    settled(bob)
    assert alice.notifications("one") == [ACCEPTED]


@pytest.mark.waits
def test_without_a_broker_requests_fail_in_time(rig: Any, join: Join) -> None:
    world = rig.world()
    alice, bob = join(world, "Alice"), join(world, "Bob")
    assert alice.call("net", bob) == 0
    world.broker.stop()
    began = time.monotonic()
    assert alice.ask(END, "net") == NETWORK
    assert 9 < time.monotonic() - began < 15
    assert alice.ask(HEARTBEAT, "net") == NETWORK


@pytest.mark.waits
def test_a_connection_that_does_not_come_about_fails(rig: Any, join: Join) -> None:
    broker = rig.broker(start=False)
    alice = join(World(broker), "Alice", user="alice", connect=False)
    alice.app.start("connect", broker=broker.url, user="alice", name="", device="phone")
    assert alice.app.expect("connect", 20)["code"] == NETWORK
    alice.app.start("connect", broker="http://nowhere", user="alice", name="", device="phone")
    assert alice.app.expect("connect", count=2)["code"] == INVALID
    alice.app.start("connect", broker=broker.url, user="", name="", device="phone")
    assert alice.app.expect("connect", count=3)["code"] == INVALID


def test_whose_device_id_another_connection_has_is_not_logged_in(world: World, join: Join) -> None:
    first = join(world, "Alice")
    second = join(world, "Alice", user=first.user)
    wait_until(lambda: first.ask(HEARTBEAT, "none") == NOT_LOGGED_IN, 10, "the first one notices", every=0.1)
    assert second.ask(HEARTBEAT, "none") == FAILED
    assert first.connect().ask(HEARTBEAT, "none") == FAILED


def test_a_connect_again_leaves_a_call_that_rings_alone(world: World, join: Join) -> None:
    alice, bob = join(world, "Alice"), join(world, "Bob")
    assert alice.call("again", bob) == 0
    bob.told(INVITED)
    bob.connect()
    assert bob.ask(ACCEPT, "again") == 0
    alice.told(ACCEPTED)
    bob.connect()
    assert alice.ask(END, "again") == 0
    bob.told(ENDED)
    assert bob.notifications("again") == [INVITED, ENDED]


# Tokens


def test_tokens_of_a_provider_are_renewed_without_a_word(secure: World, join: Join) -> None:
    broker = secure.broker
    assert isinstance(broker, SecureBroker)
    alice, bob = (join(secure, name, connect=False) for name in ("Alice", "Bob"))
    alice.connect(tokens=[broker.token(alice.user, 4), broker.token(alice.user)])
    bob.connect(tokens=[broker.token(bob.user)])
    wait_until(lambda: broker.log.read_text().count(f"{alice.user}/") >= 2, 20, "it has connected again")
    assert alice.call("renewed", bob) == 0
    bob.told(INVITED)


@pytest.mark.waits
def test_a_token_that_has_ended_is_told(secure: World, join: Join) -> None:
    """The app is told when it connects, and when there is no other token later on. A token that never counted is a
    network error."""
    broker = secure.broker
    assert isinstance(broker, SecureBroker)
    alice = join(secure, "Alice", connect=False)
    alice.connect(TOKEN_EXPIRED, tokens=[broker.token(alice.user, -10)])
    alice.connect(NETWORK, tokens=["none"])
    alice.connect(tokens=[broker.token(alice.user, 6)])
    assert alice.ask(HEARTBEAT, "none") == FAILED
    assert alice.ask(END, "none") == FAILED
    wait_until(lambda: alice.ask(END, "none") == TOKEN_EXPIRED, 40, "the token has ended", every=0.2)


# Listeners


def test_a_nil_callback_and_several_managers(world: World, join: Join) -> None:
    """Each listener hears once, however many managers there are; the vendor's listener may be another."""
    alice, bob = join(world, "Alice"), join(world, "Bob")
    bob.app.do("manager")
    bob.app.do("manager")
    bob.app.do("updater")
    parameter = {"call_id": "q", "caller": {"id": alice.user, "name": "A"}, "callees": listed(bob), "type": 1}
    alice.app.do("request", path=START, parameter=parameter, callback=False)
    alice.app.do("request", path="", parameter=parameter, callback=False)
    bob.told(INVITED)
    bob.app.expect("updater", path=INVITED)
    settled(alice, bob)
    assert bob.notifications("q") == [INVITED]
    assert [line["path"] for line in bob.app.told("updater")] == [INVITED]


def test_the_vendors_listener_manager_may_hold_its_lock(world: World, join: Join) -> None:
    """Document 003's own classes: the callee accepts from inside its notification."""
    alice, bob = join(world, "Alice"), join(world, "Bob")
    bob.app.do("automatic")
    assert alice.call("auto", bob, type=2) == 0
    assert bob.app.expect("vendorInvited")["type"] == 2
    bob.app.expect("vendorAccepted")
    alice.told(ACCEPTED)
    assert alice.ask(END, "auto") == 0
    bob.app.expect("vendorEnd", id=alice.user)


# Users who are away


def test_a_callee_that_comes_online_is_invited_after_its_connection(world: World, join: Join) -> None:
    alice, bob = join(world, "Alice"), join(world, "Bob", connect=False)
    assert alice.call("late", bob) == 0
    bob.connect()
    bob.told(INVITED)
    names = bob.app.names()
    assert names.index("connect") < names.index(INVITED)
    assert bob.ask(ACCEPT, "late") == 0
    alice.told(ACCEPTED)


def test_an_answer_on_another_device_stops_the_ringing(world: World, join: Join) -> None:
    alice, bob = join(world, "Alice"), join(world, "Bob")
    tablet = join(world, "Bob", user=bob.user, device="tablet")
    assert alice.call("two-devices", bob) == 0
    for device in (bob, tablet):
        device.told(INVITED)
    assert tablet.ask(ACCEPT, "two-devices") == 0
    assert bob.told(CANCELED) == {"call_id": "two-devices", "caller_id": alice.user, "callee_id": bob.user}
    assert alice.ask(END, "two-devices") == 0
    tablet.told(ENDED)
    settled(alice, bob, tablet)
    assert bob.notifications("two-devices") == [INVITED, CANCELED]
    assert tablet.notifications("two-devices") == [INVITED, ENDED]


@pytest.mark.parametrize("goes", ["killed", "disconnected"])
def test_a_caller_that_is_lost_while_it_rings_stops_the_ringing(short: World, join: Join, goes: str) -> None:
    call = f"lost-{goes}"
    alice, bob = join(short, "Alice"), join(short, "Bob")
    assert alice.call(call, bob) == 0
    bob.told(INVITED)
    if goes == "killed":
        alice.app.kill()
    else:
        alice.app.do("disconnect")
    assert bob.told(CANCELED)["caller_id"] == alice.user
    settled(bob)
    assert bob.notifications(call) == [INVITED, CANCELED]


def test_an_app_that_sends_no_heartbeats_is_timed_out(short: World, join: Join) -> None:
    """The peer is told once, by the user's id, and is told of no end; the app lives all the while."""
    alice, bob = join(short, "Alice"), join(short, "Bob")
    assert alice.call("silent", bob) == 0
    bob.told(INVITED)
    assert bob.ask(ACCEPT, "silent") == 0
    until = time.monotonic() + 2
    while time.monotonic() < until:
        assert alice.ask(HEARTBEAT, "silent") == bob.ask(HEARTBEAT, "silent") == 0
        time.sleep(0.4)
    assert alice.notifications("silent") == [ACCEPTED]
    wait_until(lambda: beat(alice), 15, "bob is taken for gone", every=0.4)
    assert alice.told(TIMED_OUT) == {"call_id": "silent", "id": bob.user}
    settled(alice, bob)
    assert alice.notifications("silent") == [ACCEPTED, TIMED_OUT]
    assert bob.notifications("silent") == [INVITED]
    assert bob.ask(HEARTBEAT, "silent") == WRONG_STATUS


def beat(party: Party) -> bool:
    """Sends a heartbeat. Whether the party has been told that the other party is gone."""
    party.ask(HEARTBEAT, "silent")
    return TIMED_OUT in party.notifications("silent")


@pytest.mark.waits
def test_an_invitation_that_expired_is_told_to_nobody(world: World, join: Join) -> None:
    """The call rings for all of its 60 s, though the caller sends no heartbeat before the answer, as in the
    document."""
    alice, bob = join(world, "Alice"), join(world, "Bob")
    other = world.device(bob.user, "another")
    assert alice.call("expires", bob) == 0
    bob.told(INVITED)
    other.expect("call.invited")
    over = other.expect("call.timeout", "expires", 75)["call"]
    assert over["endReason"] == "timeout"
    assert over["endedAt"] - over["createdAt"] >= 60_000
    settled(alice, bob)
    assert (alice.notifications("expires"), bob.notifications("expires")) == ([], [INVITED])


@pytest.mark.waits
def test_a_caller_that_sends_no_heartbeat_is_answered_at_the_last_moment(world: World, join: Join) -> None:
    alice, bob = join(world, "Alice"), join(world, "Bob")
    began = time.monotonic()
    assert alice.call("late-answer", bob) == 0
    bob.told(INVITED)
    time.sleep(began + 57 - time.monotonic())
    assert bob.ask(ACCEPT, "late-answer") == 0
    alice.told(ACCEPTED)
    for party in (alice, bob):
        assert party.ask(HEARTBEAT, "late-answer") == 0
    assert alice.ask(END, "late-answer") == 0
    bob.told(ENDED)


# Coordinators that die


@pytest.fixture(scope="module", params=["SQLite", "Redis"])
def several(request: pytest.FixtureRequest, deploy: Deploy, redis_server: RedisServer) -> World:
    return on_each_store(deploy, redis_server, 2)[request.param]


def test_a_call_outlives_the_coordinator_that_began_it(several: World, join: Join) -> None:
    """kill -9 after the invitation, and again after the answer."""
    first, second = several.services
    alice, bob = join(several, "Alice"), join(several, "Bob")
    assert alice.call("survives", bob) == 0
    bob.told(INVITED)
    first.kill()
    assert bob.ask(ACCEPT, "survives") == 0
    alice.told(ACCEPTED, 10)
    first.start()
    second.kill()
    assert alice.ask(END, "survives") == 0
    bob.told(ENDED, 10)
    second.start()
    settled(alice, bob)
    assert alice.notifications("survives") == [ACCEPTED]
    assert bob.notifications("survives") == [INVITED, ENDED]
    assert bob.told(ENDED)["id"] == alice.user


def test_what_was_missed_while_the_broker_was_away_is_told_once(rig: Any, join: Join) -> None:
    """The caller ends the call as soon as there is a broker again."""
    world = rig.world()
    alice, bob = join(world, "Alice"), join(world, "Bob")
    assert alice.call("missed", bob) == 0
    bob.told(INVITED)
    assert bob.ask(ACCEPT, "missed") == 0
    alice.told(ACCEPTED)
    world.broker.restart()
    assert alice.ask(END, "missed") == 0
    assert bob.told(ENDED, 15)["id"] == alice.user
    settled(alice, bob)
    assert bob.notifications("missed") == [INVITED, ENDED]


# Beside users of ZEGO Call over HTTP


@pytest.fixture(scope="module")
def gateway(own_deployment: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    directory = tmp_path_factory.mktemp("gateway")
    gateway = Gateway(directory, own_deployment.broker.url, own_deployment.service.store).start()
    yield gateway
    gateway.stop()


@pytest.fixture
def web(world: World, gateway: Gateway) -> Iterator[HTTPUser]:
    """A user of `/call/…` with a stream."""
    user = HTTPUser(gateway, world.user("web"))
    user.listen().online()
    yield user
    user.close()


TEXTS = ["web call/ü", "w" * 77, "web-1"]


@pytest.mark.parametrize("call", TEXTS)
def test_the_app_calls_a_user_over_http(world: World, join: Join, web: HTTPUser, call: str) -> None:
    alice = join(world, "Alice Ä")
    callees = [web.party]
    assert alice.ask(START, call, name="Alice Ä", callees=callees, type=2) == 0
    invited = {"call_id": call, "caller": {"id": alice.user, "name": "Alice Ä"}, "callees": callees}
    assert web.expect("notify_call_invited") == invited | {"type": 2, "call_type": 2}
    done(web.accept(call))
    assert alice.told(ACCEPTED) == {"call_id": call, "callee_id": web.user}
    done(web.beat(call))
    assert alice.ask(HEARTBEAT, call) == 0
    assert alice.ask(END, call) == 0
    assert web.expect("notify_call_end") == {"call_id": call, "id": alice.user}
    settled(alice)
    assert alice.notifications(call) == [ACCEPTED]
    web.expect_nothing_more()


@pytest.mark.parametrize("call", TEXTS)
def test_a_user_over_http_calls_the_app(world: World, join: Join, web: HTTPUser, call: str) -> None:
    call = f"{call} back"
    bob = join(world, "Bob 你")
    callee = {"id": bob.user, "name": bob.name}
    done(web.post("start_call", call_id=call, caller=web.party, callees=[callee], type=1))
    invited = {"call_id": call, "caller": web.party, "callees": [callee], "type": 1, "call_type": 1}
    assert bob.told(INVITED) == invited
    assert bob.ask(ACCEPT, call) == 0
    assert web.expect("notify_call_accept") == {"call_id": call, "callee_id": bob.user}
    done(web.end(call))
    assert bob.told(ENDED) == {"call_id": call, "id": web.user}
    settled(bob)
    assert bob.notifications(call) == [INVITED, ENDED]
    web.expect_nothing_more()


@pytest.mark.parametrize("type", [1, 2])
def test_the_app_and_a_user_over_http_decline_each_other(world: World, join: Join, web: HTTPUser, type: int) -> None:
    alice = join(world, "Alice")
    call, back = f"to the web {type}", f"from the web {type}"
    assert alice.ask(START, call, name="Alice", callees=[web.party]) == 0
    web.expect("notify_call_invited", call_id=call)
    done(web.post("decline_call", id=web.user, caller_id=alice.user, call_id=call, type=type))
    assert alice.told(DECLINED) == {"call_id": call, "callee_id": web.user, "type": type}
    callee = {"id": alice.user, "name": "Alice"}
    done(web.post("start_call", call_id=back, caller=web.party, callees=[callee], type=1))
    alice.told(INVITED, call_id=back)
    assert alice.ask(DECLINE, back, caller_id=web.user, type=type) == 0
    assert web.expect("notify_call_decline") == {"call_id": back, "callee_id": alice.user, "type": type}
    settled(alice)
    assert (alice.notifications(call), alice.notifications(back)) == ([DECLINED], [INVITED])
    web.expect_nothing_more()


def test_whoever_declined_and_is_invited_again_rings_again(world: World, join: Join) -> None:
    """A phone with MQTT invites the user again."""
    caller, bob, carol = world.phone("caller"), join(world, "Bob"), join(world, "Carol")
    call = caller.ok("call.invite", invitees=[bob.user, carol.user], mode="advanced")["call"]["callID"]
    bob.told(INVITED, call_id=call)
    carol.told(INVITED, call_id=call)
    assert bob.ask(DECLINE, call, caller_id=caller.user, type=1) == 0
    caller.ok("call.add", callID=call, invitees=[bob.user])
    bob.told(INVITED, count=2, call_id=call)
    assert bob.ask(ACCEPT, call) == 0
    caller.end(call)
    bob.told(ENDED, call_id=call)
    settled(bob)
    assert bob.notifications(call) == [INVITED, INVITED, ENDED]


def test_a_cancel_of_one_of_several_right_behind_the_start_leaves_the_others_ringing(
    world: World, join: Join
) -> None:
    alice, bob, carol = join(world, "Alice"), join(world, "Bob"), join(world, "Carol")
    for number in range(10):
        call = f"of-two-{number}"
        alice.app.start(
            "startAndCancel", path=START, call_id=call, callees=listed(bob, carol), callee_id=bob.user, name="Alice"
        )
        alice.app.expect("callback", 10, count=number + 1, path=CANCEL, code=0)
        carol.told(INVITED, call_id=call)
        assert carol.ask(DECLINE, call, caller_id=alice.user, type=1) == 0
        alice.told(DECLINED, call_id=call, callee_id=carol.user)
    settled(alice, bob, carol)
    for number in range(10):
        assert bob.notifications(f"of-two-{number}") in ([], [INVITED, CANCELED])
