"""Peer messages, as the stores keep the messages and while coordinators die (§2, Peer messages)."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from harness import STORES, Device, RedisServer, World, answers, now_ms, wait_until

TAKEOVER = 2.5
"""Seconds until another coordinator resends a delivery that a dead coordinator should have sent after 1 s."""


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, deployments: dict[str, World]) -> Iterator[World]:
    yield from deployments[request.param].borrow()


def delivered(device: Device, message: str, timeout: float = 15) -> None:
    """Waits for the receipt, and checks that no second receipt came."""
    receipt = device.expect_type("receipt", timeout, messageID=message)
    assert receipt["state"] == "delivered", receipt.body
    assert len(device.had("receipt", messageID=message)) == 1


def shown(device: Device) -> list[str]:
    """The ids of the messages that the device shows: the device drops a message that the device has had (§2)."""
    return list(dict.fromkeys(message["messageID"] for message in device.had("message")))


def test_any_user_id_can_be_written_to(world: World) -> None:
    """§1: a user id may have any characters, also while the message waits in the store."""
    alice = world.phone("alice")
    for odd in (":", "a:b/c d+#%\n", "é😀", "message:m:x", "{u:x}", "}", " ", "\x00", "x" * 55):
        bob = world.device(odd + World.user("")[:9], connect=False)
        message = alice.message(bob, odd)
        bob.connect()
        delivered(alice, message)
        assert shown(bob) == [message]


def test_requests_repeated_at_once_are_one_message(world: World) -> None:
    """§2: the same holds when two coordinators serve the requests at the same instant."""
    alice, bob = world.phones("alice", "bob")
    for number in range(10):
        twins = [alice.start("message.send", id=f"twin-{number}", to=bob.user, data=number) for _ in range(4)]
        message = {twin.ok()["messageID"] for twin in twins}
        assert len(message) == 1
        # A request without an answer for a second was sent again.
        wait_until(lambda: len(alice.had("response", id=f"twin-{number}")) >= 4, 10, "four answers")
        delivered(alice, *message)
    bob.ok("user.query", userIDs=[bob.user])
    assert list({m["messageID"]: m["data"] for m in bob.had("message")}.values()) == list(range(10))


# Coordinators that die


@dataclass
class Correspondence:
    """Two coordinators on the same store. The first coordinator will die."""

    world: World
    alice: Device
    bob: Device


@pytest.fixture
def pairs(rig: Any, redis_server: RedisServer) -> list[Correspondence]:
    """A pair on each store, so that a test waits for both pairs at once."""
    stores: list[dict[str, str]] = [{}, {"store": redis_server.url, "redis_prefix": f"rig-{secrets.token_hex(4)}"}]
    worlds = [rig.world(2, **options) for options in stores]
    return [Correspondence(world, world.phone("alice"), world.phone("bob", auto_ack=False)) for world in worlds]


def served(world: World) -> list[float]:
    """The number of `message.send` requests that each coordinator has had."""
    return [service.metrics().get('bellwire_requests_total{type="message.send"}', 0) for service in world.services]


def test_a_message_outlives_the_coordinator_that_took_it(pairs: list[Correspondence]) -> None:
    """§5: no record depends on a replica. Half of the messages are acked at once after a kill -9, the other messages
    after another coordinator has resent them: the recipient shows each message once, and each message has a single
    receipt."""
    messages: dict[Device, list[str]] = {}
    copies: dict[str, int] = {}
    for pair in pairs:
        asked = [pair.alice.start("message.send", to=pair.bob.user, data=number) for number in range(12)]
        sent = [response["messageID"] for response in answers(asked)]
        pair.bob.expect_type("message", count=12)
        wait_until(lambda pair=pair: all(served(pair.world)), 10, "each coordinator took some")
        pair.world.service.kill()
        copies |= {message: len(pair.bob.had("message", messageID=message)) for message in sent}
        for message in sent[:6]:
            pair.bob.ack_message(message)
        # From now on bob's device acks each copy: an ack may have gone to the dead coordinator, as far as the broker
        # knew.
        pair.bob.auto_ack = True
        messages[pair.alice] = sent
    for pair in pairs:
        for number, message in enumerate(messages[pair.alice]):
            delivered(pair.alice, message, 1 + TAKEOVER)
            assert number < 6 or len(pair.bob.had("message", messageID=message)) > copies[message]
        assert sorted(shown(pair.bob)) == sorted(messages[pair.alice])
    # A coordinator would send an unconfirmed receipt again after 1 s, at the next search for due records. For the first
    # half of the messages that time is over.
    pairs[0].alice.expect_silence(0.8)
    for pair in pairs:
        for message in messages[pair.alice]:
            delivered(pair.alice, message)


def test_a_coordinator_killed_amid_acks_costs_no_receipt(pairs: list[Correspondence]) -> None:
    """§2: kill -9 between the first ack and the last receipt. A receipt may come twice, but never not at all."""
    requests = {}
    for pair in pairs:
        pair.bob.auto_ack = True
        requests[pair.alice] = [pair.alice.start("message.send", to=pair.bob.user, data=n) for n in range(60)]
        pair.alice.expect_type("receipt", count=5)
        pair.world.service.kill()
    for pair in pairs:
        sent = {response["messageID"] for response in answers(requests[pair.alice])}
        assert len(sent) == 60
        for message in sent:
            assert pair.alice.expect_type("receipt", 5, messageID=message)["state"] == "delivered"
        assert set(shown(pair.bob)) == sent


def test_a_receipt_that_the_broker_never_read_is_sent_again(pairs: list[Correspondence]) -> None:
    """§2: the sender gets its receipt. Here messages expire while the broker stands still, so the broker has read none
    of the receipts when the coordinator dies. The messages that wait for the dead coordinator make the broker drop the
    unread receipts."""
    messages = {}
    for pair in pairs:
        sent = [pair.alice.start("message.send", to="nobody", data=n, ttl=2) for n in range(20)]
        messages[pair.alice] = answers(sent)
    with ExitStack() as frozen:
        wait_until(lambda: now_ms() > messages[pairs[0].alice][0]["time"] + 800, 10, "0.8 s are over")
        commits = [pair.world.service.metrics()["bellwire_commits_total"] for pair in pairs]
        for pair in pairs:
            frozen.enter_context(pair.world.broker.frozen())
            for number in range(20):
                pair.alice.start("call.get", callID="c", id=f"waits-{number}")
        for pair, before in zip(pairs, commits):
            first = pair.world.service
            after = before + served(pair.world)[0]
            wait_until(lambda: first.metrics().get("bellwire_commits_total", 0) >= after, 10, "its messages have expired")
            first.kill()
    for pair in pairs:
        for message in messages[pair.alice]:
            receipt = pair.alice.expect_type("receipt", 1 + TAKEOVER, messageID=message["messageID"])
            assert receipt["state"] == "expired"
