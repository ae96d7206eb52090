"""`bellwire call` and `bellwire listen`: the exit status and the JSON lines, on which scripts rely."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import Child, Device, Terminal, World, member, run, talk, wait_until
from harness.service import executable

Start = Callable[..., Terminal]


@pytest.fixture
def start(world: World, tmp_path: Path) -> Iterator[Start]:
    """Starts a phone in a terminal: `start("listen", user, "--auto", "accept")`."""
    terminals: list[Terminal] = []

    def make(command: str, user: str, *arguments: str, device: str = "cli") -> Terminal:
        terminals.append(Terminal(world.broker, tmp_path, command, user, *arguments, device=device))
        return terminals[-1]

    yield make
    for terminal in terminals:
        terminal.close()


def listening(start: Start, user: str, *arguments: str) -> Terminal:
    return start("listen", user, *arguments).wait_online()


@pytest.mark.parametrize(
    ("auto", "status"), [("accept", 0), ("reject", 2), ("busy", 4)], ids=["accepted", "rejected", "busy"]
)
def test_the_exit_status_tells_the_outcome(world: World, start: Start, auto: str, status: int) -> None:
    """0 answered, 2 rejected, 4 busy; the listener goes on for the next call."""
    alice, bob = World.user("alice"), World.user("bob")
    listener = listening(start, bob, "--auto", auto)
    for _ in range(2):
        caller = start("call", alice, bob)
        assert caller.exit_status() == status, caller.text()
        assert caller.lines()
        assert listener.running
    assert listener.lines()


def test_an_ignored_call_times_out(world: World, start: Start) -> None:
    """3 timeout: with `--auto ignore` the phone keeps ringing."""
    alice, bob = World.user("alice"), World.user("bob")
    listening(start, bob, "--auto", "ignore")
    caller = start("call", alice, bob, "--timeout", "1s")
    assert caller.exit_status() == 3, caller.text()
    assert caller.lines()


def test_a_call_to_nobody_times_out(world: World, start: Start) -> None:
    """3 timeout: an offline callee."""
    caller = start("call", World.user("alice"), World.user("nobody"), "--timeout", "1s")
    assert caller.exit_status() == 3, caller.text()


def test_a_call_cancelled_on_another_device_exits_as_cancelled(world: World, start: Start) -> None:
    """5 cancelled: any device of the caller may cancel."""
    web, bob = world.phone("alice", "web"), world.phone("bob")
    caller = start("call", web.user, bob.user)
    call = web.expect("call.created", seconds=10)["callID"]
    bob.expect("call.invited", call)
    web.cancel(call)
    assert caller.exit_status() == 5, caller.text()
    assert bob.expect("call.cancelled", call)["call"]["endReason"] == "cancelled"


def test_a_refused_call_is_an_error(world: World, start: Start) -> None:
    """1 error: a user in an advanced call cannot place another call."""
    web, bob = world.phone("alice", "web"), world.phone("bob")
    talk(web, bob)
    caller = start("call", web.user, World.user("carol"))
    assert caller.exit_status() == 1, caller.text()
    assert "alreadyInCall" in caller.text()


def test_what_is_said_on_the_command_line_reaches_the_callee(world: World, start: Start) -> None:
    """`--media`, `--extended-data`, `--mode`, `--timeout`, `--device`."""
    bob = world.phone("bob")
    start(
        "call",
        World.user("alice"),
        bob.user,
        "--media",
        "video",
        "--extended-data",
        "room 17",
        "--mode",
        "advanced",
        "--timeout",
        "30s",
        device="terminal-1",
    )
    call = bob.expect("call.invited", seconds=10)["call"]
    assert (call["media"], call["extendedData"], call["mode"], call["timeout"]) == ("video", "room 17", "advanced", 30)
    assert member(call, call["inviter"])["device"] == "terminal-1"


def test_a_group_call_is_answered_when_one_accepts(world: World, start: Start) -> None:
    """`bellwire call USER…`: 0 when a callee answered."""
    alice, bob, carol = World.user("alice"), World.user("bob"), World.user("carol")
    listening(start, bob, "--auto", "reject")
    listening(start, carol, "--auto", "accept")
    caller = start("call", alice, bob, carol)
    assert caller.exit_status() == 0, caller.text()


def test_auto_waits_as_long_as_it_is_told(world: World, start: Start) -> None:
    """`--after`: the phone rings first, and acks meanwhile."""
    alice, bob = world.phone("alice"), World.user("bob")
    listening(start, bob, "--auto", "accept", "--after", "1s")
    call = alice.invite(bob)
    alice.expect_change(call, bob, "received")
    told = alice.expect_change(call, bob, "accepted", 15)
    assert 900 <= told["time"] - told["call"]["createdAt"] < 8000


@pytest.mark.parametrize("side", ["caller", "listener"])
def test_an_advanced_call_is_hung_up_after_its_time(world: World, start: Start, side: str) -> None:
    """`--hang-up-after`: the caller stays on the line for that long, then ends the call; 0 answered."""
    if side == "caller":
        bob = world.phone("bob")
        caller = start("call", World.user("alice"), bob.user, "--mode", "advanced", "--hang-up-after", "500ms")
        call = bob.expect("call.invited", seconds=10)["callID"]
        accepted = bob.accept(call)["time"]
        ended = bob.expect("call.ended", call, 15)
        assert 400 <= ended["time"] - accepted < 8000
        assert caller.exit_status() == 0, caller.text()
    else:
        callee = World.user("bob")
        listener = listening(start, callee, "--auto", "accept")
        caller = start("call", World.user("alice"), callee, "--mode", "advanced", "--hang-up-after", "300ms")
        assert caller.exit_status() == 0, caller.text()
        assert listener.running


def test_a_listener_leaves_cleanly_on_sigterm(world: World, start: Start) -> None:
    """The listener says goodbye, so that its user is offline at once."""
    bob = World.user("bob")
    listener = listening(start, bob, "--auto", "accept")
    assert _offline(world, bob) == []
    since = len(world.tap.messages)
    listener.stop()
    goodbye = world.tap.wait(lambda m: m.kind == "presence" and m.body.get("online") is False, 10, "the goodbye", since)
    assert goodbye.levels[1] == "cli"
    listener.lines()


def test_a_listener_without_auto_rings_on(world: World, start: Start) -> None:
    """Without a terminal for keys the listener rings, and does not fail."""
    alice, bob = world.phone("alice"), World.user("bob")
    listener = listening(start, bob)
    call = alice.invite(bob)
    alice.expect_change(call, bob, "received")
    alice.expect_silence(0.5, call)
    assert listener.running
    alice.cancel(call)


def test_signals_that_whoever_started_it_ignores_do_not_end_it(world: World, start: Start, tmp_path: Path) -> None:
    """`nohup` ignores SIGHUP, and a shell without job control ignores SIGINT for its background processes."""
    user, output = World.user("bob"), tmp_path / "ignoring.out"
    child = Child(
        ["bash", "-c", 'trap "" HUP INT; exec "$0" "$@"', executable(), "listen", "--as", user, "--auto", "accept"]
        + ["--broker", world.broker.url, "--json"],
        output,
    )
    try:
        wait_until(lambda: '"connected"' in output.read_text(), 20, "connected")
        child.signal(signal.SIGHUP)
        child.signal(signal.SIGINT)
        # A listener that obeyed the signals would be gone before the caller got an answer.
        assert start("call", World.user("alice"), user).exit_status() == 0
        assert child.running
        child.terminate()
    finally:
        child.kill()


@pytest.mark.parametrize("command", ["call", "listen"])
def test_help_and_bad_flags(command: str) -> None:
    """`--help` lists the flags; a bad flag gives a single line and exit status 64."""
    shown = run(command, "--help")
    assert shown.returncode == 0
    for flag in ("--as", "--device", "--broker", "--json"):
        assert flag in shown.stdout
    refused = run(command, "bob", "--as", "alice", "--no-such-flag")
    assert (refused.returncode, refused.stdout) == (64, "")
    assert refused.stderr.count("\n") == 1 and "--no-such-flag" in refused.stderr


def test_a_short_option_is_refused_and_a_name_may_look_like_one(world: World, start: Start) -> None:
    """There are no short options; after `--` every word is a name."""
    refused = run("call", "-q", "bob", "--as", "alice")
    assert (refused.returncode, refused.stdout) == (64, "")
    assert refused.stderr.count("\n") == 1 and "-q" in refused.stderr
    odd = World.user("-odd")
    listening(start, odd, "--auto", "reject")
    called = run("call", "--as", World.user("alice"), "--broker", world.broker.url, "--", odd)
    assert called.returncode == 2, called


def _offline(world: World, user: str) -> list[str]:
    asker: Device = world.phone("asker", presence=False)
    response = asker.ok("call.invite", invitees=[user], mode="advanced")
    asker.end(response["callID"])
    return response["offline"]
