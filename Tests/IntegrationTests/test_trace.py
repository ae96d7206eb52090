"""Why a phone did or did not ring: the calls that have timelines, `bellwire trace` (§6), and reports of two devices at
once (§2)."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from harness import (
    STORES,
    Deploy,
    Device,
    RedisServer,
    Service,
    World,
    answers,
    call_id,
    encode_user,
    free_port,
    member,
    on_each_store,
    ring,
    run,
    talk,
    wait_until,
)

Entry = dict[str, Any]
WRITTEN_WITHIN = 10
"""Seconds until a step is in the timeline: 1, and the time that a busy machine adds."""


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, deployments: dict[str, World]) -> Iterator[World]:
    yield from deployments[request.param].borrow()


@pytest.fixture
def other(deployments: dict[str, World]) -> Iterator[World]:
    """For tests in which the store does not matter."""
    yield from deployments["SQLite"].borrow()


def told(device: Device, call: str, *expected: Entry) -> list[Entry]:
    """The timeline, once the timeline holds an entry with each of these fields. A step is written a little later."""
    entries: list[Entry] = []

    def missing() -> list[Entry]:
        entries[:] = device.trace(call)
        return [fields for fields in expected if not having(entries, **fields)]

    with suppress(AssertionError):
        wait_until(lambda: not missing(), WRITTEN_WITHIN, "the timeline", every=0.1)
    assert not missing(), "\n".join(map(str, [*missing(), "not among", *entries]))
    return entries


def having(entries: list[Entry], **fields: Any) -> list[Entry]:
    """The entries with these fields."""
    return [entry for entry in entries if fields.items() <= entry.items()]


# Recorded calls


def good_and_bad(world: World) -> tuple[Device, str, str]:
    """A call in which all went well, and a call to a user who is not there."""
    alice, bob = world.phones("alice", "bob")
    good = ring(alice, bob)
    # With a single coordinator this answer comes after the ack of the change before: no ack crosses the next change.
    alice.get(good)
    bob.accept(good)
    alice.expect_change(good, bob, "accepted")
    return alice, good, alice.invite(World.user("nobody"))


def test_the_service_records_what_it_is_told_to(deploy: Deploy, redis_server: RedisServer) -> None:
    """§6 `--trace`: no call, still with `entries`; only calls with a fault; a share of the calls, the same at every
    coordinator."""
    off = on_each_store(deploy, redis_server, 1, trace="off")
    errors = on_each_store(deploy, redis_server, 1, trace="errors")
    half = deploy(2, trace="50%")
    alice = half.phone("alice")
    calls = [call["callID"] for call in answers([alice.start("call.invite", invitees=[f"nobody{number}"]) for number in range(40)])]
    silent = []
    for world in errors.values():
        asker, good, bad = good_and_bad(world)
        entries = told(asker, bad, {"kind": "send", "event": "call.invited", "online": 0})
        assert having(entries, kind="request", type="call.invite")
        silent.append((asker, good))
    for world in off.values():
        asker, good, bad = good_and_bad(world)
        silent += [(asker, good), (asker, bad)]
    recorded = [call for call in calls if alice.trace(call)]
    assert 5 < len(recorded) < 35
    for call in recorded:
        told(alice, call, {"kind": "transition", "revision": 1}, {"kind": "send", "event": "call.invited"})
    # By now the first steps are written, if they are to be written.
    for asker, call in silent:
        response = asker.ok("call.trace", callID=call)
        assert response["entries"] == [] and "omitted" not in response
        assert response["call"]["callID"] == call
    for world in (*off.values(), *errors.values(), half):
        world.close()


@pytest.mark.parametrize("value", ["", "some", "101%", "-1%", "5", "%", "5%%", "nan%", "OFF"])
def test_a_bad_policy_is_refused(value: str) -> None:
    """Exit status 64 and a single line."""
    refused = run("serve", "--trace", value)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (64, "", 1), refused
    assert "--trace" in refused.stderr


# bellwire trace

Show = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def show(other: World) -> Show:
    """`show(call, user, *flags)` runs the command."""

    def command(call: str, user: str, *flags: str) -> subprocess.CompletedProcess[str]:
        return run("trace", call, "--as", user, "--broker", other.broker.url, *flags)

    return command


def test_the_command_prints_a_timeline_that_people_can_read(other: World) -> None:
    """The caller and the callees, the outcome, and each step with its time and its replica; for any member."""
    alice, bob = other.phones("alice", "bob")
    carol = World.user("carol")
    expired = alice.invite(carol, timeout=1)
    call = alice.invite(bob, carol, media="video")
    alice.expect_change(call, bob, "received")
    bob.reject(call, reason="driving")
    alice.expect_change(call, bob, "rejected")
    # An ack that comes after the end is no step of the call.
    told(alice, call, {"kind": "ack", "userID": alice.user})
    alice.cancel(call)
    # Each coordinator writes its steps by itself: an earlier step may be written later.
    steps = ({"kind": "ack", "userID": bob.user}, {"kind": "request", "type": "call.reject"}, {"kind": "request", "type": "call.cancel"})
    entries = told(alice, call, {"kind": "send", "event": "call.cancelled"}, {"kind": "ack", "userID": alice.user}, *steps)
    for user in (alice.user, bob.user, carol):
        shown = run("trace", call, "--as", user, "--broker", other.broker.url)
        assert (shown.returncode, shown.stderr) == (0, ""), shown
        lines = shown.stdout.splitlines()
        assert len(lines) >= len(entries) + 3
        head, steps = "\n".join(lines[: lines.index("")]), lines[lines.index("") :]
        for word in (call, "video", alice.user, bob.user, carol, "rejected", "cancelled", f"{carol}: no device was online"):
            assert word in head
        for words in (
            ("call.invite", alice.user, "ok"),
            ("call.invited", carol, "NO DEVICE ONLINE"),
            ("acks", bob.user),
            ("call.reject", bob.user),
            ("driving",),
            ("call.cancelled", carol),
        ):
            assert any(all(word in line for word in words) for line in steps), (words, shown.stdout)
        assert all(re.match(r"\s*\d+ ms +\+\d+ .*coordinator-[12]", line) for line in steps if line), shown.stdout
    alice.expect_change(expired, carol, "timeout")
    told(alice, expired, {"kind": "send", "event": "call.timeout"})
    shown = run("trace", expired, "--as", carol, "--broker", other.broker.url)
    assert re.search(rf"call\.invited.*NO DEVICE ONLINE(.*\n)+.*timer.*{carol} timeout", shown.stdout), shown.stdout


def test_the_command_names_a_device_that_sends_no_ack(other: World, show: Show) -> None:
    alice, bob, carol = other.phone("alice"), other.phone("bob", auto_ack=False), other.phone("carol")
    call = alice.invite(bob, carol, timeout=2)
    bob.expect("call.timeout", call)
    told(alice, call, {"kind": "send", "event": "call.timeout"}, {"kind": "ack", "userID": carol.user})
    shown = show(call, alice.user).stdout
    assert re.search(rf"  {bob.user}: 1 device was online, the invitation was sent [2-9] times, and no ack came", shown), shown
    assert f"  {carol.user}: " not in shown, shown


def test_the_command_prints_the_response_for_scripts(other: World, show: Show) -> None:
    """`--json`: a single line, unchanged; also the reports of devices."""
    alice = other.phone("alice")
    call = alice.invite("nobody")
    alice.ok("call.report", callID=call, milestones={"remoteReceived": 40})
    told(alice, call, {"kind": "send", "event": "call.invited"})
    shown = show(call, alice.user, "--json")
    assert (shown.returncode, shown.stderr, shown.stdout.count("\n")) == (0, "", 1), shown
    response = json.loads(shown.stdout)
    assert (response["type"], response["ok"], response["callID"]) == ("response", True, call)
    assert having(response["entries"], kind="send", event="call.invited")
    assert response["reports"] == [{"userID": alice.user, "device": "phone", "milestones": {"remoteReceived": 40}}]
    assert "remoteReceived 40 ms" in show(call, alice.user).stdout


def test_asking_rings_nobody_and_changes_nothing(other: World, show: Show) -> None:
    """§6: the question comes from a device of the user that is never online: the device sends no ack, and comes and
    goes unseen."""
    alice, bob = other.phone("alice"), other.phone("bob", auto_ack=False)
    carol = World.user("carol")
    call = alice.invite(bob, carol)
    bob.expect("call.invited", call)
    before, since = alice.get(call), len(other.tap.messages)
    marks = alice.mark, bob.mark
    for user in (bob.user, carol):
        assert show(call, user).returncode == 0
    assert alice.get(call) == before
    assert member(before, bob)["state"] == member(before, carol)["state"] == "inviting"
    users = alice.ok("user.query", userIDs=[bob.user, carol])
    assert [(user["userID"], user["online"]) for user in users["users"]] == [(bob.user, True)]
    assert not alice.events(since=marks[0], stale=True)
    assert {m.event for m in bob.events(since=marks[1], stale=True)} <= {"call.invited"}, "resends at most"
    other.tap.settle()
    asked = [m for m in other.tap.messages[since:] if m.kind in ("up", "presence") and m.levels[1] != "phone"]
    assert {(m.kind, m.levels[0], m.body["type"]) for m in asked} == {
        ("up", encode_user(user), "call.trace") for user in (bob.user, carol)
    }
    # The service does not tell the asking device of the call later; a device that has acked would be told.
    alice.cancel(call)
    bob.expect("call.cancelled", call)
    asking = {m.levels[1] for m in asked}
    other.tap.settle()
    assert not [m for m in other.tap.messages[since:] if m.levels[1:] and m.levels[1] in asking and "event" in m.body]


def test_a_call_that_is_unknown_is_an_error(other: World, show: Show) -> None:
    """Exit status 1 and a single line, also when the call is unknown to this user alone."""
    alice = other.phone("alice")
    call = alice.invite("nobody")
    for refused in (show(call_id(), alice.user), show(call, World.user("mallory"))):
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1), refused
        assert "callNotFound" in refused.stderr


def test_a_call_without_a_timeline_is_shown_all_the_same(deploy: Deploy) -> None:
    """The command says so, and exits with 0."""
    world = deploy(store="memory:", trace="off")
    alice = world.phone("alice")
    call = alice.invite("nobody")
    shown = run("trace", call, "--as", alice.user, "--broker", world.broker.url)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert call in shown.stdout and "no timeline" in shown.stdout
    world.close()


def test_without_a_broker_or_a_service_the_command_says_so(rig: Any) -> None:
    """Exit status 1, a single line, and no longer than `--within`."""
    url = f"mqtt://127.0.0.1:{free_port()}"
    nobody = run("trace", "c", "--as", "alice", "--broker", url, "--within", "200ms")
    assert (nobody.returncode, nobody.stdout, nobody.stderr.count("\n")) == (1, "", 1), nobody
    assert url.removeprefix("mqtt://") in nobody.stderr
    silent = run("trace", "c", "--as", "alice", "--broker", rig.broker().url, "--within", "2s")
    assert (silent.returncode, silent.stdout, silent.stderr.count("\n")) == (1, "", 1), silent
    assert "answer" in silent.stderr


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["c"], "--as"),
        (["--as", "alice"], ""),
        (["c", "d", "--as", "alice"], ""),
        (["not a call id", "--as", "alice"], "not a call id"),
        (["c", "--as", "x" * 65], "--as"),
        (["c", "--as", "alice", "--broker", "http://x"], "--broker"),
        (["c", "--as", "alice", "--within", "soon"], "--within"),
        (["c", "--as", "alice", "--no-such-flag"], "--no-such-flag"),
    ],
    ids=" ".join,
)
def test_a_bad_question_is_a_usage_error(arguments: list[str], names: str) -> None:
    """Exit status 64 and a single line."""
    refused = run("trace", *arguments)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (64, "", 1), refused
    assert names in refused.stderr


def test_what_users_chose_does_not_steer_the_terminal(other: World) -> None:
    """Control characters, also above U+007F, and odd names are only shown."""
    alice = other.device("al\x1b[31m/é+#\n" + World.user(""))
    bob = other.phone("bob")
    call = ring(alice, bob, media="\x9b31m\x1b]0;x\x07")
    bob.reject(call, reason="\x9b2J\x85\x1b[2J\r\n")
    told(alice, call, {"kind": "request", "type": "call.reject"})
    shown = run("trace", call, "--as", alice.user, "--broker", other.broker.url)
    assert shown.returncode == 0
    steering = {c for c in shown.stdout if (ord(c) < 0x20 and c != "\n") or 0x7F <= ord(c) < 0xA0}
    assert not steering, steering
    assert "é+#" in shown.stdout


# Reports


def test_milestones_at_once_are_all_kept(world: World) -> None:
    """§2: whichever coordinators serve the reports."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    requests = [
        device.start("call.report", callID=call, milestones={f"m{number}": number})
        for number in range(15)
        for device in (alice, bob)
    ]
    answers(requests)
    expected = {f"m{number}": number for number in range(15)}
    reports = alice.ok("call.get", callID=call)["reports"]
    assert {report["userID"]: report["milestones"] for report in reports} == {alice.user: expected, bob.user: expected}


