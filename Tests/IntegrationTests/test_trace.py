"""Why a phone did or did not ring: timelines, `bellwire trace` (§6), and what devices report of calls (§2, Reports)."""

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
WRITTEN_WITHIN = 1.5
"""Seconds until a timeline tells what was done: 1, and what the test adds."""


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, deployments: dict[str, World]) -> Iterator[World]:
    yield from deployments[request.param].borrow()


@pytest.fixture
def other(deployments: dict[str, World]) -> Iterator[World]:
    """For what no store has a part in."""
    yield from deployments["SQLite"].borrow()


def told(device: Device, call: str, *expected: Entry) -> list[Entry]:
    """The timeline, once it holds an entry with each of these fields. It is written a little after what it tells."""
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


def assert_consistent(response: dict[str, Any]) -> None:
    """In the order of their times; `at` counts from the call's creation, `after` from the entry before."""
    times = [entry["time"] for entry in response["entries"]]
    assert times == sorted(times)
    assert len(times) <= 200
    for entry, before in zip(response["entries"], [times[0], *times]):
        assert entry["at"] == entry["time"] - response["call"]["createdAt"] >= 0
        assert entry["after"] == entry["time"] - before


# Timelines


@pytest.mark.alone
def test_what_a_timeline_tells(both: list[World]) -> None:
    """§6: of a call to somebody offline, and of one in which everything happens; both take their time, so at once."""
    offline, whole = [], []
    for world in both:
        alice, bob = world.phone("alice"), World.user("bob")
        offline.append((alice, bob, alice.invite(bob, timeout=1, notReceivedCheck=True)))
        carol, dave = world.phones("carol", "dave")
        tablet = world.another(dave, "tablet", auto_ack=False)
        whole.append((carol, dave, tablet, carol.invite(dave, mode="advanced", extendedData="hello")))
    for world, everything, nothing in zip(both, whole, offline):
        tells_all(world, *everything)
        explains(world, *nothing)


def explains(world: World, alice: Device, bob: str, call: str) -> None:
    """Why an offline callee did not ring: the invitation was sent, no device was online, and the deadline came."""
    alice.expect_change(call, bob, "timeout")
    entries = told(
        alice,
        call,
        {"kind": "request", "userID": alice.user, "device": "phone", "type": "call.invite", "outcome": "ok"},
        {"kind": "send", "event": "call.invited", "userID": bob, "revision": 1, "online": 0},
        {"kind": "send", "event": "call.timeout", "userID": bob, "revision": 2, "online": 0},
        {"kind": "send", "event": "call.userStateChanged", "userID": alice.user, "device": "phone", "online": 1},
        {"kind": "ack", "userID": alice.user, "device": "phone", "revision": 2},
    )
    response = alice.ok("call.trace", callID=call)
    assert_consistent(response)
    assert response["call"] == alice.get(call) and "omitted" not in response and "reports" not in response
    assert (response["revision"], response["time"]) == (2, response["call"]["endedAt"])
    created, ended = having(entries, kind="transition")
    assert (created["revision"], created["state"], created["actor"], created["at"]) == (1, "ringing", alice.user, 0)
    assert [(c["userID"], c["state"]) for c in created["changes"]] == [(alice.user, "accepted"), (bob, "inviting")]
    assert (ended["revision"], ended["state"], ended["endReason"]) == (2, "ended", "timeout")
    assert [(c["userID"], c["state"]) for c in ended["changes"]] == [(bob, "timeout")]
    assert "actor" not in ended and 1000 <= ended["at"] <= 1100
    (deadline,) = having(entries, kind="deadline", time=ended["time"])
    assert 0 <= deadline["late"] < 100
    assert not having(entries, userID=bob, kind="ack")
    assert all("device" not in entry for entry in having(entries, kind="send", userID=bob))
    assert {entry["coordinator"] for entry in entries} <= {"coordinator-1", "coordinator-2"}
    shown = run("trace", call, "--as", bob, "--broker", world.broker.url).stdout
    assert re.search(rf"call\.invited.*NO DEVICE ONLINE(.*\n)+.*timer.*{bob} timeout", shown), shown


