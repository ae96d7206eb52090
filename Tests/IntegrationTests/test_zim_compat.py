"""ZIMCompat (docs/migrate/zim.md): apps that import only this module, each a process, against a real broker and
coordinators."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Deploy
from harness import DropIn, SecureBroker, World, wait_until
from harness.push_providers import PushProviders
from harness.push_target import App
from harness.zim import (
    ACCEPTED,
    ACTIVE_LOGIN,
    CANCELLED,
    CONNECTED,
    CONNECTING,
    DISCONNECTED,
    KICKED_OUT,
    LOGIN_INTERRUPTED,
    LOGIN_TIMEOUT,
    NOT_YET_RECEIVED,
    QUIT,
    RECEIVED,
    RECONNECTING,
    REJECTED,
    SUCCESS,
    TIMEOUT,
    TOKEN_EXPIRED,
    ZIMApp,
)


class Apps:
    """The apps of a test."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world = world
        self._directory = directory
        self._apps: list[DropIn] = []

    def started(self, name: str, user: str | None = None, **configuration: Any) -> ZIMApp:
        """Starts an app that is not logged in."""
        app = ZIMApp(self.world.broker, self._directory, name, user, **configuration)
        self._apps.append(app)
        return app

    def online(self, *names: str) -> list[ZIMApp]:
        apps = [self.started(name) for name in names]
        return [app.login() for app in apps]

    def demo(self, user: str) -> DropIn:
        directory = self._directory / f"demo-{len(self._apps)}"
        app = DropIn("zim-probe", directory, self.world.broker.url, user, "phone", "--demo")
        self._apps.append(app)
        return app

    def close(self) -> None:
        for app in self._apps:
            app.expect_outside()
            app.close()


@pytest.fixture
def apps(world: World, tmp_path: Path) -> Iterator[Apps]:
    apps = Apps(world, tmp_path)
    yield apps
    apps.close()


def ring(caller: ZIMApp, *callees: ZIMApp, **fields: Any) -> str:
    """Returns when all have been told, and the caller of that."""
    call = caller.ask("invite", invitees=[callee.user for callee in callees], **fields)["callID"]
    for callee in callees:
        callee.event("received", call)
        caller.becomes(call, callee, RECEIVED)
    return call


def talk(caller: ZIMApp, *callees: ZIMApp) -> str:
    """An advanced call that all callees have accepted, and all apps know this."""
    call = ring(caller, *callees, advanced=True)
    for callee in callees:
        callee.ask("accept", callID=call)
    for app in (caller, *callees):
        for callee in callees:
            app.becomes(call, callee, ACCEPTED)
    return call


def states(event: dict[str, Any]) -> list[tuple[str, int]]:
    return [(user["userID"], user["state"]) for user in event["users"]]


# ---- Logging in


def test_a_login_tells_its_states_and_then_the_callback(apps: Apps) -> None:
    alice = apps.started("alice").login()
    assert alice.names() == ["connection", "connection", "login"]
    assert [(line["state"], line["reason"]) for line in alice.told("connection")] == [
        (CONNECTING, ACTIVE_LOGIN),
        (CONNECTED, SUCCESS),
    ]


@pytest.mark.waits
def test_an_instance_that_is_not_ready_says_why(world: World, tmp_path: Path) -> None:
    app = DropIn("zim-probe", tmp_path, world.broker.url, "alice")
    try:
        app.do("create")
        app.do("properties")
        created = app.expect("properties")
        assert created["created"] and created["shared"] and re.fullmatch(r"\d+\.\d+\.\d+", created["version"])
        for command in ("login", *NEEDS_LOGIN):
            app.do(command, user="alice", callID="c", users=["bob"], invitees=["bob"])
            app.expect(command, code=6000002)
        app.do("configure", broker="mqtt://127.0.0.1:1")
        for command in NEEDS_LOGIN:
            app.do(command, callID="c", users=["bob"], invitees=["bob"], name="x", token="t")
            app.expect(command, code=6000121)
        app.do("uploadLog")
        app.expect("uploadLog", code=SUCCESS)
        app.do("login", user="alice")
        app.expect("login", 20, code=6000104)
        assert (app.told()[-2]["state"], app.told()[-2]["reason"]) == (DISCONNECTED, LOGIN_TIMEOUT)
        app.expect_outside()
    finally:
        app.close()


