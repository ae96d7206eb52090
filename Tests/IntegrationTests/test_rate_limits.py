"""The limits of a user's requests: the settings, the counts of each replica and of all replicas together, and the
metrics (§2, Rate limits)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness import STORES, Deploy, Device, RedisServer, World, answers, on_each_store, ring, run, talk, wait_until

RATE, BURST = 2, 4


@pytest.fixture(scope="module")
def mixed_deployment(deploy: Deploy) -> World:
    """Calls have no limit here, so that tests can prepare calls."""
    return deploy(store="memory:", request_rate="0/0", message_rate="4/2", signal_rate="1/3")


@pytest.fixture
def mixed(mixed_deployment: World) -> Iterator[World]:
    yield from mixed_deployment.borrow()


def retry_after(response: dict[str, Any]) -> int:
    """The pause that a refusal for the request's rate demands."""
    assert not response["ok"] and response["error"]["code"] == "rateLimited", response
    assert isinstance(response["error"]["retryAfter"], int)
    return response["error"]["retryAfter"]


def shown(device: Device) -> list[Any]:
    """The data of the messages that the device shows: the device drops a message that the device has had (§2)."""
    return list({message["messageID"]: message["data"] for message in device.had("message")}.values())


def test_each_class_has_its_own_limit(deploy: Deploy) -> None:
    """`--request-rate` and its like: invitations, messages and signals are counted by themselves, with id and without.
    The requests of a class are sent at once, since the limit lets another request pass after half a second."""
    limit = f"{RATE}/{BURST}"
    world = deploy(store="memory:", request_rate=limit, invite_rate=limit, message_rate=limit, signal_rate=limit)
    alice, bob = world.phones("alice", "bob")

    def exceed(type_: str, fields: Callable[[int], dict[str, Any]]) -> int:
        *passed, more = [alice.start(type_, **fields(number)) for number in range(BURST + 1)]
        assert all(request.wait(resend=False)["ok"] for request in passed)
        return retry_after(more.wait(resend=False))

    assert exceed("user.query", lambda _: {"userIDs": ["nobody"]}) <= 1000 // RATE
    exceed("call.invite", lambda number: {"invitees": [f"nobody-{number}"]})
    exceed("message.send", lambda number: {"to": bob.user, "data": number})
    # Judged like any signal: the call does not exist.
    since, asked = alice.mark, []
    for number in range(BURST):
        if number % 2:
            asked.append(alice.start("call.signal", callID="c", data=number))
        else:
            alice.signal("c", number)
    more = alice.start("call.signal", callID="c", data="more")
    for request in asked:
        request.refused("callNotFound")
    alice.expect_type("error", since=since, count=BURST // 2)
    assert {error["error"]["code"] for error in alice.had("error", since=since)} == {"callNotFound"}
    retry_after(more.wait(resend=False))
    bob.expect_type("message", data=BURST - 1)
    assert shown(bob) == list(range(BURST))
    world.close()


def test_a_refused_signal_reaches_nobody(mixed: World) -> None:
    """§2: the sender is told in a response, or in a message of type `error`."""
    alice, bob = mixed.phones("alice", "bob")
    call = talk(alice, bob)
    since = alice.mark
    for number in range(6):
        alice.signal(call, number)
    more = alice.start("call.signal", callID=call, data="more")
    alice.expect_type("error", since=since, count=3)
    for refused in alice.had("error", since=since):
        assert refused["error"]["code"] == "rateLimited"
        assert 0 < refused["error"]["retryAfter"] <= 1000
        assert refused.topic == alice.device_topic
    retry_after(more.wait(resend=False))
    bob.signal(call, "the other way")
    alice.expect_type("signal", callID=call, data="the other way")
    bob.expect_type("signal", callID=call, data=2)
    assert [m["data"] for m in bob.had("signal", callID=call)] == [0, 1, 2]


def test_a_refused_message_is_not_sent(mixed: World) -> None:
    """§2: the recipient gets no message; the same request succeeds later, once."""
    alice, bob = mixed.phones("alice", "bob")
    # Sent at once: the limit lets another message pass after a quarter of a second.
    passed = [alice.start("message.send", to=bob.user, data=number) for number in range(2)]
    fields: dict[str, Any] = {"id": "third", "to": bob.user, "data": "third", "messageID": "m-third"}
    pause = retry_after(alice.start("message.send", **fields).wait(resend=False)) / 1000
    assert all(request.wait(resend=False)["ok"] for request in passed)
    bob.expect_type("message", data=1)
    bob.ok("user.query", userIDs=[bob.user])
    assert shown(bob) == [0, 1]
    alice.expect_silence(pause)
    mark = alice.mark
    alice.start("message.send", **fields)
    assert alice.expect_type("response", id="third", since=mark)["state"] == "sent"
    assert alice.expect_type("receipt", messageID="m-third")["state"] == "delivered"
    assert shown(bob) == [0, 1, "third"]


def test_zero_is_no_limit(mixed: World) -> None:
    """`--request-rate 0/0` lets all pass, not none."""
    alice = mixed.phone("alice")
    count = 300
    for _ in range(count):
        alice.send({"type": "call.get", "id": "many", "callID": "c"})
    wait_until(lambda: len(alice.messages) > count, 10, "all answers", every=0.1)
    assert {m["error"]["code"] for m in alice.had("response")} == {"callNotFound"}


def test_each_replica_counts_for_itself(deploy: Deploy) -> None:
    """§2: with two coordinators a user has at most twice as much, and other users have theirs."""
    world = deploy(2, message_rate="1/10")
    alice, bob = world.phones("alice", "bob")
    began = time.monotonic()
    requests = [alice.start("message.send", to=bob.user, data=number, ttl=600) for number in range(60)]
    taken = [request.wait(resend=False) for request in requests]
    admitted = [response["messageID"] for response in taken if response["ok"]]
    seconds = time.monotonic() - began
    assert 10 <= len(admitted) <= 2 * (10 + 1 * seconds)
    for response in taken:
        assert response["ok"] or 0 < retry_after(response) <= 1000
    for message in admitted:
        alice.expect_type("receipt", messageID=message)
    assert {m["messageID"] for m in bob.had("message")} == set(admitted)
    assert len(answers([bob.start("message.send", to=alice.user, data=number) for number in range(10)])) == 10
    world.close()


@pytest.fixture(scope="module")
def quotas(deploy: Deploy, redis_server: RedisServer) -> dict[str, World]:
    """Two coordinators on each store, with low limits for a user."""
    return on_each_store(
        deploy, redis_server, live_invitations="5", waiting_messages="5", stored_bytes="30000", sent_bytes_rate="20000/200000"
    )


@pytest.fixture(params=STORES)
def frugal(request: pytest.FixtureRequest, quotas: dict[str, World]) -> Iterator[World]:
    yield from quotas[request.param].borrow()


def limited(world: World, name: str) -> float:
    """The number of times that the limit was met."""
    return sum(s.metrics().get(f'bellwire_limited_total{{limit="{name}"}}', 0) for s in world.services)


def test_so_many_invitations_of_a_user_may_be_live(frugal: World) -> None:
    """§2: at all replicas together; an invitation that is answered or taken back makes room."""
    alice, bob = frugal.phones("alice", "bob")
    before = limited(frugal, "liveInvitations")
    call = ring(alice, bob)
    others = [alice.invite(f"nobody-{number}") for number in range(4)]
    for _ in range(6):
        # The request is refused, whichever replica serves the request.
        assert retry_after(alice.start("call.invite", invitees=["nobody"]).wait(resend=False)) > 0
    wait_until(lambda: limited(frugal, "liveInvitations") - before == 6, 10, "it is counted")
    assert bob.invite("nobody"), "others have their own"
    bob.accept(call)
    alice.ok("call.invite", invitees=["nobody"])
    alice.cancel(others[0])
    alice.ok("call.invite", invitees=["nobody"])
    alice.refused("call.invite", "rateLimited", invitees=["nobody"])


def test_so_many_messages_of_a_user_may_wait(frugal: World) -> None:
    """§2: at all replicas together, to all recipients; a delivered message makes room."""
    alice, bob = frugal.phones("alice", "bob")
    for number in range(5):
        alice.message(f"nobody-{number}", ttl=60)
    before = limited(frugal, "waitingMessages")
    refused = alice.start("message.send", to=bob.user, data="x").wait(resend=False)
    assert refused["error"]["code"] == "rateLimited"
    wait_until(lambda: limited(frugal, "waitingMessages") - before == 1, 10, "it is counted")
    assert bob.message(alice), "others have their own"


def test_a_message_that_is_delivered_makes_room(frugal: World) -> None:
    """§2: also for a message to the same user."""
    alice, bob = frugal.phones("alice", "bob")
    for _ in range(12):
        message = alice.message(bob)
        assert alice.expect_type("receipt", messageID=message)["state"] == "delivered"


def test_the_calls_of_a_user_take_so_much_room(frugal: World) -> None:
    """§2: the kept data of ended calls count, at all replicas together."""
    alice, bob = frugal.phones("alice", "bob")
    before = limited(frugal, "storedBytes")
    made = 0
    while (response := alice.start("call.invite", invitees=[f"nobody-{made}"]).wait(resend=False))["ok"]:
        alice.cancel(response["callID"])
        made += 1
    assert retry_after(response) > 0
    wait_until(lambda: limited(frugal, "storedBytes") - before == 1, 10, "it is counted")
    assert 5 <= made < 60
    assert bob.invite("nobody"), "others have their own"


def test_so_many_bytes_are_sent_because_of_a_user(frugal: World) -> None:
    """§2: answers count, and beyond there are none but refusals."""
    alice, bob = frugal.phones("alice", "bob")
    call = alice.invite(bob, extendedData="x" * 2000)
    before = limited(frugal, "sentBytes")
    refused: list[dict[str, Any]] = []
    # Many at once: a second gives 20,000 bytes back.
    for _ in range(12):
        requests = [alice.start("call.get", callID=call) for _ in range(50)]
        refused += [response for request in requests if not (response := request.wait(resend=False))["ok"]]
        if refused:
            break
    assert refused and all(retry_after(response) > 0 for response in refused)
    wait_until(lambda: limited(frugal, "sentBytes") - before == len(refused), 10, "they are counted")
    assert bob.get(call), "others have their own"


@pytest.mark.parametrize("flag", ["--request-rate", "--invite-rate", "--message-rate", "--signal-rate"])
def test_a_bad_limit_is_refused(flag: str) -> None:
    """Exit status 64 and a single line."""
    for value in ("", "5", "5/", "/5", "0/5", "5/0", "-1/5", "5/5/5", "a/b", "1.5/3", "9999999/1"):
        refused = run("serve", flag, value)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (64, "", 1), refused
        assert flag in refused.stderr


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--users", "some"),
        ("--users", ""),
        ("--message-ttl", "0s"),
        ("--message-ttl", "601s"),
        ("--message-memory", "x"),
    ],
)
def test_other_bad_settings_of_messages_and_users_are_refused(flag: str, value: str) -> None:
    """Exit status 64 and a single line."""
    refused = run("serve", flag, value)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (64, "", 1), refused
    assert flag in refused.stderr