def noticed(world: World, state: str) -> float:
    """How often a device went `online`, `lost` or `logout`, as the coordinators have counted."""
    name = f'bellwire_presence_total{{state="{state}"}}'
    return sum(service.metrics().get(name, 0) for service in world.services)


def tells_all(world: World, alice: Device, bob: Device, tablet: Device, call: str) -> None:
    """Requests with their outcome, changes, sends, resends, acks and presence, of both coordinators. The tablet has not
    acked the invitation yet."""
    tablet.expect_type("event", callID=call, count=2)
    bob.accept(call)
    tablet.refused("call.accept", "answeredElsewhere", callID=call)
    for leave, state in ((bob.drop, "lost"), (bob.logout, "logout")):
        before = noticed(world, state)
        leave()
        # What is told of two sessions at once may be served in either order.
        wait_until(lambda: noticed(world, state) > before, 3, f"{bob} is {state}")
        bob.connect()
    tablet.auto_ack = True
    for _ in range(10):
        alice.get(call)
    alice.end(call, reason="done")
    phone = {"userID": bob.user, "device": "phone"}
    entries = told(
        alice,
        call,
        {"kind": "send", "event": "call.invited", "userID": bob.user, "online": 2},
        {"kind": "ack", "revision": 1} | phone,
        {"kind": "resend", "event": "call.invited", "userID": bob.user, "device": "tablet", "revision": 2, "online": 2},
        {"kind": "request", "type": "call.accept", "outcome": "ok"} | phone,
        {"kind": "request", "type": "call.accept", "outcome": "answeredElsewhere", "device": "tablet"},
        {"kind": "send", "event": "call.handledElsewhere", "userID": bob.user, "device": "tablet"},
        {"kind": "presence", "state": "lost"} | phone,
        {"kind": "presence", "state": "online"} | phone,
        {"kind": "presence", "state": "logout"} | phone,
        {"kind": "request", "type": "call.end", "outcome": "ok", "userID": alice.user},
        {"kind": "transition", "state": "ended", "endReason": "hangup", "actor": alice.user},
    )
    assert_consistent(alice.ok("call.trace", callID=call))
    assert {entry["coordinator"] for entry in entries} == {"coordinator-1", "coordinator-2"}
    assert not having(entries, type="call.trace"), "asking leaves no trace"
    assert [entry["revision"] for entry in having(entries, kind="transition")] == [1, 2, 3, 4]
    assert [e["changes"][0]["state"] for e in having(entries, kind="transition")[1:3]] == ["received", "accepted"]
    assert having(entries, endReason="hangup")[0]["changes"][0]["reason"] == "done"
    # The other members see the same, whichever coordinator they ask.
    for device in (tablet, tablet):
        assert [e for e in device.trace(call) if e["kind"] == "transition"] == having(entries, kind="transition")