NEEDS_LOGIN = [
    *("invite", "cancel", "accept", "reject", "add", "join", "quit", "end", "calls"),
    *("users", "rename", "avatar", "extend", "renewToken"),
]
"""Every request with a callback but `login` and `uploadLog`."""


def test_a_second_login_is_refused_and_a_logout_ends_the_first(apps: Apps) -> None:
    (alice,) = apps.online("alice")
    alice.login(6000111)
    alice.do("logout")
    alice.connection(DISCONNECTED, SUCCESS)
    alice.ask("calls", 6000121)
    alice.login(plain=True)
    alice.do("destroy")
    alice.do("create")
    alice.login()


def test_the_name_of_the_login_is_found_by_others(apps: Apps) -> None:
    alice, bob = apps.started("alice").login(name="Alice"), apps.started("bob").login(name="Bob", plain=True)
    found = alice.ask("users", users=[bob.user, "nobody-" + bob.user, alice.user])
    assert [(user["userID"], user["userName"]) for user in found["users"]] == [(bob.user, "Bob"), (alice.user, "Alice")]
    assert found["errors"] == [{"userID": "nobody-" + bob.user, "reason": 6000011}]


def test_the_profile_is_found_by_others_and_its_change_told_after_the_callback(apps: Apps) -> None:
    alice, bob = apps.started("alice").login(name="Alice", avatar="https://a/1.png"), apps.started("bob").login()

    def seen() -> tuple[str, str, str]:
        user = bob.ask("users", users=[alice.user])["users"][0]
        assert user["userAvatarUrl"] == user["baseAvatarUrl"]
        return user["userName"], user["userAvatarUrl"], user["extendedData"]

    assert seen() == ("Alice", "https://a/1.png", "")
    since = len(alice.told())
    assert alice.ask("rename", name="Al")["name"] == "Al"
    assert alice.ask("avatar", avatar="https://a/2.png")["avatar"] == "https://a/2.png"
    assert alice.ask("extend", extendedData="ü{}")["extendedData"] == "ü{}"
    alice.expect("userInfoUpdated", extendedData="ü{}")
    told = [line["told"] for line in alice.told(since=since)]
    assert told == ["rename", "userInfoUpdated", "avatar", "userInfoUpdated", "extend", "userInfoUpdated"]
    last = alice.told()[-1]
    assert (last["userName"], last["userAvatarUrl"], last["extendedData"]) == seen() == ("Al", "https://a/2.png", "ü{}")


def test_another_device_of_this_id_kicks_the_former_one_out(apps: Apps) -> None:
    first = apps.started("alice", device="phone").login()
    second = apps.started("alice", first.user, device="phone").login()
    first.connection(DISCONNECTED, KICKED_OUT, 60)
    first.ask("calls", 6000121)
    second.expect("connection", state=CONNECTED)
    second.ask("calls")
    first.ask("login", user=first.user)


# ---- Calls in general mode


def test_an_invitation_is_told_to_both_with_everybody(apps: Apps) -> None:
    alice, bob = apps.online("alice", "bob")
    call = ring(alice, bob, extendedData="ü😀", timeout=0)
    assert alice.of(call)[:3] == ["invite", "created", "states alice:1 bob:0"]
    created, received = alice.event("created", call), bob.event("received", call)
    for event in (created, received):
        assert (event["mode"], event["caller"], event["extendedData"], event["timeout"]) == (0, alice.user, "ü😀", 90)
        assert event["createTime"] > 1_600_000_000_000
        assert states(event)[0] == (alice.user, ACCEPTED)
    assert received["inviter"] == alice.user
    assert [user for user, _ in states(received)] == [alice.user, bob.user]
    assert bob.of(call) == ["received"]