def test_milestones_are_counted_by_name_and_role(other: World) -> None:
    """§2: the well-known names by themselves, for callers and callees; all other names together."""
    alice, bob = other.phones("alice", "bob")
    call = talk(alice, bob)
    before = counted(other.services)
    alice.ok("call.report", callID=call, milestones={"remoteReceived": 40, "firstFrame": 900, "custom": 1, "odd": 2})
    bob.ok("call.report", callID=call, milestones={"firstFrame": 700})
    expected = {
        ("remoteReceived", "caller"): 1,
        ("firstFrame", "caller"): 1,
        ("firstFrame", "callee"): 1,
        ("other", "caller"): 2,
    }

    def grown() -> dict[tuple[str, str], float]:
        return {key: more for key, value in counted(other.services).items() if (more := value - before.get(key, 0))}

    wait_until(lambda: grown() == expected, 10, "the metrics count what was reported")


def counted(services: tuple[Service, ...]) -> dict[tuple[str, str], float]:
    """The number of values that /metrics has of each milestone and role."""
    sums: dict[tuple[str, str], float] = {}
    for service in services:
        for name, value in service.metrics().items():
            if found := re.search(r'_seconds_count\{milestone="(\w+)",role="(\w+)"\}', name):
                key = found[1], found[2]
                sums[key] = sums.get(key, 0) + value
    return sums