def test_signals_heartbeats_and_repeated_acks_are_not_recorded(world: World) -> None:
    """§6."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    revision = alice.get(call)["revision"]
    for _ in range(20):
        alice.signal(call, "x")
        alice.ok("call.signal", callID=call, data="x")
        alice.heartbeat(call)
        bob.ack(call, revision)
    bob.expect_type("signal", callID=call, count=40)
    bob.quit(call)
    entries = told(alice, call, {"kind": "request", "type": "call.quit"})
    kinds = {entry["type"] for entry in having(entries, kind="request")}
    assert kinds <= {"call.invite", "call.accept", "call.quit", "call.get"}
    for device in (alice, bob):
        acks = [entry["revision"] for entry in having(entries, kind="ack", userID=device.user)]
        # Two of the same may be served by two coordinators at the same instant.
        assert len(acks) <= 2 * len(set(acks)), acks


def test_the_last_200_entries_are_kept(world: World) -> None:
    """§6: `omitted` says how many older ones were dropped."""
    alice = world.phone("alice")
    call = alice.invite("nobody")
    answers([alice.start("call.get", callID=call) for _ in range(230)])

    def all_told() -> bool:
        response = alice.ok("call.trace", callID=call)
        assert_consistent(response)
        dropped = response.get("omitted", 0)
        assert not dropped or len(response["entries"]) == 200
        # The questions, the invitation, its transition and its send.
        return dropped + len(response["entries"]) == 233

    wait_until(all_told, WRITTEN_WITHIN, "all entries are there, or counted", every=0.1)


def test_a_timeline_is_for_members_past_and_present(world: World) -> None:
    """§2: a stranger cannot tell the call from none, and leaves no trace in it."""
    alice, bob, mallory = world.phones("alice", "bob", "mallory")
    call = ring(alice, bob)
    nothing = call_id()
    existing, missing = (mallory.refused("call.trace", "callNotFound", callID=c) for c in (call, nothing))
    assert existing["message"].replace(call, "") == missing["message"].replace(nothing, "")
    bob.reject(call)
    for device in (alice, bob):
        entries = told(device, call, {"kind": "request", "type": "call.reject", "outcome": "ok"})
        assert not having(entries, userID=mallory.user)


# What is recorded


def good_and_bad(world: World) -> tuple[Device, str, str]:
    """A call in which all went well, and one to somebody who is not there."""
    alice, bob = world.phones("alice", "bob")
    good = ring(alice, bob)
    # With one coordinator this comes after the ack of the change before it: no ack crosses the next change.
    alice.get(good)
    bob.accept(good)
    alice.expect_change(good, bob, "accepted")
    return alice, good, alice.invite(World.user("nobody"))


def test_the_service_records_what_it_is_told_to(deploy: Deploy, redis_server: RedisServer) -> None:
    """§6 `--trace`: none, with `entries` all the same; only calls in which something went wrong; a share, the same at
    every coordinator."""
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
    # By now what was done first is written, if it is to be.
    for asker, call in silent:
        response = asker.ok("call.trace", callID=call)
        assert response["entries"] == [] and "omitted" not in response
        assert response["call"]["callID"] == call
    for world in (*off.values(), *errors.values(), half):
        world.close()


@pytest.mark.parametrize("value", ["", "some", "101%", "-1%", "5", "%", "5%%", "nan%", "OFF"])
def test_a_bad_policy_is_refused(value: str) -> None:
    """Exit status 64 and one line."""
    refused = run("serve", "--trace", value)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (64, "", 1), refused
    assert "--trace" in refused.stderr


# bellwire trace

Show = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def show(world: World) -> Show:
    """`show(call, user, *flags)` runs the command."""

    def command(call: str, user: str, *flags: str) -> subprocess.CompletedProcess[str]:
        return run("trace", call, "--as", user, "--broker", world.broker.url, *flags)

    return command


def test_the_command_prints_a_timeline_that_people_can_read(other: World) -> None:
    """Who called whom, what came of it, and each step with its time and its replica; for any member."""
    alice, bob = other.phones("alice", "bob")
    carol = World.user("carol")
    call = alice.invite(bob, carol, media="video")
    alice.expect_change(call, bob, "received")
    bob.reject(call, reason="driving")
    alice.expect_change(call, bob, "rejected")
    alice.cancel(call)
    entries = told(alice, call, {"kind": "send", "event": "call.cancelled"}, {"kind": "ack", "userID": alice.user})
    for user in (alice.user, bob.user, carol):
        shown = run("trace", call, "--as", user, "--broker", other.broker.url)
        assert (shown.returncode, shown.stderr) == (0, ""), shown
        lines = shown.stdout.splitlines()
        assert len(lines) >= len(entries) + 3
        head, steps = "\n".join(lines[:4]), lines[4:]
        for word in (call, "video", alice.user, bob.user, carol, "rejected", "cancelled"):
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


def test_the_command_prints_the_response_for_scripts(world: World, show: Show) -> None:
    """`--json`: one line, as it came; also what devices reported."""
    alice = world.phone("alice")
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


def test_asking_rings_nobody_and_changes_nothing(world: World, show: Show) -> None:
    """§6: the question comes from a device of the user that is never online: it acks nothing, comes and goes unseen."""
    alice, bob = world.phone("alice"), world.phone("bob", auto_ack=False)
    carol = World.user("carol")
    call = alice.invite(bob, carol)
    bob.expect("call.invited", call)
    before, since = alice.get(call), len(world.tap.messages)
    marks = alice.mark, bob.mark
    for user in (bob.user, carol):
        assert show(call, user).returncode == 0
    assert alice.get(call) == before
    assert member(before, bob)["state"] == member(before, carol)["state"] == "inviting"
    users = alice.ok("user.query", userIDs=[bob.user, carol])
    assert [(user["userID"], user["online"]) for user in users["users"]] == [(bob.user, True)]
    assert not alice.events(since=marks[0], stale=True)
    assert [m.event for m in bob.events(since=marks[1], stale=True)] in ([], ["call.invited"]), "a resend at most"
    asked = [m for m in world.tap.messages[since:] if m.kind in ("up", "presence") and m.levels[1] != "phone"]
    assert {(m.kind, m.levels[0], m.body["type"]) for m in asked} == {
        ("up", encode_user(user), "call.trace") for user in (bob.user, carol)
    }
    # Nor is the asking device told of the call later, as one is that acked.
    alice.cancel(call)
    bob.expect("call.cancelled", call)
    asking = {m.levels[1] for m in asked}
    world.tap.settle()
    assert not [m for m in world.tap.messages[since:] if m.levels[1:] and m.levels[1] in asking and "event" in m.body]


def test_a_call_that_is_unknown_is_an_error(world: World, show: Show) -> None:
    """Exit status 1 and one line, also when it is unknown to this user alone."""
    alice = world.phone("alice")
    call = alice.invite("nobody")
    for refused in (show(call_id(), alice.user), show(call, World.user("mallory"))):
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1), refused
        assert "callNotFound" in refused.stderr


def test_a_call_without_a_timeline_is_shown_all_the_same(deploy: Deploy) -> None:
    """It says so, and exits with 0."""
    world = deploy(store="memory:", trace="off")
    alice = world.phone("alice")
    call = alice.invite("nobody")
    shown = run("trace", call, "--as", alice.user, "--broker", world.broker.url)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert call in shown.stdout and "no timeline" in shown.stdout
    world.close()


def test_without_a_broker_or_a_service_the_command_says_so(rig: Any) -> None:
    """Exit status 1, one line, and no longer than `--within`."""
    url = f"mqtt://127.0.0.1:{free_port()}"
    nobody = run("trace", "c", "--as", "alice", "--broker", url, "--within", "200ms")
    assert (nobody.returncode, nobody.stdout, nobody.stderr.count("\n")) == (1, "", 1), nobody
    assert url.removeprefix("mqtt://") in nobody.stderr
    silent = run("trace", "c", "--as", "alice", "--broker", rig.broker().url, "--within", "200ms")
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
    """Exit status 64 and one line."""
    refused = run("trace", *arguments)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (64, "", 1), refused
    assert names in refused.stderr


def test_what_users_chose_does_not_steer_the_terminal(other: World) -> None:
    """Control characters, those above U+007F as well, and odd names are shown and nothing more."""
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


def reports(device: Device, call: str) -> list[dict[str, Any]] | None:
    """As `call.get` and `call.trace` show them."""
    shown = device.ok("call.get", callID=call).get("reports")
    assert device.ok("call.trace", callID=call).get("reports") == shown
    return shown


def by_device(found: list[dict[str, Any]] | None) -> dict[tuple[str, str], dict[str, int]]:
    return {(report["userID"], report["device"]): report["milestones"] for report in found or []}


def test_what_devices_report_is_kept_with_the_call(world: World) -> None:
    """§2: of each device by itself, the last value of a name; also after the call; nobody else may, or is told."""
    alice, bob, carol, mallory = world.phones("alice", "bob", "carol", "mallory")
    tablet = world.another(bob, "tablet")
    call = ring(alice, bob, carol, mode="advanced")
    carol.reject(call)
    bob.accept(call)
    before = alice.get(call)
    assert reports(alice, call) is None
    expected = {(alice.user, "phone"): {"remoteReceived": 0, "joinedChannel": 412}}
    response = alice.ok("call.report", callID=call, milestones={"joinedChannel": 412, "remoteReceived": 0})
    assert by_device(response["reports"]) == expected and response["call"] == before
    bob.ok("call.report", callID=call, milestones={"firstFrame": 86_400_000, "a_Z-9": 1})
    tablet.ok("call.report", callID=call, milestones={"x" * 64: 7.0})
    for value in (450, 400):
        # A report is not remembered by its id: the last one counts.
        alice.ok("call.report", id="again", callID=call, milestones={"joinedChannel": value, "firstFrame": 900})
    expected = {
        (alice.user, "phone"): {"remoteReceived": 0, "joinedChannel": 400, "firstFrame": 900},
        (bob.user, "phone"): {"firstFrame": 86_400_000, "a_Z-9": 1},
        (bob.user, "tablet"): {"x" * 64: 7},
    }
    for device in (alice, bob, tablet, carol):
        assert by_device(reports(device, call)) == expected
    assert alice.get(call) == before, "nothing that others are told of"
    alice.end(call)
    carol.ok("call.report", callID=call, milestones={"remoteReceived": 30})
    expected[carol.user, "phone"] = {"remoteReceived": 30}
    assert by_device(reports(bob, call)) == expected
    for request, fields in (("call.report", {"milestones": {"firstFrame": 1}}), ("call.get", {})):
        mallory.refused(request, "callNotFound", callID=call, **fields)
        mallory.refused(request, "callNotFound", callID=call_id(), **fields)
    assert by_device(reports(bob, call)) == expected


def test_a_call_keeps_a_limited_number_of_milestones(world: World) -> None:
    """§2: 32 of each device, 64 of each user; more is `badRequest`, what is there can be replaced, and others have their room."""
    alice, bob = world.phones("alice", "bob")
    call = alice.invite(bob)
    devices = [alice, *[world.another(alice, f"d{number}", presence=False) for number in range(2)]]
    full = {f"m{number}": number for number in range(32)}
    for device in devices[:2]:
        device.ok("call.report", callID=call, milestones=full)
    before = by_device(reports(alice, call))
    assert sum(map(len, before.values())) == 64
    for device, more in ((devices[0], {"one-more": 1, "m0": 5}), (devices[2], {"m0": 1})):
        error = device.refused("call.report", "badRequest", callID=call, milestones=more)
        assert "milestones" in error["message"]
    assert by_device(reports(alice, call)) == before
    answer = devices[1].ok("call.report", callID=call, milestones={"m31": 1000})
    assert by_device(answer["reports"])[alice.user, "d0"]["m31"] == 1000
    assert bob.ok("call.report", callID=call, milestones=full)["ok"]


def test_milestones_at_once_are_all_kept(world: World) -> None:
    """§2: whichever coordinators serve them."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    requests = [
        device.start("call.report", callID=call, milestones={f"m{number}": number})
        for number in range(15)
        for device in (alice, bob)
    ]
    answers(requests)
    expected = {f"m{number}": number for number in range(15)}
    assert by_device(reports(alice, call)) == {(alice.user, "phone"): expected, (bob.user, "phone"): expected}