def test_an_accepted_call_is_told_to_both_and_not_its_end(apps: Apps) -> None:
    alice, bob = apps.online("alice", "bob")
    call = ring(alice, bob)
    bob.ask("accept", callID=call, extendedData="yes")
    for app in (alice, bob):
        assert app.becomes(call, bob, ACCEPTED)["extendedData"] == "yes"
    assert bob.of(call) == ["received", "accept", "states bob:1"]
    assert alice.of(call) == ["invite", "created", "states alice:1 bob:0", "states bob:5", "states bob:1"]
    bob.ask("accept", 6000270, callID=call)
    alice.ask("cancel", 6000270, callID=call)
    alice.ask("end", 6000270, callID=call)
    # Another call begins, and no further event of the call before has come.
    ring(bob, alice)
    assert len(alice.of(call)) == 7 and len(bob.of(call)) == 4


def test_a_rejected_call_is_told_to_both(apps: Apps) -> None:
    alice, bob = apps.online("alice", "bob")
    call = ring(alice, bob)
    bob.ask("reject", callID=call, extendedData='{"reason":"busy"}')
    for app in (alice, bob):
        assert app.becomes(call, bob, REJECTED)["extendedData"] == '{"reason":"busy"}'
    assert bob.of(call) == ["received", "reject", "states bob:2"]


def test_a_cancelled_call_stops_ringing(apps: Apps) -> None:
    alice, bob = apps.online("alice", "bob")
    call = ring(alice, bob)
    assert alice.ask("cancel", callID=call, extendedData="never mind")["failed"] == []
    cancelled = bob.event("cancelled", call)
    assert (cancelled["inviter"], cancelled["mode"], cancelled["extendedData"]) == (alice.user, 0, "never mind")
    alice.becomes(call, bob, CANCELLED)
    assert alice.of(call)[-2:] == ["cancel", "states bob:3"]
    ring(alice, bob)
    assert bob.of(call) == ["received", "cancelled"]


def test_some_of_several_invitees_are_cancelled(apps: Apps) -> None:
    alice, bob, carol = apps.online("alice", "bob", "carol")
    call = ring(alice, bob, carol)
    said = alice.ask("cancel", callID=call, invitees=[bob.user, "stranger"])
    assert said["failed"] == ["stranger"]
    bob.event("cancelled", call)
    for app in (alice, carol):
        app.becomes(call, bob, CANCELLED)
    carol.ask("accept", callID=call)
    alice.becomes(call, carol, ACCEPTED)
    assert bob.of(call)[-1] == "cancelled"


def test_an_invitation_that_times_out_is_told_to_both(apps: Apps) -> None:
    alice, bob, carol = apps.online("alice", "bob", "carol")
    call = ring(alice, bob, carol, timeout=6)
    carol.ask("accept", callID=call)
    assert bob.event("timeout", call)["mode"] == 0
    for app in (alice, carol):
        app.becomes(call, bob, TIMEOUT)
    assert bob.of(call)[-1] == "timeout" and bob.of(call).count("timeout") == 1
    bob.ask("accept", 6000270, callID=call)


def test_a_caller_who_logs_out_or_is_lost_cancels_its_call(rig: Any, tmp_path: Path) -> None:
    apps = Apps(rig.world(caller_grace="1s"), tmp_path)
    alice, bob, carol = apps.online("alice", "bob", "carol")
    first, second = ring(alice, bob), ring(carol, bob)
    alice.do("logout")
    bob.event("cancelled", first)
    carol.kill()
    bob.event("cancelled", second)
    assert bob.of(first) == bob.of(second) == ["received", "cancelled"]
    apps.close()


