"""`bellwire send`, and the messages and signals that `bellwire listen` shows: the SDK from end to end."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Terminal, World, call_id, executable, member, wait_until


def send(world: World, user: str, text: str, *arguments: str, sender: str) -> subprocess.CompletedProcess[str]:
    """`bellwire send`, to its end."""
    command = [executable(), "send", user, text, "--as", sender, "--broker", world.broker.url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.fixture
def listener(world: World, tmp_path: Path) -> Iterator[Terminal]:
    """A phone of the SDK that accepts every call."""
    terminal = Terminal(world.broker, tmp_path, "listen", World.user("bob"), "--auto", "accept")
    yield terminal.wait_online()
    terminal.close()


def told(listener: Terminal, event: str) -> list[dict[str, object]]:
    return [line for line in listener.lines() if line["event"] == event]


def test_a_message_is_delivered_and_shown_once(world: World, listener: Terminal) -> None:
    """The receipt comes back with exit status 0; the phone acks the message and shows the text unchanged."""
    text = 'hi "you" \\ 😀'
    done = send(world, listener.user, text, sender=World.user("alice"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "delivered" in done.stdout
    wait_until(lambda: told(listener, "message"), 15, "the message is shown")
    assert [line["data"] for line in told(listener, "message")] == [text]


def test_a_message_to_nobody_expires(world: World) -> None:
    """Exit status 3."""
    done = send(world, World.user("nobody"), "x", "--ttl", "1s", sender=World.user("alice"))
    assert (done.returncode, done.stderr) == (3, "")
    assert "expired" in done.stdout


def test_who_only_asks_is_not_rung_and_not_online(world: World) -> None:
    """While `bellwire send` waits for a receipt, a call to its user reaches no device, and no ack goes out in the
    user's name."""
    alice, carol = World.user("alice"), world.phone("carol")
    command = [executable(), "send", World.user("nobody"), "x", "--ttl", "3s", "--as", alice]
    waiting = subprocess.Popen([*command, "--broker", world.broker.url], stdout=subprocess.PIPE, text=True)
    assert waiting.stdout is not None
    assert "under way" in waiting.stdout.readline()
    call = call_id()
    assert carol.ok("call.invite", callID=call, invitees=[alice])["offline"] == [alice]
    assert waiting.wait(10) == 3
    assert member(carol.get(call), alice)["state"] == "inviting"
    carol.cancel(call)


def test_signals_are_shown_in_the_order_of_their_numbers(world: World, listener: Terminal) -> None:
    """The signals are sent shuffled, as several replicas may hand on signals; the SDK puts the signals into order."""
    alice = world.phone("alice")
    call = alice.invite(listener.user, mode="advanced")
    alice.expect_state(call, listener.user, "accepted")
    order = [1, 3, 2, 6, 5, 4, 10, 9, 8, 7]
    for seq in order:
        alice.send({"type": "call.signal", "callID": call, "seq": seq, "data": {"candidate": seq}})
    wait_until(lambda: len(told(listener, "signal")) == len(order), 15, "all signals are shown")
    assert [line["data"] for line in told(listener, "signal")] == [{"candidate": seq} for seq in sorted(order)]
    alice.end(call)


def test_messages_of_a_stream_are_shown_in_the_order_of_their_numbers(world: World, listener: Terminal) -> None:
    """The phone acks each message at once, and shows the message in its turn."""
    alice = world.phone("alice")
    order = [1, 3, 2, 6, 5, 4, 10, 9, 8, 7]
    messages = [alice.message(listener.user, seq, seq=seq, stream="s") for seq in order]
    wait_until(lambda: len(told(listener, "message")) == len(order), 15, "all messages are shown")
    assert [line["data"] for line in told(listener, "message")] == sorted(order)
    for message in messages:
        assert alice.expect_type("receipt", messageID=message)["state"] == "delivered"


def test_messages_of_a_stream_that_waited_are_shown_in_order(world: World, tmp_path: Path) -> None:
    """More than go at once to a device that comes online: the rest come by their resends, in any order."""
    alice, carol = world.phone("alice"), World.user("carol")
    order = [(number ^ 3) + 1 for number in range(80)]
    for seq in order:
        alice.message(carol, seq, seq=seq, stream="s", ttl=60)
    terminal = Terminal(world.broker, tmp_path, "listen", carol)
    try:
        wait_until(lambda: len(told(terminal, "message")) == len(order), 30, "all messages are shown")
        assert [line["data"] for line in told(terminal, "message")] == sorted(order)
    finally:
        terminal.close()