def test_milestones_are_counted_by_name_and_role(world: World) -> None:
    """§2: the well-known names by themselves, for callers and callees; all other names together."""
    alice, bob = world.phones("alice", "bob")
    call = talk(alice, bob)
    before = counted(world.services)
    alice.ok("call.report", callID=call, milestones={"remoteReceived": 40, "firstFrame": 900, "custom": 1, "odd": 2})
    bob.ok("call.report", callID=call, milestones={"firstFrame": 700})
    expected = {
        ("remoteReceived", "caller"): 1,
        ("firstFrame", "caller"): 1,
        ("firstFrame", "callee"): 1,
        ("other", "caller"): 2,
    }

    def grown() -> dict[tuple[str, str], float]:
        return {key: more for key, value in counted(world.services).items() if (more := value - before.get(key, 0))}

    wait_until(lambda: grown() == expected, 2, "the metrics count what was reported")


def counted(services: tuple[Service, ...]) -> dict[tuple[str, str], float]:
    """How many values /metrics has of each milestone and role."""
    sums: dict[tuple[str, str], float] = {}
    for service in services:
        for name, value in service.metrics().items():
            if found := re.search(r'_count\{milestone="(\w+)",role="(\w+)"\}', name):
                key = found[1], found[2]
                sums[key] = sums.get(key, 0) + value
    return sums