def test_an_answer_on_another_device_stops_the_ringing(apps: Apps) -> None:
    (alice,) = apps.online("alice")
    phone = apps.started("bob", device="phone").login()
    tablet = apps.started("bob", phone.user, device="tablet").login()
    call = alice.ask("invite", invitees=[phone.user], advanced=True)["callID"]
    phone.event("received", call)
    tablet.event("received", call)
    phone.ask("accept", callID=call)
    assert tablet.event("ended", call)["operatedUserID"] == tablet.user
    assert tablet.of(call) == ["received", "ended"]
    tablet.ask("accept", 6000270, callID=call)
    # The handover concerns only the former device.
    since = len(tablet.told())
    joined = tablet.ask("join", callID=call)
    assert joined["joinTime"] >= joined["createTime"] > 0
    assert phone.event("ended", call)["operatedUserID"] == phone.user
    alice.ask("end", callID=call)
    assert tablet.event("ended", call, since=since)["operatedUserID"] == alice.user
    assert alice.of(call).count("states bob:1") == 1
    assert phone.of(call)[-2:] == ["states bob:1", "ended"]
    # In general mode there is no `ended`.
    call = alice.ask("invite", invitees=[phone.user])["callID"]
    tablet.event("received", call)
    phone.event("received", call)
    phone.ask("reject", callID=call, extendedData="busy")
    assert tablet.event("cancelled", call)["extendedData"] == ""
    assert tablet.of(call) == ["received", "cancelled"]
    assert phone.becomes(call, phone, REJECTED)


def test_an_offline_invitee_is_no_error_and_rings_when_it_logs_in(apps: Apps) -> None:
    (alice,) = apps.online("alice")
    bob = apps.started("bob")
    said = alice.ask("invite", invitees=[bob.user], check=True, timeout=60)
    assert said["errors"] == said["errorInvitees"] == [] and said["timeout"] == 60
    call = said["callID"]
    alice.becomes(call, bob, NOT_YET_RECEIVED)
    bob.login(name="Bob")
    bob.event("received", call)
    assert bob.names() == ["connection", "connection", "login", "received"]
    alice.becomes(call, bob, RECEIVED)


# ---- Calls in advanced mode


def test_an_advanced_call_goes_on_until_it_is_ended(apps: Apps) -> None:
    alice, bob = apps.online("alice", "bob")
    call = ring(alice, bob, advanced=True)
    bob.ask("reject", callID=call)
    alice.becomes(call, bob, REJECTED)
    told, since = len(alice.of(call)), len(alice.told())
    alice.ask("add", callID=call, invitees=[bob.user])
    alice.becomes(call, bob, RECEIVED, since=since)
    bob.ask("accept", callID=call)
    alice.becomes(call, bob, ACCEPTED, since=since)
    assert bob.of(call).count("received") == 2
    assert alice.of(call)[told:] == ["add", "states bob:0", "states bob:5", "states bob:1"]
    ended = bob.ask("end", callID=call, extendedData="bye")
    assert ended["endTime"] >= ended["acceptTime"] >= ended["createTime"] > 0
    event = alice.event("ended", call)
    assert (event["caller"], event["operatedUserID"], event["extendedData"]) == (alice.user, bob.user, "bye")
    assert event["mode"] == 1 and event["endTime"] == ended["endTime"]
    assert bob.of(call)[-1] == "end"


def test_members_are_added_quit_and_join_again(apps: Apps) -> None:
    alice, bob, carol = apps.online("alice", "bob", "carol")
    call = talk(alice, bob)
    told = len(bob.of(call))
    bob.ask("add", callID=call, invitees=[carol.user])
    bob.becomes(call, carol, RECEIVED)
    assert bob.of(call)[told:] == ["add", "states carol:0", "states carol:5"]
    received = carol.event("received", call)
    assert (received["caller"], received["inviter"]) == (alice.user, bob.user)
    carol.ask("accept", callID=call, extendedData="hi")
    for app in (alice, bob, carol):
        assert app.becomes(call, carol, ACCEPTED)["extendedData"] == "hi"
    left = carol.ask("quit", callID=call, extendedData="bye")
    assert left["quitTime"] >= left["acceptTime"] >= left["createTime"] > 0
    for app in (alice, bob, carol):
        assert app.becomes(call, carol, QUIT)["extendedData"] == "bye"
    assert carol.of(call)[-2:] == ["quit", "states carol:7"]
    since = {app: len(app.told()) for app in (alice, bob, carol)}
    told = len(carol.of(call))
    joined = carol.ask("join", callID=call, extendedData="again")
    assert states(joined) == [(user.user, ACCEPTED) for user in (alice, bob, carol)]
    for app in (alice, bob, carol):
        assert app.becomes(call, carol, ACCEPTED, since=since[app])["extendedData"] == "again"
    alice.ask("end", callID=call)
    for app in (bob, carol):
        app.event("ended", call)
    # A user who joins is told only of their own joining.
    assert carol.of(call)[told:] == ["join", "states carol:1", "ended"]


