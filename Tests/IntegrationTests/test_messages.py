"""Reliable messages between users: `message.send`, acks and receipts (§2, Peer messages)."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from harness import (
    STORES,
    VERBATIM,
    Deploy,
    Device,
    RedisServer,
    World,
    answers,
    now_ms,
    on_each_store,
    talk,
    wait_until,
)

PUNCTUAL_MS = 50
"""How late a message may expire."""
TRANSPORT_MS = 500
"""What broker and test client may add until it is seen, on a busy machine."""
TAKEOVER = 2.5
"""Seconds until another coordinator resends what one that died should have sent after 1 s."""
KIB = 1024


@pytest.fixture(params=STORES)
def world(request: pytest.FixtureRequest, deployments: dict[str, World]) -> Iterator[World]:
    yield from deployments[request.param].borrow()


def message_id() -> str:
    return "m-" + secrets.token_hex(8)


def delivered(device: Device, message: str, timeout: float = 3) -> None:
    """Waits for the receipt, which is the only one."""
    receipt = device.expect_type("receipt", timeout, messageID=message)
    assert receipt["state"] == "delivered", receipt.body
    assert len(device.had("receipt", messageID=message)) == 1


def shown(device: Device) -> list[str]:
    """The ids of the messages that the device shows: it drops one that it has had (§2)."""
    return list(dict.fromkeys(message["messageID"] for message in device.had("message")))


# What waits long runs beside all other tests of this module


@dataclass
class Waiting:
    """A message that nobody acks, and one that expires in a service that forgets it soon."""

    alice: Device
    bob: Device
    unacked: str
    sent_at: int
    carol: Device
    forgotten: str


LONG = 16
"""Seconds: time for the resends after 1, 3, 7 and 15 s."""


@pytest.fixture(scope="module")
def waiting(deploy: Deploy, redis_server: RedisServer) -> Iterator[dict[str, Waiting]]:
    worlds = on_each_store(deploy, redis_server, message_ttl="1s", message_memory="1s")
    started = {}
    for store, world in worlds.items():
        alice, bob, carol = world.phone("alice"), world.phone("bob", auto_ack=False), world.phone("carol")
        sent = alice.ok("message.send", to=bob.user, data="anybody?", ttl=LONG)
        forgotten = alice.message(bob, "soon over", messageID=message_id())
        started[store] = Waiting(alice, bob, sent["messageID"], sent["time"], carol, forgotten)
    yield started
    for world in worlds.values():
        world.close()


@pytest.fixture(autouse=True)
def _started(waiting: dict[str, Waiting]) -> None:
    """Starts what waits long with the first test; `test_a_message_that_nobody_acks…`, the last one, looks at it."""


# Delivery


def test_a_message_is_delivered_and_the_sender_told_once(world: World) -> None:
    """§2: to all devices of the user; the ack brings one receipt to the sending device alone."""
    alice, bob = world.phones("alice", "bob")
    web = world.another(alice, "web")
    response = alice.ok("message.send", to=bob.user, data={"text": "hello"}, seq=3, ttl=20)
    message = response["messageID"]
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", message)
    assert response["state"] == "sent" and abs(response["time"] - now_ms()) < 2000
    told = bob.expect_type("message", messageID=message)
    assert told.topic == bob.user_topic and told.expiry in (19, 20)
    assert told.body == {
        "type": "message",
        "messageID": message,
        "from": alice.user,
        "fromDevice": "phone",
        "time": response["time"],
        "seq": 3,
        "data": {"text": "hello"},
    }
    delivered(alice, message)
    receipt = alice.expect_type("receipt")
    assert receipt.topic == alice.device_topic and receipt["to"] == bob.user
    assert response["time"] <= receipt["time"] <= response["time"] + 2000
    without = alice.message(bob, "no seq")
    delivered(alice, without)
    assert "seq" not in bob.expect_type("message", messageID=without).body
    assert bob.had("message", messageID=without)[0].expiry in (29, 30), "30 s unless the sender says otherwise"
    web.ok("user.query", userIDs=[web.user])
    assert not web.had("receipt") and not web.had("message")


def test_data_is_passed_on_byte_for_byte(world: World) -> None:
    """§2: copied from the request, stored, and copied again; up to 32 KiB as it stands there."""
    alice, bob = world.phones("alice", "bob")
    blanks = b'{"a":%s1}' % (b" " * (32 * KIB - 7))
    assert len(blanks) == 32 * KIB
    for number, data in enumerate([*VERBATIM, blanks]):
        head = b'{"type":"message.send","id":"v%d","to":"%s","seq":%d,"data":' % (number, bob.user.encode(), number)
        alice.send(head + data + b"}")
    for number, data in enumerate([*VERBATIM, blanks]):
        assert bob.expect_type("message", seq=number).carries(data), data
        assert alice.expect_type("response", id=f"v{number}")["ok"]
    alice.send(b'{"type":"message.send","id":"large","to":"%s","data": %s}' % (bob.user.encode(), b" " + blanks))
    assert alice.expect_type("response", id="large")["ok"], "blanks around the value do not count"
    alice.send(
        b'{"type":"message.send","id":"larger","to":"%s","data":%s}' % (bob.user.encode(), blanks.replace(b"1", b" 1")),
        bad=True,
    )
    error = alice.expect_type("response", id="larger")["error"]
    assert error["code"] == "badRequest" and re.search(r"\bdata\b", error["message"])


def test_any_device_of_the_recipient_delivers(both: list[World]) -> None:
    """§2: all online devices get it; once one has acked nothing is resent, and a second ack changes nothing."""
    messages = {}
    for world in both:
        alice, phone = world.phone("alice"), world.phone("bob", auto_ack=False)
        tablet = world.another(phone, "tablet", auto_ack=False)
        message = alice.message(phone)
        for device in (phone, tablet):
            device.expect_type("message", messageID=message)
        tablet.ack_message(message)
        delivered(alice, message)
        phone.ack_message(message)
        tablet.ack_message(message)
        messages[message] = alice, phone, tablet
    phone.expect_silence(1.3)
    for message, (alice, phone, tablet) in messages.items():
        assert len(phone.had("message", messageID=message)) == len(tablet.had("message", messageID=message)) == 1
        assert len(alice.had("receipt", messageID=message)) == 1


def test_nobody_else_can_deliver(world: World) -> None:
    """§2: a messageID is at home with its recipient; acks of unknown messages are ignored, and never answered."""
    alice, bob, mallory = world.phone("alice"), world.phone("bob", auto_ack=False), world.phone("mallory")
    message = alice.message(bob)
    for device in (mallory, alice):
        mark = device.mark
        device.ack_message(message)
        device.ack_message(message_id())
        device.ok("user.query", userIDs=[bob.user])
        assert [m.type for m in device.messages[mark:]] == ["response"]
    assert alice.ok("message.send", to=bob.user, data="hello", messageID=message)["state"] == "sent"
    bob.expect_type("message", messageID=message)
    bob.ack_message(message)
    delivered(alice, message)


def test_one_may_write_to_oneself(world: World) -> None:
    """§2: to reach the other devices. The sending device may see it too, but its ack delivers nothing."""
    phone = world.phone("alice")
    web = world.another(phone, "web", auto_ack=False)
    message = phone.message(phone, "to myself")
    told = web.expect_type("message", messageID=message)
    assert (told["from"], told["fromDevice"]) == (phone.user, "phone")
    phone.ack_message(message)
    assert phone.ok("message.send", to=phone.user, data="to myself", messageID=message)["state"] == "sent"
    assert not phone.had("receipt")
    web.ack_message(message)
    delivered(phone, message)
    web.ok("user.query", userIDs=[web.user])
    assert not web.had("receipt")


def test_without_presence_one_can_write_and_be_written_to(world: World) -> None:
    """§1: presence is never a condition."""
    alice, bob = world.phones("alice", "bob", presence=False)
    message = alice.message(bob)
    delivered(alice, message)
    assert shown(bob) == [message]


@pytest.mark.parametrize("version", [4, 5])
def test_messages_and_signals_reach_clients_of_any_kind(world: World, version: int) -> None:
    """§1: MQTT 3.1.1 and 5, over WebSocket as well, with acks at QoS 0."""
    alice = world.phone("alice", mqtt_version=version)
    bob = world.phone("bob", mqtt_version=9 - version, transport="websockets", qos=0)
    delivered(alice, alice.message(bob))
    delivered(bob, bob.message(alice))
    call = talk(alice, bob)
    alice.signal(call, "to bob")
    bob.expect_type("signal", callID=call, data="to bob")
    bob.signal(call, "to alice")
    alice.expect_type("signal", callID=call, data="to alice")


def test_any_user_id_can_be_written_to(world: World) -> None:
    """§1: whatever stands in it, also while the message waits in the store."""
    alice = world.phone("alice")
    for odd in (":", "a:b/c d+#%\n", "é😀", "message:m:x", "{u:x}", "}", " ", "\x00", "x" * 55):
        bob = world.device(odd + World.user("")[:9], connect=False)
        message = alice.message(bob, odd)
        bob.connect()
        delivered(alice, message)
        assert shown(bob) == [message]


# Order


def test_the_place_in_a_stream_stays_with_a_message(world: World) -> None:
    """§2, Order: in the first send, in a resend, and to a device that comes later; `null` is none."""
    alice, bob = world.phone("alice"), world.phone("bob", auto_ack=False)
    place = {"seq": 2**53 - 1, "stream": "a_Z-9"}
    message = alice.message(bob, **place)
    copies = [bob.expect_type("message", 5, messageID=message, count=count) for count in (1, 2)]
    late = world.another(bob, "tablet")
    copies.append(late.expect_type("message", messageID=message))
    assert all(copy.body.items() >= place.items() for copy in copies)
    delivered(alice, message)
    without = alice.message(bob, seq=None, stream=None)
    assert not {"seq", "stream"} & bob.expect_type("message", messageID=without).body.keys()


# Repeated requests and ids


def test_a_repeated_request_is_the_same_message(world: World) -> None:
    """§2: it is not sent anew, and its response tells what has become of it; the id may be left out."""
    alice, bob = world.phone("alice"), world.phone("bob", auto_ack=False)
    for named in (None, message_id()):
        first = alice.ok("message.send", id=f"r-{named}", to=bob.user, data="once", messageID=named)
        message = first["messageID"]
        assert named in (None, message)
        bob.expect_type("message", messageID=message)
        again = alice.ok("message.send", id=f"r-{named}", to=bob.user, data="once", messageID=named)
        assert (again["messageID"], again["time"], again["state"]) == (message, first["time"], "sent")
        bob.ack_message(message)
        delivered(alice, message)
        late = alice.ok("message.send", id=f"r-{named}", to=bob.user, data="once", messageID=named)
        assert (late["messageID"], late["time"], late["state"]) == (message, first["time"], "delivered")
        bob.ok("user.query", userIDs=[bob.user])
        assert len(bob.had("message", messageID=message)) == 1
        assert len(alice.had("receipt", messageID=message)) == 1


def test_requests_repeated_at_once_are_one_message(world: World) -> None:
    """§2: also when two coordinators serve them at the same instant."""
    alice, bob = world.phones("alice", "bob")
    for number in range(10):
        twins = [alice.start("message.send", id=f"twin-{number}", to=bob.user, data=number) for _ in range(4)]
        message = {twin.ok()["messageID"] for twin in twins}
        assert len(message) == 1
        wait_until(lambda: len(alice.had("response", id=f"twin-{number}")) == 4, 3, "four answers")
        delivered(alice, *message)
    bob.ok("user.query", userIDs=[bob.user])
    assert [m["data"] for m in bob.had("message")] == list(range(10))


def test_a_message_id_belongs_to_one_sender_per_recipient(world: World) -> None:
    """§2: from another device of the sender it names the same message, from another user it is refused."""
    alice, bob, carol = world.phone("alice"), world.phone("bob", auto_ack=False), world.phone("carol")
    web = world.another(alice, "web")
    message = alice.message(bob, "first", messageID=message_id())
    bob.expect_type("message", messageID=message)
    for state in ("sent", "delivered"):
        error = carol.refused("message.send", "badRequest", to=bob.user, data="mine", messageID=message)
        assert re.search(r"\bmessageID\b", error["message"])
        same = web.ok("message.send", to=bob.user, data="second", messageID=message)
        assert (same["messageID"], same["state"]) == (message, state)
        if state == "sent":
            bob.ack_message(message)
            delivered(alice, message)
    assert alice.message(carol, "to another", messageID=message) == message
    assert alice.expect_type("receipt", messageID=message, to=carol.user)["state"] == "delivered"
    assert [m["data"] for m in carol.had("message")] == ["to another"]
    assert [m["data"] for m in bob.had("message")] == ["first"]
    assert not web.had("receipt") and not carol.had("receipt")


# Recipients who come later


def test_an_offline_recipient_gets_what_waits_as_it_comes_online(world: World) -> None:
    """§2: after its welcome, on the topic of the device that came."""
    alice = world.phone("alice")
    bob = world.device(World.user("bob"), connect=False)
    messages = [alice.message(bob, number, ttl=60) for number in range(5)]
    bob.connect()
    bob.expect_type("message", count=5)
    assert bob.messages[0].type == "welcome"
    copies = [copy for copy in bob.had("message") if copy.topic == bob.device_topic]
    assert sorted(copy["data"] for copy in copies) == list(range(5))
    assert all(copy.expiry in range(50, 61) for copy in copies)
    for message in messages:
        delivered(alice, message)
    tablet = world.another(bob, "tablet")
    tablet.ok("user.query", userIDs=[bob.user])
    assert not tablet.had("message"), "nothing waits any more"


def test_at_most_64_messages_go_at_once_to_a_device_that_comes_online(both: list[World]) -> None:
    """§2: the others come by their resends."""
    recipients = []
    for world in both:
        alice = world.phone("alice")
        bob = world.device(World.user("bob"), connect=False, auto_ack=False)
        answers([alice.start("message.send", to=bob.user, data=number) for number in range(70)])
        bob.connect()
        bob.expect_type("message", count=64)
        bob.ok("user.query", userIDs=[bob.user])
        at_once = [m["data"] for m in bob.had("message") if m.topic == bob.device_topic]
        assert len(at_once) == len(set(at_once)) == 64
        bob.auto_ack = True
        recipients.append(bob)
    for bob in recipients:
        wait_until(lambda: len(shown(bob)) == 70, 5, "the others have come")


def test_what_waits_goes_at_once_to_a_session_that_begins(both: list[World]) -> None:
    """§2: also when a former session of the device has had it; not to one that publishes its presence again later than
    500 ms after the first time."""
    conversations = []
    for world in both:
        alice, bob = world.phone("alice"), world.phone("bob", auto_ack=False)
        conversations.append((bob, now_ms(), alice.message(bob, ttl=60)))
    for bob, since, message in conversations:
        bob.expect_type("message", messageID=message)
        wait_until(lambda since=since: now_ms() > since + 550, 2, "the session is not new")
        bob.come_online()
        bob.ok("user.query", userIDs=[bob.user])
        assert {m.topic for m in bob.had("message")} == {bob.user_topic}
        bob.drop()
        mark = bob.mark
        bob.connect()
        assert bob.expect_type("message", since=mark, messageID=message).topic == bob.device_topic


def test_so_many_messages_may_wait_for_one_user(both: list[World]) -> None:
    """§2: 256; one more is refused with `rateLimited`, whoever sends it, until one of them is finished."""
    for world in both:
        alice, carol = world.phones("alice", "carol")
        bob = world.device(World.user("bob"), connect=False, auto_ack=False)
        # Of one sender no more than a hundred wait.
        senders = [alice, *world.phones("dave", "erin")]
        first = alice.message(bob, 0, ttl=60)
        others = answers(
            [
                senders[number % 3].start("message.send", to=bob.user, data=number, ttl=60)
                for number in range(1, 256)
            ]
        )
        for sender in (alice, carol):
            refused = sender.refused("message.send", "rateLimited", to=bob.user, data="one more", id="more")
            assert refused["retryAfter"] > 0
        assert alice.ok("message.send", to=bob.user, data=0, messageID=first)["state"] == "sent", "it is not one more"
        delivered(alice, alice.message(carol))
        bob.connect(presence=False)
        bob.ack_message(first)
        delivered(alice, first)
        assert carol.ok("message.send", to=bob.user, data="one more", id="more")["state"] == "sent"
        # Nothing of it is to come again while other tests run.
        bob.auto_ack = True
        for other in others:
            bob.ack_message(other["messageID"])
        wait_until(lambda: sum(len(sender.had("receipt")) for sender in senders) >= len(others), 5, "all receipts")


def test_a_sender_that_was_away_asks_by_repeating_its_request(world: World) -> None:
    """§2: the receipt went to a device that was not there."""
    alice = world.phone("alice")
    bob = world.device(World.user("bob"), connect=False)
    request = {"id": "ask", "to": bob.user, "data": "are you there?"}
    message = alice.ok("message.send", **request)["messageID"]
    alice.drop()
    since = len(world.tap.messages)
    bob.connect()
    world.tap.wait(lambda m: m.topic == alice.device_topic and m.body["type"] == "receipt", 3, "the receipt", since)
    alice.connect()
    assert alice.ok("message.send", **request)["state"] == "delivered"
    assert not alice.had("receipt")
    assert shown(bob) == [message]


# Expiry


def test_a_message_expires_and_then_an_ack_is_too_late(both: list[World]) -> None:
    """§2: `expired` when nobody acked in time; nothing after it changes that."""
    conversations = []
    for world in both:
        alice, bob = world.phone("alice"), world.phone("bob", auto_ack=False)
        conversations.append((alice, bob, alice.ok("message.send", to=bob.user, data="quick", ttl=1)))
    for alice, bob, sent in conversations:
        message = sent["messageID"]
        assert bob.expect_type("message", messageID=message).expiry == 1
        receipt = alice.expect_type("receipt", messageID=message)
        assert (receipt["state"], receipt["to"]) == ("expired", bob.user)
        assert 0 <= receipt["time"] - sent["time"] - 1000 <= PUNCTUAL_MS
        assert receipt.wall - sent["time"] - 1000 <= PUNCTUAL_MS + TRANSPORT_MS
        bob.ack_message(message)
        assert alice.ok("message.send", to=bob.user, data="quick", messageID=message)["state"] == "expired"
        bob.drop()
        bob.connect()
        bob.ok("user.query", userIDs=[bob.user])
        assert len(bob.had("message", messageID=message)) == 1
        assert len(alice.had("receipt", messageID=message)) == 1


# Coordinators that die


@dataclass
class Correspondence:
    """Two coordinators on one store, of which one will die."""

    world: World
    alice: Device
    bob: Device


@pytest.fixture
def pairs(rig: Any, redis_server: RedisServer) -> list[Correspondence]:
    """On each store, so that one test waits for both at once."""
    stores: list[dict[str, str]] = [{}, {"store": redis_server.url, "redis_prefix": f"rig-{secrets.token_hex(4)}"}]
    worlds = [rig.world(2, **options) for options in stores]
    return [Correspondence(world, world.phone("alice"), world.phone("bob", auto_ack=False)) for world in worlds]


def served(world: World) -> list[float]:
    """How many `message.send` each coordinator has had."""
    return [service.metrics().get('bellwire_requests_total{type="message.send"}', 0) for service in world.services]


def test_a_message_outlives_the_coordinator_that_took_it(pairs: list[Correspondence]) -> None:
    """§5: nothing depends on a replica. Half of the messages are acked at once after a kill -9, the others when another
    coordinator has resent them: the recipient shows each once, and there is one receipt of each overall."""
    messages = {}
    for pair in pairs:
        sent = [pair.alice.message(pair.bob, number) for number in range(12)]
        pair.bob.expect_type("message", count=12)
        wait_until(lambda pair=pair: all(served(pair.world)), 2, "each coordinator took some")
        pair.world.service.kill()
        for message in sent[:6]:
            pair.bob.ack_message(message)
        # From now on it acks each copy: an ack may have gone to the dead one, as far as the broker knew.
        pair.bob.auto_ack = True
        messages[pair.alice] = sent
    for pair in pairs:
        for number, message in enumerate(messages[pair.alice]):
            delivered(pair.alice, message, 1 + TAKEOVER)
            assert number < 6 or len(pair.bob.had("message", messageID=message)) == 2
        assert sorted(shown(pair.bob)) == sorted(messages[pair.alice])
    # A receipt that nobody confirmed would be sent again after 1 s, at the next look for what is due. For the first
    # half that time is over.
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
    """§2: the sender gets its receipt. Here messages expire while the broker stands still, so that it has read none of
    the receipts when the coordinator dies. What waits for the dead one makes the broker drop what it had not read."""
    messages = {}
    for pair in pairs:
        sent = [pair.alice.start("message.send", to="nobody", data=n, ttl=1) for n in range(20)]
        messages[pair.alice] = answers(sent)
    with ExitStack() as frozen:
        wait_until(lambda: now_ms() > messages[pairs[0].alice][0]["time"] + 800, 2, "0.8 s are over")
        commits = [pair.world.service.metrics()["bellwire_commits_total"] for pair in pairs]
        for pair in pairs:
            frozen.enter_context(pair.world.broker.frozen())
            for number in range(20):
                pair.alice.start("call.get", callID="c", id=f"waits-{number}")
        for pair, before in zip(pairs, commits):
            first = pair.world.service
            after = before + served(pair.world)[0]
            wait_until(lambda: first.metrics()["bellwire_commits_total"] >= after, 3, "its messages have expired")
            first.kill()
    for pair in pairs:
        for message in messages[pair.alice]:
            receipt = pair.alice.expect_type("receipt", 1 + TAKEOVER, messageID=message["messageID"])
            assert receipt["state"] == "expired"


# The last test: it waits for what began with the first one


@pytest.mark.alone
def test_a_message_that_nobody_acks_is_resent_and_expires(waiting: dict[str, Waiting]) -> None:
    """§2: sent, and again after 1, 3, 7 and 15 s, always on the user's topic, with the time that is left; then the
    receipt says `expired`. Without `ttl` the service's own holds; a message that is over is forgotten after a time."""
    for case in waiting.values():
        receipt = case.alice.expect_type("receipt", LONG + 2, messageID=case.unacked)
        assert receipt["state"] == "expired"
        assert 0 <= receipt["time"] - case.sent_at - LONG * 1000 <= PUNCTUAL_MS
        copies = case.bob.had("message", messageID=case.unacked)
        since = [(copy.wall - case.sent_at) / 1000 for copy in copies]
        assert len(copies) == 5, since
        assert all(abs(at - due) < 0.25 for at, due in zip(since, (0, 1, 3, 7, 15))), since
        assert {copy.topic for copy in copies} == {case.bob.user_topic}
        for copy, at in zip(copies, since):
            assert copy.expiry is not None and abs(LONG - at - copy.expiry) <= 1.1
        soon = case.alice.expect_type("receipt", messageID=case.forgotten)
        assert soon["state"] == "expired" and len(case.bob.had("message", messageID=case.forgotten)) == 1
        fields: dict[str, Any] = {"to": case.bob.user, "data": "anew", "messageID": case.forgotten}
        wait_until(lambda: case.carol.start("message.send", **fields).wait()["ok"], 12, "the id is free", every=0.2)
        case.bob.expect_type("message", messageID=case.forgotten, data="anew")