def test_users_who_cannot_be_added_are_in_the_error_list(apps: Apps) -> None:
    alice, bob, carol = apps.online("alice", "bob", "carol")
    call = talk(alice, bob)
    added = alice.ask("add", callID=call, invitees=[bob.user, carol.user])
    assert added["errors"] == [{"userID": bob.user, "reason": 6000270}]
    carol.event("received", call)
    alice.ask("add", 6000281, callID=call, invitees=[bob.user])
    alice.ask("end", callID=call)


def test_an_added_invitee_is_pushed_what_the_invitation_says(apps: Apps) -> None:
    alice, bob = apps.online("alice", "bob")
    call, push = talk(alice, bob), {"title": "t", "content": "c", "payload": "p"}
    alice.ask("add", callID=call, invitees=["nobody"], push=push)
    asked = apps.world.tap.wait(lambda m: m.body.get("type") == "call.add" and m.body["callID"] == call, 5, "the request")
    assert asked.body["push"] == push
    alice.ask("end", callID=call)


def test_whoever_is_pending_at_the_end_is_told_of_it(apps: Apps) -> None:
    alice, bob, carol = apps.online("alice", "bob", "carol")
    call = ring(alice, bob, carol, advanced=True)
    bob.ask("accept", callID=call)
    alice.becomes(call, bob, ACCEPTED)
    alice.ask("end", callID=call)
    for app in (bob, carol):
        assert app.event("ended", call)["operatedUserID"] == alice.user
    assert "cancelled" not in carol.of(call)
    assert alice.of(call)[-1] == "end"


def test_an_invitation_that_times_out_does_not_end_an_advanced_call(apps: Apps) -> None:
    alice, bob = apps.online("alice", "bob")
    call = ring(alice, bob, advanced=True, timeout=4)
    bob.event("timeout", call)
    alice.becomes(call, bob, TIMEOUT)
    alice.ask("add", callID=call, invitees=[bob.user])
    assert wait_until(lambda: bob.of(call).count("received") == 2, 10, "bob rings again")
    alice.ask("end", callID=call)
    bob.event("ended", call)


def test_refusals_have_the_vendors_numbers(apps: Apps) -> None:
    alice, bob, carol = apps.online("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.ask("invite", 6000283, invitees=[carol.user], advanced=True)
    alice.ask("invite", 6000001, invitees=[alice.user])
    carol.ask("accept", 6000276, callID=call)
    carol.ask("end", 6000276, callID="no-such-call")
    carol.ask("accept", 6000001, callID="")
    bob.ask("cancel", 6000273, callID=call)
    assert alice.ask("cancel", 6000270, callID=call, invitees=[bob.user])["failed"] == [bob.user]
    alice.ask("end", callID=call)
    bob.ask("quit", 6000270, callID=call)


def test_the_list_of_calls_has_pages(apps: Apps) -> None:
    alice, bob = apps.online("alice", "bob")
    calls = [ring(alice, bob) for _ in range(3)]
    for call in calls:
        bob.ask("accept", callID=call)
    last = talk(bob, alice)
    page = bob.ask("calls", count=3)
    assert [call["callID"] for call in page["calls"]] == [last, *reversed(calls[1:])] and page["nextFlag"] != 0
    assert [(call["state"], call["mode"], call["caller"], call["inviter"]) for call in page["calls"]] == [
        (1, 1, bob.user, bob.user),
        (2, 0, alice.user, alice.user),
        (2, 0, alice.user, alice.user),
    ]
    assert page["calls"][0]["endTime"] == 0 and page["calls"][1]["endTime"] >= page["calls"][1]["createTime"]
    rest = bob.ask("calls", count=3, nextFlag=page["nextFlag"])
    assert [call["callID"] for call in rest["calls"]] == calls[:1] and rest["nextFlag"] == 0
    bob.ask("calls", 6000001, count=3, nextFlag=page["nextFlag"] + 1000)
    bob.ask("end", callID=last)


# ---- Failures


def test_a_coordinator_that_is_killed_loses_nothing(rig: Any, tmp_path: Path) -> None:
    world = rig.world(2)
    apps = Apps(world, tmp_path)
    alice, bob = apps.online("alice", "bob")
    call = ring(alice, bob, advanced=True)
    world.services[0].kill()
    bob.ask("accept", callID=call)
    alice.becomes(call, bob, ACCEPTED)
    world.services[0].start()
    world.services[1].kill()
    alice.ask("end", callID=call)
    bob.event("ended", call)
    assert bob.of(call) == ["received", "accept", "states bob:1", "ended"]
    assert alice.of(call) == ["invite", "created", "states alice:1 bob:0", "states bob:5", "states bob:1", "end"]
    apps.close()


def test_a_broker_that_restarts_is_told_and_what_was_missed(rig: Any, tmp_path: Path) -> None:
    world = rig.world(caller_grace="30s")
    apps = Apps(world, tmp_path)
    alice, bob = apps.online("alice", "bob")
    call = ring(alice, bob, advanced=True)
    since = len(alice.told())
    world.broker.stop()
    alice.connection(RECONNECTING, LOGIN_INTERRUPTED)
    bob.connection(RECONNECTING, LOGIN_INTERRUPTED)
    world.broker.start()
    alice.connection(CONNECTED, SUCCESS, 30, since)
    bob.ask("accept", within=40, callID=call)
    for app in (alice, bob):
        app.becomes(call, bob, ACCEPTED, 30)
    connection = [(line["state"], line["reason"]) for line in alice.told("connection", since=since)]
    assert connection == [(RECONNECTING, LOGIN_INTERRUPTED), (CONNECTED, SUCCESS)]
    assert bob.of(call) == ["received", "accept", "states bob:1"]
    assert alice.of(call) == ["invite", "created", "states alice:1 bob:0", "states bob:5", "states bob:1"]
    apps.close()


def test_what_was_missed_is_told_before_the_end(rig: Any, tmp_path: Path) -> None:
    world = rig.world(caller_grace="30s", heartbeat_timeout="120s")
    apps = Apps(world, tmp_path)
    alice, bob, carol = apps.online("alice", "bob", "carol")
    call = talk(alice, bob)
    alice.ask("add", callID=call, invitees=[carol.user])
    carol.event("received", call)
    bob.becomes(call, carol, RECEIVED)
    # For the broker Bob's network is gone; the other apps go on meanwhile.
    with bob.frozen():
        carol.ask("accept", callID=call)
        alice.becomes(call, carol, ACCEPTED)
        alice.ask("end", callID=call)
        carol.event("ended", call)
    bob.event("ended", call, 30)
    assert bob.of(call)[-2:] == ["states carol:1", "ended"]
    apps.close()


# ---- Tokens


def test_a_token_that_ends_is_told_and_another_one_goes_on(secure: World, tmp_path: Path) -> None:
    broker = secure.broker
    assert isinstance(broker, SecureBroker)
    apps = Apps(secure, tmp_path)
    alice = apps.started("alice")
    alice.login(6000103, token="none")
    alice.login(6000106, token=broker.token(alice.user, -10))
    alice.login(token=broker.token(alice.user, 6))
    assert alice.event("tokenWillExpire")["second"] <= 6
    alice.connection(DISCONNECTED, TOKEN_EXPIRED, 20)
    since = len(alice.told())
    alice.ask("renewToken", token=broker.token(alice.user))
    alice.connection(CONNECTED, SUCCESS, 20, since)
    alice.ask("calls")
    apps.close()


@pytest.mark.waits
def test_a_token_that_is_renewed_in_time_is_not_noticed(secure: World, tmp_path: Path) -> None:
    broker = secure.broker
    assert isinstance(broker, SecureBroker)
    apps = Apps(secure, tmp_path)
    alice = apps.started("alice")
    ends = int(time.time()) + 10
    alice.login(token=broker.token(alice.user, exp=ends))
    alice.event("tokenWillExpire")
    since = len(alice.told())
    token = broker.token(alice.user)
    assert alice.ask("renewToken", token=token)["token"] == token
    wait_until(lambda: time.time() > ends + 1, 15, "the first token has ended")
    alice.ask("calls")
    assert [line["told"] for line in alice.told(since=since)] == ["renewToken", "calls"]
    apps.close()


def test_what_is_out_of_range_is_refused_by_the_service(secure: World, tmp_path: Path) -> None:
    """This deployment has no tap: only a test of refusals may send such requests."""
    broker = secure.broker
    assert isinstance(broker, SecureBroker)
    apps = Apps(secure, tmp_path)
    alice = apps.started("alice")
    alice.login(token=broker.token(alice.user))
    alice.ask("invite", 6000001, invitees=[])
    alice.ask("invite", 6000001, invitees=["bob"], timeout=601)
    alice.ask("invite", 6000001, invitees=["bob"], extendedData="x" * 2049)
    alice.ask("avatar", 6000001, avatar="x" * 513)
    alice.ask("extend", 6000001, extendedData="x" * 2049)
    alice.ask("users", 6000001, users=[f"user-{number}" for number in range(101)])
    apps.close()


def test_tokens_of_a_provider_are_renewed_without_a_word(secure: World, tmp_path: Path) -> None:
    broker = secure.broker
    assert isinstance(broker, SecureBroker)
    apps = Apps(secure, tmp_path)
    user = World.user("alice")
    alice = apps.started("alice", user, tokens=[broker.token(user, 8), broker.token(user, 8), broker.token(user)])
    alice.login()
    since = len(alice.told())
    log = broker.log
    wait_until(lambda: log.read_text().count(f"{user}/") >= 3, 20, "it has connected again")
    alice.ask("calls")
    assert [line["told"] for line in alice.told(since=since)] == ["calls"]
    apps.close()


# ---- The vendor's demo


def test_the_vendors_demo_calls_and_is_called(apps: Apps) -> None:
    broker = apps.world.broker.url
    alice, bob, carol = (apps.demo(World.user(name)) for name in ("alice", "bob", "carol"))
    for app in (alice, bob, carol):
        app.do("start", broker=broker, user=app.user, name=app.user.title())
        app.expect("login", 20, code=SUCCESS)
    alice.do("call", user=bob.user)
    call = alice.expect("call", code=SUCCESS)["callID"]
    incoming = bob.expect("incoming", callID=call)
    assert (incoming["inviter"], incoming["extendedData"]) == (alice.user, '{"type":1}')
    carol.do("call", user=bob.user)
    assert carol.expect("rejected", 10)["extendedData"] == '{"reason":"busy"}'
    bob.do("accept", callID=call)
    bob.expect("accepted", code=SUCCESS)
    alice.expect("callStart", user=bob.user)
    alice.do("end", callID=call)
    alice.expect("callEnd", code=SUCCESS)
    assert bob.expect("callEnd")["by"] == alice.user


def test_the_vendors_demo_is_free_again_when_another_device_of_its_user_has_answered(apps: Apps) -> None:
    broker = apps.world.broker.url
    callers = [apps.demo(World.user(name)) for name in ("alice", "carol")]
    bob = World.user("bob")
    phone, tablet = apps.demo(bob), apps.demo(bob)
    for app in (*callers, phone, tablet):
        app.do("start", broker=broker, user=app.user, name=app.user.title())
        app.expect("login", 20, code=SUCCESS)

    def rings(caller: DropIn) -> str:
        caller.do("call", user=bob)
        call = str(caller.expect("call", code=SUCCESS)["callID"])
        for device in (phone, tablet):
            device.expect("incoming", callID=call)
        return call

    declined = rings(callers[0])
    phone.do("reject", callID=declined)
    tablet.expect("callEnd", callID=declined)
    callers[0].expect("rejected", callID=declined)
    # No user is busy: both devices ring.
    accepted = rings(callers[1])
    phone.do("accept", callID=accepted)
    callers[1].expect("callStart", user=bob)
    phone.expect("callStart", callID=accepted)
    tablet.expect("callEnd", callID=accepted)
    assert not tablet.told("callStart")


# ---- Pushes


@pytest.mark.parametrize("when", ["before the login", "after the login"])
def test_a_callee_whose_app_was_killed_is_woken(
    deploy: Deploy, providers: PushProviders, tmp_path: Path, when: str
) -> None:
    apps = Apps(deploy(push=str(providers.settings())), tmp_path)
    (alice,) = apps.online("alice")
    bob = apps.started("bob", device="phone")
    target = providers.target_of(bob.user, "phone", "apnsVoIP")
    if when == "before the login":
        bob.do("push", token=target.token, voip=True)
        bob.login()
    else:
        bob.login()
        bob.do("push", token=target.token, voip=True)
    # A request behind the registration.
    bob.ask("users", users=[alice.user])
    bob.kill()
    call = alice.ask("invite", invitees=[bob.user], push={"title": "Alice calls"}, timeout=30)["callID"]
    pushed = providers.expect(target, "ring", call)
    assert pushed.content["title"] == "Alice calls"
    apps.close()


def test_a_logout_ends_the_pushes(deploy: Deploy, providers: PushProviders, tmp_path: Path) -> None:
    apps = Apps(deploy(push=str(providers.settings())), tmp_path)
    (alice,) = apps.online("alice")
    bob = apps.started("bob", device="phone").login()
    target = providers.target_of(bob.user, "phone", "apnsVoIP")
    bob.do("push", token=target.token, voip=True)
    bob.ask("users", users=[alice.user])
    bob.do("logout")
    bob.connection(DISCONNECTED, SUCCESS)
    # The session ends behind the requests of the logout.
    wait_until(lambda: apps.world.service.metrics().get('bellwire_presence_total{state="logout"}') == 1, 20, "the goodbye")
    alice.ask("invite", invitees=[bob.user], timeout=30)
    providers.expect_silence(1.5, target)
    apps.close()


def test_a_build_from_xcode_is_another_app(deploy: Deploy, tmp_path: Path) -> None:
    sandbox = App("sandbox")
    providers = PushProviders(tmp_path / "providers", App(), sandbox)
    apps = Apps(deploy(push=str(providers.settings())), tmp_path)
    (alice,) = apps.online("alice")
    bob = apps.started("bob", device="phone").login()
    target = providers.target_of(bob.user, "phone", "apns", sandbox)
    bob.do("push", token=target.token, sandbox=True)
    bob.ask("users", users=[alice.user])
    bob.kill()
    call = alice.ask("invite", invitees=[bob.user], timeout=30)["callID"]
    providers.expect(target, "ring", call)
    apps.close()
    providers.close()
    providers.expect_no_problems()


def test_a_deployment_without_pushes_says_so_once(apps: Apps) -> None:
    bob = apps.online("bob")[0]
    bob.do("push", token="ab" * 32, voip=True)
    bob.expect("error", 10)
    bob.do("push", token="cd" * 32, voip=True)
    bob.ask("users", users=[bob.user])
    assert len(bob.told("error")) == 1
